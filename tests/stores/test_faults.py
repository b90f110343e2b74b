"""What real servers and a proxy in front of them may answer, and what becomes of a table.

A fault is met twice: by the storage, which reports it, and by a table, whose commit must survive it
or say how to go on.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    ClockSkew,
    CredentialsExpired,
    NotATable,
    OutcomeUnknown,
    StorageError,
    UnsafeStorage,
)
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.table.context import _OF_THIS_PROCESS as OF_THIS_PROCESS
from tests.stores.conftest import Behind
from tests.stores.faulty_proxy import (
    Answered,
    AnswerLost,
    ConditionIgnored,
    FaultyProxy,
    TimeShifted,
    anything,
    creates,
    events,
)
from tests.stores.servers import Server, sas_token
from tests.stores.test_table_cycle import rows

# How each protocol says that a token has ended, that there are too many requests, that it is busy.
EXPIRED = {
    "s3": (400, "ExpiredToken"),
    "gs": (400, "ExpiredToken"),
    "az": (403, "AuthenticationFailed: Signature not valid in the specified time frame"),
}
BUSY = {"s3": (503, "SlowDown"), "gs": (503, "ServiceUnavailable"), "az": (503, "ServerBusy")}
TOO_MANY = {"s3": (429, "TooManyRequests"), "gs": (429, "SlowDown"), "az": (429, "TooManyRequests")}
NO_TIMES = 1 << 30


def at_proxy(server: Server, proxy: FaultyProxy) -> dict[str, str]:
    return server.at(proxy.port)


def made_table(uri: str, options: dict[str, str]) -> Table:
    return Table.create(
        uri,
        schema=rows(0).schema,
        time_column="at",
        zookeeper=f"memory://{uri}",
        storage_options=options,
    )


def opened_table(uri: str, options: dict[str, str]) -> Table:
    return Table.open(uri, zookeeper=f"memory://{uri}", storage_options=options)


def answered(kinds: dict[str, tuple[int, str]], server: Server, **chosen: object) -> Answered:
    status, code = kinds[server.scheme]
    return Answered(status=status, code=code, **chosen)  # type: ignore[arg-type]


def held(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["x"].to_pylist())


# Stores without put-if-absent
def test_a_store_that_ignores_the_condition_is_refused_at_create(
    server: Server, uri: str, behind: Behind
) -> None:
    """The store's name is in the message, and no table is there afterwards."""
    options = server.options
    fault = ConditionIgnored(chosen=creates)
    if server.scheme == "s3":
        fault.keys = (options["access_key_id"], options["secret_access_key"])
    proxy = behind(fault)
    there = at_proxy(server, proxy)
    if server.scheme == "az":  # a key signs the condition, a token does not
        del there["account_key"]
        there["sas_token"] = sas_token(ends_in=timedelta(hours=1))
    with pytest.raises(UnsafeStorage) as caught:
        made_table(uri, there)
    assert f"{uri} does not keep put-if-absent" in str(caught.value)
    assert fault.seen
    with pytest.raises(NotATable):
        opened_table(uri, dict(options))


# Answers that are lost
def test_a_create_whose_answer_is_lost_is_unknown_and_meets_itself(
    server: Server, uri: str, behind: Behind
) -> None:
    """The outcome is unknown, which is no failure: the object is the one that was put."""
    lost = AnswerLost(chosen=creates, times=1)
    storage = open_storage(uri, at_proxy(server, behind(lost)))
    with pytest.raises(OutcomeUnknown) as caught:
        storage.create("t/0", b"mine")
    assert f"{uri}/t/0" in str(caught.value)
    with pytest.raises(AlreadyExists):
        storage.create("t/0", b"mine")
    assert storage.read("t/0") == b"mine"


@pytest.mark.parametrize("losses", [1, 3])
def test_a_commit_whose_answers_are_lost_lands_once(
    losses: int, server: Server, uri: str, behind: Behind
) -> None:
    """An append recognises its own event, and its rows are there once."""
    made_table(uri, dict(server.options))
    lost = AnswerLost(chosen=events, times=losses)
    table = opened_table(uri, at_proxy(server, behind(lost)))
    for n in range(losses):
        table.append(rows(n * 500))
    assert lost.seen == losses
    assert held(opened_table(uri, dict(server.options))) == list(range(500 * losses))


def test_a_table_whose_creation_lost_its_answer_is_there(
    server: Server, uri: str, behind: Behind
) -> None:
    """The first event is recognised, too."""
    lost = AnswerLost(chosen=events, times=1)
    made_table(uri, at_proxy(server, behind(lost)))
    assert lost.seen == 1
    assert held(opened_table(uri, dict(server.options))) == []


def test_any_lost_answer_of_an_append_does_no_harm(
    server: Server, uri: str, behind: Behind
) -> None:
    """Of all requests of an append each fourth loses its answer; the rows are there once."""
    made_table(uri, dict(server.options))
    asked = iter(range(NO_TIMES))
    lost = AnswerLost(chosen=lambda _: next(asked) % 4 == 2, times=4)
    opened_table(uri, at_proxy(server, behind(lost))).append(rows(0), commit_id="once")
    table = opened_table(uri, dict(server.options))
    table.append(rows(0), commit_id="once")
    assert held(table) == list(range(500))
    assert lost.seen


# Servers that refuse for a while, or for good
@pytest.mark.parametrize("kinds", [BUSY, TOO_MANY], ids=["503", "429"])
def test_an_append_outlasts_a_store_that_refuses_for_a_while(
    kinds: dict[str, tuple[int, str]], server: Server, uri: str, behind: Behind
) -> None:
    """Three refusals in a row, of the event and then of anything, cost time alone."""
    made_table(uri, dict(server.options))
    of_event = answered(kinds, server, chosen=events, times=3)
    of_any = answered(kinds, server, chosen=anything, times=3)
    opened_table(uri, at_proxy(server, behind(of_event))).append(rows(0))
    opened_table(uri, at_proxy(server, behind(of_any))).append(rows(500))
    assert (of_event.seen, of_any.seen) == (3, 3)
    assert held(opened_table(uri, dict(server.options))) == list(range(1000))


@pytest.mark.parametrize("kinds", [BUSY, TOO_MANY], ids=["503", "429"])
def test_a_store_that_refuses_for_good_is_a_typed_error(
    kinds: dict[str, tuple[int, str]], server: Server, uri: str, behind: Behind
) -> None:
    """Reads, hints and lists are repeated, then fail with the URI and the way out."""
    fault = answered(kinds, server)
    proxy = behind(fault)
    storage = open_storage(uri, at_proxy(server, proxy))
    calls: list[Callable[[], object]] = [
        partial(storage.read, "t/0"),
        partial(storage.replace, "t/0", b""),
        lambda: list(storage.list("t")),
    ]
    for call in calls:
        before = fault.seen
        with pytest.raises(StorageError, match="so many requests; run the command again") as caught:
            call()
        assert type(caught.value) is StorageError
        assert uri in str(caught.value)
        assert fault.seen - before > 1


def test_a_create_that_is_refused_for_good_is_certain_only_with_429(
    server: Server, uri: str, behind: Behind
) -> None:
    """After 429 nothing was created; after 503 that is unknown."""
    for kinds, meaning in ((TOO_MANY, StorageError), (BUSY, OutcomeUnknown)):
        storage = open_storage(uri, at_proxy(server, behind(answered(kinds, server))))
        with pytest.raises(StorageError) as caught:
            storage.create("t/0", b"")
        assert type(caught.value) is meaning
        assert "run the command again" in str(caught.value)


# Credentials that have ended
def test_expired_credentials_are_named_with_the_way_out(
    server: Server, uri: str, behind: Behind
) -> None:
    """The log and the data files say that the credentials have expired; no retry, no other type."""
    there = at_proxy(server, behind(answered(EXPIRED, server)))
    *of_log, write, read = uses_of(uri, there)
    for call in of_log:
        with pytest.raises(CredentialsExpired, match="expired; renew them"):
            call()
    for call in (write, read):  # the answer to a HEAD names no reason
        with pytest.raises(StorageError, match="expired"):
            call()


def test_a_shared_access_signature_that_has_ended_is_named(server: Server, uri: str) -> None:
    """A real server's own answer to a token of yesterday; only Azurite's tokens end here."""
    if server.scheme != "az":
        pytest.skip(f"{server.name} has no tokens that end")
    options = dict(server.options)
    del options["account_key"]
    good = options | {"sas_token": sas_token(ends_in=timedelta(hours=1))}
    open_storage(uri, good).create("t/1", b"")
    bad = options | {"sas_token": sas_token(ends_in=timedelta(hours=-1))}
    for call in uses_of(uri, bad):  # Azurite names no reason, unlike Azure
        with pytest.raises(StorageError, match=r"whether the(y| credentials) have expired"):
            call()


def uses_of(uri: str, options: dict[str, str]) -> list[Callable[[], object]]:
    """Return calls of the log's storage, then two of the data files."""
    storage, files = open_storage(uri, options), open_files(uri, options)

    def write() -> None:
        with files.create("data/x") as sink:
            sink.write(b"x")
            sink.commit()

    def read() -> None:
        with files.open("data/x") as source:
            source.read_at(0, 1)

    return [
        partial(storage.read, "t/0"),
        partial(storage.create, "t/0", b""),
        partial(storage.replace, "t/0", b""),
        partial(storage.delete, "t/0"),
        lambda: list(storage.list("t")),
        partial(made_table, uri, options),
        write,
        read,
    ]


def test_credentials_that_end_during_a_write_leave_the_table_sound(
    server: Server, uri: str, behind: Behind
) -> None:
    """An append whose token ends before its event says so; with a new token it commits once."""
    made_table(uri, dict(server.options))
    fault = answered(EXPIRED, server, chosen=events)
    with pytest.raises(CredentialsExpired):
        opened_table(uri, at_proxy(server, behind(fault))).append(rows(0), commit_id="once")
    table = opened_table(uri, dict(server.options))
    assert held(table) == []
    table.append(rows(0), commit_id="once")
    assert held(table) == list(range(500))
    assert table.verify(deep=True).findings == ()


# Clocks
@pytest.mark.parametrize("hours", [-1, 1])
def test_no_table_is_created_where_the_clock_is_an_hour_off(
    hours: int, server: Server, uri: str, behind: Behind
) -> None:
    """The first event is not dated by a host that disagrees with the store."""
    OF_THIS_PROCESS._passed = None  # a comparison counts for a while
    there = at_proxy(server, behind(TimeShifted(by=timedelta(hours=hours))))
    with pytest.raises(ClockSkew, match="set this host's clock"):
        made_table(uri, there)
    with pytest.raises(NotATable):
        opened_table(uri, dict(server.options))


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_store_whose_clock_is_an_hour_off_loses_no_young_file(
    hours: int, server: Server, uri: str, behind: Behind
) -> None:
    """Ages are taken by the store's own clock: a file of this minute is not half an hour old."""
    made_table(uri, dict(server.options)).append(rows(0))
    there = at_proxy(server, behind(TimeShifted(by=timedelta(hours=hours))))
    young = "data/20260101T000000_20260102T000000/00009-0123456789abcdef.parquet"
    with open_files(uri, there).create(young) as sink:
        sink.write(b"being written")
        sink.commit()
    with suppress(ClockSkew):
        opened_table(uri, there).clean(retention_hours=0, orphan_hours=0.5)
    assert young in [entry.path for entry in open_storage(uri, there).list("data")]
    assert held(opened_table(uri, dict(server.options))) == list(range(500))
