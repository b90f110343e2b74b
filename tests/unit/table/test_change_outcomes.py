"""What a change reports, and where it gives up: counts, events, bounds of its loops."""

from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import ChangeConflict, StorageError
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.time import HOUR_US
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.table.changes.row_change import ROUNDS, ChangeResult, landed_before
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import files, numbers, rows
from tests.unit.table.test_change import beside, in_use


@dataclass(slots=True)
class Unread:
    """A storage from which one event cannot be read once it was created."""

    inner: Storage
    n: int
    made: bool = field(default=False)

    def create(self, path: str, data: bytes) -> None:
        """Create, and note it."""
        self.inner.create(path, data)
        self.made |= path == event_path(self.n)

    def read(self, path: str) -> bytes:
        """Read anything but the event."""
        if self.made and path == event_path(self.n):
            raise StorageError(path)
        return self.inner.read(path)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def test_a_commit_id_of_an_append_deletes_nothing(table: Table) -> None:
    """The id landed already, as something else: its event is reported, without counts."""
    n = table.append(rows(range(50, 52)), commit_id="mine").n
    done = table.delete("true", commit_id="mine")
    assert (done.n, done.matched, done.deleted, done.inserted) == (n, 0, None, 0)
    assert table.state().n == n == done.state.n


def test_a_change_whose_event_has_expired_is_reported_without_counts(table: Table) -> None:
    """The state remembers its commit id, and the log has no event of it any more."""
    n = table.delete("row < 3", commit_id="mine").n or 0
    state = table.state()
    table.ports.storage.delete(event_path(n))
    done = landed_before(EventLog(table.ports.storage), "mine", state)
    assert done is not None
    assert (done.n, done.matched, done.deleted, done.inserted) == (n, 0, None, 0)
    assert landed_before(EventLog(table.ports.storage), None, state) is None


def test_deletes_after_a_restore_leave_out_common_rows(table: Table, other: Table) -> None:
    """What the restore undid was before both of them, so neither has to look again."""
    table.delete("row = 39")
    table.restore(version=4)
    done = beside(table, lambda: other.delete("row < 10")).delete("row < 15")
    assert (done.matched, done.deleted) == (15, 5)
    assert numbers(table) == list(range(15, 40))


def test_an_event_that_cannot_be_read_back_is_reported_all_the_same(table: Table) -> None:
    """The change has landed, so its own counts are returned, and no file is deleted."""
    storage = Unread(table.ports.storage, 5)
    act = Table(replace(table.ports, storage=storage))  # type: ignore[arg-type]
    done = act.update({"price": 1.0}, "row < 3")
    assert storage.made
    assert (done.n, done.matched, done.deleted, done.inserted) == (5, 3, 3, 3)
    assert done.state.n == 5
    assert files(table) == in_use(table)


def test_a_change_beside_very_many_others_gives_up(table: Table, other: Table) -> None:
    """After a bounded number of puts it says why, and leaves no file."""
    even = rows(range(100, 100 + 2 * (ROUNDS + 1)))
    hour = even.filter(pa.array([at % 2 == 0 for at in even.column("row").to_pylist()]))
    table.append(hour)
    ours = iter(range(100, 100 + 2 * (ROUNDS + 1), 2))
    acts = [lambda: other.delete(f"row = {next(ours)}")] * ROUNDS
    with pytest.raises(ChangeConflict, match="neighbouring rows 50 times; nothing was changed"):
        beside(table, *acts).delete("row = 200")
    assert 200 in numbers(table)
    assert files(table) == in_use(table)


def test_a_delete_of_no_rows_is_no_event(table: Table) -> None:
    """Nothing matched, so nothing is written; the version that was read is reported."""
    done = table.delete("row > 1000")
    assert (done.n, done.matched, done.deleted, done.inserted) == (None, 0, 0, 0)
    assert done.state.n == table.state().n == 4


def test_rows_left_out_are_not_in_the_next_file(table: Table, other: Table) -> None:
    """Of each root only the rows that remain are deleted again, and of others all."""
    done = beside(
        table, lambda: other.delete("row IN (0, 1, 2)"), lambda: other.delete("row IN (12, 13)")
    ).delete("row < 15")
    assert (done.matched, done.deleted) == (15, 10)
    roots = [each.rows for some in table.state().vectors.values() for each in some if each.n == 7]
    assert sorted(roots) == [1, 2, 3, 4]
    assert files(table) == in_use(table)


def test_rows_left_out_that_a_restore_brings_back_are_deleted(table: Table, other: Table) -> None:
    """Another delete had taken them, so ours left them out; it looks again."""
    done = beside(table, lambda: other.delete("row < 3"), lambda: other.restore(version=4)).delete(
        "row < 5"
    )
    assert (done.matched, done.deleted) == (5, 5)
    assert numbers(table) == list(range(5, 40))
    assert files(table) == in_use(table)


@pytest.mark.parametrize(
    ("n", "deleted", "dry_run", "words"),
    [
        (7, 3, False, "4 rows matched, 3 deleted, 2 inserted: event 7"),
        (7, None, False, "4 rows matched, an unknown number deleted, 2 inserted: event 7"),
        (None, 3, True, "4 rows matched, 3 deleted, 2 inserted: a dry run"),
        (None, 3, False, "4 rows matched, 3 deleted, 2 inserted: nothing to do, no event"),
    ],
)
def test_a_result_says_what_happened(
    table: Table,
    n: int | None,
    deleted: int | None,
    dry_run: bool,  # noqa: FBT001
    words: str,
) -> None:
    """The counts, and the event or why there is none."""
    result = ChangeResult(
        n=n, state=table.state(), matched=4, deleted=deleted, inserted=2, dry_run=dry_run
    )
    assert str(result) == words


def test_appends_of_a_change_are_of_the_hours_that_they_came_from(table: Table) -> None:
    """An update of rows of two hours writes a segment for each."""
    before = {s.id for s in table.state().timeline.segments()}
    table.update({"price": 1.0}, "row IN (2, 3)")
    new = [s for s in table.state().timeline.segments() if s.id not in before]
    assert [(s.id.interval.start, s.rows) for s in new] == [(0, 1), (HOUR_US, 1)]
