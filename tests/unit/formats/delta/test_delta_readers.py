"""Readers of Delta Lake read published versions right, and its writers refuse them."""

import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError

from tests.unit.formats.delta.making import START, Lake, rows_of

Read = Callable[[Path], list[str]]


def by_polars(root: Path) -> list[str]:
    """Return the carriers that Polars reads."""
    return sorted(pl.scan_delta(str(root)).collect()["carrier"])


def by_query(root: Path) -> list[str]:
    """Return the carriers that deltalake's SQL reads."""
    return sorted(ask(root, "select carrier from t").column("carrier").to_pylist())


def by_scan(root: Path) -> list[str]:
    """Return the carriers that deltalake's scan reads."""
    return sorted(pa.table(DeltaTable(root).scan()).column("carrier").to_pylist())


READERS = [by_polars, by_query, by_scan]


def ask(root: Path, text: str) -> pa.Table:
    """Return the answer of deltalake's SQL."""
    return pa.table(QueryBuilder().register("t", DeltaTable(root)).execute(text).read_all())


def carriers(*shown: tuple[int, Iterable[int]]) -> list[str]:
    """Return the carriers in some rows of some files."""
    every = {number: rows_of(number)["carrier"].to_pylist() for number, _ in shown}
    return sorted(every[number][row] for number, rows in shown for row in rows)


@pytest.mark.parametrize("read", READERS)
def test_each_version_is_read_right(lake: Lake, read: Read) -> None:
    """Files added, removed and with other hidden rows, at every step, with old versions gone."""
    lake.put(lake.file(1), lake.file(2))
    assert read(lake.root) == carriers((1, range(10)), (2, range(10)))
    lake.put(lake.file(1, hidden=range(4)), lake.file(3, hidden=[9]))
    assert read(lake.root) == carriers((1, range(4, 10)), (2, range(10)), (3, range(9)))
    lake.put(lake.file(1, hidden=range(6)), gone=[2])
    assert read(lake.root) == carriers((1, range(6, 10)), (3, range(9)))
    lake.put(lake.file(1))
    for _ in range(9):
        lake.put(lake.file(2, hidden=[0]))
    assert lake.target.sweep(10**18)
    lake.put(gone=[3])
    assert read(lake.root) == carriers((1, range(10)), (2, range(1, 10)))


def test_another_writers_checkpoint_does_no_harm(lake: Lake) -> None:
    """A checkpoint of deltalake's is loaded with keys and vectors, and carried on."""
    lake.put(lake.file(1), lake.file(2, hidden=[1]))
    lake.put(lake.file(1, hidden=[0]))
    DeltaTable(lake.root).create_checkpoint()
    (lake.root / "_delta_log/00000000000000000000.json").unlink()
    found = lake.target.load()
    assert found is not None
    assert lake.known is not None
    assert (found.files, found.commit) == (lake.known.files, lake.known.commit)
    assert found.own.checkpoint == 1
    for _ in range(9):
        lake.put(lake.file(3))
    for path in (lake.root / "_delta_log").glob("*.json"):
        path.unlink()
    rows = carriers((1, range(1, 10)), (2, [0, *range(2, 10)]), (3, range(10)))
    assert by_polars(lake.root) == by_query(lake.root) == rows
    assert DeltaTable(lake.root).transaction_version("segtable") == 9


def test_skipping_files_loses_no_row(lake: Lake) -> None:
    """Predicates at the exact bounds of cut texts and rounded times find all rows."""
    odd = rows_of(4).set_column(2, "delay", pa.array([1.0] * 9 + [float("nan")]))
    lake.put(lake.file(1), lake.file(4, write=odd))
    last = START + timedelta(hours=1, seconds=9, microseconds=1234)
    longest = rows_of(1)["carrier"].to_pylist()[-1]
    scan = pl.scan_delta(str(lake.root))
    for holds, rows in (
        (pl.col("time_hour") == last, 1),
        (pl.col("carrier") == longest, 1),
        (pl.col("delay") > 1e9, 1),
        (pl.col("time_hour") < START, 0),
    ):
        assert scan.filter(holds).collect().height == rows
    for where, rows in (
        (f"carrier = '{longest}'", 1),
        (f"time_hour >= timestamp '{last.isoformat()}'", 11),
    ):
        assert ask(lake.root, f"select * from t where {where}").num_rows == rows  # noqa: S608
    (answer,) = ask(lake.root, "select max(carrier) a, min(time_hour) b from t").to_pylist()
    assert answer["a"] == rows_of(4)["carrier"].to_pylist()[-1]
    assert answer["b"] == rows_of(1)["time_hour"].to_pylist()[0]


@pytest.mark.parametrize("hidden", [(), (1,)])
def test_other_writers_are_refused(lake: Lake, hidden: tuple[int, ...]) -> None:
    """Another library neither appends, deletes, compacts nor vacuums; no file is gone."""
    lake.put(lake.file(1, hidden=hidden), lake.file(2))
    lake.put(gone=[2])
    before = {*lake.root.rglob("*")}
    table = DeltaTable(lake.root)
    for write in (
        lambda: write_deltalake(table, rows_of(3), mode="append"),
        lambda: table.delete("delay > 0"),
        table.optimize.compact,
        lambda: table.vacuum(0, dry_run=False, enforce_retention_duration=False),
        lambda: table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True),
    ):
        with pytest.raises(CommitFailedError, match="segtablePublished"):
            write()
    assert {each for each in before if not each.exists()} == set()


def test_others_do_not_clean_the_log_by_age(lake: Lake) -> None:
    """Versions that segtable keeps outlive what deltalake would delete, however old they are."""
    for n in range(12):
        lake.put(lake.file(n % 2))
    before = {*lake.root.rglob("*")}
    for path in before:
        os.utime(path, (1, 1))
    DeltaTable(lake.root).cleanup_metadata()
    assert {*lake.root.rglob("*")} == before


def test_history_says_what_happened(lake: Lake) -> None:
    """The history of the table names the kind of each change, and its event."""
    lake.put(lake.file(1))
    lake.put(lake.file(2))
    lake.put(lake.file(1, hidden=[1]))
    lake.put(lake.file(3), gone=[1, 2], data_change=False)
    lake.put(lake.file(4), gone=[3])
    history = DeltaTable(lake.root).history()
    names = ["MERGE", "OPTIMIZE", "DELETE", "WRITE", "CREATE TABLE"]
    assert [each["operation"] for each in history] == names
    assert [each["operationParameters"]["event"] for each in history] == ["4", "3", "2", "1", "0"]
