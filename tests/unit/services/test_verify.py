"""Verifying: every planted damage is named, sound tables of all kinds give no finding."""

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import CorruptTable, NotATable, StorageError
from airflow_provider_segtable.core.log import events
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.tag_events import Tagged
from airflow_provider_segtable.core.log.log_paths import (
    checkpoint_path,
    event_path,
    expired_path,
    tag_path,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Severity
from airflow_provider_segtable.core.schema import Metric, MetricKind
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.rollup_kind import (
    QueryGranularity,
    Rollup,
    bound,
    stored_schema,
)
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.parquet.descriptor import KEY, encode_descriptor
from airflow_provider_segtable.health.table_checks import FileCheck
from airflow_provider_segtable.health.verify import Verification, verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table import committer
from airflow_provider_segtable.table.committer import Change, Committed, commit
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.log import checkpoint
from airflow_provider_segtable.table.log.checkpoint import write_checkpoint
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table, create_table
from tests.unit.services.conftest import HOUR_US, SCHEMA, rows
from tests.unit.services.test_planner import clock_of


def store(ports: TableContext) -> dict[str, bytes]:
    """Return the data files, to be damaged."""
    files: Any = ports.files
    found: dict[str, bytes] = files.store
    return found


def segments(ports: TableContext) -> tuple[Segment, ...]:
    return Table(ports).state().timeline.visible_segments()


def run(ports: TableContext, kind: str, **how: Any) -> None:
    """Compact by one kind."""
    plans = [known.plan.id for known in request(ports, kind, **how)]
    ended = compact(ports, plans, in_process(ports.files))
    assert {result.ended for result in ended} == {"completed"}


def checked(ports: TableContext, **how: Any) -> Verification:
    """Verify without a coordinator."""
    return verify(replace(ports, optional_coordinator=None), **how)


def codes(ports: TableContext, **how: Any) -> list[str]:
    return [finding.code for finding in checked(ports, **how).findings]


def rewrite(ports: TableContext, segment: Segment, made: pa.Table, **changed: Any) -> Segment:
    """Put other rows into a segment's file, with a descriptor that fits them; return it."""
    fresh = replace(segment, rows=made.num_rows, row_groups=1, **changed)
    metadata = {KEY: encode_descriptor(fresh)}
    sink = io.BytesIO()
    pq.write_table(made.replace_schema_metadata(metadata), sink)
    store(ports)[segment.path] = sink.getvalue()
    return replace(fresh, size=len(sink.getvalue()), footer=None)


def append_as(ports: TableContext, segment: Segment, made: pa.Table, **changed: Any) -> None:
    """Commit a segment of these rows whose descriptor is what the caller says."""
    state = Table(ports).state()
    space = state.id_space(segment.id.chunk, next(iter(state.ids))[1])
    segment_id = segment.id.chunk.segment(space.next)
    shard = segment.shard.first_generation(segment_id.partition, core=segment.shard.core)
    moved = replace(segment, id=segment_id, shard=shard, path=f"data/planted-{space.next}.parquet")
    fresh = rewrite(ports, moved, made, **changed)
    change = Change(action=Appended(segments=(fresh,)), commit_id=f"planted-{space.next}")
    assert isinstance(commit(ports, state, change), Committed)


def at(*offsets: int) -> pa.Table:
    """Return rows of the first hour at these offsets, numbered as they stand."""
    times = pa.array(offsets, SCHEMA.field("at").type)
    return pa.table({"at": times, "row": list(range(len(offsets)))}, SCHEMA)


# Sound tables


def appended(_: TableContext) -> None:
    """Leave it as it is."""


def minor(ports: TableContext) -> None:
    """Join, and append beside."""
    run(ports, "minor")
    Table(ports).append(rows(5))


def sorted_by_row(ports: TableContext) -> None:
    """Sort, in small pieces of equal keys too."""
    run(ports, "semi-major", clustering="row")


def curved(ports: TableContext) -> None:
    """Sort along a curve."""
    run(ports, "semi-major", clustering="zorder(at,row)")


def recut(ports: TableContext) -> None:
    """Cut time anew, twice, so that there are zones."""
    run(ports, "major", granularity="day")
    Table(ports).append(rows(6))
    run(ports, "major", clustering="row")


def with_tombstones(ports: TableContext) -> None:
    """Cut a day into hours, most of which are empty."""
    run(ports, "major", granularity="day")
    run(ports, "major", granularity="hour")
    shown = Table(ports).state().timeline.visible_segments()
    assert any(segment.tombstone for segment in shown)


def carried_over(ports: TableContext) -> None:
    """Append while a major compaction is under way."""
    plans = [known.plan.id for known in request(ports, "major")]

    def execute(jobs: Any) -> Any:
        if not any("late" in commit_id for commit_id in Table(ports).state().commits):
            Table(ports).append(rows(7), commit_id="late")
        yield from in_process(ports.files)(jobs)

    compact(ports, plans, execute)
    assert any(segment.origin for segment in segments(ports))


KINDS = (appended, minor, sorted_by_row, curved, recut, with_tombstones, carried_over)


@pytest.mark.parametrize("history", KINDS, ids=lambda each: each.__name__)
def test_a_sound_table_gives_no_finding(
    ports: TableContext, history: Callable[[TableContext], None]
) -> None:
    """Whatever happened to it: nothing is wrong, at any version, in any row."""
    history(ports)
    EventLog(ports.storage).checkpoint(Table(ports).state())
    found = checked(ports, all_versions=True, deep=True)
    assert found.findings == ()
    assert found.versions == found.version + 1
    assert found.checkpoints == 1
    assert found.files == sum(1 for s in Table(ports).state().timeline.segments() if s.path)
    assert checked(ports).findings == ()


@pytest.fixture
def rolled(ports: TableContext) -> TableContext:
    """Return a rollup table with two appends."""
    given = pa.schema([*SCHEMA, ("who", pa.string())])
    other = replace(
        ports,
        uri="memory://rolled",
        storage=MemoryStorage(clock=ports.clock),
        files=type(ports.files)(),
    )
    wish = Rollup(
        dimensions=("who",),
        metrics=(Metric(name="total", kind=MetricKind.SUM, source="row"),),
        query_granularity=QueryGranularity.HOUR,
    )
    schema, day = from_arrow(given), Granularity.DAY
    rollup = bound(wish, schema, time_column="at", granularity=day)
    definition = TableDefinition(
        table_id="r",
        name="r",
        schema=stored_schema(rollup, schema, time_column="at"),
        time_column="at",
        granularity=day,
        kind=rollup,
    )
    create_table(other, definition)
    for turn in range(2):
        made = rows(turn).append_column("who", pa.array(["a", "b"]))
        columns = given_schema(Table(other).state().table).names
        Table(other).append(pa.concat_tables([made, made]).select(columns))
    return other


@pytest.mark.parametrize("kind", [None, "minor", "major"])
def test_a_sound_rollup_table_gives_no_finding(rolled: TableContext, kind: str | None) -> None:
    """Its events sum up, before and after compaction."""
    if kind:
        run(rolled, kind)
    assert checked(rolled, all_versions=True, deep=True).findings == ()


# Damaged files


def test_a_missing_file_is_named(ports: TableContext) -> None:
    """The finding says which segment, where, and how bad."""
    first = segments(ports)[0]
    del store(ports)[first.path]
    (finding,) = checked(ports).findings
    assert (finding.code, finding.where) == ("missing-file", first.path)
    assert finding.severity is Severity.CRITICAL
    assert str(first.id) in finding.what


def test_a_group_with_a_missing_file_is_named(ports: TableContext) -> None:
    """What is read together is lost together, and its inputs are the way out."""
    run(ports, "major", granularity="day")
    (made,) = segments(ports)
    del store(ports)[made.path]
    (finding,) = checked(ports).findings
    assert finding.code == "missing-file"
    assert "repair" in finding.do


@pytest.mark.parametrize(
    ("code", "damage"),
    [
        ("wrong-size", lambda data: data + b"x"),
        ("wrong-size", lambda data: data[:-20]),
        ("bad-footer", lambda data: data[:-20]),
        ("bad-footer", lambda data: data[:-4] + b"PAX1"),
        ("bad-footer", lambda data: data[:-8] + b"\xff\xff\xff\x7f" + data[-4:]),
        ("bad-footer", lambda data: data.replace(b'"format":1', b'"format"!1')),
        ("wrong-footer", lambda data: data.replace(b'"rows":1', b'"rows":2')),
        ("bad-footer", lambda data: data.replace(b'_0","', b'_9","')),
        ("missing-columns", lambda data: data.replace(b"\x03row", b"\x03rpw")),
        ("bad-footer", lambda _: b""),
    ],
)
def test_damaged_bytes_are_named(
    ports: TableContext, code: str, damage: Callable[[bytes], bytes]
) -> None:
    """Truncated, too long, or a byte of the footer flipped."""
    path = segments(ports)[0].path
    before = store(ports)[path]
    store(ports)[path] = damage(before)
    assert store(ports)[path] != before
    found = checked(ports)
    assert code in [finding.code for finding in found.findings]
    assert {finding.where for finding in found.findings} == {path}


def test_swapped_files_are_named(ports: TableContext) -> None:
    """Two files that changed places both say whose they are."""
    one, two = segments(ports)[:2]
    files = store(ports)
    files[one.path], files[two.path] = files[two.path], files[one.path]
    found = [f for f in checked(ports).findings if f.code == "foreign-file"]
    assert {finding.where for finding in found} == {one.path, two.path}
    assert str(two.id) in found[0].what


def test_a_file_without_descriptor_is_named(ports: TableContext) -> None:
    """Somebody else's Parquet file under a segment's name is foreign."""
    sink = io.BytesIO()
    pq.write_table(rows(0), sink)
    store(ports)[segments(ports)[0].path] = sink.getvalue()
    assert "bad-footer" in codes(ports)


def test_flipped_bytes_of_rows_need_a_deep_look(ports: TableContext) -> None:
    """The footer is sound, and only decoding shows that pages are not."""
    path = segments(ports)[0].path
    data = bytearray(store(ports)[path])
    data[4:40] = bytes(36)
    store(ports)[path] = bytes(data)
    assert codes(ports) == []
    assert "unreadable-rows" in codes(ports, deep=True)


@pytest.mark.parametrize(
    ("named", "made", "changed"),
    [
        (["outside-chunk", "outside-times"], (0, HOUR_US), {"time_max": 10}),
        (["outside-times"], (0, 50), {"time_max": 10}),
        (["unsorted"], (1, 0), {"clustering": "at"}),
    ],
)
def test_rows_that_break_a_promise_are_named(
    ports: TableContext, named: list[str], made: tuple[int, ...], changed: dict[str, Any]
) -> None:
    """Outside the chunk, outside the descriptor's times, or not in the order promised."""
    ends = {"time_min": min(made), "time_max": max(made), "events": len(made)}
    append_as(ports, segments(ports)[0], at(*made), **{**ends, **changed})
    assert codes(ports) == []
    assert codes(ports, deep=True) == named


def test_an_order_is_checked_across_batches(ports: TableContext) -> None:
    """Rows are compared with the last one of the batch before."""
    many = 70_000
    half = [*range(many), many - 2]
    ends = {"time_min": 0, "time_max": many, "events": len(half), "clustering": "at"}
    append_as(ports, segments(ports)[0], at(*range(many + 1)), **ends)
    assert codes(ports, deep=True) == []
    step = 65_536
    half = [*range(step), step - 5, *range(step, many)]
    append_as(ports, segments(ports)[0], at(*half), **ends)
    assert codes(ports, deep=True) == ["unsorted"]


def test_rollup_events_that_do_not_sum_up_are_named(rolled: TableContext) -> None:
    """A descriptor and footer that agree on a wrong number of events are found by the rows."""
    first = segments(rolled)[0]
    with io.BytesIO(store(rolled)[first.path]) as file:
        made = pq.read_table(file)
    state = Table(rolled).state()
    wrong = rewrite(rolled, first, made, events=first.events + 1)
    segment_id = first.id.chunk.segment(9)
    moved = replace(
        wrong,
        id=segment_id,
        shard=first.shard.first_generation(9),
        path="data/planted.parquet",
        events=first.events + 1,
    )
    again = rewrite(rolled, moved, made)
    rewrite(rolled, first, made)
    commit(rolled, state, Change(action=Appended(segments=(again,)), commit_id="planted"))
    found = {f.code for f in checked(rolled, deep=True).findings if f.where == moved.path}
    assert found == {"wrong-events"}


# A damaged log


def damage_log(ports: TableContext, n: int, change: Callable[[bytes], bytes]) -> None:
    path = event_path(n)
    ports.storage.replace(path, change(ports.storage.read(path)))


def test_a_gap_in_the_log_is_named(ports: TableContext) -> None:
    """Readers would end before it, and not know."""
    ports.storage.delete(event_path(2))
    found = checked(ports)
    assert [(f.code, f.where) for f in found.findings] == [("log-gap", event_path(2))]
    assert found.version == 4


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-10], lambda _: b"", lambda data: data.replace(b'"row', b'"r0w', 1) + b" "],
)
def test_a_torn_event_is_named(ports: TableContext, damage: Callable[[bytes], bytes]) -> None:
    """Truncated, empty, or failing its checksum."""
    damage_log(ports, 3, damage)
    assert [(f.code, f.where) for f in checked(ports).findings] == [("broken-event", event_path(3))]


def test_after_a_torn_event_a_checkpoint_goes_on(ports: TableContext) -> None:
    """What a reader still gets is still checked."""
    EventLog(ports.storage).checkpoint(Table(ports).state())
    Table(ports).append(rows(8))
    damage_log(ports, 2, lambda _: b"torn")
    del store(ports)[segments(ports)[-1].path]
    assert codes(ports) == ["broken-event", "missing-file"]


def test_a_time_that_goes_back_is_named(ports: TableContext) -> None:
    """An event of an earlier time than the one before it, checksum and all."""
    log = EventLog(ports.storage)
    event = log.event(4)
    assert event
    ports.storage.replace(event_path(4), events.encode(replace(event, time=1)))
    found = [f for f in checked(ports).findings if f.where == event_path(4)]
    assert {f.code for f in found} == {"broken-event"}
    assert "not after event 3" in found[0].what


def test_a_wrong_checkpoint_is_named(ports: TableContext) -> None:
    """A checkpoint that lacks a segment is not what the events give."""
    state = Table(ports).state()
    lacking = state.timeline.with_changes(remove=[segments(ports)[0].id])
    wrong: State = replace(state, timeline=lacking)
    ports.storage.replace(checkpoint_path(state.n), write_checkpoint(wrong))
    (finding,) = checked(ports).findings
    assert (finding.code, finding.where) == ("wrong-checkpoint", checkpoint_path(state.n))


def test_a_torn_checkpoint_is_a_warning(ports: TableContext) -> None:
    """It is a hint, and costs only time."""
    ports.storage.replace(checkpoint_path(2), b"PAR1 torn")
    (finding,) = checked(ports).findings
    assert (finding.code, finding.severity) == ("bad-checkpoint", Severity.WARNING)


def test_a_checkpoint_of_another_format_is_harmless(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The type of the error tells it from damage, whatever the words of the message."""
    monkeypatch.setattr(checkpoint, "FORMAT", 99)
    written = write_checkpoint(EventLog(ports.storage).at(2))
    monkeypatch.undo()
    ports.storage.replace(checkpoint_path(2), written)
    (finding,) = checked(ports).findings
    assert (finding.code, finding.severity) == ("old-checkpoint", Severity.INFO)

    def torn(*_: object) -> State:
        raise CorruptTable("checkpoint has format 7 in a torn head")

    monkeypatch.setattr("airflow_provider_segtable.health.verify.proved", torn)
    (finding,) = checked(ports).findings
    assert finding.code == "bad-checkpoint"


def test_a_log_whose_start_expired_is_sound(ports: TableContext) -> None:
    """From the checkpoint on, numbers and fold are as good as from the start."""
    log = EventLog(ports.storage)
    log.checkpoint(log.at(2))
    ports.storage.create(expired_path(2), b"")
    ports.storage.delete(event_path(0))  # and the cleaner died before it deleted event 1
    found = checked(ports, all_versions=True)
    assert found.findings == ()
    assert (found.first, found.version, found.versions) == (2, 4, 2)


def test_an_expired_log_without_checkpoint_is_named(ports: TableContext) -> None:
    """Nobody can open the table, and the finding says so."""
    ports.storage.create(expired_path(2), b"")
    for n in range(2):
        ports.storage.delete(event_path(n))
    (finding,) = checked(ports).findings
    assert (finding.code, finding.severity) == ("log-without-base", Severity.CRITICAL)


def tag(ports: TableContext, n: int) -> str:
    """Tag a version as cleaning does; return its checkpoint's path."""
    log = EventLog(ports.storage)
    path = tag_path("kept", n)
    ports.storage.create(path, write_checkpoint(log.at(n)))
    change = Change(action=Tagged(name="kept", n=n), commit_id="tag")
    assert isinstance(commit(ports, log.load(), change), Committed)
    return path


def test_a_tagged_version_has_its_checkpoint(ports: TableContext) -> None:
    """Missing, or of another version, it is named; while the log leads there, as a warning."""
    path = tag(ports, 2)
    whole = ports.storage.read(path)
    assert codes(ports) == []
    ports.storage.replace(path, write_checkpoint(EventLog(ports.storage).at(3)))
    assert codes(ports) == ["bad-tag"]
    ports.storage.delete(path)
    assert [f.severity for f in checked(ports).findings] == [Severity.WARNING]
    log = EventLog(ports.storage)
    log.checkpoint(log.at(3))
    ports.storage.create(expired_path(3), b"")
    assert [f.severity for f in checked(ports).findings] == [Severity.CRITICAL]
    ports.storage.create(path, whole)
    assert codes(ports) == []


def test_a_cleaned_table_is_sound(ports: TableContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hidden segments, their files and old events went as they should; doomed files are no loss."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 2)
    definition, clock = Table(ports).state().table, ports.clock
    own = replace(ports, storage=MemoryStorage(clock=clock), files=type(ports.files)())
    create_table(own, definition)
    for turn in range(4):
        Table(own).append(rows(turn))
    run(own, "minor")
    run(own, "major", granularity="day")
    clock_of(own).advance(3600)
    clean(own, retention=Retention(hours=0, versions=1, orphan_hours=0))
    state = Table(own).state()
    assert len(state.timeline) == 1
    found = checked(own, all_versions=True, deep=True)
    assert found.findings == ()
    assert found.first > 0


def test_two_visible_segments_of_one_file_are_named(ports: TableContext) -> None:
    """Its rows would be read twice."""
    first = segments(ports)[0]
    doubled = first.carried(first.id.chunk.segment(9), 0)
    state = Table(ports).state()
    commit(ports, state, Change(action=Appended(segments=(doubled,)), commit_id="planted"))
    assert "doubled-file" in codes(ports)


# The world around


def test_a_file_that_a_cleaner_took_is_not_lost(ports: TableContext) -> None:
    """A segment that a newer snapshot does not have needs no file."""
    first = segments(ports)[0]
    before = store(ports).pop(first.path)
    assert codes(ports) == ["missing-file"]
    store(ports)[first.path] = before
    state = Table(ports).state()
    late = replace(state, timeline=state.timeline.with_changes(remove=[first.id]))

    class Cleaned(EventLog):
        """A log that goes on."""

        def refresh(self, state: State) -> State:
            """Return the state after the cleaner."""
            assert state.n == late.n
            return late

    files = FileCheck(ports=ports, state=state, deep=False)
    del store(ports)[first.path]
    assert files.check(first) == []
    assert list(files.still_lost(Cleaned(ports.storage))) == []


def test_what_cannot_be_read_is_not_called_damaged(ports: TableContext) -> None:
    """Storage that fails leaves a file unchecked."""

    class Refusing:
        """Data files nobody may read."""

        def open(self, path: str) -> Any:
            """Refuse."""
            raise StorageError(f"{path}: permission denied")

    broken: Any = Refusing()
    found = verify(replace(ports, files=broken)).findings
    assert {f.severity for f in found} == {Severity.UNCHECKED}
    assert len(found) == len(segments(ports))


def test_no_table_is_an_error(ports: TableContext) -> None:
    """An empty place is not a sound table."""
    with pytest.raises(NotATable, match="holds no segtable table"):
        verify(replace(ports, storage=MemoryStorage()))


def test_progress_is_told(ports: TableContext) -> None:
    """Both stages come to their end."""
    told: dict[str, tuple[int, int]] = {}
    verify(ports, report=lambda stage, done, total: told.update({stage: (done, total)}))
    assert told == {"log": (5, 5), "files": (8, 8)}


def test_beside_a_writer_and_a_cleaner_nothing_is_found(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it looks while files and events come and go, nobody is accused."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 4)
    own = replace(ports, storage=MemoryStorage(clock=ports.clock), files=type(ports.files)())
    create_table(own, Table(ports).state().table)
    seen: list[Verification] = []

    def work() -> None:
        for turn in range(40):
            Table(own).append(rows(turn))
            clock_of(own).advance(1)
            if turn % 5 == 4:
                run(own, "minor")
                clean(own, retention=Retention(hours=0, versions=1, orphan_hours=1))

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        while not working.done():
            seen.append(checked(own, all_versions=True, deep=True))
        working.result()
    assert [finding for found in seen for finding in found.findings] == []
    assert checked(own).first > 0
