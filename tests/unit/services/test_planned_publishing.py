"""A column that stops publishing until files are written anew is the planner's business."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    WidenColumn,
)
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.publishing.publisher import (
    AlreadyPublished,
    PublishedNow,
    Refused,
)
from airflow_provider_segtable.table.table import Table, create_table
from tests.unit.formats.test_damaged_targets import DEFINITION, publish, seen, shown
from tests.unit.publishing.published_rows import compacted
from tests.unit.services.repairing import ports_at
from tests.unit.table.conftest import rows

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        ("row", pa.int64()),
        ("n", pa.int32()),
    ]
)
CHANGES: dict[str, Sequence[Any]] = {
    "default": [AddColumn(name="more", type="int64", default="7")],
    "renamed": [RenameColumn(name="n", new="m")],
    "widened": [WidenColumn(name="n", type="int64")],
    "anew": [DropColumn(name="n"), AddColumn(name="n", type="string")],
}


def some(numbers: range) -> pa.Table:
    """Return rows of the schema."""
    found = rows(numbers).select(["at", "row"])
    return found.append_column("n", pa.array([*numbers], pa.int32()))


def new_table(folder: Path, *, keyed: bool) -> Table:
    """Return a table that is published in both formats, of two hours with three files each."""
    on = {"publish.delta": "on", "publish.iceberg": "on"}
    definition = replace(DEFINITION, schema=from_arrow(SCHEMA), properties=on)
    kind = PrimaryKey(key=("row",), buckets=1)
    definition = of_kind(definition, kind) if keyed else definition
    table = create_table(ports_at(folder), definition)
    for turn in range(3):
        table.append(some(range(turn * 10, turn * 10 + 10)))
    return table


def planned(table: Table) -> list[str]:
    """Run the planner and its plans; return the reasons."""
    run = plan_table(table.ports)
    compact(table.ports, [each.plan_id for each in run.launches], in_process(table.ports.files))
    return [each.reason for each in run.launches]


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("how", CHANGES)
def test_the_planner_makes_a_table_publishable_again(
    tmp_path: Path, how: str, *, keyed: bool
) -> None:
    """Its compactions say why they run, and are not planned when nothing is in the way."""
    table = new_table(tmp_path, keyed=keyed)
    if keyed:
        compacted(table, "semi-major")
    assert planned(table) == []
    for change in CHANGES[how]:
        table.alter(columns=[change])
    assert isinstance(publish(table, "delta"), Refused)
    reasons = planned(table)
    assert reasons
    assert all("cannot be published as Delta Lake, because column" in each for each in reasons)
    for name in ("delta", "iceberg"):
        assert isinstance(publish(table, name), AlreadyPublished | PublishedNow)
        assert seen(table, name) == shown(table)
    assert planned(table) == []


def test_a_table_that_is_not_published_is_not_compacted_for_that(tmp_path: Path) -> None:
    """Nor is one that another column keeps from being published in any case."""
    table = new_table(tmp_path, keyed=False)
    table.alter(columns=CHANGES["renamed"], set={"publish.delta": "off", "publish.iceberg": "off"})
    assert planned(table) == []
