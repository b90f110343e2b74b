"""Columns: ids in files, files without ids, writers that began under an earlier schema, repair."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import CommitConflict, InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    WidenColumn,
)
from airflow_provider_segtable.core.tables.rollup_kind import Metric, Rollup
from airflow_provider_segtable.data.parquet.source_file import SourceFile
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.ports.job import Done
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.append import append, incoming
from airflow_provider_segtable.table.committer import Change, commit
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.table import Table, create_table
from tests.golden.make_table import PLACE
from tests.support.clock import FakeRandomness
from tests.unit.services.repairing import ports_at
from tests.unit.table.conftest import MemoryService, new_table, rows

SWAPPED = (DropColumn(name="name"), RenameColumn(name="price", new="name"))


def ids(table: Table, path: str) -> dict[str, int]:
    """Return the field ids in a file, by column."""
    with table.ports.files.open(path) as source, pq.ParquetFile(SourceFile(source)) as parquet:
        fields = parquet.metadata.schema.to_arrow_schema()
        return {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in fields}


def paths(table: Table) -> list[str]:
    """Return the visible files."""
    return [s.path for s in table.state().timeline.visible_segments() if s.path]


def run(table: Table, kind: str, **options: Any) -> None:
    """Ask for a compaction and carry it out."""
    plans = [known.plan.id for known in request(table.ports, kind, **options)]
    compact(table.ports, plans, in_process(table.ports.files))


def contents(table: Table) -> list[dict[str, Any]]:
    """Return the rows by their number."""
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["row"])


@pytest.mark.parametrize("kind", ["minor", "semi-major", "major"])
def test_all_columns_of_all_files_have_ids(table: Table, kind: str) -> None:
    """Those of rows as appended and as compacted; hidden columns far above the others."""
    shown = {"at": 1, "row": 2, "name": 3, "price": 4}
    hidden = {"__segtable_root": 2_000_000_000, "__segtable_row": 2_000_000_001}
    assert all(ids(table, path) == shown for path in paths(table))
    table.delete("row = 5")
    run(table, kind)
    assert {*map(len, (ids(table, path) for path in paths(table)))} <= {4, 6}
    assert any(ids(table, path) == shown | hidden for path in paths(table))
    assert all(ids(table, path).items() <= (shown | hidden).items() for path in paths(table))


def test_hidden_columns_of_a_rollup_have_ids(service: MemoryService) -> None:
    """Events, and the exact times of first and last values; columns cannot be changed."""
    made = new_table(service)
    kind = Rollup(
        dimensions=("name",),
        metrics=tuple(map(Metric.parse, ("n=sum(row)", "p=last(price)"))),
    )
    definition = of_kind(replace(made.state().table, table_id="r"), kind)
    ports = replace(made.ports, storage=type(made.ports.storage)(clock=made.ports.clock))
    table = create_table(ports, definition)
    table.append(rows(range(4)))
    assert ids(table, paths(table)[0]) == {
        "at": 1,
        "name": 2,
        "n": 3,
        "p": 4,
        "__segtable_events": 2_000_000_002,
        "__segtable_at_p": 2_000_000_003,
    }
    with pytest.raises(InvalidInput, match=r"^t is a rollup table, and column 'x' cannot"):
        table.alter(columns=[AddColumn(name="x", type="int64")])


def test_files_without_ids_are_read_by_the_names_of_the_creation(tmp_path: Path) -> None:
    """A table of an older segtable is altered, appended to and compacted."""
    shutil.copytree(PLACE, tmp_path / "t")
    table = Table(replace(ports_at(tmp_path / "t"), randomness=FakeRandomness(99)))
    before = table.scan().to_arrow()
    table.alter(
        columns=[
            RenameColumn(name="carrier", new="airline"),
            AddColumn(name="carrier", type="int32", default="7"),
        ]
    )
    new = pa.table(
        {"at": before.column("at").slice(0, 2), "airline": ["XX", "YY"], "carrier": [1, None]}
    )
    table.append(new.cast(table.snapshot().schema))
    wanted = [
        *({"airline": name, "carrier": 7} for name in before.column("carrier").to_pylist()),
        *({"airline": "XX", "carrier": 1}, {"airline": "YY", "carrier": None}),
    ]
    for kind in (None, "minor", "semi-major"):
        if kind:
            run(table, kind)
        found = table.scan(columns=["airline", "carrier"]).to_arrow().to_pylist()
        assert sorted(found, key=str) == sorted(wanted, key=str)
    found = {finding.code for finding in verify(table.ports, deep=True).findings}
    assert found <= {"old-checkpoint"}


def test_an_append_that_was_begun_before_an_alteration_is_read_rightly(table: Table) -> None:
    """Its file has the earlier schema, and says so; the commit is admitted."""
    state = table.state()
    late = incoming(table.ports, rows(range(100, 104)), state)
    table.alter(columns=[*SWAPPED, AddColumn(name="stops", type="int64", default="3")])
    append(table.ports, late, commit_id="late", state=state)
    assert {s.schema for s in table.state().timeline.visible_segments()} == {0}
    found = {row["row"]: row for row in contents(table)}
    assert [found[n]["name"] for n in (3, 103)] == [1.5, 51.5]
    assert {row["stops"] for row in found.values()} == {3}


@pytest.mark.parametrize("kind", ["minor", "semi-major", "major"])
def test_a_compaction_lands_after_an_alteration(table: Table, kind: str) -> None:
    """It was begun under the earlier schema, and loses nothing of the rows."""
    table.delete("row in (1, 2)")
    altered = False

    def execute(jobs: Sequence[Any]) -> Iterator[Done]:
        nonlocal altered
        if not altered:
            altered = True
            table.alter(columns=[*SWAPPED, WidenColumn(name="name", type="double")])
            table.append(rows(range(50, 52)).drop(["name"]).rename_columns(["at", "row", "name"]))
        yield from in_process(table.ports.files)(jobs)

    plans = [known.plan.id for known in request(table.ports, kind)]
    compact(table.ports, plans, execute)
    wanted = {n: n / 2 for n in (*range(40), 50, 51) if n not in (1, 2)}
    assert {row["row"]: row["name"] for row in contents(table)} == wanted
    assert not verify(table.ports, deep=True).findings
    run(table, "major")
    assert {row["row"]: row["name"] for row in contents(table)} == wanted


def test_minor_compaction_passes_files_of_one_layout(table: Table) -> None:
    """Files of an earlier schema are joined undecoded among themselves, and keep its number."""
    table.alter(columns=[AddColumn(name="stops", type="int64")])
    run(table, "minor")
    assert {s.schema for s in table.state().timeline.visible_segments()} == {0}
    more = rows(range(60, 64)).append_column("stops", pa.array([1] * 4))
    table.append(more)
    run(table, "minor")
    assert {s.schema for s in table.state().timeline.visible_segments()} == {1}


def test_changes_go_on_across_an_alteration(table: Table) -> None:
    """Deletes, updates and merges see the present names in files of all schemas."""
    table.alter(columns=[*SWAPPED, AddColumn(name="stops", type="int64", default="3")])
    table.delete("name >= 15 and stops = 3")
    table.update({"stops": 4}, "name < 1")
    source = pa.table({"row": [2, 90], "at": rows(range(2)).column("at"), "stops": [5, 6]})
    table.merge(source, on=["row"])
    found = {row["row"]: row["stops"] for row in contents(table)}
    assert found == {**dict.fromkeys(range(30), 3), 0: 4, 1: 4, 2: 5, 90: 6}


def test_writers_that_do_not_know_an_added_column_go_on(table: Table) -> None:
    """Their rows have its default, as older rows do; columns of the creation are still needed."""
    table.alter(columns=[AddColumn(name="stops", type="int64", default="3")])
    table.append(rows(range(60, 62)))
    assert {row["stops"] for row in contents(table)} == {3}
    with pytest.raises(SchemaMismatch, match="'name' is missing"):
        table.append(rows(range(62, 64)).drop(["name"]))


def test_versions_and_checkpoints_keep_their_schema(table: Table) -> None:
    """Also after another column has taken the name."""
    table.alter(columns=[AddColumn(name="stops", type="int64")])
    n = table.alter(columns=SWAPPED)
    old = table.snapshot(version=n - 1)
    assert old.schema.names == ["at", "row", "name", "price", "stops"]
    assert old.to_arrow().num_rows == 40
    assert table.snapshot().schema.names == ["at", "row", "name", "stops"]
    state = table.state()
    assert read_checkpoint(write_checkpoint(state)) == state
    assert [schema.number for schema in (*state.table.earlier, state.table.schema)] == [0, 1, 2]


def test_a_plan_keeps_the_columns_that_it_sorts_by(table: Table) -> None:
    """Neither may an alteration take them, nor may a plan of before come after."""
    (known, *_) = request(table.ports, "semi-major", clustering="price")
    with pytest.raises(CommitConflict, match="sorts by price, which the table would lose"):
        table.alter(columns=SWAPPED)
    compact(table.ports, [*table.state().plans], in_process(table.ports.files))
    state = table.state()
    table.alter(columns=SWAPPED)
    again = Change(action=PlanRequested(plan=replace(known.plan, id="again")), commit_id="again")
    outcome = commit(table.ports, state, again)
    assert isinstance(outcome, Conflict)
    assert "which the table has no more" in outcome.reason


def test_a_lost_log_comes_back_with_its_schemas(tmp_path: Path) -> None:
    """Footers carry all schemas, so a repair knows what each file's columns are."""
    table = Table(ports_at(tmp_path / "t"))
    create_table(table.ports, new_table(MemoryService()).state().table)
    table.append(rows(range(4)))
    table.alter(columns=[*SWAPPED, AddColumn(name="stops", type="int64", default="3")])
    more = rows(range(4, 6)).drop(["name"]).rename_columns(["at", "row", "name"])
    table.append(more.append_column("stops", pa.array([1, 2])))
    before = contents(table)
    shutil.rmtree(tmp_path / "t" / "_segtable")
    repair(table.ports, plan_repair(table.ports))
    again = Table(ports_at(tmp_path / "t"))
    assert contents(again) == before
    again.alter(columns=[DropColumn(name="stops")])
    assert next(row.keys() for row in contents(again)) == {"at", "row", "name"}


def test_a_torn_log_learns_of_a_lost_alteration(tmp_path: Path) -> None:
    """The event that altered the table is gone; a file that was written after it knows."""
    table = Table(ports_at(tmp_path / "t"))
    create_table(table.ports, new_table(MemoryService()).state().table)
    table.append(rows(range(4)))
    n = table.alter(columns=SWAPPED)
    table.append(rows(range(4, 6)).drop(["name"]).rename_columns(["at", "row", "name"]))
    before = contents(table)
    (tmp_path / "t" / "_segtable" / "timeline" / f"{n:020d}.json").unlink()
    found = Table(ports_at(tmp_path / "t"))
    repair(found.ports, plan_repair(found.ports))
    assert contents(Table(ports_at(tmp_path / "t"))) == before


def test_what_landed_is_not_checked_again(table: Table) -> None:
    """A retry under the same commit id has landed, although its rows fit the columns no more."""
    appended = table.append(rows(range(3)), commit_id="append").n
    loaded = table.overwrite(rows(range(4, 6)), interval="chunks", commit_id="load").n
    table.alter(columns=[DropColumn(name="name")])
    assert table.append(rows(range(3)), commit_id="append").n == appended
    assert table.overwrite(rows(range(4, 6)), interval="chunks", commit_id="load").n == loaded
