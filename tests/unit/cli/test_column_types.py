"""Types that files bring: what a table is made like takes the very file, and keeps its values."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.table.table import Table
from tests.unit.cli.conftest import Facts, Run

TEXTS = pa.array(["a", "b", "a"])

AWKWARD = {
    "views": TEXTS.cast(pa.string_view()),
    "byte_views": pa.array([b"a", None, b"b"], pa.binary_view()),
    "codes": TEXTS.dictionary_encode(),
    "large": TEXTS.cast(pa.large_string()),
    "nested_codes": pa.array([["x"], [], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "nested_views": pa.array([{"v": "x"}] * 3, pa.struct([("v", pa.string_view())])),
    "maps": pa.array(
        [[("a", 1)], [], None],
        pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
    ),
    "uuids": pa.array([b"0123456789abcdef"] * 3, pa.uuid()),
    "small_decimals": pa.array([Decimal("1.25")] * 3, pa.decimal32(5, 2)),
    "wide_decimals": pa.array([Decimal("1.25")] * 3, pa.decimal256(30, 2)),
    "durations": pa.array([1, None, -3], pa.duration("us")),
    "nanoseconds": pa.array([1, None, -3], pa.duration("ns")),
    "embeddings": pa.array([[1.0, 2.0], [3.0, 4.0], None], pa.list_(pa.float32(), 2)),
    "nothing": pa.nulls(3),
}


def test_a_table_takes_the_file_it_is_made_like(facts: Facts, run: Run, tmp_path: Path) -> None:
    """Values come back after each kind of compaction, whatever their form in memory was."""
    at = pa.array([1, 2, 3], pa.timestamp("us", "UTC"))
    rows = pa.table({"at": at, **AWKWARD})
    pq.write_table(rows, tmp_path / "rows.parquet")
    assert run("table", "create", "t", "--like", "rows.parquet", "--time", "at").exit_code == 0
    facts("ingest", "t", "rows.parquet", "--rows-per-append", "1")
    for kind in ("minor", "semi-major", "major"):
        done = facts("compact", "t", "--kind", kind)
        assert [plan["ended"] for plan in done["plans"]] == ["completed"]
        found = Table.open(str(tmp_path / "t")).scan().to_arrow()
        assert _values(found) == _values(rows)
    assert facts("verify", "t", "--deep")["findings"] == []


def _values(rows: pa.Table) -> dict[str, list[Any]]:
    plain = {name: rows.column(name).combine_chunks() for name in rows.column_names}
    kept = {
        name: column.storage if isinstance(column, pa.ExtensionArray) else column
        for name, column in plain.items()
    }
    return {name: [str(value) for value in column] for name, column in kept.items()}


MIXED = ("2013-01-01T00:00:00Z", "2013-01-01 01:00:00", "2013-01-01T04:00:00.5+02:00")


@pytest.mark.parametrize("times", [MIXED, MIXED[:1] * 3, MIXED[1:2] * 3])
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_text_files_have_one_type_for_times(
    facts: Facts, run: Run, tmp_path: Path, suffix: str, times: tuple[str, ...]
) -> None:
    """With zone, without, or mixed: it is the same type, and the same instants."""
    line = '{{"at":"{}","x":"{}"}}\n' if suffix == "jsonl" else "{},{}\n"
    head = "" if suffix == "jsonl" else "at,x\n"
    text = head + "".join(line.format(time, time) for time in times)
    (tmp_path / f"rows.{suffix}").write_text(text)
    made = run("table", "create", "t", "--like", f"rows.{suffix}", "--time", "at")
    assert made.exit_code == 0, made.stderr
    facts("ingest", "t", f"rows.{suffix}")
    found = Table.open(str(tmp_path / "t")).scan().to_arrow()
    assert set(found.schema.types) == {pa.timestamp("us", "UTC")}
    hours = {MIXED[0]: 0, MIXED[1]: 3600, MIXED[2]: 7200.5}
    expected = sorted(hours[time] * 1e6 for time in times)
    for name in ("at", "x"):
        since = found.column(name).cast(pa.int64()).to_pylist()
        assert sorted(value - 1_356_998_400_000_000 for value in since) == expected


def test_a_text_that_is_no_time_is_named(run: Run, tmp_path: Path) -> None:
    """The message shows the value."""
    (tmp_path / "rows.csv").write_text("at\n2013-01-01T00:00:00Z\n")
    run("table", "create", "t", "--like", "rows.csv", "--time", "at")
    (tmp_path / "rows.csv").write_text("at\nyesterday\n")
    result = run("ingest", "t", "rows.csv")
    assert result.exit_code == 2
    assert "yesterday" in result.stderr
