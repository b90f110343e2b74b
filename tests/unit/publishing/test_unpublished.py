"""Versions whose files do not have their rows are refused, with the reason and the way out."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.publishing import (
    changed_files,
    difference,
    shown_files,
    unpublished,
)
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import MergeEngine
from airflow_provider_segtable.core.tables.rollup_kind import (
    Metric,
    MetricKind,
    QueryGranularity,
    Rollup,
)
from airflow_provider_segtable.table.table import Table
from tests.unit.publishing.published_rows import compacted, published_rows
from tests.unit.table.conftest import new_table
from tests.unit.table.test_erasing import hours, rolling


@pytest.fixture
def rolled() -> Table:
    """Return a table of sums by carrier and hour, rolled up perfectly."""
    made = rolling(MemoryService(), QueryGranularity.HOUR)
    made.append(hours())
    made.append(hours())
    compacted(made, "major")
    return made


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows sorted by time and dimension."""
    return sorted(rows.to_pylist(), key=lambda row: (row["at"], row["carrier"] or ""))


def test_a_rollup_table_is_shown_once_it_is_rolled_up_perfectly(rolled: Table) -> None:
    """New rows are refused by the chunk that has them, until a major compaction."""
    assert unpublished(rolled.state()) == ""
    rolled.append(hours())
    why = unpublished(rolled.state())
    assert why == (
        "rows are not rolled up perfectly: 1 of 2 segments of "
        "2013-01-01T00:00:00Z/2014-01-01T00:00:00Z are not merged; run a major compaction"
    )
    compacted(rolled, "major")
    assert unpublished(rolled.state()) == ""
    rows = published_rows(rolled.ports.files, rolled.state())
    assert in_order(rows) == in_order(rolled.snapshot().rolled_up())


def test_deletes_by_a_predicate_hide_rows_of_a_rollup_table(rolled: Table) -> None:
    """Rows that match are hidden, before and after a compaction, also in files from before."""
    before = rolled.state()
    rolled.delete("carrier = 'A' AND at < '2013-01-02'")
    rolled.delete("carrier IS NULL")
    state = rolled.state()
    assert unpublished(state) == ""
    rows = published_rows(rolled.ports.files, state)
    assert 0 < rows.num_rows < 48
    assert in_order(rows) == in_order(rolled.snapshot().rolled_up())
    changes = changed_files(before, state)
    assert changes == difference(shown_files(before), shown_files(state))
    assert len(changes.shown) == 1


def test_a_predicate_that_no_row_of_a_file_can_match_does_not_touch_it(rolled: Table) -> None:
    """Deletes of other times leave the keys of files as they are."""
    late = hours()
    later = late.column("at").cast(pa.int64()).to_pylist()
    moved = pa.array([at + 400 * 86_400_000_000 for at in later], late.schema.field("at").type)
    rolled.append(late.set_column(0, "at", moved))
    before = rolled.state()
    rolled.delete("at >= '2014-01-01'")
    changes = changed_files(before, rolled.state())
    assert changes == difference(shown_files(before), shown_files(rolled.state()))
    assert len(shown_files(before)) == 2
    assert len(changes.shown) == 1


def test_sketches_are_refused() -> None:
    """No other engine reads them."""
    kind = Rollup(metrics=(Metric(name="planes", kind=MetricKind.HLL, source="tail"),))
    assert kind.unpublished(Schema(()), ()) == (
        "other engines cannot read planes=hll(tail), a sketch: leave it unpublished"
    )


def test_defaults_that_stand_for_nulls_in_files_are_refused() -> None:
    """Only a partial update shows a default where files have null; whole records have theirs."""
    schema = Schema((Column(name="id", type="int64"), Column(name="x", type="int64", default="3")))
    partial = PrimaryKey(key=("id",), merge=MergeEngine.PARTIAL_UPDATE)
    assert "column 'x' has the default '3'" in partial.unpublished(schema, ())
    assert partial.unpublished(Schema(schema.columns[:1]), ()) == ""
    assert replace(partial, merge=MergeEngine.LATEST).unpublished(schema, ()) == ""


def test_an_append_table_is_always_shown() -> None:
    """Nothing has to be merged there."""
    assert unpublished(new_table(MemoryService()).state()) == ""
