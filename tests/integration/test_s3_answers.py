"""What S3 may answer, and what each answer means: only the certain is called so."""

from collections.abc import Iterator
from typing import Any

import pytest
from obstore.store import S3Store

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CredentialsExpired,
    NotFound,
    OutcomeUnknown,
    ReadOnlyStorage,
    StorageError,
    StorageFull,
    UnsafeStorage,
)
from airflow_provider_segtable.storage import open_storage, probe
from airflow_provider_segtable.storage.objects import UNDECIDED_ATTEMPTS, ObjectStorage
from tests.integration.scripted_http import (
    HANG_UP,
    Answer,
    AnswerLosingProxy,
    ScriptedServer,
    Step,
)
from tests.support.clock import FakeClock, FakeRandomness
from tests.support.s3 import LoopbackS3, options_for

CONFLICT = Answer(409, "ConditionalRequestConflict")
LOST = Answer(412, "PreconditionFailed")
CREATED = Answer(200)
TOO_MANY = Answer(429, "SlowDown")


def storage_at(endpoint: str, clock: FakeClock | None = None) -> ObjectStorage:
    """Return the storage that ``open_storage`` makes, but without long pauses."""
    options: dict[str, Any] = {**options_for(endpoint), "timeout": "60s"}
    once = S3Store("bucket", prefix="t", retry_config={"max_retries": 0}, **options)
    return ObjectStorage(
        once, "s3://bucket/t", clock=clock or FakeClock(), randomness=FakeRandomness()
    )


@pytest.mark.parametrize(
    ("answer", "meaning", "says"),
    [
        (LOST, AlreadyExists, "exists already"),
        (Answer(403, "AccessDenied"), ReadOnlyStorage, "check the credentials"),
        (Answer(401), ReadOnlyStorage, "check the credentials"),
        (Answer(400, "ExpiredToken"), CredentialsExpired, "renew them"),
        (Answer(403, "RequestTimeTooSkewed"), StorageError, "this host's clock"),
        (Answer(404, "NoSuchBucket"), StorageError, "create it first"),
        (Answer(400, "InvalidRequest"), StorageError, "was refused"),
        (Answer(507, "XMinioStorageFull"), StorageFull, "free space"),
        (Answer(403, "QuotaExceeded"), StorageFull, "raise the quota"),
        (Answer(501, "NotImplemented"), UnsafeStorage, "no conditional writes"),
        (Answer(500, "InternalError"), OutcomeUnknown, "it is unknown whether"),
        (Answer(503, "SlowDown"), OutcomeUnknown, "it is unknown whether"),
        (HANG_UP, OutcomeUnknown, "it is unknown whether"),
    ],
)
def test_each_answer_to_a_create_has_its_meaning(
    answer: Step, meaning: type[StorageError], says: str
) -> None:
    """A create is sent once, and its answer becomes one error that shows the URI."""
    with ScriptedServer(answer) as server:
        with pytest.raises(StorageError) as caught:
            storage_at(server.endpoint).create("0", b"x")
        assert type(caught.value) is meaning
        assert says in str(caught.value)
        assert "s3://bucket/t/0" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert server.requests == ["PUT /bucket/t/0"]


@pytest.mark.parametrize(
    ("then", "meaning"), [(CREATED, None), (LOST, AlreadyExists), (HANG_UP, OutcomeUnknown)]
)
def test_a_409_decides_nothing_and_is_sent_again(
    then: Step, meaning: type[StorageError] | None
) -> None:
    """After two 409s the third answer counts, whatever it is."""
    clock = FakeClock()
    with ScriptedServer(CONFLICT, CONFLICT, then) as server:
        storage = storage_at(server.endpoint, clock)
        if meaning is None:
            storage.create("0", b"x")
        else:
            with pytest.raises(meaning):
                storage.create("0", b"x")
        assert len(server.requests) == 3
    assert len(clock.slept) == 2
    assert clock.slept[0] < clock.slept[1]


@pytest.mark.parametrize("then", [CREATED, LOST])
def test_a_429_is_sent_again(then: Step) -> None:
    """The store did nothing, so the next answer counts."""
    with ScriptedServer(TOO_MANY, TOO_MANY, then) as server:
        if then is CREATED:
            storage_at(server.endpoint).create("0", b"x")
        else:
            with pytest.raises(AlreadyExists):
                storage_at(server.endpoint).create("0", b"x")
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("script", "meaning"),
    [
        ((TOO_MANY,), StorageError),
        ((CONFLICT, TOO_MANY), OutcomeUnknown),
        ((TOO_MANY, HANG_UP), OutcomeUnknown),
    ],
)
def test_endless_429s_end_as_certain_if_alone(
    script: tuple[Step, ...], meaning: type[StorageError]
) -> None:
    """Nothing was created after 429s alone; after any undecided answer that is unknown."""
    with ScriptedServer(*script) as server:
        with pytest.raises(StorageError) as caught:
            storage_at(server.endpoint).create("0", b"x")
        assert type(caught.value) is meaning
        assert "run the command again" in str(caught.value)


def test_endless_409s_end_as_unknown() -> None:
    """The attempts are bounded, and nobody is told that another holds the name."""
    with ScriptedServer(CONFLICT) as server:
        with pytest.raises(OutcomeUnknown, match="409"):
            storage_at(server.endpoint).create("0", b"x")
        assert len(server.requests) == UNDECIDED_ATTEMPTS


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (Answer(404, "NoSuchKey"), NotFound),
        (Answer(404, "NoSuchBucket"), StorageError),
        (Answer(403, "AccessDenied"), StorageError),
        (Answer(403, "RequestTimeTooSkewed"), StorageError),
        (Answer(429, "SlowDown"), StorageError),
        (Answer(500), StorageError),
        (HANG_UP, StorageError),
    ],
)
def test_only_a_missing_object_is_not_found(answer: Step, meaning: type[StorageError]) -> None:
    """What cannot be told never looks like "is not there", neither for reads nor for lists."""
    with ScriptedServer(answer) as server:
        with pytest.raises(StorageError) as caught:
            storage_at(server.endpoint).read("0")
        assert type(caught.value) is meaning
        with pytest.raises(StorageError) as caught:
            list(storage_at(server.endpoint).list("t"))
        assert type(caught.value) is StorageError


def test_expired_credentials_are_a_type_of_their_own() -> None:
    """Reads, lists, hints and deletions say that the credentials have expired."""
    with ScriptedServer(Answer(400, "ExpiredToken")) as server:
        storage = storage_at(server.endpoint)
        for call in (
            lambda: storage.read("0"),
            lambda: storage.replace("0", b""),
            lambda: storage.delete("0"),
            lambda: list(storage.list("t")),
        ):
            with pytest.raises(CredentialsExpired, match=r"s3://bucket/t.*renew them"):
                call()


class InBulk(Answer):
    """A success of a deletion in bulk that names one object which was not deleted."""

    @property
    def body(self) -> bytes:
        """Return the result."""
        inner = f"<Key>t/0</Key><Code>{self.code}</Code><Message>why</Message>"
        return f"<DeleteResult><Error>{inner}</Error></DeleteResult>".encode()


@pytest.mark.parametrize(
    ("code", "meaning", "says"),
    [
        ("AccessDenied", ReadOnlyStorage, "check the credentials"),
        ("SlowDown", StorageError, "so many requests"),
        ("InternalError", StorageError, "could not be written"),
    ],
)
def test_a_deletion_that_failed_in_a_success_is_an_error(
    code: str, meaning: type[StorageError], says: str
) -> None:
    """S3 answers 200 to a deletion in bulk, which is how obstore deletes one object."""
    with ScriptedServer(InBulk(200, code)) as server:
        with pytest.raises(StorageError, match=says) as caught:
            storage_at(server.endpoint).delete("0")
        assert type(caught.value) is meaning


@pytest.fixture
def behind_proxy(s3: LoopbackS3) -> Iterator[AnswerLosingProxy]:
    """A real S3 behind a proxy that loses the next PUT's answer."""
    with AnswerLosingProxy(s3.host, s3.port) as proxy:
        yield proxy


def test_a_lost_reply_is_unknown_and_a_retry_meets_itself(
    s3: LoopbackS3, behind_proxy: AnswerLosingProxy
) -> None:
    """The write landed, nobody knows; sent again, S3 says "exists" about our own object."""
    uri = s3.uri("lost-reply")
    storage = open_storage(uri, options_for(behind_proxy.endpoint))
    with pytest.raises(OutcomeUnknown):
        storage.create("0", b"mine")
    assert sum(asked.startswith("PUT") for asked in behind_proxy.requests) == 1
    with pytest.raises(AlreadyExists):
        storage.create("0", b"mine")
    assert storage.read("0") == b"mine"


def test_the_probe_survives_a_lost_reply(s3: LoopbackS3, behind_proxy: AnswerLosingProxy) -> None:
    """One lost reply proves nothing: the check is repeated under another name."""
    probe(open_storage(s3.uri("probe"), options_for(behind_proxy.endpoint)))
    assert behind_proxy.losses == 0


def test_the_probe_refuses_a_store_that_ignores_the_condition() -> None:
    """A server that answers 200 to every PUT, as old MinIO does, is refused."""
    with (
        ScriptedServer(CREATED) as server,
        pytest.raises(UnsafeStorage, match="s3://bucket/t does not keep put-if-absent"),
    ):
        probe(storage_at(server.endpoint), FakeRandomness())


def test_more_than_a_page_is_listed_in_order(s3: LoopbackS3) -> None:
    """Listings longer than S3's page of 1,000 keys have no gap, no twin, and keep ``after``."""
    storage = open_storage(s3.uri("pages"), s3.storage_options)
    names = [f"t/{n:05d}" for n in range(1100)]
    for name in names:
        storage.create(name, b"")
    assert [entry.path for entry in storage.list("t")] == names
    assert [entry.path for entry in storage.list("t", after="t/00049")] == names[50:]


def test_a_missing_bucket_is_named(s3: LoopbackS3) -> None:
    """A bucket that is not there is an error with the way out, not an empty place."""
    storage = open_storage("s3://no-such-bucket/t", s3.storage_options)
    for call in (
        lambda: storage.read("0"),
        lambda: storage.create("0", b""),
        lambda: storage.replace("0", b""),
        lambda: list(storage.list("t")),
    ):
        with pytest.raises(StorageError, match="no such bucket; create it first") as caught:
            call()
        assert not isinstance(caught.value, NotFound)


def test_no_answer_at_all_is_named() -> None:
    """An endpoint where nobody listens: reads fail for certain, a create does not know."""
    with ScriptedServer(CREATED) as gone:
        endpoint = gone.endpoint
    storage = storage_at(endpoint)
    with pytest.raises(StorageError, match="check the endpoint"):
        storage.read("0")
    with pytest.raises(OutcomeUnknown):
        storage.create("0", b"")
