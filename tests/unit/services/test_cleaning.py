"""A cleaning run: what goes, what stays and why, doubts, tags, the log's expiry."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    ClockSkew,
    CorruptTable,
    InvalidInput,
    InvalidName,
    NotATable,
    NotFound,
    SegtableError,
    StorageError,
    TableExists,
    VersionExpired,
)
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned, Keep, Swept
from airflow_provider_segtable.core.log.log_paths import checkpoint_path, event_path, tag_path
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.jobs.segment_writer import write_segment
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import Done, in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table import committer
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock, FakeRandomness
from tests.support.in_memory import context_in_memory, defined_by
from tests.support.rooted import RootedFiles
from tests.unit.services.conftest import SCHEMA, rows

NOW = Retention(hours=0, versions=1, orphan_hours=0)
DEFINITION = defined_by(
    SCHEMA, properties={"compaction.min_segments": "2", "compaction.tier_ratio": "1e9"}
)


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that short logs expire."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 2)


@pytest.fixture
def ports() -> TableContext:
    """Two hours with four small segments each, log and data below one root."""
    return made_ports()


def made_ports() -> TableContext:
    made = context_in_memory(rooted=True)
    create_table(made, DEFINITION)
    for turn in range(4):
        Table(made).append(rows(turn))
    return made


def copied(ports: TableContext) -> TableContext:
    """Return an equal table that may be changed; nobody holds a lock there."""
    fresh = context_in_memory(clock=FakeClock(ports.clock.now()), rooted=True)
    assert isinstance(fresh.storage, MemoryStorage)
    assert isinstance(ports.storage, MemoryStorage)
    fresh.storage._objects = copy(ports.storage._objects)
    return replace(fresh, randomness=FakeRandomness(1))


def pass_hours(ports: TableContext, hours: float) -> None:
    assert isinstance(ports.clock, FakeClock)
    ports.clock.advance(hours * 3600)


def compact_all(ports: TableContext) -> None:
    plans = [launch.plan_id for launch in plan_table(ports).launches]
    results = compact(ports, plans, in_process(ports.files))
    assert all(result.ended is Ended.COMPLETED for result in results)
    pass_hours(ports, 0.01)


def files(ports: TableContext) -> set[str]:
    return {entry.path for entry in ports.storage.list("data")}


def shown(ports: TableContext, **which: object) -> list[int]:
    table = Table(ports).snapshot(**which).to_arrow()  # type: ignore[arg-type]
    return sorted(table.column("row").to_pylist())


def needed(ports: TableContext) -> set[str]:
    return {s.path for s in Table(ports).state().timeline.visible_segments() if s.path}


def test_inputs_of_a_compaction_go_once_nobody_can_read_them(ports: TableContext) -> None:
    """Within retention nothing goes; after it the inputs go, and the rows stay."""
    compact_all(ports)
    before = shown(ports)
    assert clean(ports).segments == ()
    for turn in range(4, 16):
        Table(ports).append(rows(turn))
    pass_hours(ports, 25)
    run = clean(ports)
    assert len(run.segments) == 8
    assert run.bytes_freed == sum(s.size for s in run.segments)
    assert files(ports) == needed(ports)
    assert set(before) <= set(shown(ports))


def test_the_dry_run_is_the_same_and_writes_nothing(ports: TableContext) -> None:
    """What a dry run says is what the run then does."""
    compact_all(ports)
    ports.storage.create("data/nobody/00000-0.parquet", b"x")
    there = [(e.path, e.modified) for e in ports.storage.list("")]
    dry = clean(replace(ports, optional_coordinator=None), retention=NOW, dry_run=True)
    assert [(e.path, e.modified) for e in ports.storage.list("")] == there
    assert dry == clean(ports, retention=NOW)
    assert dry.segments
    assert dry.orphans
    assert dry.log_files


def test_a_second_run_finds_nothing(ports: TableContext) -> None:
    """Cleaning comes to rest, and leaves the log alone then."""
    compact_all(ports)
    clean(ports, retention=NOW)
    for _ in range(3):
        last = clean(ports, retention=NOW)
    n = Table(ports).state().n
    assert (last.segments, last.files, last.orphans) == ((), (), ())
    clean(ports, retention=NOW)
    assert Table(ports).state().n == n


def test_an_expired_version_says_which_is_the_oldest(ports: TableContext) -> None:
    """Reading below the oldest kept version is a typed error, by number and by time."""
    compact_all(ports)
    first = Table(ports).state().base_version
    run = clean(ports, retention=NOW)
    with pytest.raises(VersionExpired, match=f"oldest kept is version {run.retained_from}"):
        Table(ports).snapshot(version=2)
    with pytest.raises(VersionExpired):
        Table(ports).snapshot(as_of=first + 1)
    with pytest.raises(NotATable, match="did not exist"):
        Table(ports).snapshot(as_of=first - 1)
    with pytest.raises(NotATable, match="has no event 999"):
        Table(ports).snapshot(version=999)


def test_tags_keep_versions(ports: TableContext) -> None:
    """A tagged version reads the same after everything else, its log too, is gone."""
    assert Table(ports).tag("start", version=2) == 2
    before = shown(ports, version=2)
    compact_all(ports)
    run = clean(ports, retention=NOW)
    assert set(run.kept.values()) == {Keep.TAGGED}
    assert run.log_from > 2
    assert shown(ports, tag="start") == shown(ports, version=2) == before
    Table(ports).untag("start")
    clean(ports, retention=NOW)
    with pytest.raises(VersionExpired):
        Table(ports).snapshot(version=2)
    assert files(ports) == needed(ports)
    assert not list(ports.storage.list("_segtable/tags"))


def test_tags_are_refused_with_a_reason(ports: TableContext) -> None:
    """Names must be fit for a file, be free, and name a version that is kept."""
    table = Table(ports)
    with pytest.raises(InvalidName, match="'a/b' is not a tag"):
        table.tag("a/b")
    table.tag("a")
    with pytest.raises(InvalidInput, match="is version 4 already"):
        table.tag("a")
    with pytest.raises(InvalidInput, match="no tag 'b': the table has"):
        table.untag("b")
    with pytest.raises(InvalidInput, match="the table has a"):
        table.snapshot(tag="b")
    compact_all(ports)
    clean(ports, retention=NOW)
    with pytest.raises(VersionExpired, match=r"tagged are a \(4\)"):
        table.tag("old", version=1)


class During:
    """A storage that lets somebody else act right before an object is created."""

    def __init__(self, inner: MemoryStorage, when: str, act: Callable[[], object]) -> None:
        self.inner, self.when, self.act = inner, when, act

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def create(self, path: str, data: bytes, **given: Any) -> None:
        """Let the other act first, once."""
        if self.when in path:
            self.when = "never"
            self.act()
        self.inner.create(path, data, **given)


def test_a_tag_made_during_cleaning_is_heeded(ports: TableContext) -> None:
    """The cleaner's event loses against the tag's, and the cleaner looks again."""
    compact_all(ports)
    assert isinstance(ports.storage, MemoryStorage)
    racing = During(
        ports.storage, "_segtable/timeline", lambda: Table(ports).tag("late", version=2)
    )
    before = shown(ports, version=2)
    run = clean(replace(ports, storage=racing), retention=NOW)  # type: ignore[arg-type]
    assert set(run.kept.values()) == {Keep.TAGGED}
    assert shown(ports, tag="late") == before


class AtRead:
    """A storage that lets another process act right before its read number ``turn``."""

    def __init__(self, inner: MemoryStorage, turn: int, act: Callable[[], object]) -> None:
        self.inner, self.turns, self.act = inner, turn, act

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def read(self, path: str, *given: Any, **more: Any) -> bytes:
        """Let the other act first, once."""
        self.turns -= 1
        if self.turns == 0:
            self.act()
        return self.inner.read(path, *given, **more)


def test_cleanings_with_other_retentions_run_at_once() -> None:
    """Whenever another cleaning expires the log, one that keeps more looks again and ends well."""
    keeps = Retention(hours=0, versions=6, orphan_hours=0)
    made = made_ports()
    compact_all(made)
    for turn in count(1):
        ports = copied(made)
        assert isinstance(ports.storage, MemoryStorage)
        racing = AtRead(ports.storage, turn, partial(clean, ports, retention=NOW))
        clean(replace(ports, storage=racing), retention=keeps)  # type: ignore[arg-type]
        assert len(shown(ports)) == 8
        if racing.turns > 0:
            break
    assert turn > 10


def test_pending_plans_keep_their_inputs(ports: TableContext) -> None:
    """A plan that waits still finds what it was to read, though a faster one replaced it."""
    compact_all(ports)
    request(ports, MajorPlan.kind)
    plan = Table(ports).state().pending_plans()[0]
    assert plan.inputs
    run = clean(ports, retention=NOW)
    assert not {s.id for s in run.segments} & set(plan.inputs)


def test_carried_over_files_stay(ports: TableContext) -> None:
    """A file that a segment of a new version shares goes only with the last that names it."""
    request(ports, MajorPlan.kind)
    plan = Table(ports).state().pending_plans()[0].plan.id

    def late(jobs: Sequence[Any]) -> Iterator[Done]:
        Table(ports).append(rows(9))
        yield from in_process(ports.files)(jobs)

    compact(ports, [plan], late)
    carried = [s for s in Table(ports).state().timeline.visible_segments() if s.origin]
    assert carried
    before = shown(ports)
    pass_hours(ports, 0.01)
    run = clean(ports, retention=NOW)
    assert not {s.path for s in carried} & set(run.files)
    assert {s.path for s in carried} & {s.path for s in run.segments}
    assert shown(ports) == before
    request(ports, MajorPlan.kind)
    compact(
        ports, [p.plan.id for p in Table(ports).state().pending_plans()], in_process(ports.files)
    )
    pass_hours(ports, 0.01)
    clean(ports, retention=NOW)
    assert files(ports) == needed(ports)


def test_orphans_go_by_age_only(ports: TableContext) -> None:
    """A file that nobody names is left alone until it is old, runs of a sort included."""
    for path in ("data/x/00000-a.parquet", "data/_runs/1-b.arrow"):
        ports.storage.create(path, b"abc")
    run = clean(ports)
    assert (run.orphans, run.young) == ((), 2)
    pass_hours(ports, 73)
    run = clean(ports)
    assert [entry.size for entry in run.orphans] == [3, 3]
    assert files(ports) == needed(ports)


def test_files_of_a_running_attempt_are_no_orphans(ports: TableContext) -> None:
    """Whatever its age, a file that an attempt in flight may have written stays."""
    plans = [launch.plan_id for launch in plan_table(ports).launches]
    seen = []

    def slow(jobs: Sequence[Any]) -> Iterator[Done]:
        results = list(in_process(ports.files)(jobs))
        pass_hours(ports, 100)
        seen.append(clean(ports))
        yield from results

    assert all(r.ended == "completed" for r in compact(ports, plans, slow))
    assert seen[0].young


def test_an_orphan_that_is_named_after_all_stays(ports: TableContext) -> None:
    """A slow writer commits its old file while it is on the cleaner's list: its rows are read."""
    compact_all(ports)
    state = Table(ports).state()
    chunk = state.append_chunk(Granularity.HOUR.chunk(0))
    slow = write_segment(
        ports.files,
        rows(9).slice(0, 1),
        segment_id=chunk.segment(9),
        time_column="at",
        created=state.time,
        token="slow",
    )
    pass_hours(ports, 1)
    change = Change(action=Appended(segments=(slow,)), commit_id="slow")
    assert isinstance(ports.storage, MemoryStorage)
    racing = During(
        ports.storage, "_segtable/timeline", lambda: commit_or_raise(ports, state, change)
    )
    run = clean(replace(ports, storage=racing), retention=NOW)  # type: ignore[arg-type]
    assert [entry.path for entry in run.orphans] == [slow.path]
    assert 9 in shown(ports)


@pytest.mark.parametrize(
    ("hours", "versions", "kept"), [(0, 3, 3), (1000, 1, None), (1000, 3, None), (0, 1, 1)]
)
def test_a_version_is_kept_by_its_age_or_by_its_number(
    ports: TableContext, hours: float, versions: int, kept: int | None
) -> None:
    """The rule that keeps more decides; either may keep a version alone."""
    compact_all(ports)
    n = Table(ports).state().n
    run = clean(ports, retention=Retention(hours=hours, versions=versions), dry_run=True)
    assert run.retained_from == (0 if kept is None else n - kept + 1)


class Broken:
    """A storage of which a part cannot be read."""

    def __init__(self, inner: MemoryStorage, part: str) -> None:
        self.inner, self.part, self.deleted = inner, part, list[str]()

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def read(self, path: str) -> bytes:
        """Fail for the part."""
        if self.part in path:
            raise StorageError(f"{path}: injected")
        return self.inner.read(path)

    def list(self, prefix: str, *, after: str | None = None) -> object:
        """Fail for the part."""
        if self.part in prefix:
            raise StorageError(f"{prefix}: injected")
        return self.inner.list(prefix, after=after)

    def delete(self, path: str) -> None:
        """Note who is deleted."""
        if not path.startswith("_segtable/clock"):
            self.deleted.append(path)
        self.inner.delete(path)


class DyingAfter:
    """A storage whose user dies right after one deletion."""

    def __init__(self, inner: MemoryStorage, last: str) -> None:
        self.inner, self.last = inner, last

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def delete(self, path: str) -> None:
        """Delete, then die if it was the last."""
        self.inner.delete(path)
        if path == self.last:
            raise StorageError(f"{path}: the process is gone")


@pytest.mark.parametrize(
    "part",
    ["data", "_segtable/tags", "_segtable/checkpoints", "_segtable/expired", "_segtable/timeline"],
)
def test_on_any_doubt_nothing_is_deleted(ports: TableContext, part: str) -> None:
    """What is protected is known for certain, or the run fails before the first deletion."""
    Table(ports).tag("start", version=2)
    compact_all(ports)
    assert isinstance(ports.storage, MemoryStorage)
    broken = Broken(ports.storage, part)
    there = files(ports)
    with pytest.raises(SegtableError):
        clean(replace(ports, storage=broken), retention=NOW)  # type: ignore[arg-type]
    assert broken.deleted == []
    assert files(ports) == there


def test_an_unreadable_tag_stops_the_cleaning(ports: TableContext) -> None:
    """A torn tag is not taken for no tag once the log behind it is gone."""
    Table(ports).tag("start", version=2)
    compact_all(ports)
    clean(ports, retention=NOW)
    ports.storage.replace(tag_path("start", 2), b"torn")
    there = files(ports)
    with pytest.raises(CorruptTable, match="keeps version 2"):
        clean(ports, retention=NOW)
    assert files(ports) == there


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_off_cleans_nothing(ports: TableContext, hours: float) -> None:
    """If this host and the storage disagree about the time, ages mean nothing."""
    compact_all(ports)
    off = FakeClock(ports.clock.now() + int(hours * 3_600_000_000))
    there = files(ports)
    with pytest.raises(ClockSkew, match="nothing was cleaned"):
        clean(replace(ports, clock=off), retention=NOW)
    assert files(ports) == there


def test_the_doomed_of_a_dead_cleaner_are_deleted(ports: TableContext) -> None:
    """Killed between its event and its deletions, a cleaner leaves no litter for ever."""
    compact_all(ports)

    class Dying(RootedFiles):
        def delete(self, path: str) -> None:
            raise StorageError(f"{path}: the process is gone")

    with pytest.raises(StorageError):
        clean(replace(ports, files=Dying(ports.storage)), retention=NOW)
    assert Table(ports).state().pending_delete
    assert len(files(ports)) > len(needed(ports))
    clean(ports, retention=NOW)
    assert not Table(ports).state().pending_delete
    assert files(ports) == needed(ports)


def test_a_table_opens_without_its_first_events(ports: TableContext) -> None:
    """Once the log has expired everything works from a checkpoint, even without its hint."""
    compact_all(ports)
    before = shown(ports)
    run = clean(ports, retention=NOW)
    assert run.log_from > 2
    assert EventLog(ports.storage).event(0) is None
    ports.storage.delete("_segtable/checkpoints/_last")
    assert shown(ports) == before
    Table(ports).append(rows(7))
    assert len(shown(ports)) > len(before)
    with pytest.raises(TableExists):
        create_table(ports, DEFINITION)
    with pytest.raises(NotFound):
        ports.storage.read(event_path(0))


def test_a_cleaner_that_dies_among_old_events_has_marked_where_the_log_begins(
    ports: TableContext,
) -> None:
    """The marker comes before the first deletion, or a gap would look like the log's end."""
    stale = EventLog(ports.storage).at(1)
    compact_all(ports)
    assert isinstance(ports.storage, MemoryStorage)
    dying = DyingAfter(ports.storage, event_path(2))
    with pytest.raises(StorageError, match="gone"):
        clean(replace(ports, storage=dying), retention=NOW)  # type: ignore[arg-type]
    assert EventLog(ports.storage).event(2) is None
    assert EventLog(ports.storage).first() > 2
    assert EventLog(ports.storage).refresh(stale) == Table(ports).state()


def test_an_unreadable_checkpoint_keeps_the_log(ports: TableContext) -> None:
    """The log expires only behind a checkpoint that was read."""
    compact_all(ports)
    for n in EventLog(ports.storage).checkpoints():
        ports.storage.replace(checkpoint_path(n), b"torn")
    run = clean(ports, retention=NOW)
    assert run.log_from == 0
    assert EventLog(ports.storage).event(0) is not None


def test_a_stale_reader_does_not_take_the_expired_part_for_the_end(ports: TableContext) -> None:
    """Whoever holds an old state finds the next number gone, and opens the table anew."""
    stale = EventLog(ports.storage).at(1)
    compact_all(ports)
    clean(ports, retention=NOW)
    assert EventLog(ports.storage).refresh(stale) == Table(ports).state()


def test_a_writer_that_slept_does_not_commit_into_the_expired_part(ports: TableContext) -> None:
    """A put that finds its number free because it expired is seen to be outside the log."""
    assert isinstance(ports.storage, MemoryStorage)

    def meanwhile() -> None:
        for turn in range(20, 24):
            Table(ports).append(rows(turn))
        compact_all(ports)
        clean(ports, retention=replace(NOW, orphan_hours=1))

    n = Table(ports).state().n + 1
    racing = During(ports.storage, event_path(n), meanwhile)
    Table(replace(ports, storage=racing)).append(rows(30))  # type: ignore[arg-type]
    assert EventLog(ports.storage).first() > n
    assert set(rows(30).column("row").to_pylist()) <= set(shown(ports))
    clean(ports, retention=NOW)
    with pytest.raises(NotFound):
        ports.storage.read(event_path(n))


def test_retention_is_read_from_the_table() -> None:
    """Keys are known by name; a typo or a wrong value is refused."""
    assert Retention.read({"retention.hours": "2", "compaction.x": "1"}).hours == 2
    for wrong in ({"retention.days": "2"}, {"retention.hours": "x"}, {"retention.versions": "0"}):
        with pytest.raises(InvalidInput, match="retention"):
            Retention.read(wrong)


def test_events_of_a_run_are_in_order(ports: TableContext) -> None:
    """The name goes first, and the files are forgotten last."""
    compact_all(ports)
    n = Table(ports).state().n
    clean(ports, retention=NOW)
    actions = [event.action for event in EventLog(ports.storage).events(n + 1)]
    assert [type(action) for action in actions] == [Cleaned, Swept]
    with pytest.raises(AlreadyExists):
        ports.storage.create(event_path(n + 1), b"")
