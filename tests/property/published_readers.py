"""The readers of other table formats that the properties ask, each as a function.

A reader returns the rows of one published version. A *filtering* reader returns the rows of the
newest one that satisfy a condition, twice: as its engine finds them when it may skip files and row
groups, and as the same engine filters all rows.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import eq, ge, le
from pathlib import Path
from typing import Any

import deltalake
import polars as pl
import pyarrow as pa
import pyiceberg.expressions as ice
from pyiceberg.table import StaticTable

from tests.property.published_values import NAN, NOT_EVERYWHERE, plain

Read = Callable[[Path, int], pa.Table]
"""Reads from a table's root the version that a target gave a number."""
Filter = Callable[[Path, str, str, Any], tuple[int, int]]
"""Counts rows by a column, one of ``=``, ``<=``, ``>=``, and a value."""


def deltalake_rows(root: Path, number: int) -> pa.Table:
    """Read by deltalake's engine, the only part of it that knows deletion vectors."""
    return pa.table(deltalake.DeltaTable(root, version=number).scan().read_all())


def polars_delta_rows(root: Path, number: int) -> pa.Table:
    """Read by Polars."""
    return pl.scan_delta(str(root), version=number).collect().to_arrow()


def pyiceberg_rows(root: Path, number: int) -> pa.Table:
    """Read by pyiceberg."""
    return StaticTable.from_metadata(metadata(root, number)).scan().to_arrow()


def polars_iceberg_rows(root: Path, number: int) -> pa.Table:
    """Read by Polars, with pyiceberg for the metadata."""
    return pl.scan_iceberg(metadata(root, number)).collect().to_arrow()


def metadata(root: Path, number: int) -> str:
    """Return the path of a version's metadata."""
    return str(root / "_iceberg" / "metadata" / f"v{number}.metadata.json")


def newest_delta(root: Path) -> int:
    """Return the number of the newest version, by deltalake."""
    return deltalake.DeltaTable(root).version()


def newest_iceberg(root: Path) -> int:
    """Return the number of the newest version, by the hint that readers follow."""
    return int((root / "_iceberg" / "metadata" / "version-hint.text").read_text())


def event_of_delta(root: Path, number: int) -> int:
    """Return the event that a version shows, as the format's own tools find it."""
    return int(deltalake.DeltaTable(root, version=number).transaction_version("segtable") or 0)


def event_of_iceberg(root: Path, number: int) -> int:
    """Return the event that a version shows, from its snapshot's summary."""
    data = json.loads(Path(metadata(root, number)).read_text())
    (current,) = (
        each for each in data["snapshots"] if each["snapshot-id"] == data["current-snapshot-id"]
    )
    return int(current["summary"]["segtable.event"])


def _polars(frame: pl.LazyFrame, column: str, how: str, value: Any) -> tuple[int, int]:
    sides = pl.col(column), pl.lit(plain(value)).cast(frame.collect_schema()[column])
    condition = {"=": pl.Expr.eq, "<=": pl.Expr.le, ">=": pl.Expr.ge}[how](*sides)
    return frame.filter(condition).collect().height, frame.collect().filter(condition).height


def deltalake_filter(root: Path, column: str, how: str, value: Any) -> tuple[int, int]:
    """Filter by deltalake's engine, against Python on all rows."""
    table = deltalake.DeltaTable(root)
    found = pa.table(table.scan(predicate=f'"{column}" {how} {_sql(value)}'))
    return found.num_rows, _count(pa.table(table.scan()), column, how, value, nan=True)


def _sql(value: Any) -> str:
    match value:
        case bool() | int() | float():
            return repr(value)
        case datetime(tzinfo=None):
            return f"arrow_cast('{value.isoformat()}', 'Timestamp(Microsecond, None)')"
        case datetime():
            text = value.astimezone(UTC).replace(tzinfo=None).isoformat()
            return f"arrow_cast('{text}Z', 'Timestamp(Microsecond, Some(\"UTC\"))')"
        case date():
            return f"arrow_cast('{value}', 'Date32')"
        case Decimal():
            return f"arrow_cast('{value:f}', 'Decimal128(38, {-int(value.as_tuple().exponent)})')"
        case _:
            return "'" + str(value).replace("'", "''") + "'"


def _count(table: pa.Table, column: str, how: str, value: Any, *, nan: bool = False) -> int:
    """Count rows in Python; with ``nan``, that is the greatest value."""
    test = {"=": eq, "<=": le, ">=": ge}[how]
    values = [v for v in table.column(column).to_pylist() if v is not None]
    greatest = nan and how == ">="
    return sum(bool(test(v, value)) or (greatest and plain(v) == NAN) for v in values)


def polars_delta_filter(root: Path, column: str, how: str, value: Any) -> tuple[int, int]:
    """Filter by Polars."""
    return _polars(pl.scan_delta(str(root)), column, how, value)


def polars_iceberg_filter(root: Path, column: str, how: str, value: Any) -> tuple[int, int]:
    """Filter by Polars."""
    return _polars(pl.scan_iceberg(metadata(root, newest_iceberg(root))), column, how, value)


def pyiceberg_filter(root: Path, column: str, how: str, value: Any) -> tuple[int, int]:
    """Filter by pyiceberg, against Python on all rows."""
    table = StaticTable.from_metadata(metadata(root, newest_iceberg(root)))
    made = {"=": ice.EqualTo, "<=": ice.LessThanOrEqual, ">=": ice.GreaterThanOrEqual}
    term: Any = made[how](column, value)
    right = _count(table.scan().to_arrow(), column, how, value)
    return table.scan(term).to_arrow().num_rows, right


READERS: Mapping[str, tuple[Read, ...]] = {
    "delta": (deltalake_rows, polars_delta_rows),
    "iceberg": (pyiceberg_rows, polars_iceberg_rows),
}
FILTERS: Mapping[str, tuple[Filter, ...]] = {
    "delta": (deltalake_filter, polars_delta_filter),
    "iceberg": (polars_iceberg_filter, pyiceberg_filter),
}
UNREAD: Mapping[Callable[..., Any], tuple[pa.DataType, ...]] = {
    pyiceberg_rows: NOT_EVERYWHERE,
    pyiceberg_filter: NOT_EVERYWHERE,
}
"""Types of columns that a reader does not read."""
EVENTS: Mapping[str, Callable[[Path, int], int]] = {
    "delta": event_of_delta,
    "iceberg": event_of_iceberg,
}
NEWEST: Mapping[str, Callable[[Path], int]] = {"delta": newest_delta, "iceberg": newest_iceberg}
