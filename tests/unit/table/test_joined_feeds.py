"""Feeds in events, in files, and joined: the same entries, however far somebody came with them."""

from collections.abc import Callable, Sequence
from itertools import count

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import CorruptTable, StorageError
from airflow_provider_segtable.core.indexes.index_kind import FILE, START, FileList
from airflow_provider_segtable.core.indexes.index_state import Feed, folder
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Action
from airflow_provider_segtable.core.log.families.index_events import (
    FeedsJoined,
    IndexBuilt,
    IndexForwarded,
)
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import ALL_TIME
from airflow_provider_segtable.data.keyed.log_files import decode_records
from airflow_provider_segtable.table.committer import (
    Change,
    Committed,
    commit,
    commit_or_raise,
    forward_feeds,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.indexes import feeding, index_entries
from airflow_provider_segtable.table.indexes.feeding import Put, forward
from airflow_provider_segtable.table.indexes.index_entries import (
    entries_in,
    feed_commit,
    index_ports,
    write_feed,
)
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import rows
from tests.unit.table.test_indexes import found, listed

Killed = StorageError


@pytest.fixture
def fed(table: Table) -> Table:
    """A table with three feeds in their events."""
    request_index(table.ports, "files", FileList())
    for turn in range(4, 7):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
    assert all(feed.inline for _, feed in found(table).feeds)
    return table


def entries(table: Table) -> pa.Table:
    return entries_in(table.ports, found(table)).sort_by(FILE)


def own_files(table: Table) -> list[str]:
    """Return the files below the folder of the index."""
    below = f"{folder(found(table).definition.id)}/"
    stored = table.ports.files.store  # type: ignore[attr-defined]
    return sorted(path.removeprefix(below) for path in stored if path.startswith(below))


def feed_by_hand(table: Table, some: pa.Table, gone: pa.Table | None = None) -> None:
    """Commit a feed that no writer would bring."""
    state = table.state()
    index = found(table).definition
    feed = write_feed(table.ports, index, some, gone)
    action = IndexBuilt(index=index.id, interval=ALL_TIME, through=0)
    commit_id = f"by-hand-{state.n}"
    commit_or_raise(table.ports, state, Change(action=action, commit_id=commit_id, feeds=(feed,)))


def put(ports: TableContext, state: State, action: Action, commit_id: str) -> State | Conflict:
    done = commit(ports, state, Change(action=action, commit_id=commit_id))
    assert isinstance(done, Committed | Conflict)
    return done.state if isinstance(done, Committed) else done


def dying(left: int, *, late: bool) -> Put:
    """Commit some events, then die: before the next one, or before its reply is read."""
    done = count()

    def puts(ports: TableContext, state: State, action: Action, commit_id: str) -> State | Conflict:
        last = next(done) == left
        if last and not late:
            raise Killed("killed")
        found = put(ports, state, action, commit_id)
        if last:
            raise Killed("killed")
        return found

    return puts


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("left", range(3))
def test_a_copy_that_died_is_finished(fed: Table, other: Table, left: int, late: bool) -> None:  # noqa: FBT001
    """Between any two of its events; nothing is there twice, and readers notice nothing."""
    before = entries(fed)
    with pytest.raises(Killed):
        forward(fed.ports, fed.state(), dying(left, late=late))
    assert entries(fed).equals(before)
    forward_feeds(other.ports, other.state())
    own = index_ports(fed.ports, found(fed).definition)
    assert own.log.load().n == 1
    assert not found(fed).feeds
    assert entries(fed).equals(before)


def test_two_who_join_at_once_join_once(fed: Table, other: Table) -> None:
    """The second one is refused by the log, and deletes its file."""
    before, state = entries(fed), fed.state()

    def overtaken(
        ports: TableContext, seen: State, action: Action, commit_id: str
    ) -> State | Conflict:
        forward_feeds(other.ports, state)
        return put(ports, seen, action, commit_id)

    forward(fed.ports, state, overtaken)
    assert entries(fed).equals(before)
    own = index_ports(fed.ports, found(fed).definition).log.load()
    assert own.n == 1
    assert own_files(fed) == [segment.path for segment in own.timeline.visible_segments()]


def test_an_overlapping_join_is_refused(fed: Table) -> None:
    """Whichever part of the feeds another one had joined; and nothing without files is copied."""
    index = found(fed)
    (a, _), (b, _), (c, _) = index.feeds

    def joined(first: int, through: int) -> FeedsJoined:
        return FeedsJoined(index=index.definition.id, first=first, through=through, segments=())

    def refused(action: Action) -> bool:
        return isinstance(admit(action, fed.state()), Conflict)

    assert not refused(joined(a, c))
    assert refused(joined(a - 1, c))
    assert refused(joined(a, c + 1))
    assert refused(IndexForwarded(index=index.definition.id, through=c))
    with pytest.raises(Killed):
        forward(fed.ports, fed.ports.log.version(b, fed.state()), dying(1, late=False))
    assert [n for n, _ in found(fed).feeds] == [b, c]
    for first, through in ((a, b), (a, c), (b, c), (b, b)):
        assert refused(joined(first, through))
    assert not refused(joined(c, c))


def copied_later(table: Table) -> None:
    """Copy feeds with files one by one, each by another process that has read the log before."""
    forward_feeds(table.ports, table.state())


def nothing(_: Table) -> None:
    """Leave feeds where they are."""


@pytest.mark.parametrize("most_inline", [0, 8192], ids=["files", "inline"])
@pytest.mark.parametrize("upkeep", [nothing, copied_later])
def test_events_count_in_their_order(
    table: Table,
    upkeep: Callable[[Table], None],
    most_inline: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tombstone hides earlier entries, a later entry counts, wherever each of them is kept."""
    request_index(table.ports, "files", FileList())
    table.append(rows(range(40, 50)))
    every = entries(table)
    one, keys = every.slice(0, 1), every.select([FILE, START])
    steps: Sequence[tuple[pa.Table, pa.Table | None, int]] = (
        (every.slice(0, 0), keys, 0),
        (one, None, 8192),
        (every, None, most_inline),
        (every.slice(0, 0), keys.slice(0, 1), 8192),
        (every.slice(0, 0), keys, most_inline),
        (one, None, 8192),
    )
    wanted = ([], [one], [every], [every.slice(1)], [], [one])
    for (some, gone, most), now in zip(steps, wanted, strict=True):
        monkeypatch.setattr(index_entries, "MOST_INLINE", most)
        feed_by_hand(table, some, gone)
        upkeep(table)
        assert entries(table).equals(pa.concat_tables([every.slice(0, 0), *now]))
    forward_feeds(table.ports, table.state())
    assert not found(table).feeds
    assert entries(table).equals(one)


def test_a_late_copy_undoes_no_tombstone(fed: Table, other: Table) -> None:
    """A copier that wakes up after all others finds its feed in the index's log."""
    every, state = entries(fed), fed.state()

    def wakes_up(
        ports: TableContext, seen: State, action: Action, commit_id: str
    ) -> State | Conflict:
        if not isinstance(action, FeedsJoined):
            forward_feeds(other.ports, other.state())
            feed_by_hand(other, every.slice(0, 0), every.select([FILE, START]))
            forward_feeds(other.ports, other.state())
        return put(ports, seen, action, commit_id)

    forward(fed.ports, state, wakes_up)
    assert entries(fed).num_rows == 0


def test_much_in_events_is_joined_early(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """States and checkpoints carry a bounded number of bytes, not only of feeds."""
    monkeypatch.setattr(feeding, "MOST_INLINE_BYTES", 1_500)
    request_index(table.ports, "files", FileList())
    for turn in range(4, 14):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
        assert found(table).inline_bytes <= 1_500
    assert len({*listed(table)}) == 20
    assert sum(isinstance(e.action, FeedsJoined) for e in table.ports.log.events(0)) >= 2


def test_a_number_that_a_repair_gives_again_is_another_feed(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that lost its end gives numbers again, and the index's log has the lost feed."""
    monkeypatch.setattr(index_entries, "MOST_INLINE", 0)
    request_index(table.ports, "files", FileList())
    table.append(rows(range(40, 50)))
    table.append(rows(range(50, 60)))
    (n, first), (_, second) = found(table).feeds
    assert isinstance(first, Feed)
    assert feed_commit(n, first) != feed_commit(n, second)


def test_broken_bytes_are_an_error(fed: Table) -> None:
    """The index is not used then, as with a broken file."""
    (_, feed), *_ = found(fed).feeds
    for broken in (feed.entries[:-40], b"x" * 100):
        with pytest.raises(CorruptTable, match="rebuild"):
            decode_records(broken, "here")


def test_feeds_that_nobody_can_copy_have_an_end(
    fed: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers stop feeding the index, and the log says what it lacks; copies end that."""
    monkeypatch.setattr(feeding, "MOST_WAITING", 3)
    stopped = fed.append(rows(range(70, 80))).n
    assert len(found(fed).feeds) == 3
    assert not found(fed).covers(stopped)
    forward_feeds(fed.ports, fed.state())
    lacks = found(fed).lacks
    fed.append(rows(range(80, 90)))
    assert len(found(fed).feeds) == 1
    assert found(fed).lacks == lacks
