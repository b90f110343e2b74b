"""The table's side of a log store: epochs, checkpoints, and committed records read from files."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import (
    CommitConflict,
    CommitUnknown,
    Fenced,
    InvalidInput,
    NotFound,
    OffsetGap,
)
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.log_store_events import LogEpochBegun
from airflow_provider_segtable.core.log.fold import fold
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.log_store.reading import Reset
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.time import DAY_US
from airflow_provider_segtable.ports.log_store import Cut
from airflow_provider_segtable.table.log_store.checkpointing import (
    begin_epoch,
    commit_cut,
    leave_alone,
)
from airflow_provider_segtable.table.log_store.file_reader import (
    Expired,
    RangeRecords,
    read_committed,
)
from airflow_provider_segtable.table.table import Table
from tests.property.test_keyed_tables import FIRST_US, GONE, batch, keyed_table
from tests.support.clock import FakeClock
from tests.unit.table.committing import Trap, lost_reply, rival, traps
from tests.unit.table.conftest import files, new_table
from tests.unit.table.logged import Logged, bucket_cut, numbers_in, tail
from tests.unit.table.test_windows import cleaned, compacted


@pytest.fixture
def logged(table: Table) -> Logged:
    """A service that has taken buckets 0 and 4."""
    made = Logged(table)
    made.begin(0, 4)
    return made


def trapped(table: Table) -> Table:
    """Return the table with a storage that can have traps."""
    return Table(replace(table.ports, storage=Trap(table.ports.storage)))  # type: ignore[arg-type]


def test_records_are_read_from_any_offset_whatever_happens_to_their_files(logged: Logged) -> None:
    """Each reader gets exactly the records from its offset on, after compactions and deletes."""
    table, mine = logged.table, {0: [], 4: []}  # type: dict[int, list[int]]
    for counts in ({"b0": 7, "b4": 3}, {"b4": 5}, {"b0": 1, "b4": 9}):
        cut = logged.cut(**counts)
        logged.commit(cut)
        for bucket in cut.buckets:
            mine[bucket] += numbers_in(cut, bucket)
    compacted(table, "minor")
    table.delete("row < 10")
    compacted(table, "semi-major")
    for bucket, numbers in mine.items():
        for offset in range(len(numbers) + 1):
            assert tail(table, bucket, offset) == numbers[offset:]
    assert not tail(table, 9)
    whole = fold(None, table.ports.log.events(0))
    assert whole is not None
    assert whole.log_store == table.log_positions()


def test_a_cut_is_one_file_a_time_chunk(logged: Logged) -> None:
    """The files are the table's own, with the rows of all buckets; an empty cut commits nothing."""
    n = logged.checkpoint(b0=6, b4=6)
    event = logged.table.ports.log.event(n)
    assert event is not None
    assert isinstance(event.action, Appended)
    assert len(event.action.segments) == 3
    assert len({segment.id.interval for segment in event.action.segments}) == 3
    assert [str(each) for each in event.action.log] == ["bucket 0: 0-6", "bucket 4: 0-6"]
    before = logged.table.state().n
    assert commit_cut(logged.table.ports, Cut(buckets={})) is None
    assert logged.table.state().n == before


def test_a_replaced_service_is_fenced_at_its_commit(logged: Logged, other: Table) -> None:
    """Its files are deleted; the new service goes on from the committed end."""
    logged.checkpoint(b0=3)
    late = logged.cut(b0=2)
    successor = Logged(other, written=100)
    successor.begin(0)
    assert successor.ends == {0: 3}
    before = files(logged.table)
    with pytest.raises(Fenced, match="epoch 1, but the table is in epoch 2, begun by host:7"):
        logged.commit(late)
    assert files(logged.table) == before
    successor.checkpoint(b0=2)
    assert tail(other, 0) == [0, 1, 2, 100, 101]
    logged.checkpoint(b4=1)


def test_a_checkpoint_that_is_repeated_is_committed_once(logged: Logged, other: Table) -> None:
    """By the same process, by another one, and after a lost reply."""
    cut = logged.cut(b0=4)
    lost = trapped(logged.table)
    traps(lost.ports).extend(lost_reply(lost.ports, landed=False) for _ in range(99))
    with pytest.raises(CommitUnknown, match="commits once"):
        commit_cut(lost.ports, cut)
    n = logged.commit(cut)
    repeated = commit_cut(other.ports, cut)
    assert repeated is not None
    assert (repeated.n, logged.commit(cut)) == (n, n)
    assert tail(other, 0) == numbers_in(cut, 0)


def test_a_cut_that_does_not_follow_is_refused(logged: Logged) -> None:
    """By offsets, by the number of records, and a second cut of the same records."""
    table = logged.table
    cut = logged.cut(b0=4)
    logged.commit(cut)
    longer = bucket_cut(0, logged.epoch, 0, pa.concat_tables([_rows(cut), _rows(cut)]))
    with pytest.raises(OffsetGap, match="end at 4"):
        commit_cut(table.ports, Cut(buckets={0: longer}))
    short = replace(bucket_cut(0, logged.epoch, 4, _rows(cut)), end=9)
    with pytest.raises(InvalidInput, match="bucket 0: 4-9 has 4 records"):
        commit_cut(table.ports, Cut(buckets={0: short}))


def _rows(cut: Cut) -> pa.Table:
    return pa.Table.from_batches([each.content for each in cut.buckets[0].batches])  # type: ignore[misc]


def test_a_kill_before_the_commit_leaves_orphans_alone(logged: Logged) -> None:
    """The next service commits the records again; a reader sees each once."""

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    dying = trapped(logged.table)
    traps(dying.ports).append(killed)
    cut, before = logged.cut(b0=5), files(logged.table)
    with pytest.raises(Killed):
        commit_cut(dying.ports, cut)
    assert len(files(logged.table) - before) == 3
    assert not tail(logged.table, 0)
    logged.begin(0, 4)
    logged.commit(Cut(buckets={0: replace(cut.buckets[0], epoch=logged.epoch)}))
    assert tail(logged.table, 0) == numbers_in(cut, 0)


def test_of_two_services_that_begin_at_once_the_later_one_is_higher(table: Table) -> None:
    """It reads the log again; one that always loses gives up with a typed error."""
    ports = trapped(table).ports
    traps(ports).append(rival(ports, 1, _rival_epoch(1)))
    assert begin_epoch(ports, [0, 1], owner="me").epoch == 2
    traps(ports).extend(rival(ports, n, _rival_epoch(n)) for n in range(3, 9))
    with pytest.raises(CommitConflict, match="no epoch begun in 5 attempts"):
        begin_epoch(ports, [0], owner="me")
    for buckets in ([], [1, 1], [-1]):
        with pytest.raises(InvalidInput, match="at least one bucket"):
            begin_epoch(table.ports, buckets, owner="me")


def _rival_epoch(epoch: int) -> LogEpochBegun:
    return LogEpochBegun(buckets=(0,), epoch=epoch, owner="rival")


def test_an_opening_writer_leaves_contended_buckets_alone_until_a_commit(
    logged: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits when others have taken a bucket in turn; a restart or a failover is no fight."""
    logged.commit(logged.cut(b0=1))
    clock = FakeClock(logged.table.state().time)
    ports = replace(Table(logged.table.ports).ports, clock=clock)
    begun = begin_epoch(ports, [0], owner="first")
    for _ in range(5):
        begun = begin_epoch(ports, [0], owner="first", after=begun.epoch)  # its store fails
    begin_epoch(ports, [0], owner="second")
    leave_alone(ports, [0])
    for owner in ("first again", "second again"):
        begin_epoch(ports, [0], owner=owner)
    leave_alone(ports, [1])
    assert not clock.slept
    leave_alone(ports, [0])
    assert sum(clock.slept) == pytest.approx(2, abs=0.01)
    assert "take buckets [0] of the log store from each other without a commit" in caplog.text
    assert "second again has them now, and is left alone for 2 s" in caplog.text
    for owner in ("third", "fourth"):
        begin_epoch(ports, [0], owner=owner)
    clock.sleep(3600)
    before = len(clock.slept)
    leave_alone(ports, [0])  # that was long ago
    assert len(clock.slept) == before


def test_jobs_that_follow_each_other_wait_for_nothing(logged: Logged) -> None:
    """Each commits something, though never of all its buckets; another one finds no row at all."""
    clock = FakeClock(logged.table.state().time)
    ports = replace(Table(logged.table.ports).ports, clock=clock)
    for _ in range(6):
        logged.begin(0, 4)
        logged.commit(logged.cut(b0=1))
        leave_alone(ports, [0, 4])
    for turn in range(6):
        clock.sleep(60)
        leave_alone(ports, [0, 4])
        begin_epoch(ports, [0, 4], owner=f"job {turn}")
    assert clock.slept == [60] * 6


def test_records_expire_with_the_versions(logged: Logged) -> None:
    """A reader that is too late gets the first position that is left; a consumer keeps its own."""
    table = logged.table
    logged.checkpoint(b0=4)
    compacted(table, "semi-major")
    n = logged.checkpoint(b0=4, b4=1)
    table.advance_consumer("tail", version=n)
    compacted(table, "semi-major")
    logged.checkpoint(b0=4)
    cleaned(table)
    found = [*read_committed(table.ports, 0)]
    assert found == [Expired(position=Position(epoch=1, offset=4))]
    assert tail(table, 0, 4) == [4, 5, 6, 7, 9, 10, 11, 12]
    assert [each.start for each in table.log_positions()[0].waypoints] == [4, 8]
    table.drop_consumer("tail")
    old = table.state()
    compacted(table, "semi-major")
    cleaned(table)
    end = [Expired(position=Position(epoch=1, offset=12))]
    assert [*read_committed(table.ports, 0, Position(epoch=1, offset=4))] == end
    assert [*read_committed(table.ports, 0, Position(epoch=1, offset=4), state=old)] == end


def test_a_file_that_is_missing_within_retention_is_an_error(logged: Logged) -> None:
    """It has not expired, so a reader must not go on behind it."""
    before = files(logged.table)
    logged.checkpoint(b0=4)
    logged.table.ports.files.delete(min(files(logged.table) - before))
    with pytest.raises(NotFound):
        tail(logged.table, 0)


def test_a_restore_truncates(logged: Logged) -> None:
    """The running service is fenced, readers are reset, and a new epoch goes on from there."""
    table = logged.table
    before = logged.checkpoint(b0=3)
    logged.checkpoint(b0=3, b4=2)
    after = table.state().n
    table.restore(version=before)
    with pytest.raises(Fenced, match="restored"):
        logged.checkpoint(b0=1)
    seen = Position(epoch=1, offset=6)
    assert [*read_committed(table.ports, 0, seen)] == [Reset(epoch=2, offset=3)]
    assert not [*read_committed(table.ports, 0, Position(epoch=1, offset=3))]
    logged.begin(0, 4)
    assert logged.ends == {0: 3, 4: 0}
    logged.checkpoint(b0=3, b4=2)  # the offsets of the one that was undone, but not its records
    assert tail(table, 0) == [0, 1, 2, 9, 10, 11]
    table.restore(version=after)
    assert tail(table, 0) == [0, 1, 2, 3, 4, 5]
    assert tail(table, 4) == [6, 7]
    assert [*read_committed(table.ports, 0, Position(epoch=3, offset=6))] == [
        Reset(epoch=4, offset=3)
    ]


def test_a_restore_that_changes_no_row_truncates(service: MemoryService) -> None:
    """The rows of the only checkpoint were deleted before; its offsets are not committed."""
    logged = Logged(new_table(service))
    logged.begin(0)
    before = logged.table.state().n
    logged.checkpoint(b0=3)
    logged.table.delete("true")
    compacted(logged.table, "semi-major")
    logged.table.restore(version=before)
    assert logged.table.log_positions()[0].end == 0


def test_a_primary_key_table_has_the_merge_of_each_range(tmp_path: Path) -> None:
    """Of each key the last record of a checkpoint, deletes among them; a range is read whole."""
    table = keyed_table(str(tmp_path / "t"), PrimaryKey(key=("key",), buckets=2, ordering="seq"))
    epoch = begin_epoch(table.ports, [0, 1], owner="me").epoch
    first = batch([_record(1, 1), _record(2, 1), _record(1, 2), _record(2, 2, gone=True)])
    second = batch([_record(3, 1)])
    cuts = {0: bucket_cut(0, epoch, 0, first), 1: bucket_cut(1, epoch, 0, second)}
    assert commit_cut(table.ports, Cut(buckets=cuts), deleted=GONE) is not None
    third = bucket_cut(0, epoch, 4, batch([_record(2, 9)]))
    assert commit_cut(table.ports, Cut(buckets={0: third}), deleted=GONE) is not None
    found = [*read_committed(table.ports, 0, Position(epoch=epoch, offset=1))]
    assert [_seen(each) for each in found] == [
        (0, 4, [(1, 2, False), (2, 2, True)]),
        (4, 5, [(2, 9, False)]),
    ]
    assert [_seen(each) for each in read_committed(table.ports, 1)] == [(0, 1, [(3, 1, False)])]
    shown = table.scan().to_arrow().select(["key", "seq"]).to_pylist()
    assert sorted(tuple(each.values()) for each in shown) == [(1, 2), (2, 9), (3, 1)]


def test_a_checkpoint_that_corrects_records_elsewhere_has_its_ranges(tmp_path: Path) -> None:
    """With an index of records, a key that moves to another time chunk goes from its old one."""
    kind = PrimaryKey(key=("key",), buckets=2)
    table = keyed_table(str(tmp_path / "t"), kind)
    table.create_index("keys", "record_index")
    epoch = begin_epoch(table.ports, [0], owner="me").epoch
    for day in range(2):
        rows = batch([_record(1, day)])
        at = pa.array([FIRST_US + day * DAY_US], rows.schema.field("at").type)
        moved = rows.set_column(0, rows.schema.field("at"), at)
        commit_cut(table.ports, Cut(buckets={0: bucket_cut(0, epoch, day, moved)}), deleted=GONE)
    assert table.log_positions()[0].end == 2
    assert [_seen(each) for each in read_committed(table.ports, 0)] == [
        (0, 1, [(1, 0, False)]),
        (1, 2, [(1, 1, False)]),
    ]
    assert table.scan().to_arrow().column("seq").to_pylist() == [1]


def _record(key: int, seq: int, *, gone: bool = False) -> dict[str, object]:
    return {"key": key, "seq": seq, "text": f"{key}-{seq}", GONE: gone}


def _seen(found: object) -> tuple[int, int, list[tuple[int, int, bool]]]:
    assert isinstance(found, RangeRecords)
    assert found.deleted is not None
    rows = found.rows.select(["key", "seq"]).to_pylist()
    shown = [(*row.values(), gone) for row, gone in zip(rows, found.deleted.tolist(), strict=True)]
    return found.first, found.after.offset, sorted(shown)
