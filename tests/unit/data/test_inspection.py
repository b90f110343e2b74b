"""Inspecting files: hidden columns that tell no true address are found, and sound ones are not."""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.segment import ROOT, ROW, Segment, roots_of
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.inspection import inspect_footer, inspect_rows
from airflow_provider_segtable.data.open_files import MemoryFiles
from tests.unit.data.making import plain, segment_id, written
from tests.unit.data.sort_making import sort, spec, table_of

GIVEN = plain(1).schema
TABLE = TableDefinition(
    table_id="11111111-2222-3333-4444-555555555555",
    name="words",
    schema=from_arrow(GIVEN),
    time_column="at",
    granularity=Granularity.MONTH,
    properties={},
)


def codes(files: MemoryFiles, segment: Segment) -> list[str]:
    """Return what is found."""
    found = [*inspect_footer(files, segment, TABLE), *inspect_rows(files, segment, TABLE)]
    return [each.code for each in found]


def sorted_one(files: MemoryFiles) -> Segment:
    """Return a segment with hidden columns, of two roots."""
    (segment,) = sort(files, written(files, [plain(30, 1), plain(20, 2)]), spec(GIVEN, "word"))
    return segment


def with_column(rows: pa.Table, name: str, values: list) -> pa.Table:
    """Return rows with other values in a column, which may be null."""
    at = rows.schema.get_field_index(name)
    field = rows.schema.field(at).with_nullable(True)  # pyarrow's way
    return rows.set_column(at, field, pa.array(values, field.type))


def put_back(files: MemoryFiles, segment: Segment, rows: pa.Table) -> Segment:
    """Write other rows under a segment's name, with the descriptor that it has."""
    old = pq.read_metadata(pa.BufferReader(files.store[segment.path])).metadata
    stream = pa.BufferOutputStream()
    entry = {b"segtable": old[b"segtable"]}
    pq.write_table(rows.replace_schema_metadata(entry), stream)
    files.store[segment.path] = stream.getvalue().to_pybytes()
    return replace(segment, size=len(files.store[segment.path]), row_groups=1, footer=None)


Spoil = Callable[[pa.Table], pa.Table]


@pytest.mark.parametrize(
    ("code", "spoil"),
    [
        ("doubled-address", lambda t: with_column(t, ROW, [0] * t.num_rows)),
        ("foreign-address", lambda t: with_column(t, ROOT, [str(segment_id(9))] * t.num_rows)),
        ("foreign-address", lambda t: with_column(t, ROOT, ["what?"] * t.num_rows)),
        ("foreign-address", lambda t: with_column(t, ROW, [-1, *range(100, 149)])),
        ("null-address", lambda t: with_column(t, ROW, [None, *range(100, 149)])),
        ("null-address", lambda t: with_column(t, ROOT, [None] * t.num_rows)),
    ],
)
def test_untrue_addresses_are_found(code: str, spoil: Spoil) -> None:
    """Doubled ones, those of strangers, and missing ones."""
    files = MemoryFiles()
    segment = sorted_one(files)
    assert codes(files, segment) == []
    spoiled = put_back(files, segment, spoil(table_of(files, segment)))
    assert codes(files, spoiled)[0] == code


def test_addresses_are_where_the_log_says() -> None:
    """Hidden columns are missing where ``roots`` is set, and stray where it is not."""
    files = MemoryFiles()
    segment = sorted_one(files)
    bare = put_back(files, segment, table_of(files, segment).drop_columns([ROW]))
    assert "missing-columns" in codes(files, bare)
    files = MemoryFiles()
    segment = replace(sorted_one(files), roots=())
    assert "stray-addresses" in codes(files, segment)
    (appended,) = written(files := MemoryFiles(), [plain(30, 1)])
    assert "missing-columns" in codes(files, replace(appended, roots=roots_of([appended])))
