"""Sidecars in a log: what is read and written does not grow, and none goes that is needed."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.log.log_paths import (
    LAST,
    checkpoint_path,
    event_path,
    expired_path,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.health.verified_part import ROTA_US, Part
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Policy, Retention
from airflow_provider_segtable.planning.selection import BRIEFLY
from airflow_provider_segtable.planning.table_plan import plan_all
from airflow_provider_segtable.services import cleaning_turns
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compact_table import compact_table
from airflow_provider_segtable.services.planner import look_at
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table import committer
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import is_own
from airflow_provider_segtable.table.log import checkpoint_chunks, sidecars
from airflow_provider_segtable.table.log.checkpoint_chunks import CheckpointChunks
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.log.sidecar_notes import notes_path
from airflow_provider_segtable.table.log.sidecars import SIDECARS, layers_of, oldest_needed
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock
from tests.support.in_memory import context_in_memory, defined_by
from tests.unit.services.conftest import HOUR_US, SCHEMA

EVERY = 4
DEFINITION = defined_by(SCHEMA, properties={"compaction.min_segments": "2"})
NOW = Retention(hours=0, versions=1, orphan_hours=0)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sidecar has two chunks, and a checkpoint no more than two beside them."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", EVERY)
    monkeypatch.setattr(sidecars, "MOST_SEGMENTS", 8)
    monkeypatch.setattr(sidecars, "MOST_CHUNKS", 2)
    monkeypatch.setattr(checkpoint_chunks, "GROUP_ROWS", 4)


@pytest.fixture
def ports() -> TableContext:
    """Return a table of eight hours, after two checkpoints."""
    made = context_in_memory(rooted=True)
    create_table(made, DEFINITION)
    write(made, range(2 * EVERY))
    return made


@pytest.fixture
def reads(ports: TableContext, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths that are read from the table's storage from now on."""
    return noted_reads(ports, monkeypatch)


def noted_reads(ports: TableContext, patch: pytest.MonkeyPatch) -> list[str]:
    reads: list[str] = []
    real = ports.storage.read

    def read(path: str) -> bytes:
        reads.append(path)
        return real(path)

    patch.setattr(ports.storage, "read", read)
    return reads


def write(ports: TableContext, turns: range) -> None:
    """Append once to each of some hours."""
    for turn in turns:
        Table(ports).append(hourly(turn))


def hourly(turn: int) -> pa.Table:
    """Return a row in an hour of its own."""
    times = pa.array([turn * HOUR_US], SCHEMA.field("at").type)
    return pa.table({"at": times, "row": [turn]}, SCHEMA)


def there(ports: TableContext) -> set[str]:
    return {entry.path for entry in ports.storage.list(SIDECARS)}


def opened(ports: TableContext) -> EventLog:
    return EventLog(ports.storage)


def segments(state: State) -> list[Segment]:
    return [*state.timeline.segments()]


def pass_hours(ports: TableContext, hours: float) -> None:
    assert isinstance(ports.clock, FakeClock)
    ports.clock.advance(hours * 3600)


def damage(ports: TableContext, path: str, data: bytes | None) -> None:
    assert isinstance(ports.storage, MemoryStorage)
    if data is None:
        ports.storage.delete(path)
    else:
        ports.storage.replace(path, data)


def test_a_large_table_has_sidecars_and_opens_as_before(ports: TableContext) -> None:
    """Reading the newest checkpoint gives the state that the log alone gives."""
    assert there(ports)
    state = opened(ports).load()
    assert state == opened(ports).without_checkpoint(state.n)
    assert {path for path in there(ports) if not is_own(path)} == set()


def test_opening_and_an_append_to_a_new_hour_read_no_sidecar(
    ports: TableContext, reads: list[str]
) -> None:
    """One is read when somebody looks at an old hour, and only that of its range."""
    reads.clear()
    again = replace(ports)
    state = again.log.load()
    Table(again).append(hourly(2 * EVERY))
    assert [path for path in reads if path.startswith(SIDECARS)] == []
    assert state.timeline.visible_segments(Interval(0, HOUR_US))
    assert len([path for path in reads if path.startswith(SIDECARS)]) == 1


def cost_of_a_checkpoint(hours: int) -> tuple[int, int, int]:
    """Return sidecars written and read, and chunks beside them, for one commit to a new hour."""
    ports = context_in_memory(rooted=True)
    create_table(ports, DEFINITION)
    write(ports, range(hours))
    ports.log.checkpoint(ports.log.load())
    before = there(ports)
    again = replace(ports)
    log = again.log
    Table(again).append(hourly(hours))
    with pytest.MonkeyPatch.context() as patch:
        reads = noted_reads(ports, patch)
        written = log.checkpoint(log.load())
    layers = layers_of(written)
    assert layers is not None
    read = [path for path in reads if path.startswith(SIDECARS)]
    return len(there(ports) - before), len(read), len(layers.own.keys)


def test_a_checkpoint_costs_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After one commit it writes and reads as many sidecars in a table of four times the size."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 1000)
    small, large = cost_of_a_checkpoint(6), cost_of_a_checkpoint(24)
    assert small == large
    assert small[0] <= 1


def looks_of_a_plan(hours: int) -> int:
    """Return how many summaries a planner reads after one commit, if it has planned before."""
    ports = context_in_memory(rooted=True)
    create_table(ports, DEFINITION)
    write(ports, range(hours))
    ports.log.checkpoint(ports.log.load())
    again = replace(ports)
    policy, now = Policy(), 1000 * HOUR_US
    plan_all(again.log.load(), policy, now, explain=BRIEFLY)
    Table(again).append(hourly(hours))
    state, seen, real = again.log.load(), list[int](), CheckpointChunks.summary

    def noted(chunks: CheckpointChunks, at: int) -> ChunkSummary:
        seen.append(at)
        return real(chunks, at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointChunks, "summary", noted)
        plan_all(state, policy, now, explain=BRIEFLY)
    return len(seen)


def test_a_brief_plan_after_a_commit_looks_at_the_block_that_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many summaries are read in a table of four times the size."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 1000)
    assert looks_of_a_plan(6) == looks_of_a_plan(24)


def planned(ports: TableContext, policy: Policy) -> list[str]:
    """Return the inputs of the plans that a planner of a new process chooses."""
    again = replace(ports)
    look = look_at(again, again.log.load(), policy, {}, explain=BRIEFLY)
    return [str(each) for plan in look.planned.chosen for each in plan.inputs]


def sidecars_read(reads: list[str]) -> int:
    """Return how many different sidecars were read since the last call."""
    found = {path for path in reads if path.startswith(SIDECARS)}
    reads.clear()
    return len(found)


def test_a_planner_of_another_process_goes_by_notes(ports: TableContext, reads: list[str]) -> None:
    """It reads sidecars that changed alone, and all of them for another policy or without notes."""
    policy = Policy(min_segments=2, max_age_minutes=1e9)
    assert planned(ports, policy) == []
    every = sidecars_read(reads)
    assert every == len(there(ports)) > 1
    assert planned(ports, policy) == []
    assert sidecars_read(reads) == 0
    Table(ports).append(hourly(1))
    reads.clear()
    chosen = planned(ports, policy)
    assert (len(chosen), sidecars_read(reads)) == (2, 1)
    eager = Policy(min_segments=3, max_age_minutes=1e9)
    assert planned(ports, eager) == []
    assert sidecars_read(reads) == every
    damage(ports, notes_path("plan"), b"of another kind")
    assert planned(ports, policy) == chosen
    assert sidecars_read(reads) == every


def test_a_cleaner_looks_at_sidecars_that_changed_alone(
    ports: TableContext, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside those of the files listed in turn; what became hidden is found."""
    monkeypatch.setattr(cleaning_turns, "MOST_LISTED", 1)
    clean(replace(ports), retention=NOW, whole=False)
    pass_hours(ports, 1)
    clean(replace(ports), retention=NOW, whole=False)
    every = sidecars_read(reads)
    assert clean(replace(ports), retention=NOW, whole=False).files == ()
    assert sidecars_read(reads) <= 1 < every
    Table(ports).append(hourly(1))
    compact_table(ports, kind="minor", interval=Interval(HOUR_US, 2 * HOUR_US))
    pass_hours(ports, 100)
    reads.clear()
    run = clean(replace(ports), retention=NOW, whole=False)
    assert len(run.files) == 2
    assert sidecars_read(reads) < len(there(ports))


def test_orphans_are_looked_for_in_turns(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run of a large table looks at the next files, if it need not look at all of them."""
    monkeypatch.setattr(cleaning_turns, "MOST_LISTED", 5)
    folders = sorted({each.path.split("/")[1] for each in ports.storage.list("data")})
    wanted = {f"data/{each}/99999-{'0' * 16}.parquet" for each in folders}
    for path in wanted:
        ports.storage.replace(path, b"of a writer that died")
    pass_hours(ports, 100)
    named = {each.path for each in ports.storage.list("data")} - wanted
    runs = [clean(replace(ports), retention=NOW, whole=False) for _ in range(5)]
    found = [{each.path for each in run.orphans} for run in runs]
    assert [run.partly for run in runs] == [True] * 5
    assert all(len(each) <= 5 for each in found)
    assert set().union(*found) == wanted
    assert {each.path for each in ports.storage.list("data")} == named


def test_a_long_log_is_checkpointed_as_often_however_large_the_table() -> None:
    """So an opening reads a bounded number of events."""
    assert committer.checkpoint_every(10**6) == committer.checkpoint_every(10**9) == 256


@pytest.mark.parametrize("data", [None, b"", b"PAR1 of something else"])
def test_a_lost_sidecar_is_made_again_from_the_log(ports: TableContext, data: bytes | None) -> None:
    """Readers notice nothing, verify reports it, and the next checkpoint writes it anew."""
    expected = segments(opened(ports).load())
    lost = min(there(ports))
    damage(ports, lost, data)
    assert segments(opened(ports).load()) == expected
    assert verify(ports).findings
    assert segments(opened(ports).load()) == expected
    again = replace(ports)
    log = again.log
    assert segments(log.load()) == expected
    Table(again).append(hourly(90))
    written = layers_of(log.checkpoint(log.load()))
    assert written is not None
    assert lost not in {each.path for each in written.sidecars}


def test_a_lost_sidecar_of_an_expired_log_is_an_error(ports: TableContext) -> None:
    """The message says which checkpoint it was, and the way out."""
    pass_hours(ports, 100)
    clean(ports, retention=NOW)
    assert ports.log.first()
    damage(ports, min(there(ports)), None)
    with pytest.raises(CorruptTable, match=r"sidecar of checkpoint .* repair"):
        segments(opened(ports).load())


def test_a_log_does_not_expire_behind_a_checkpoint_whose_sidecar_is_lost(
    ports: TableContext,
) -> None:
    """It is no proof of what the events before it say."""
    damage(ports, min(there(ports)), b"rubbish")
    pass_hours(ports, 100)
    clean(ports, retention=NOW)
    assert ports.storage.read(event_path(0))


def test_cleaning_deletes_sidecars_that_no_checkpoint_lists(ports: TableContext) -> None:
    """Those that are listed stay, and the table is as it was."""
    Table(ports).append(hourly(0))
    write(ports, range(2 * EVERY, 6 * EVERY))
    expected = segments(opened(ports).load())
    foreseen = clean(ports, retention=NOW, dry_run=True)
    pass_hours(ports, 100)
    before = there(ports)
    run = clean(ports, retention=NOW)
    assert set(run.sidecars) == before - there(ports)
    assert run.sidecars
    assert foreseen.sidecars == ()
    assert segments(opened(ports).load()) == expected
    listed = layers_of(opened(ports).load())
    assert listed is not None
    assert {each.path for each in listed.sidecars} <= there(ports)


def test_young_sidecars_stay(ports: TableContext) -> None:
    """Their checkpoint may be about to be written."""
    ports.storage.replace(f"{SIDECARS}/{99:020d}-{'0' * 16}.parquet", b"of a slow author")
    before = there(ports)
    clean(ports, retention=replace(NOW, orphan_hours=1))
    assert there(ports) == before


def test_an_author_takes_back_a_checkpoint_that_rests_on_an_expired_one(
    ports: TableContext,
) -> None:
    """A cleaner may have looked before it was there, and deletes what it lists."""
    log = opened(ports)
    state = log.load()
    rests_on = oldest_needed(state)
    assert rests_on < state.n + 1
    ports.storage.delete(LAST)
    ports.storage.create(expired_path(state.n + 1), b"")
    assert log.checkpoint(replace(state, n=state.n + 1)).n == state.n + 1
    assert state.n + 1 not in log.checkpoints()
    assert LAST not in {entry.path for entry in ports.storage.list("_segtable/checkpoints")}


def test_a_state_is_opened_anew_once_its_checkpoint_has_expired(ports: TableContext) -> None:
    """So a process that goes on for days does not need sidecars that are gone."""
    log = opened(ports)
    before = oldest_needed(log.load())
    write(ports, range(2 * EVERY, 4 * EVERY))
    pass_hours(ports, 100)
    clean(ports, retention=NOW)
    assert ports.log.first() > before
    assert oldest_needed(log.load()) >= ports.log.first()
    assert segments(log.load()) == segments(opened(ports).load())


def test_a_tagged_version_outlives_its_sidecars(ports: TableContext) -> None:
    """Its checkpoint has all chunks itself."""
    expected = segments(ports.log.load())
    Table(ports).tag("kept")
    write(ports, range(2 * EVERY, 4 * EVERY))
    for path in there(ports):
        ports.storage.delete(path)
    version = ports.log.load().tags["kept"]
    assert segments(opened(ports).version(version, ports.log.load())) == expected


def test_a_table_that_became_small_has_no_sidecars(ports: TableContext) -> None:
    """Its checkpoint is of the format that older versions read."""
    state = ports.log.load()
    few = state.timeline.with_changes(remove=[s.id for s in segments(state)[2:]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sidecars, "MOST_CHUNKS", 100)
        written = ports.log.checkpoint(replace(state, n=state.n + 1, timeline=few))
    data = ports.storage.read(checkpoint_path(written.n))
    head = json.loads(pq.ParquetFile(pa.BufferReader(data)).metadata.metadata[b"segtable"])
    assert head["format"] < 14
    assert "sidecars" not in head


def verified(ports: TableContext, part: Part) -> tuple[int, set[str]]:
    """Return the number of files that a run over a part looks at, and the codes of its findings."""
    found = verify(ports, part=part)
    return found.files, {each.code for each in found.findings}


def test_a_part_of_a_table_is_what_was_written_lately(
    ports: TableContext, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events, checkpoints, sidecars and files that are older are not read, if none is due."""
    monkeypatch.setattr(Part, "takes", lambda *_: False)
    pass_hours(ports, 1)
    since = ports.clock.now()
    pass_hours(ports, 1)
    part = Part(since=since, now=since)
    beside = layers_of(opened(ports).load())
    assert beside is not None
    new = len(opened(ports).load().timeline) - sum(each.segments for each in beside.sidecars)
    reads.clear()
    assert verified(ports, part) == (new, set())
    assert sidecars_read(reads) == 0
    write(ports, range(2 * EVERY, 3 * EVERY))
    files, codes = verified(ports, part)
    assert (codes, files >= EVERY) == (set(), True)
    assert verify(ports).files == 3 * EVERY > files
    assert verify(ports, part=part).first > verify(ports).first


@pytest.mark.parametrize("lately", [True, False])
def test_runs_that_follow_each_other_find_a_lost_file(ports: TableContext, *, lately: bool) -> None:
    """At once if it was written lately, else when its sidecar is due: within the rota's time."""
    pass_hours(ports, 1)
    table = Table(ports)
    table.append(hourly(99))
    by_age = sorted(segments(opened(ports).load()), key=lambda each: each.completed)
    lost = by_age[-1 if lately else 0]
    damage(ports, lost.path, None)
    begin = ports.clock.now()
    step = ROTA_US // 7
    since = begin - HOUR_US // 2 if lately else begin + HOUR_US
    runs = [
        verified(ports, Part(since=since + turn * step, now=since + (turn + 1) * step))[1]
        for turn in range(1 if lately else 7)
    ]
    assert set().union(*runs) == {"missing-file"}


def test_a_damaged_new_sidecar_is_found_by_a_part(ports: TableContext) -> None:
    """One that a later checkpoint is the first to list is read, whatever the rota says."""
    pass_hours(ports, 1)
    since, before = ports.clock.now(), there(ports)
    pass_hours(ports, 1)
    write(ports, range(2 * EVERY, 4 * EVERY))
    new = sorted(there(ports) - before)
    damage(ports, new[-1], b"PAR1 of something else")
    assert "bad-checkpoint" in verified(ports, Part(since=since, now=since))[1]


def test_a_damaged_sidecar_is_found_once_it_is_due(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its chunks can be made again from the log."""
    pass_hours(ports, 1)
    path = max(there(ports))
    damage(ports, path, None)
    later = Part(since=ports.clock.now(), now=ports.clock.now())
    for is_due, codes in ((False, set()), (True, {"bad-checkpoint"})):
        monkeypatch.setattr(Part, "takes", lambda _, name, due=is_due: due and name == path)
        assert verified(ports, later)[1] == codes
