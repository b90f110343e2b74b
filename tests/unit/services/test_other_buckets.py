"""Major compaction of primary-key tables: other time chunks, other buckets, beside writers."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.segment import Place
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import ColumnGroup, MergeEngine
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, Granularity, Interval
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.keyed_rows import Part, buckets_of, rows_in_parts
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.table_plan import plan_all
from airflow_provider_segtable.ports.job import Done, Job
from airflow_provider_segtable.services import compaction
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import Ended, PlanResult, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.upsert import records_of, upsert
from tests.property.test_keyed_tables import FIRST_US, GONE, SCHEMA, batch, keyed_table

KEYS = 40


def put(table: Table, text: str, keys: Sequence[int] = range(KEYS)) -> None:
    """Upsert keys with a text."""
    rows = [{"key": key, "seq": None, "text": text, GONE: False} for key in keys]
    table.upsert(batch(rows), deleted=GONE)


def texts(table: Table) -> dict[int, str]:
    """Return what readers see; no key twice."""
    rows = table.scan(columns=["key", "text"]).to_arrow().to_pylist()
    found = {row["key"]: row["text"] for row in rows}
    assert len(found) == len(rows)
    return found


def divided(
    table: Table, beside: Callable[[], None], *, buckets: int | None = None, times: int = 1
) -> PlanResult:
    """Run a major compaction; after its first jobs, other work is done beside it."""
    ports = table.ports
    (known,) = request(ports, "major", buckets=buckets, granularity=Granularity.MONTH)
    left = times

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        nonlocal left
        for done in in_process()(jobs):
            if left:
                left -= 1
                beside()
            yield done

    (result,) = compact(ports, [known.plan.id], execute)
    return result


def check_buckets(table: Table) -> None:
    """Each row is in the bucket that the layout gives to its key."""
    state = table.state()
    assert list(violations(state)) == []
    for found in state.timeline.lookup():
        count = state.layout.buckets_at(found.chunk.interval.start)
        for run in GroupReader(table.ports.files, state.table).runs(found.segments, ["key"]):
            for rows in run:
                assert np.all(buckets_of(rows, ["key"], count) == found.chunk.bucket)


@pytest.mark.parametrize(("before", "after"), [(2, 6), (6, 2), (4, 3), (1, 1)])
def test_a_new_version_has_other_buckets(tmp_path: Path, before: int, after: int) -> None:
    """All rows are there, in their buckets, and nothing of the old ones shows through."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=before))
    put(table, "old")
    put(table, "new", range(0, KEYS, 2))
    wanted = texts(table)
    table.compact("major", buckets=after)
    state = table.state()
    shown = [found.chunk for found in state.timeline.lookup() if found.segments[0].rows]
    assert {chunk.bucket for chunk in shown} <= set(range(after))
    assert all(chunk.version > state.base_version for chunk in shown)
    assert texts(table) == wanted
    check_buckets(table)


def test_a_writer_that_split_by_the_old_number_splits_again(tmp_path: Path) -> None:
    """Its records land once, in the new buckets; none is hidden."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=2))
    put(table, "old")
    before = table.state()
    table.compact("major", buckets=6)
    after = table.state().n
    rows = [{"key": key, "seq": None, "text": "late", GONE: False} for key in range(KEYS)]
    records = records_of(batch(rows), before, GONE)
    written = upsert(table.ports, records, commit_id="late", state=before)
    assert written.rows == KEYS
    assert table.state().n == after + 1
    assert texts(table) == dict.fromkeys(range(KEYS), "late")
    check_buckets(table)


def test_log_files_of_the_old_number_are_divided(tmp_path: Path) -> None:
    """Those that complete beside the compaction; the event names them, and no row is lost."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=2))
    put(table, "old")
    done = divided(table, lambda: put(table, "late", range(9)), buckets=6, times=2)
    assert done.ended is Ended.COMPLETED
    action = table.ports.log.event(table.state().n).action  # type: ignore[union-attr]
    assert isinstance(action, PlanCompleted)
    assert action.late
    assert texts(table) == {key: "late" if key < 9 else "old" for key in range(KEYS)}
    check_buckets(table)


def test_log_files_that_fit_are_carried_over(tmp_path: Path) -> None:
    """Days become a month with equal buckets: no file is divided."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=2))
    put(table, "old")
    divided(table, lambda: put(table, "late", range(9)))
    action = table.ports.log.event(table.state().n).action  # type: ignore[union-attr]
    assert isinstance(action, PlanCompleted)
    assert not action.late
    assert texts(table) == {key: "late" if key < 9 else "old" for key in range(KEYS)}


def test_a_compaction_that_cannot_keep_up_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are deleted, the plan stays pending, and what was written is there."""
    monkeypatch.setattr(compaction, "PASSES", 0)
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=2))
    put(table, "old")
    done = divided(table, lambda: put(table, "late", range(9)), buckets=6)
    assert done.ended is Ended.OVERTAKEN
    assert "write them again" in done.message
    state = table.state()
    assert [known.plan.kind for known in state.pending_plans()] == ["major"]
    named = {segment.path for segment in state.timeline.segments()}
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("data/**/*.parquet")}
    assert files == named
    monkeypatch.undo()
    (done,) = compact(table.ports, [state.pending_plans()[0].plan.id], in_process())
    assert done.ended is Ended.COMPLETED
    assert texts(table) == {key: "late" if key < 9 else "old" for key in range(KEYS)}


def test_columns_of_several_writers_survive_a_new_division(tmp_path: Path) -> None:
    """With partial updates, each register keeps its record, its order and its root."""
    kind = PrimaryKey(
        key=("key",),
        buckets=3,
        merge=MergeEngine.PARTIAL_UPDATE,
        groups=(ColumnGroup(columns=("text",), ordering="seq"),),
    )
    table = keyed_table(str(tmp_path), kind)

    def part(keys: Sequence[int], seq: int | None, text: str | None) -> None:
        rows = [{"key": key, "seq": seq, "text": text, GONE: False} for key in keys]
        table.upsert(batch(rows), deleted=GONE)

    part(range(KEYS), 5, "five")
    part(range(0, KEYS, 2), None, None)
    table.compact("major", buckets=4)
    part(range(0, KEYS, 3), 4, "four")  # late: loses
    part(range(0, KEYS, 5), 6, "six")
    table.compact("major", granularity="month", buckets=2)
    assert texts(table) == {key: "six" if key % 5 == 0 else "five" for key in range(KEYS)}


def test_a_region_is_divided_alone(tmp_path: Path) -> None:
    """Another day keeps the table's number of buckets, and both are read and written."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=2))
    put(table, "old")
    table.compact("major", interval=Interval(FIRST_US, FIRST_US + DAY_US), buckets=5)
    put(table, "new", range(0, KEYS, 2))
    layout = table.state().layout
    assert [layout.buckets_at(FIRST_US + day * DAY_US) for day in range(2)] == [5, 2]
    assert texts(table) == {key: "old" if key % 2 else "new" for key in range(KEYS)}
    check_buckets(table)


def test_the_planner_divides_only_where_the_policy_asks(tmp_path: Path) -> None:
    """Log files alone are no reason for a new version; another number of buckets is one, once."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=2))
    put(table, "old")
    now = table.ports.clock.now() + 10 * DAY_US
    asked = Policy(clustering="key", major_after_minutes=0.0, major_buckets=8)
    plain = Policy(clustering="key", major_after_minutes=0.0, major_unclustered=0.0)

    def kinds(policy: Policy) -> set[str]:
        return {plan.kind for plan in plan_all(table.state(), policy, now).chosen}

    assert MajorPlan.kind not in kinds(plain)
    assert MajorPlan.kind in kinds(asked)
    table.compact("major", buckets=8)
    assert MajorPlan.kind not in kinds(asked)


@pytest.mark.parametrize(("kind", "buckets"), [("minor", 4), ("semi-major", 4), ("major", 0)])
def test_impossible_numbers_are_refused(tmp_path: Path, kind: str, buckets: int) -> None:
    """With the value and the way out, before anything is written."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",)))
    put(table, "old")
    before = table.state().n
    with pytest.raises(InvalidInput, match=f"{buckets} buckets"):
        table.compact(kind, buckets=buckets)
    assert table.state().n == before


def test_rows_without_a_key_are_in_no_bucket(tmp_path: Path) -> None:
    """The request for an append table is refused."""
    table = Table.create(str(tmp_path), schema=SCHEMA, time_column="at")
    with pytest.raises(InvalidInput, match="no primary key"):
        request(table.ports, "major", buckets=4)


def test_rows_are_counted_by_part_as_parts_choose_them() -> None:
    """One look at each row gives what each part says of all rows."""
    times = np.arange(200) * HOUR_US * 7 // 5
    rows = pa.table(
        {"key": np.arange(200) * 31 % 97, "at": pa.array(times, pa.timestamp("us", "UTC"))}
    )
    parts = [
        Part(place=Place(chunk, bucket), buckets=buckets, standard=3, key=("key",))
        for number, chunk in enumerate(Granularity.DAY.chunks(Interval(0, 12 * DAY_US)))
        for buckets in [3 if number % 2 else 4]
        for bucket in range(buckets)
        if number != 5
    ]
    expected = [int(part.of(rows, "at").sum()) for part in parts]
    assert rows_in_parts(parts, rows, "at").tolist() == expected
    assert 0 < sum(expected) < rows.num_rows
    assert rows_in_parts(parts, rows.slice(0, 0), "at").sum() == 0
