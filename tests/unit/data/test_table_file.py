"""Files read in the columns of a table, whatever they call them."""

import io
from collections.abc import Iterator
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.data.parquet import table_file
from airflow_provider_segtable.data.parquet.table_file import file_names, opened, with_ids

NAMES = "ab"


@pytest.fixture(autouse=True)
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[pa.Schema]]:
    """Return the schemas of files that are compared with a target; none is known before."""
    found: list[pa.Schema] = []

    def noted(stored: pa.Schema, target: pa.Schema) -> object:
        found.append(stored)
        return file_names(stored, target)

    monkeypatch.setattr(table_file, "_FITS", table_file._KnownFits())
    monkeypatch.setattr(table_file, "file_names", noted)
    return found


def target(*ids: int) -> pa.Schema:
    """Return columns a and b with these ids."""
    plain = pa.schema([(name, pa.int64()) for name in NAMES])
    return with_ids(plain, dict(zip(NAMES, ids, strict=True)))


def file(ids: tuple[int, ...], entry: bytes) -> pa.BufferReader:
    """Return a file whose values are the ids of their columns."""
    rows = pa.table([[number] for number in ids], schema=target(*ids))
    data = io.BytesIO()
    pq.write_table(rows.replace_schema_metadata({b"own": entry}), data)
    return pa.BufferReader(data.getvalue())


def test_files_of_other_columns_are_told_apart_by_their_ids(compared: list[pa.Schema]) -> None:
    """Names and types are equal, so a comparison that is kept must be that of the ids."""
    wanted = [target(1, 2), target(2, 1), target(3, 1)]
    for ids, turn, columns in product([(1, 2), (2, 1), (2, 3)], range(2), wanted):
        with opened(file(ids, b"%d" % turn), columns) as parquet:
            (batch,) = parquet.iter_batches(columns=[*NAMES])
            expected = {
                name: [own if own in ids else None]
                for name in NAMES
                for own in [int(columns.field(name).metadata[table_file.FIELD_ID])]
            }
            assert batch.to_pydict() == expected
    assert len(compared) == 3 * len(wanted)
