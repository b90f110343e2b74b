"""Ids of fields within columns: in files as appended and compacted, beside files without."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.tables.evolution import RenameColumn
from airflow_provider_segtable.core.tables.field_ids import NESTED_IDS, nested_ids
from airflow_provider_segtable.data.arrow_schema import from_arrow, inner_fields
from airflow_provider_segtable.data.jobs import segment_writer
from airflow_provider_segtable.data.parquet import table_file
from airflow_provider_segtable.data.parquet.source_file import SourceFile
from airflow_provider_segtable.data.parquet.table_file import (
    all_identified,
    identified,
)
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.table import Table, create_table
from tests.unit.table.conftest import MemoryService, new_table

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("deep", pa.struct([("x", pa.int64()), ("m", pa.map_(pa.string(), pa.float64()))])),
    ]
)
BASES = {2: NESTED_IDS + 2000, 3: NESTED_IDS + 3000}


@pytest.fixture
def table(service: MemoryService) -> Table:
    """A table with a list, and with a map in a struct."""
    made = new_table(service)
    definition = replace(made.state().table, table_id="n", schema=from_arrow(SCHEMA))
    ports = replace(made.ports, storage=type(made.ports.storage)(clock=made.ports.clock))
    return create_table(ports, definition)


def rows(first: int) -> pa.Table:
    """Return two rows."""
    values = [
        {"at": 1_000_000 * n, "tags": [f"t{n}"], "deep": {"x": n, "m": [("k", n / 2)]}}
        for n in range(first, first + 2)
    ]
    return pa.Table.from_pylist(values, schema=SCHEMA)


def walked(field: "pa.Field[Any]") -> Iterator[int | None]:
    """Yield the ids of a field and of all within it, as Parquet's schema has them."""
    yield int((field.metadata or {}).get(b"PARQUET:field_id", -1))
    for each in inner_fields(field.type):
        yield from walked(each)


def ids(table: Table) -> dict[str, list[tuple[int | None, ...]]]:
    """Return the ids in each visible file, by column."""
    found: dict[str, list[tuple[int | None, ...]]] = {}
    for segment in table.state().timeline.visible_segments():
        with table.ports.files.open(segment.path) as source:
            schema = pq.read_metadata(SourceFile(source)).schema.to_arrow_schema()
        for name in SCHEMA.names:
            found.setdefault(name, []).append(tuple(walked(schema.field(name))))
    return found


def run(table: Table, kind: str, **options: Any) -> None:
    """Ask for a compaction and carry it out."""
    plans = [known.plan.id for known in request(table.ports, kind, **options)]
    compact(table.ports, plans, in_process(table.ports.files))


@pytest.mark.parametrize("kind", ["", "minor", "semi-major", "major"])
def test_fields_within_columns_have_ids_of_their_column(table: Table, kind: str) -> None:
    """A list's element, a struct's fields, a map's key and value: in each kind of file."""
    table.append(rows(0))
    table.append(rows(2))
    if kind:
        table.delete("at = TIMESTAMP '1970-01-01 00:00:01'")
        run(table, kind)
    two, three = BASES[2], BASES[3]
    for name, wanted in {
        "at": (1,),
        "tags": (2, two),
        "deep": (3, three, three + 1, three + 2, three + 3),
    }.items():
        assert {*ids(table)[name]} == {wanted}


@pytest.mark.parametrize("order", [(True, False), (False, True)])
@pytest.mark.parametrize("kind", ["minor", "major"])
def test_files_with_and_without_these_ids_are_compacted(
    table: Table, kind: str, order: tuple[bool, ...]
) -> None:
    """Files of older writers lack them; the result has all rows, and the ids."""
    for at, old in enumerate(order):
        with ids_of_columns_alone() if old else nullcontext():
            table.append(rows(2 * at))
    assert {*ids(table)["tags"]} == {(2, -1), (2, BASES[2])}
    before = table.scan().to_arrow().sort_by("at")
    run(table, kind)
    assert table.scan().to_arrow().sort_by("at") == before
    assert ids(table)["tags"] == [(2, BASES[2])]
    table.alter(columns=[RenameColumn(name="tags", new="words")])
    table.append(rows(4).rename_columns(["at", "words", "deep"]))
    assert [len(r["words"]) for r in table.scan().to_arrow().to_pylist()] == [1] * 6


@contextmanager
def ids_of_columns_alone() -> Iterator[None]:
    """Write files as older writers did: fields within columns have no ids."""

    def only_its_own(field: "pa.Field[Any]", column_id: int) -> "pa.Field[Any]":
        return field.with_metadata({b"PARQUET:field_id": str(column_id).encode()})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_file, "identified", only_its_own)
        _forget_schemas()
        yield
    _forget_schemas()


def _forget_schemas() -> None:
    """Have schemas with ids made anew."""
    for made in (
        table_file.stored_columns,
        table_file.files_columns,
        table_file.incoming_columns,
        segment_writer.written_schema,
    ):
        made.cache_clear()


def test_more_fields_than_there_are_ids_get_none() -> None:
    """A column with over a thousand fields keeps its own id only; no id belongs to two columns."""
    wide = pa.field("c", pa.struct([(f"f{n}", pa.int8()) for n in range(1001)]))
    assert not all_identified(identified(wide, 1))
    assert nested_ids(1)[-1] < nested_ids(2)[0]
    assert not nested_ids(2_000_000_000)
