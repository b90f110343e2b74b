"""Rows of a primary-key table are looked up by their keys."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_segtable import Table
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.data.parquet.page_reader import LEAST_ROWS
from tests.watched_files import watched

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        ("word", pa.string()),
    ]
)
JANUARY = datetime(2026, 1, 1, tzinfo=UTC)
MAY = datetime(2026, 5, 4, tzinfo=UTC)


def keyed(place: Path, schema: pa.Schema = SCHEMA, key: Any = "id") -> Table:
    return Table.create(
        str(place),
        schema=schema,
        time_column="at",
        granularity="month",
        primary_key=key,
        buckets=2,
        zookeeper="memory://lookup",
    )


def rows(*ids: int, at: datetime = MAY) -> pa.Table:
    given = [{"id": each, "at": at, "word": f"w{each}"} for each in ids]
    return pa.Table.from_pylist(given, SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with the keys 1 to 5."""
    made = keyed(tmp_path / "t")
    made.upsert(rows(1, 2, 3, 4, 5))
    return made


@pytest.mark.parametrize(
    "keys",
    [
        [4, 9, 2, 4],
        (4, 9, 2),
        ["4", "9", "2"],
        np.array([4, 9, 2]),
        iter([4, 9, 2]),
        pa.array([4, 9, 2], pa.int32()),
        pa.chunked_array([[4, 9], [2]]),
        pa.table({"other": [0, 0, 0], "id": [4, 9, 2]}),
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_keys_come_in_many_forms(table: Table, keys: Any) -> None:
    """Values, texts and Arrow; rows come in the order of the keys, each key once."""
    assert table.get(keys)["word"].to_pylist() == ["w4", "w2"]


def test_one_key_is_a_value(table: Table) -> None:
    """A row is looked up by its key alone, in the columns that are asked for."""
    assert table.get(3, columns=["word"]).to_pylist() == [{"word": "w3"}]
    assert table.get(9, columns=["word"]).to_pylist() == []
    assert table.get([]).schema == SCHEMA


def test_missing_keys_are_rows_on_request(table: Table) -> None:
    """A key without a row has nulls in all other columns."""
    found = table.get([9, 1], missing="null")
    assert found.column("id").to_pylist() == [9, 1]
    assert found.column("at").to_pylist() == [None, MAY]
    with pytest.raises(InvalidInput, match="missing='nil' is not known"):
        table.get(1, missing="nil")  # type: ignore[arg-type]


def test_a_key_has_the_rows_of_all_time_chunks(table: Table) -> None:
    """In the order of time; an interval chooses, and an earlier version has its own."""
    version = table.state().n
    table.upsert(rows(3, at=JANUARY))
    assert table.get([3]).column("at").to_pylist() == [JANUARY, MAY]
    assert table.get(3, interval="2026-05-01/2026-06-01").column("at").to_pylist() == [MAY]
    assert table.get(3, version=version).column("at").to_pylist() == [MAY]


def test_a_key_of_several_columns_is_a_tuple(tmp_path: Path) -> None:
    """One tuple is one key; a value alone is refused."""
    schema = pa.schema([*SCHEMA, pa.field("on", pa.date32(), nullable=False)])
    table = keyed(tmp_path / "t", schema, ["on", "id"])
    given = [
        {"id": n, "on": date(2026, 5, d), "at": MAY, "word": f"{d}-{n}"}
        for n in (1, 2)
        for d in (1, 2)
    ]
    table.upsert(pa.Table.from_pylist(given, schema))
    assert table.get((date(2026, 5, 2), 1))["word"].to_pylist() == ["2-1"]
    assert table.get([("2026-05-02", 1), ("2026-05-01", 2)])["word"].to_pylist() == ["2-1", "1-2"]
    with pytest.raises(InvalidInput, match="give each key as a tuple"):
        table.get([1, 2])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([1, None], "without a key"),
        ("seven", "not a value of column 'id'"),
        ([2**70], "not a value of column 'id'"),
        (pa.table({"n": [1]}), "the keys have no column id"),
    ],
    ids=str,
)
def test_what_is_no_key_is_refused(table: Table, keys: Any, message: str) -> None:
    """With the column and the way out."""
    with pytest.raises(InvalidInput, match=message):
        table.get(keys)


def test_a_table_without_a_key_is_refused(tmp_path: Path) -> None:
    """The message names the scan that does it."""
    table = Table.create(
        str(tmp_path / "t"), schema=SCHEMA, time_column="at", zookeeper="memory://lookup"
    )
    with pytest.raises(InvalidInput, match=r"has no primary key: look rows up with scan\(where"):
        table.get(1)


def test_a_key_that_is_not_there_opens_no_file(tmp_path: Path) -> None:
    """Once the page where it would be is in memory; a key beside it reads pages of values alone."""
    table, count = keyed(tmp_path / "t"), 4 * LEAST_ROWS
    given = pa.table(
        {
            "id": np.arange(count) * 2,
            "at": pa.array([MAY] * count, SCHEMA.field("at").type),
            "word": ["w"] * count,
        },
        schema=SCHEMA,
    )
    table.upsert(given)
    table.compact("semi-major")
    again, files = watched(Table.open(str(tmp_path / "t")))
    read = []
    for key in (count + 1, count + 1, count):
        files.opened.clear()
        assert again.get(key, columns=["word"]).num_rows == (key == count)
        assert again.scan(where=f"id = {key}").count() == (key == count)
        read.append(sum(len(ranges) for ranges in files.opened.values()))
    assert read[0] > 0
    assert read[1] == 0
    assert again.ports.entries.pages.held < again.ports.entries.pages.most


def test_a_look_up_reads_pages_of_one_bucket(tmp_path: Path) -> None:
    """Less than half of a small base, and the second time neither footer nor page indexes."""
    table, count = keyed(tmp_path / "t"), 8 * LEAST_ROWS
    random = np.random.default_rng(0)
    times = int(MAY.timestamp()) * 10**6 + random.integers(0, 10**12, count)
    given = pa.table(
        {
            "id": np.arange(count),
            "at": pa.array(times, SCHEMA.field("at").type),
            "word": [str(each) for each in random.integers(0, 100, count)],
        },
        schema=SCHEMA,
    )
    table.upsert(given)
    table.compact("semi-major")
    again, files = watched(Table.open(str(tmp_path / "t")))
    read = []
    for key in (count // 3, count // 3):
        files.opened.clear()
        assert again.get(key).num_rows == 1
        assert len(files.opened) == 1
        read.append(sum(end - start for some in files.opened.values() for start, end in some))
    (size,) = {max(each.size for each in again.snapshot().segments())}
    assert read[1] < read[0]
    assert read[1] < size // 2, (read, size)


def test_many_keys_are_found_in_memory(tmp_path: Path) -> None:
    """One in sixteen of a base's numbers: the second time no file is opened for absent keys."""
    table, count = keyed(tmp_path / "t"), 8 * LEAST_ROWS
    kind = SCHEMA.field("at").type
    given = pa.table(
        {"id": np.arange(count) * 2, "at": pa.array([MAY] * count, kind), "word": ["w"] * count},
        schema=SCHEMA,
    )
    table.upsert(given)
    table.compact("semi-major")
    again, files = watched(Table.open(str(tmp_path / "t")))
    there = np.arange(0, 2 * count, 32)
    read = []
    for keys in (there + 1, there + 1, there):
        files.opened.clear()
        found = again.get(keys, columns=["id"])
        read.append(sum(len(ranges) for ranges in files.opened.values()))
        assert found["id"].to_pylist() == ([] if keys[0] else keys.tolist())
    assert read[0] > 0
    assert read[1] == 0
