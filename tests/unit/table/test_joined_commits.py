"""Commits that share a file: each is an event of its own, for every reader of the log."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import CorruptTable, StorageError, UnsupportedFormat
from airflow_provider_segtable.core.log import events as codec
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import KIND_NAMED, decode, decode_file, encode_file
from airflow_provider_segtable.core.log.families.tag_events import Tagged
from airflow_provider_segtable.core.log.fold import fold
from airflow_provider_segtable.core.log.joint_file import in_one_file
from airflow_provider_segtable.core.log.log_paths import TIMELINE, event_path, tag_path
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table.committer import Change, Committed, commit
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog, path_of
from airflow_provider_segtable.table.table import Table
from tests.support.joined import put_together, together
from tests.unit.table.committing import append, lost_reply, memory_context, rival, traps
from tests.unit.table.conftest import numbers, rows


@pytest.fixture
def joined(table: Table) -> Table:
    """Rows 0 to 39 of events 1 to 4; events 5 to 7 share a file, with rows 40 to 69."""
    done = together(
        table,
        *(lambda turn=turn: table.append(rows(range(turn, turn + 10))) for turn in (40, 50, 60)),
    )
    assert [each.n for each in done] == [5, 6, 7]  # type: ignore[attr-defined]
    return table


def fresh(table: Table) -> EventLog:
    return EventLog(table.ports.storage)


def names(table: Table) -> list[int]:
    return [int(e.path.rsplit("/", 1)[1][:20]) for e in table.ports.storage.list(TIMELINE)]


def test_one_put_carries_several_events(joined: Table) -> None:
    """Each has its number, time and author; the file has the first one's number."""
    assert names(joined) == [0, 1, 2, 3, 4, 5]
    events = list(fresh(joined).events(0))
    assert [event.n for event in events] == [*range(8)]
    assert [event.joined for event in events[4:]] == [None, (5, 7), (5, 7), (5, 7)]
    assert len({event.time for event in events}) == 8
    assert path_of(events[6]) == event_path(5)


@pytest.mark.parametrize("remote", [False, True])
def test_every_number_is_found(joined: Table, *, remote: bool) -> None:
    """By a reader of one event, and by a reader that begins within the file."""
    joined.append(rows(range(70, 80)))
    joined.ports.storage._remote = remote  # type: ignore[attr-defined]
    for n in range(9):
        event = fresh(joined).event(n)
        assert event is not None
        assert event.n == n
        assert [each.n for each in fresh(joined).events(n)] == [*range(n, 9)]
    assert fresh(joined).event(9) is None
    assert list(fresh(joined).events(9)) == []


@pytest.mark.parametrize("version", range(1, 8))
def test_each_event_is_a_version(joined: Table, version: int) -> None:
    """By number and by time, although no file begins there."""
    assert numbers(joined, version=version) == [*range(version * 10)]
    state = fresh(joined).at(version)
    assert (state.joined is None) == (version not in (5, 6))
    assert fresh(joined).as_of(state.time).n == version
    assert [s.n for _, s in fresh(joined).history(state.time, version)] == [*range(8)]


def test_a_state_within_a_file_is_not_followed(joined: Table) -> None:
    """A writer that knows such a version reads the rest before it puts, also where it guesses."""
    within = fresh(joined).at(5)
    for remote in (False, True):
        joined.ports.storage._remote = remote  # type: ignore[attr-defined]
        ports = replace(joined.ports, author=f"remote {remote}")
        done = commit(
            ports, within, Change(action=Tagged(name=f"t{remote}", n=5), commit_id=f"{remote}")
        )
        assert isinstance(done, Committed)
    assert done.n == 9
    assert ports.log.for_writing(within).n == 9
    assert names(joined)[-2:] == [8, 9]


def test_a_tag_a_restore_and_a_consumer_within_a_file(joined: Table) -> None:
    """A version within the file is kept, goes on from there, and comes back."""
    joined.tag("mid", version=6)
    kept = joined.ports.storage.read(tag_path("mid", 6))
    assert b'"joined": [5, 7]' in kept
    joined.ports.log.checkpoint(joined.ports.log.load())
    for turn in range(3):
        joined.append(rows(range(70 + turn, 71 + turn)))
    joined.ports.clock.sleep(10.0)
    clean(joined.ports, retention=Retention(hours=0, versions=1))
    assert numbers(joined, version=6) == [*range(60)]
    joined.restore(version=6)
    assert numbers(joined) == [*range(60)]
    assert verify(joined.ports, all_versions=True).findings == ()


def test_expiry_keeps_the_file_of_its_first_event(joined: Table) -> None:
    """So that the time of the oldest version can be read; the rest of the log goes."""
    log = joined.ports.log
    log.checkpoint(log.load())
    joined.append(rows(range(70, 80)))
    joined.ports.clock.sleep(10.0)
    clean(joined.ports, retention=Retention(hours=0, versions=2))
    assert log.first() == 7
    assert names(joined)[0] == 5
    assert fresh(joined).load().n >= 8
    oldest = fresh(joined).event(7)
    assert oldest is not None
    assert fresh(joined).as_of(oldest.time).n == 7
    assert numbers(joined, version=7) == [*range(70)]
    assert verify(joined.ports, all_versions=True).findings == ()


def test_the_checks_read_files_of_several_events(joined: Table) -> None:
    """Verification counts every version; the doctor compares the file's receipt with its events."""
    found = verify(joined.ports, all_versions=True)
    assert (found.findings, found.version, found.versions) == ((), 7, 8)
    assert [each.code for each in examine(joined.ports).findings if each.code == "log-ahead"] == []
    joined.ports.storage.create(event_path(6), encode_file((fresh(joined).file(5) or ())[1:2]))
    assert verify(joined.ports).findings


def test_damage_of_the_file_is_found(joined: Table) -> None:
    """All its events are lost then, and the check names each."""
    data = joined.ports.storage.read(event_path(5))
    joined.ports.storage.replace(event_path(5), data[:-10] + b"x" + data[-9:])
    with pytest.raises(CorruptTable, match="checksum"):
        fresh(joined).load()
    assert verify(joined.ports).findings


def test_a_cached_log_is_looked_up_by_its_file(joined: Table) -> None:
    """The newest event of a process is within a file: loading again reads no checkpoint."""
    log = fresh(joined)
    assert log.load().n == 7
    joined.append(rows(range(70, 80)))
    assert log.load().n == 8
    cold = EventLog(joined.ports.storage)
    cold.remember(fresh(joined).at(7))
    assert cold.load().n == 8


def test_the_fold_of_a_file_is_that_of_its_events(joined: Table) -> None:
    """As if each had been put alone, but for its place."""
    events = list(fresh(joined).events(0))
    alone = fold(None, (replace(event, joined=None) for event in events))
    assert alone == fold(None, events)


def test_an_older_segtable_refuses_the_file_by_name(
    joined: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds a kind that it does not know."""
    assert codec.JOINED not in KIND_NAMED
    monkeypatch.setattr(codec, "JOINED", "Unknown")
    with pytest.raises(UnsupportedFormat, match="'Joined' event: upgrade"):
        fresh(joined).load()


@pytest.mark.parametrize("change", ["gap", "time", "one", "first"])
def test_a_file_of_wrong_events_is_damage(joined: Table, change: str) -> None:
    """Numbers and times are checked when it is read."""
    one, two, three = fresh(joined).file(5) or ()
    wrong = {
        "gap": [one, three],
        "time": [one, replace(two, time=one.time), three],
        "one": [one],
        "first": [one, two, three],
    }[change]
    data = encode_file(wrong)
    if change in ("gap", "time"):
        with pytest.raises(CorruptTable, match="out of order"):
            decode_file(data, "here")
    elif change == "first":
        with pytest.raises(CorruptTable, match="3 events instead of one"):
            decode(data, "here")
    else:
        assert decode_file(data, "here") == (replace(one, joined=None),)
        assert in_one_file([one]) == (one,)


# Members and their outcomes
@pytest.fixture
def ports() -> TableContext:
    return memory_context()


def test_a_refused_change_is_left_out(ports: TableContext) -> None:
    """It gets its own conflict; the others share the file, admitted one on the other."""
    changes = [append(0, "a"), append(0, "b"), append(1, "a"), append(2, "c")]
    tags = Change(action=Tagged(name="t", n=9), commit_id="tag")
    outcomes = put_together(ports, [*changes, tags])
    numbers = [each.n for each in outcomes if isinstance(each, Committed)]
    assert numbers == [1, 2, 1, 3]  # an equal id commits once
    assert isinstance(outcomes[-1], Conflict)
    state = EventLog(ports.storage).load()
    assert sorted(s.id.partition for s in state.timeline.segments()) == [0, 1, 2]
    assert isinstance(put_together(ports, [tags])[0], Conflict)


def test_a_lost_lease_stops_its_own_change_alone(ports: TableContext) -> None:
    """Each guard is called right before the put."""

    def lost() -> None:
        raise CorruptTable("the lease is lost")

    with pytest.raises(CorruptTable, match="lease is lost"):
        put_together(ports, [append(0, "a"), append(1, "b", guard=lost), append(2, "c")])
    assert {*EventLog(ports.storage).load().commits} >= {"a", "c"}
    assert "b" not in EventLog(ports.storage).load().commits


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_reply_is_settled_for_each(ports: TableContext, *, landed: bool) -> None:
    """Each author finds its commit id, or puts again; nothing is doubled."""
    traps(ports).append(lost_reply(ports, landed=landed))
    changes = [append(n, f"c{n}") for n in range(3)]
    assert put_together(ports, changes) == [None, None, None]
    again = put_together(ports, changes)
    assert [each.n for each in again if isinstance(each, Committed)] == [1, 2, 3]
    assert EventLog(ports.storage).load().n == 3


def test_a_lost_race_is_lost_by_all(ports: TableContext) -> None:
    """They are put after the winner."""
    traps(ports).append(rival(ports, 7))
    changes = [append(n, f"c{n}") for n in range(3)]
    assert put_together(ports, changes) == [None, None, None]
    again = put_together(ports, changes)
    assert [each.n for each in again if isinstance(each, Committed)] == [2, 3, 4]


def test_a_file_that_is_not_durable_fails_its_own_change(ports: TableContext) -> None:
    """The leader's files are awaited before the others are carried."""

    def torn() -> None:
        raise StorageError("the disk is gone")

    bad = replace(append(0, "a"), ready=torn)
    with pytest.raises(StorageError, match="disk is gone"):
        put_together(ports, [bad, append(1, "b")])
    assert "b" in EventLog(ports.storage).load().commits


def test_deletes_beside_appends_in_one_file(table: Table) -> None:
    """The versions between show each step; two deletes of the same rows cannot both be first."""
    together(
        table,
        lambda: table.append(rows(range(40, 50))),
        lambda: table.delete("row < 10"),
        lambda: table.delete("row >= 5 AND row < 15"),
    )
    assert numbers(table) == [*range(15, 50)]
    assert verify(table.ports, all_versions=True).findings == ()


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("kept", [4, 3])
def test_a_log_that_was_put_back_is_read_anew(joined: Table, kept: int, *, remote: bool) -> None:
    """The file of the last known event is gone; or its number is within another file."""
    storage, log = joined.ports.storage, fresh(joined)
    log.load()
    for n in range(kept + 1, 6):
        storage.delete(event_path(n))
    if kept == 3:
        joined.ports.clock.sleep(10.0)
        other = Table(replace(joined.ports, author="other"))
        starts = range(70, 110, 10)
        together(other, *(lambda at=at: other.append(rows(range(at, at + 10))) for at in starts))
        assert names(joined) == [0, 1, 2, 3, 4]
    storage._remote = remote  # type: ignore[attr-defined]
    state, events = fresh(joined).load(), [*fresh(joined).events(0)]
    assert log.load() == state
    assert log.openings == 2
    assert [log.event(each.n) for each in events] == events
    assert state.n == events[-1].n
