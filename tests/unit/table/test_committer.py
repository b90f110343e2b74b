"""The commit loop: races, lost replies, guards, checkpoints."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    LockLost,
    NotFound,
    StorageError,
    StorageFull,
)
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.log.fold import Conflict
from airflow_provider_segtable.core.log.log_paths import checkpoint_path
from airflow_provider_segtable.ports.coordination import Overtaken
from airflow_provider_segtable.table.committer import (
    CHECKPOINT_EVERY,
    SEGMENTS_AN_EVENT,
    STREAM_US,
    Change,
    Committed,
    Retry,
    Unknown,
    checkpoint_every,
    commit,
    commit_files,
    commit_or_raise,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from tests.support.builders import BASE, DEFINITION, JANUARY, first, minor_plan
from tests.unit.table.committing import append, full, load, lost_reply, memory_context, rival, traps


@pytest.fixture
def ports() -> TableContext:
    return memory_context()


def test_lost_race_is_rebased(ports: TableContext) -> None:
    """When another event takes the number, the change goes onto the next."""
    traps(ports).append(rival(ports, 7))
    outcome = commit(ports, load(ports), append(0))
    assert isinstance(outcome, Committed)
    assert outcome.n == 2
    assert len(outcome.state.timeline) == 2


def test_conflict_after_a_lost_race_names_the_winner(ports: TableContext) -> None:
    """When the rival's event forbids the change, the outcome is a value that says so."""
    commit_or_raise(ports, load(ports), append(0, "zero"))
    commit_or_raise(ports, load(ports), append(1, "one"))
    wish = Change(action=PlanRequested(plan=minor_plan((first(0), first(1)))), commit_id="mine")
    traps(ports).append(rival(ports, 7, wish.action))
    outcome = commit(ports, load(ports), wish)
    assert isinstance(outcome, Conflict)
    assert "requested already" in outcome.reason
    assert outcome.winner == load(ports).n
    with pytest.raises(CommitConflict, match="requested already"):
        commit_or_raise(ports, load(ports), wish)


@pytest.mark.parametrize("landed", [True, False])
def test_lost_reply_commits_once(ports: TableContext, *, landed: bool) -> None:
    """Whether or not the lost put landed, the change is in the log exactly once."""
    traps(ports).append(lost_reply(ports, landed=landed))
    outcome = commit(ports, load(ports), append(0))
    assert isinstance(outcome, Committed)
    assert outcome.n == 1
    assert [e.commit for e in EventLog(ports.storage).events(1)] == ["mine"]


def test_own_first_attempt_is_recognised_behind_exists(ports: TableContext) -> None:
    """An "already exists" that answers our own retried put counts as success."""

    def retried(path: str, data: bytes) -> None:
        ports.storage.inner.create(path, data)  # type: ignore[attr-defined]
        raise AlreadyExists(path)

    traps(ports).append(retried)
    outcome = commit(ports, load(ports), append(0))
    assert isinstance(outcome, Committed)
    assert outcome.n == 1


def test_same_commit_id_commits_once(ports: TableContext) -> None:
    """Running a change again finds that it has been done."""
    once = commit_or_raise(ports, load(ports), append(0))
    again = commit_or_raise(ports, load(ports), append(0))
    assert (once.n, again.n) == (1, 1)


def test_guard_stops_the_commit(ports: TableContext) -> None:
    """A lost lease means no put at all."""

    def lost() -> None:
        raise LockLost("session ended")

    with pytest.raises(LockLost):
        commit(ports, load(ports), append(0, guard=lost))
    assert load(ports).n == 0


def test_no_failure_is_certain_while_a_put_may_land(ports: TableContext) -> None:
    """A lease lost after a lost reply gives Unknown, because the first put may yet land."""
    checks = iter([None, LockLost("session ended")])

    def guard() -> None:
        found = next(checks)
        if found:
            raise found

    traps(ports).append(lost_reply(ports, landed=False))
    assert commit(ports, load(ports), append(0, guard=guard)) == Unknown(commit_id="mine", n=1)


def test_replies_lost_for_ever_end_unknown(ports: TableContext) -> None:
    """Retries are bounded; the way out names the commit id."""
    traps(ports).extend(lost_reply(ports, landed=False) for _ in range(3))
    with pytest.raises(CommitUnknown, match=r"reply to event 1 was lost.*commit id 'mine'"):
        commit_or_raise(ports, load(ports), append(0), Retry(attempts=3))


def test_a_certain_failure_after_a_lost_reply_is_not_certain(ports: TableContext) -> None:
    """The disk may be full for the second put, but the first one may yet land."""
    state = load(ports)
    traps(ports).extend((lost_reply(ports, landed=False), full, full, full))
    assert commit(ports, state, append(0), Retry(attempts=4)) == Unknown(commit_id="mine", n=1)


def test_an_unreadable_log_is_read_again_after_a_lost_reply(ports: TableContext) -> None:
    """Only the log knows whether the put landed; before any put a failure is certain."""
    state = load(ports)

    def lost(path: str, data: bytes) -> None:
        ports.storage.unreadable = 2  # type: ignore[attr-defined]
        lost_reply(ports, landed=True)(path, data)

    traps(ports).append(lost)
    outcome = commit(ports, state, append(0))
    assert isinstance(outcome, Committed)
    assert outcome.n == 1
    assert ports.storage.creates == 1  # type: ignore[attr-defined]
    ports.storage.unreadable = 2  # type: ignore[attr-defined]
    with pytest.raises(StorageError):
        commit(ports, outcome.state, append(1, "other"))
    assert load(ports).n == 1


def test_large_tables_are_checkpointed_less_often() -> None:
    """An event more for each some thousand segments, rounded up to a power of two."""
    each = SEGMENTS_AN_EVENT
    assert [checkpoint_every(n * each) for n in (0, 31, 32, 63, 64)] == [32, 32, 64, 64, 128]


def test_a_commit_is_announced(ports: TableContext) -> None:
    """With the table and the number of its event, which has the author's name."""
    told: list[object] = []

    class Told:
        def announce(self, *what: object) -> None:
            told.append(what)

    heard = replace(ports, optional_coordinator=Told())  # type: ignore[arg-type]
    ports.clock.sleep(STREAM_US / 1e6)
    commit_or_raise(heard, load(ports), append(0))
    assert told == [(DEFINITION.table_id, 1)]
    (event,) = EventLog(ports.storage).events(1)
    assert event.author == "me"


def test_of_a_stream_of_events_every_eighth_is_announced_at_once(ports: TableContext) -> None:
    """Another one may wait, and knows whether an event has followed it."""
    at_once, others = list[int](), dict[int, Overtaken]()

    class Told:
        def announce(self, _: str, n: int, overtaken: Overtaken | None = None) -> None:
            if overtaken is None:
                at_once.append(n)
            else:
                others[n] = overtaken
                assert not overtaken()

    heard = replace(ports, optional_coordinator=Told())  # type: ignore[arg-type]
    for n in range(20):
        commit_or_raise(heard, load(ports), append(n, f"mine {n}"))
    assert at_once == [8, 16]
    assert sorted([*at_once, *others]) == [*range(1, 21)]
    assert [n for n, overtaken in others.items() if not overtaken()] == [20]


def test_trouble_after_a_landed_put_is_no_failure(ports: TableContext) -> None:
    """Whatever breaks once the put may have landed, the files it names stay."""

    class Deaf:
        def announce(self, *_: object) -> None:
            raise RuntimeError("a bug")

    files = ports.files
    segment = first(0)
    with files.create(segment.path) as sink:
        sink.write(b"rows")
        sink.commit()
    broken = replace(ports, optional_coordinator=Deaf())  # type: ignore[arg-type]
    with pytest.raises(CommitUnknown, match=r"reply to event 1 was lost.*commit id 'mine'"):
        commit_files(broken, load(ports), append(0), [segment])
    with files.open(segment.path) as source:
        assert source.size == 4
    assert load(ports).n == 1


def test_files_of_a_certain_failure_are_deleted(ports: TableContext) -> None:
    """After a conflict the files that nobody will ever name are removed."""
    commit_or_raise(ports, load(ports), append(0, "first"))
    with ports.files.create("data/mine.parquet") as sink:
        sink.commit()
    mine = replace(first(1), path="data/mine.parquet", time_max=JANUARY.end)
    wide = Change(action=Appended(segments=(mine,)), commit_id="mine")
    assert isinstance(commit_files(ports, load(ports), wide, [mine]), Conflict)
    with pytest.raises(NotFound), ports.files.open("data/mine.parquet"):
        pass


def test_certain_failure_is_raised(ports: TableContext) -> None:
    """A full disk is no race: it is raised at once, and log and files are as they were."""
    traps(ports).append(full)
    with pytest.raises(StorageFull):
        commit(ports, load(ports), append(0))
    assert load(ports).n == 0
    with ports.files.create("data/mine.parquet") as sink:
        sink.commit()
    traps(ports).append(full)
    mine = replace(first(0), path="data/mine.parquet")
    with pytest.raises(StorageFull):
        commit_files(ports, load(ports), append(0), [mine])
    with pytest.raises(NotFound), ports.files.open("data/mine.parquet"):
        pass


def test_time_increases_under_a_standing_clock(ports: TableContext) -> None:
    """Event times grow strictly although the wall clock does not move, or goes back."""
    for partition in range(3):
        commit_or_raise(ports, load(ports), append(partition, f"c{partition}"))
        ports.clock.jump(BASE - partition)  # type: ignore[attr-defined]
    times = [event.time for event in EventLog(ports.storage).events(0)]
    assert times == sorted(set(times))
    assert times[-1] == times[-2] + 1


def test_checkpoint_equals_the_fold(ports: TableContext) -> None:
    """Opening from a checkpoint gives the very state that folding the log gives."""
    for partition in range(CHECKPOINT_EVERY + 3):
        commit_or_raise(ports, load(ports), append(partition, f"c{partition}"))
    log = EventLog(ports.storage)
    folded = log.at(CHECKPOINT_EVERY + 3)
    assert ports.storage.read(checkpoint_path(CHECKPOINT_EVERY))
    assert log.load() == folded


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"{}"])
def test_damaged_checkpoint_costs_time_only(ports: TableContext, damage: bytes) -> None:
    """A torn checkpoint or hint is ignored and the log is folded instead."""
    for partition in range(CHECKPOINT_EVERY):
        commit_or_raise(ports, load(ports), append(partition, f"c{partition}"))
    before = load(ports)
    ports.storage.replace(checkpoint_path(CHECKPOINT_EVERY), damage)
    assert load(ports) == before
    ports.storage.replace("_segtable/checkpoints/_last", damage)
    assert load(ports) == before
