"""A folder of an object store becomes a table where it is."""

import io
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import NotATable
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.storage.opening import open_storage
from tests.support.s3 import LoopbackS3

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)


def hours(first: int, count: int) -> bytes:
    """Return a file of one row an hour."""
    numbers = range(first, first + count)
    at = [BEGIN + timedelta(hours=number) for number in numbers]
    stream = io.BytesIO()
    pq.write_table(pa.table({"at": at, "row": list(numbers)}), stream)
    return stream.getvalue()


def test_a_folder_of_a_store_is_adopted(s3: LoopbackS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adopted, read, compacted, verified, cleaned, dropped; other objects stay."""
    monkeypatch.setenv("SEGTABLE_ZOOKEEPER", f"memory://{uuid4()}")
    uri, options = s3.uri(f"lake-{uuid4()}"), s3.storage_options
    store = open_storage(uri, options)
    for day in range(3):
        store.create(f"day={day}/part-0.parquet", hours(24 * day, 24))
    store.create("day=9/part-0.parquet", hours(30, 24))
    store.create("notes.txt", b"mine")
    done = Table.adopt(uri, ignore_columns=["day"], granularity="day", storage_options=options)
    assert [each.facts.path for each in done.decisions if each.reason] == ["day=9/part-0.parquet"]
    table = Table.open(uri, storage_options=options)
    assert sorted(table.scan().to_arrow().column("row").to_pylist()) == [*range(72)]
    assert table.scan(where="row = 30").to_arrow().num_rows == 1
    table.delete("row < 24 and row > 3")
    table.compact("major")
    assert table.scan().count() == 52
    assert table.verify(deep=True).sound
    gone: set[str] = set()
    for _ in range(50):  # the server's clock has whole seconds, and each day is an event
        run = table.clean(retention_hours=0, retention_versions=1, orphan_hours=0)
        gone.update(path for path in run.files if path.startswith("day="))
        if len(gone) == 3:
            break
    assert len(gone) == 3
    assert table.scan().count() == 52
    again = Table.adopt(uri, ignore_columns=["day"], copy_rest=True, storage_options=options)
    assert again.copied == ("day=9/part-0.parquet",)
    assert table.scan().count() == 76
    Table.drop(uri, storage_options=options)
    left = [each.path for each in store.list("") if each.size]  # pyarrow marks folders by keys
    assert [path for path in left if not path.startswith("_segtable/expired/")] == [
        *("day=9/part-0.parquet", "notes.txt")
    ]
    with pytest.raises(NotATable):
        Table.open(uri, storage_options=options)
