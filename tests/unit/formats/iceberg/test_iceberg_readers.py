"""Readers of Apache Iceberg read published versions right."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.expressions import GreaterThanOrEqual
from pyiceberg.table import StaticTable

from airflow_provider_segtable.core.errors import PublishingRefused
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    DropColumn,
    MakeNullable,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.core.time import Granularity, Interval
from airflow_provider_segtable.table.table import Table
from tests.golden.make_table import PLACE
from tests.support.clock import FakeRandomness
from tests.unit.formats.iceberg.making import EPOCH, SCHEMA, Lake, lake_at, rows
from tests.unit.services.repairing import ports_at
from tests.unit.table.test_nested_ids import ids_of_columns_alone

Read = Callable[[str], pa.Table]
READERS: dict[str, Read] = {
    "pyiceberg": lambda place: StaticTable.from_metadata(place).scan().to_arrow(),
    "polars": lambda place: pl.scan_iceberg(place).collect().to_arrow(),
    "native": lambda place: pl.scan_iceberg(place, reader_override="native").collect().to_arrow(),
}


@pytest.fixture(autouse=True)
def planner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Polars plan by pyiceberg, without its hint at another package."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty table in a folder with a name that URIs would encode."""
    return lake_at(tmp_path / "a lake, ü 1%20")


def check(lake: Lake) -> None:
    """Publish, and compare what each reader reads with the log's version."""
    lake.publish()
    key = "row" if "row" in lake.table.snapshot().schema.names else "at"
    wanted = lake.table.scan().to_arrow().sort_by(key)
    for name, read in READERS.items():
        found = read(lake.target.address)
        assert {*found.column_names} == {*wanted.column_names}
        found = found.select(wanted.column_names).cast(wanted.schema).sort_by(key)
        assert repr(found.to_pylist()) == repr(wanted.to_pylist()), name


def test_times_of_another_zone_are_instants(tmp_path: Path) -> None:
    """Readers show them in UTC, and find them by statistics; pyiceberg refuses such files."""
    zone = pa.timestamp("us", "Europe/Berlin")
    schema = pa.schema([pa.field("at", zone, nullable=False), ("row", pa.int64())])
    lake = lake_at(tmp_path, schema)
    times = pa.array([EPOCH + timedelta(hours=hour) for hour in range(30)], zone)
    lake.table.append(pa.table([times, range(30)], schema=schema))
    lake.table.delete("row = 3")
    lake.publish()
    assert READERS["polars"](lake.target.address).num_rows == 29
    late = pl.scan_iceberg(lake.target.address).filter(pl.col("at") >= EPOCH + timedelta(hours=28))
    assert late.collect()["row"].to_list() == [28, 29]
    with pytest.raises(Exception, match="unsupported type"):
        READERS["pyiceberg"](lake.target.address)


def test_every_version_is_read_right(lake: Lake) -> None:
    """All types, after appends, deletes, an update, and each kind of compaction; empty at first."""
    check(lake)
    lake.table.append(rows(range(10)))
    lake.table.append(rows(range(10, 30)))
    check(lake)
    lake.table.delete("row in (3, 12)")
    check(lake)
    lake.compact("minor")
    lake.table.update({"name": "new"}, where="row = 5")
    lake.table.delete("row in (4, 15)")
    check(lake)
    lake.compact("major")
    check(lake)
    lake.table.delete("row >= 0")
    check(lake)


def test_columns_are_known_by_their_ids(lake: Lake) -> None:
    """Renamed, widened, reordered, dropped and named again, in files of two schemas."""
    lake.table.append(rows(range(10)))
    check(lake)
    lake.table.alter(
        columns=[
            RenameColumn(name="name", new="title"),
            RenameColumn(name="tags", new="words"),
            WidenColumn(name="small", type="int64"),
            WidenColumn(name="short", type="double"),
            WidenColumn(name="price", type="decimal128(30, 3)"),
            DropColumn(name="flag"),
            AddColumn(name="flag", type="int32"),
            MakeNullable(name="row"),
            Reorder(names=("row", "at")),
        ]
    )
    check(lake)
    schema = lake.table.snapshot().schema
    old = rows(range(10, 20)).drop_columns(["flag"])
    old = old.rename_columns({"name": "title", "tags": "words"}).append_column("flag", [[7] * 10])
    lake.table.append(old.select(schema.names).cast(schema))
    lake.table.delete("row in (4, 15)")
    check(lake)
    for column, value in (("small", -46), ("price", 0), ("flag", 7), ("row", 17)):
        wanted = lake.table.scan(where=f"{column} >= {value}").to_arrow()
        scan = StaticTable.from_metadata(lake.target.address).scan(
            row_filter=GreaterThanOrEqual(column, value)
        )
        found = pl.scan_iceberg(lake.target.address).filter(pl.col(column) >= value).collect()
        assert sorted(scan.to_arrow()["row"].to_pylist()) == sorted(wanted["row"].to_pylist())
        assert sorted(found["row"]) == sorted(wanted["row"].to_pylist())


def test_readers_leave_out_files_by_bounds_and_no_row(lake: Lake) -> None:
    """Conditions at the exact bounds of files; one file is opened where one has the row."""
    for first in range(0, 20, 4):
        lake.table.append(rows(range(first, first + 4)))
    lake.publish()
    wanted = lake.table.scan().to_arrow().sort_by("row")
    table = StaticTable.from_metadata(lake.target.address)
    for name in ("at", "row", "name", "price", "day", "local", "clock", "bytes", "code"):
        values = wanted.column(name)
        for at in (0, 5, 19):
            if values[at].as_py() is None:
                continue
            scan = table.scan(row_filter=f"row == {at}")
            assert len(list(scan.plan_files())) == 1
            literal: Any = pl.lit(values[at].as_py(), dtype=pl.from_arrow(values).dtype)
            found = pl.scan_iceberg(lake.target.address).filter(pl.col(name) == literal)
            assert at in found.collect()["row"].to_list()
    nan = pl.scan_iceberg(lake.target.address).filter(pl.col("short") > 1e6).collect()
    assert len(nan) == sum(1 for each in wanted["short"].to_pylist() if each != each)  # noqa: PLR0124


@pytest.mark.parametrize(
    ("granularity", "other", "specs"),
    [
        ("hour", "day", {0, 1}),
        ("day", "month", {0, 1}),
        ("month", "hour", {1}),
        ("week", "day", {0}),
    ],
)
def test_partitions_are_chunks_of_time(
    tmp_path: Path, granularity: str, other: str, specs: set[int]
) -> None:
    """By the table's granularity; files of coarser chunks are in none, with their deletes."""
    small = pa.schema([SCHEMA.field("at"), SCHEMA.field("row")])
    lake = lake_at(tmp_path / "t", small, Granularity(granularity))
    lake.table.append(rows(range(6), small))
    lake.table.append(rows(range(200, 206), small))
    lake.table.delete("row in (3, 202)")
    check(lake)
    month = Interval.parse("2013-01-01/2013-02-01")
    lake.compact("major", interval=month, granularity=other)
    lake.table.delete("row in (4, 203)")
    check(lake)
    assert lake.known is not None
    assert {each.record["partition_spec_id"] for each in lake.known.own.manifests} == specs
    table, every = StaticTable.from_metadata(lake.target.address), lake.table.scan().to_arrow()
    for at in every["at"].to_pylist():
        text = f"at == '{at.isoformat()}'"
        assert len(table.scan(row_filter=text).to_arrow()) == 1
        assert len(pl.scan_iceberg(lake.target.address).filter(pl.col("at") == at).collect()) == 1


def test_whole_manifests_are_left_out_by_partitions(lake: Lake) -> None:
    """Lists say of each manifest which chunks are in it."""
    lake.table.append(rows(range(12)))
    lake.publish()
    assert lake.known is not None
    (manifest,) = lake.known.own.manifests
    first, last = (
        manifest.record["partitions"][0][name] for name in ("lower_bound", "upper_bound")
    )
    days = EPOCH.toordinal() - 719_163
    assert [int.from_bytes(each, "little") for each in (first, last)] == [days, days + 2]
    wanted = {"__segtable_day": days}
    found = StaticTable.from_metadata(lake.target.address).inspect.partitions().to_pylist()
    assert [each["record_count"] for each in found] == [4, 4, 4]
    assert {f"{key}" for each in found for key in each["partition"]} == {*wanted}


def test_files_without_ids_are_read_by_the_names_of_the_creation(tmp_path: Path) -> None:
    """Also if a name was dropped and given to another column since."""
    shutil.copytree(PLACE, tmp_path / "t")
    lake = Lake(Table(ports_at(tmp_path / "t")))
    check_golden(lake)
    lake.table.alter(
        columns=[
            RenameColumn(name="carrier", new="airline"),
            AddColumn(name="carrier", type="int32"),
        ]
    )
    check_golden(lake)


def check_golden(lake: Lake) -> None:
    """Compare each reader's rows with the log's, in the order of all columns."""
    lake.publish()
    wanted = lake.table.scan().to_arrow()
    for read in READERS.values():
        found = read(lake.target.address).select(wanted.column_names).cast(wanted.schema)
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))


def test_fields_without_ids_are_refused(lake: Lake) -> None:
    """Files of writers that gave none to fields within columns are compacted first."""
    with ids_of_columns_alone():
        lake.table.append(rows(range(4)))
        lake.table.append(rows(range(4)))
    with pytest.raises(PublishingRefused, match=r"files.*none within 'tags'.*--kind major"):
        lake.publish()
    lake.compact("major")
    check(lake)


def test_a_moved_table_is_published_anew(tmp_path: Path) -> None:
    """Paths are absolute: its versions before are not carried on, and rows are found again."""
    before = lake_at(tmp_path / "one")
    before.table.append(rows(range(8)))
    before.table.delete("row = 2")
    before.publish()
    (tmp_path / "one").rename(tmp_path / "two")
    other = replace(ports_at(tmp_path / "two"), randomness=FakeRandomness(99))  # no name is equal
    lake = Lake(Table(other))
    lake.known = lake.target.load()
    assert lake.known is not None
    assert (lake.known.files, lake.known.commit, lake.known.number) == ({}, "", 1)
    assert before.known is not None
    wanted = {*before.known.files}
    assert lake.target.needed(10**18) == wanted
    assert not {path for path in lake.target.sweep(10**18) if "deletes" in path}
    lake.compact("major")
    check(lake)
    assert lake.known.number == 2
    assert not wanted & lake.target.needed(10**18)
    assert wanted <= lake.target.needed(0)
