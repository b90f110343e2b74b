"""``Scan.explain``: what each step leaves; ``tests/property/test_read_plans.py`` has histories."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.reads.selection import PrunedBy, ReadPlan
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.ports.job import Done, Job
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.table import Table
from tests.property.test_keyed_tables import GONE, batch, keyed_table
from tests.unit.table.conftest import rows
from tests.watched_files import watched

LATE = "1970-01-01T01:00:00Z/1970-01-01T02:00:00Z"
FIRST_US = "1970-01-01T00:00:00Z/1970-01-01T00:00:00.000010Z"


def left(plan: ReadPlan) -> dict[PrunedBy, int]:
    """Return how many files each step left."""
    return {step.by: step.after.files for step in plan.steps}


def test_every_step_says_what_it_left(table: Table) -> None:
    """Chunks by the interval, segments by their event times, row groups by their statistics."""
    plan = table.scan(where="row = 2", interval=FIRST_US, columns=["name"]).explain()
    assert (plan.shown.files, plan.chunks, plan.hidden_segments) == (8, 2, 0)
    assert left(plan) == {
        PrunedBy.HIDDEN: 8,
        PrunedBy.TIME_CHUNKS: 4,
        PrunedBy.EVENT_TIMES: 1,
        PrunedBy.STATISTICS: 1,
        PrunedBy.DELETES: 1,
        PrunedBy.COLUMNS: 1,
    }
    assert plan.columns == ("row", "name")
    assert plan.not_looked_into == ("row groups of 7 files that were left out",)
    none = table.scan(where="row > 1000").explain()
    assert left(none)[PrunedBy.EVENT_TIMES] == 8
    assert left(none)[PrunedBy.STATISTICS] == 0
    assert len(none.files) == 8
    assert "opens 8 files, 8 for the footer alone; reads 0 row groups" in str(none)


def test_files_left_out_are_not_opened_to_explain(table: Table) -> None:
    """Explaining opens the files that reading opens, and reads no rows of them."""
    table, files = watched(table)
    scan = table.scan(interval=FIRST_US)
    plan = scan.explain()
    (path,) = files.opened
    assert [file.path for file in plan.files] == [path]
    (segment,) = (s for s in table.state().timeline.segments() if s.path == path)
    assert segment.footer is not None
    assert files.body_bytes(path, segment.footer.start) == 0


def test_the_bytes_of_a_plan_are_those_that_are_read(table: Table) -> None:
    """Where columns lie further apart than readers load at once, to the byte."""
    numbers = range(40, 12_040)
    wide = rows(numbers).set_column(2, "name", pa.array([f"{n * 7919:09}" for n in numbers]))
    table.append(wide)
    table, files = watched(table)
    scan = table.scan(columns=["row", "price"], where="row >= 40", checked=False)
    plan = scan.explain()
    files.opened.clear()
    scan.to_arrow()
    named = {s.path: s for s in table.state().timeline.segments()}
    read = 0
    for file in plan.files:
        footer = named[file.path].footer
        assert footer is not None
        read += files.body_bytes(file.path, footer.start)
    assert read == plan.read.bytes - sum(file.footer_bytes for file in plan.files)
    columns = plan.steps[-1]
    assert columns.by is PrunedBy.COLUMNS
    assert columns.before.bytes > columns.after.bytes > read > 0


def test_deletes_are_counted(table: Table) -> None:
    """Rows that the log can count are counted; the number of the others is not guessed."""
    table.delete("row IN (3, 13)")
    plan = table.scan().explain()
    assert (plan.deletes.files, plan.deletes.rows, plan.deletes.vector_files) == (2, 2, 1)
    assert "applies the deletes of 1 vector file to 2 files: 2 rows left out" in str(plan)
    assert table.scan(interval=FIRST_US).explain().deletes.files == 0


def test_a_file_is_read_up_to_its_last_event_time(table: Table) -> None:
    """The step by event times leaves a file whose last row alone lies in the interval."""
    last = table.scan(interval="1970-01-01T00:00:00.000008Z/1970-01-01T00:00:00.000009Z")
    assert left(last.explain())[PrunedBy.EVENT_TIMES] == 1
    assert last.to_arrow().column("row").to_pylist() == [8]
    after = table.scan(interval="1970-01-01T00:00:00.000009Z/1970-01-01T00:00:00.000010Z")
    assert left(after.explain())[PrunedBy.EVENT_TIMES] == 0


def test_a_file_that_was_carried_over_is_not_hidden(table: Table) -> None:
    """It was appended during a major compaction: a hidden segment and a visible one have it."""
    in_turn = in_process(table.ports.files)

    def run(jobs: Sequence[Job]) -> Iterator[Done]:
        table.append(rows(range(40, 41)))
        return in_turn(jobs)

    plans = [known.plan.id for known in request(table.ports, "major")]
    compact(table.ports, plans[:1], run)
    state = table.state()
    present = {s.path for s in state.timeline.segments() if s.path}
    shared = [s for s in state.timeline.visible_segments() if s.origin]
    assert shared
    plan = table.scan().explain()
    assert plan.steps[0].before.files == len(present)


def test_hidden_files_are_a_step(tmp_path: Path) -> None:
    """Files that compaction replaced are hidden; the plan of a merge counts runs and slices."""
    kind = PrimaryKey(key=("key",), buckets=1, ordering="seq")
    table = keyed_table(str(tmp_path), kind)
    for turn in range(4):
        given = [{"key": 3 * k, "seq": turn, "text": "v", GONE: False} for k in range(3)]
        table.upsert(batch(given), deleted=GONE)
        if turn == 1:
            table.compact("semi-major")
    plan = table.scan(where="text = 'v'").explain()
    assert (plan.steps[0].before.files, plan.steps[0].after.files) == (5, 3)
    assert plan.merging is not None
    assert (plan.merging.file_groups, plan.merging.merged, plan.merging.most_runs) == (1, 1, 3)
    assert (plan.merging.base_files, plan.merging.log_files) == (1, 2)
    assert any(note.startswith("statistics of 3 files") for note in plan.not_looked_into)
    base = table.scan(base_only=True).explain()
    assert left(base)[PrunedBy.BASE_ONLY] == len(base.files) == 1
    never = table.scan(where="at < timestamp '1960-01-01'").explain()
    assert (never.files, never.read.bytes) == ((), 0)


def test_a_condition_on_the_event_time_leaves_out_buckets(tmp_path: Path) -> None:
    """A key stays in its time chunk, so other chunks have no matching rows, merged or not."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=1, ordering="seq"))
    for turn in range(2):
        given = [{"key": k, "seq": turn, "text": f"v{turn}", GONE: False} for k in range(6)]
        table.upsert(batch(given), deleted=GONE)
    scan = table.scan(where="at >= timestamp '2013-01-03'", columns=["key", "text"])
    assert left(scan.explain())[PrunedBy.TIME_CHUNKS] == 2
    assert scan.to_arrow().to_pylist() == [{"key": 2, "text": "v1"}, {"key": 5, "text": "v1"}]


def test_a_window_is_a_step(table: Table) -> None:
    """Files without rows of the window are left out; a change feed has no plan."""
    plan = table.scan(since_version=3).explain()
    assert plan.since_version == 3
    assert left(plan)[PrunedBy.WINDOW] == 2
    with pytest.raises(InvalidInput, match="leave changes out"):
        table.scan(since_version=3, changes=True).explain()


def test_keys_are_stable(table: Table) -> None:
    """Programs rely on the keys of a plan, of a step and of a file."""
    facts = table.scan().explain().facts
    assert " ".join(facts) == (
        "table version since_version where interval chunks segments hidden_segments bytes "
        "bytes_read files_opened row_groups_read columns columns_left_out steps files deletes "
        "merging index_notes log_notes not_looked_into"
    )
    assert " ".join(facts["steps"][0]) == (
        "by index files_before files_after row_groups_before row_groups_after bytes_before "
        "bytes_after"
    )
    assert " ".join(facts["files"][0]) == (
        "path bytes bytes_read row_groups row_groups_read rows_read"
    )
    assert " ".join(facts["deletes"]) == "files rows uncounted_files vector_files predicates"
