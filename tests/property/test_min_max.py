"""The least and the greatest value of a column are those of the rows that a scan shows.

The oracle reads the rows and takes the least and greatest value in Python. Tables of all kinds are
written, changed, compacted, altered and restored in small files with small row groups and pages;
asked are columns of many types, with nulls, NaN and minus zero, at any version, in intervals, and
with conditions.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable import Table
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.evolution import AddColumn, RenameColumn
from airflow_provider_segtable.data.parquet import page_reader
from tests.watched_files import watched

TABLES = 9
STEPS = 4
DAY0 = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("id", pa.int64()),
        ("seq", pa.int64()),
        ("small", pa.int8()),
        ("wide", pa.uint32()),
        ("real", pa.float64()),
        ("thin", pa.float32()),
        ("word", pa.string()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("ns")),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
        ("price", pa.decimal128(9, 2)),
    ]
)
CONDITIONS = (None, None, None, "id > 12", "word >= 'w2'", "small IS NULL", "real > 0", "id = 7")
REALS = (None, math.nan, 0.0, -0.0, 1.5, -2.5, math.inf)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files into row groups and pages of a few rows."""
    monkeypatch.setattr(page_reader, "LEAST_ROWS", 0)
    for name, rows in (
        ("jobs.segment_writer.GROUP_ROWS", 13),
        ("keyed.merge_job.SORTED_ROWS", 11),
        ("keyed.merge_job.PAGE_ROWS", 3),
        ("keyed.log_files.PAGE_ROWS", 2),
    ):
        monkeypatch.setattr(f"airflow_provider_segtable.data.{name}", rows)


def record(draw: Random) -> dict[str, Any]:
    number = draw.randrange(30)
    return {
        "at": DAY0 + timedelta(hours=draw.randrange(72)),
        "id": number,
        "seq": draw.randrange(6),
        "small": draw.choice((None, number - 10)),
        "wide": draw.choice((None, number, 2**32 - 1 - number)),
        "real": draw.choice(REALS),
        "thin": draw.choice(REALS),
        "word": draw.choice((None, f"w{number}", f"w{number}" + "é" * 70, "")),
        "day": draw.choice((None, DAY0.date() + timedelta(days=number))),
        "moment": draw.choice((None, 10**18 + number)),
        "flag": draw.choice((None, True, False)),
        "raw": draw.choice((None, bytes([number]))),
        "price": None,
    }


def made(draw: Random, place: str, kind: str) -> Table:
    keyed = {"primary_key": "id", "buckets": draw.choice((1, 2)), "ordering": "seq", "merge": kind}
    return Table.create(
        place,
        schema=SCHEMA,
        time_column="at",
        zookeeper="memory://min-max",
        **(keyed if kind else {}),
    )


def step(draw: Random, table: Table) -> None:
    """Write, change, compact, settle, alter or restore."""
    match draw.randrange(11):
        case 0:
            with suppress(InvalidInput):  # nothing to compact
                table.compact(draw.choice(("minor", "semi-major", "major")))
        case 1:
            table.delete(draw.choice(("id < 4", "id > 25", "small > 5", "flag AND wide > 9")))
        case 2:
            table.update({"small": -50}, where="id < 9")
        case 3 if "extra" not in table.schema.names:
            table.alter(columns=[AddColumn(name="extra", type="int32", default="7")])
        case 4 if "word" in table.schema.names:
            table.alter(columns=[RenameColumn(name="word", new="text")])
        case 5 if table.state().n > 2:
            table.restore(version=table.state().n - draw.randrange(1, 3))
        case 6 if table.state().table.kind.rules is not None:
            table.settle()
        case _:
            rows = [record(draw) for _ in range(draw.randrange(1, 30))]
            for row in rows:
                row["text"], row["extra"] = row["word"], draw.choice((None, 3, 9))
            given = pa.Table.from_pylist(rows, table.schema)
            if table.state().table.kind.rules is None:
                table.append(given)
            else:
                gone = pa.array([draw.random() < 0.2 for _ in rows])
                table.upsert(given.append_column("gone", gone), deleted="gone")


def oracle(column: pa.ChunkedArray) -> tuple[Any, Any]:
    numbers = column.cast(pa.int64()) if column.type == pa.timestamp("ns") else column
    values = [each for each in numbers.to_pylist() if each is not None]
    values = [each for each in values if not (isinstance(each, float) and math.isnan(each))]
    return (min(values), max(values)) if values else (None, None)


def shown(value: Any) -> Any:
    """Return a value as the oracle has it; pandas has times of nanoseconds."""
    return value.value if hasattr(value, "nanosecond") else value


def asked(draw: Random, table: Table) -> Iterator[dict[str, Any]]:
    """Yield some reads."""
    words = [draw.choice(CONDITIONS) for _ in range(1)]
    word = "text" if "text" in table.schema.names else "word"
    for where in words:
        yield {"where": where and where.replace("word", word)}
    yield {"interval": (DAY0 + timedelta(hours=7), DAY0 + timedelta(hours=31))}
    yield {"version": draw.randrange(table.state().n + 1)}
    yield {"limit": 0}


@pytest.mark.parametrize("seed", range(TABLES))
def test_least_and_greatest_are_those_of_the_rows(seed: int, tmp_path: Path) -> None:
    """Of each column, however few rows are read for it, cold and with footers in memory."""
    draw = Random(seed)
    table = made(draw, str(tmp_path / "t"), ("", "latest", "partial_update")[seed % 3])
    for _ in range(STEPS):
        step(draw, table)
        reader = draw.choice((table, Table.open(str(tmp_path / "t"))))
        for request in asked(draw, table):
            scan = reader.scan(**request)
            rows = scan.to_arrow()
            for name in draw.sample(scan.schema.names, 4):
                found = tuple(map(shown, scan.min_max(name)))
                assert found == oracle(rows.column(name)), (name, request)
                assert not any(map(is_minus_zero, found)), (name, request)


def is_minus_zero(value: Any) -> bool:
    return value == 0 and math.copysign(1, value) < 0


def bounds_read(table: Table, column: str) -> tuple[Any, int]:
    """Return the extremes of a column, and the number of files of which rows are read for them."""
    again, files = watched(Table.open(table.ports.uri))
    found = again.scan().min_max(column)
    footers = {s.path: s.footer.start for s in table.snapshot().segments() if s.footer}
    read = {path: files.opened[path] for path in files.opened if path in footers}
    assert read or not footers
    return found, sum(any(at < footers[path] for at, _ in read[path]) for path in read)


def ascending(count: int) -> pa.Table:
    rows = [{**record(Random(n)), "id": n, "at": DAY0} for n in range(count)]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("kind", ["", "latest"])
def test_whole_files_are_not_read(kind: str, tmp_path: Path) -> None:
    """None of a base; of files with deletes none whose values lie between known ones."""
    table = made(Random(0), str(tmp_path / "t"), kind)
    table.append(ascending(100))
    if kind:
        table.compact("semi-major")
    assert bounds_read(table, "id") == ((0, 99), 0)
    table.append(ascending(50).set_column(0, "at", pa.array([DAY0 + timedelta(9)] * 50)))
    table.delete(f"id = 20 AND at > timestamp '{DAY0 + timedelta(5):%Y-%m-%d %H:%M:%S}'")
    if kind:
        table.settle()
    assert bounds_read(table, "id") == ((0, 99), 0)
    table.delete("id = 99")
    if kind:
        table.settle()
    assert bounds_read(table, "id") == ((0, 98), 1)


def test_text_may_be_cut_in_statistics(tmp_path: Path) -> None:
    """Other writers cut text: the file that has the value is read."""
    long = ["b" * 100, "z" * 100]
    for at, words in enumerate((long, ["m", "n"])):
        rows = pa.table({"at": pa.array([0, 1], pa.timestamp("us", "UTC")), "word": words})
        pl.DataFrame(pl.from_arrow(rows)).write_parquet(tmp_path / f"{at}.parquet")
    cut = pq.read_metadata(tmp_path / "0.parquet").row_group(0).column(1).statistics
    assert cut.max not in long
    Table.adopt(str(tmp_path), time_column="at", zookeeper="memory://min-max")
    table = Table.open(str(tmp_path), zookeeper="memory://min-max")
    assert table.scan().min_max("word") == (long[0], long[1])


def test_a_type_without_order_is_refused(tmp_path: Path) -> None:
    """With the type, as is a column that is not there."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))])
    table = Table.create(
        str(tmp_path / "t"), schema=schema, time_column="at", zookeeper="memory://min-max"
    )
    with pytest.raises(InvalidInput, match=r"'tags' has the type list<.*, which has no order"):
        table.scan().min_max("tags")
    assert table.scan().min_max("at") == (None, None)
