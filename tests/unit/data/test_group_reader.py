"""The files of a file group: opened once, and read in shares of the rows that are held."""

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import get_ident

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import ChecksumMismatch
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.keyed import group_reader
from airflow_provider_segtable.data.keyed.file_groups import MergedRead, file_groups
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.merging import LEAST_RUNS
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source
from tests.property.test_keyed_tables import GONE, batch, keyed_table
from tests.support.far_files import FarFiles, Request


class Openings:
    """Files that note which were opened."""

    def __init__(self, files: DataFiles) -> None:
        """Open ``files``."""
        self.files, self.opened = files, list[str]()

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading."""
        self.opened.append(path)
        with self.files.open(path) as source:
            yield source

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file."""
        with self.files.create(path) as sink:
            yield sink

    def delete(self, path: str) -> None:
        """Delete a file."""
        self.files.delete(path)


def upserted(table: Table, start: int, end: int, seq: int) -> None:
    rows = [{"key": key, "seq": seq, "text": "a", GONE: False} for key in range(start, end)]
    table.upsert(batch(rows), deleted=GONE)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Return a table of one bucket: a base file of 5,000 rows, and two log files."""
    kind = PrimaryKey(key=("key",), buckets=1, ordering="seq")
    made = keyed_table(str(tmp_path), kind, Granularity.ALL)
    upserted(made, 0, 5000, 1)
    made.compact("semi-major")
    upserted(made, 0, 5000, 2)
    upserted(made, 0, 2500, 3)
    return made


def test_each_file_is_opened_once(table: Table) -> None:
    """A merge opens each file once, for its roots and its rows."""
    state = table.ports.log.load()
    openings = Openings(open_files(table.ports.uri, {}))
    (group,) = file_groups(state.timeline.lookup(None), None)
    rules = state.table.kind.rules
    assert rules is not None
    read = MergedRead(rules=rules, columns=("key", "seq"))
    found = read.rows(GroupReader(openings, state.table), group)
    assert sum(rows.num_rows for rows in found) == 5000
    assert sorted(openings.opened) == sorted(segment.path for segment in group.segments)


def test_small_runs_of_a_disk_are_read_by_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads would wait for Python's lock; of an object store they share the round trips."""
    made = keyed_table(
        str(tmp_path), PrimaryKey(key=("key",), buckets=1, ordering="seq"), Granularity.ALL
    )
    for seq in range(2 * LEAST_RUNS):
        upserted(made, seq, seq + 100, seq)
    state, threads = made.ports.log.load(), list[int]()
    (group,) = file_groups(state.timeline.lookup(None), None)
    batches = SegmentRead.batches

    def noted(self: SegmentRead) -> Iterator[pa.RecordBatch]:
        threads.append(get_ident())
        return batches(self)

    monkeypatch.setattr(SegmentRead, "batches", noted)
    monkeypatch.setattr(SegmentRead, "matching", noted)
    rules = state.table.kind.rules
    assert rules is not None
    read = MergedRead(rules=rules, columns=("key", "seq"))
    near, far = made.ports.files, FarFiles(made.ports.files, noting([]))
    found = [
        pa.concat_tables(read.rows(GroupReader(files, state.table), group)) for files in (near, far)
    ]
    assert found[0] == found[1]
    assert found[0].column("seq").to_pylist() == [min(n, 2 * LEAST_RUNS - 1) for n in range(115)]
    assert {*threads[: len(threads) // 2]} == {get_ident()}
    assert get_ident() not in threads[len(threads) // 2 :]


def test_columns_of_a_store_are_loaded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file that is not small, its tail is one request, all columns of a stretch another."""
    monkeypatch.setattr(group_reader, "WHOLE", 0)
    made = keyed_table(
        str(tmp_path), PrimaryKey(key=("key",), buckets=1, ordering="seq"), Granularity.ALL
    )
    for seq in range(2):
        rows = [{"key": n, "seq": n ^ 99, "text": hex(hash(n / 7)), GONE: n == seq} for n in MANY]
        made.upsert(batch(rows), deleted=GONE)
    state, requests = made.ports.log.load(), list[str]()
    far = FarFiles(made.ports.files, noting(requests))
    (group,) = file_groups(state.timeline.lookup(None), None)
    with GroupReader(far, state.table).opened(group.segments) as opened:
        runs = opened.runs(group.segments)
        assert sum(rows.num_rows for run in runs for rows in run) == 2 * len(MANY)
    assert [*Counter(requests).values()] == [2, 2]


MANY = range(20_000)
"""Keys of a file whose columns lie in several blocks."""


def noting(requests: list[str]) -> Request:
    """Return requests that note the file of each."""

    def request(path: str) -> AbstractContextManager[None]:
        requests.append(path)
        return nullcontext()

    return request


def test_settled_files_are_read_as_they_are(tmp_path: Path) -> None:
    """Of a bucket with one run, tombstones are left out, and no column is read for a merge."""
    kind = PrimaryKey(key=("key",), buckets=1, ordering="seq")
    made = keyed_table(str(tmp_path), kind, Granularity.ALL)
    rows = [{"key": key, "seq": 1, "text": "a", GONE: key % 3 == 0} for key in range(30)]
    made.upsert(batch(rows), deleted=GONE)
    assert made.scan().count() == 20
    assert made.scan(columns=["key"], where="key > 25 and text = 'a'").to_arrow().to_pydict() == {
        "key": [26, 28, 29]
    }
    state = made.ports.log.load()
    (group,) = file_groups(state.timeline.lookup(None), None)
    assert group.merged
    read = MergedRead(rules=kind.rules, columns=("text",))
    reader = GroupReader(made.ports.files, state.table)
    assert [rows.column_names for rows in read.rows(reader, group)] == [["text"]]


def test_buckets_without_matching_times_are_not_opened(tmp_path: Path) -> None:
    """A condition on the event time skips the files of other days, with log files above them."""
    made = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=1, ordering="seq"))
    for seq in (1, 2):
        rows = [{"key": key, "seq": seq, "text": "a", GONE: False} for key in range(12)]
        made.upsert(batch(rows), deleted=GONE)
    openings = Openings(made.ports.files)
    counted = Table(replace(made.ports, files=openings))
    times = made.scan(columns=["at"]).to_arrow()["at"].to_pylist()
    first = f"at < TIMESTAMP '{min(times).date()} 23:59:59'"
    found = counted.scan(columns=["key"], where=first).to_arrow().num_rows
    assert 0 < found < 12
    days = {path.split("/")[1] for path in openings.opened}
    assert len(days) == 1


def test_a_damaged_footer_is_found(table: Table) -> None:
    """Files that are opened once are compared with the log, too."""
    state = table.ports.log.load()
    (group,) = file_groups(state.timeline.lookup(None), None)
    broken = [replace(each, footer=replace(each.footer, crc=1)) for each in group.segments]
    reader = GroupReader(open_files(table.ports.uri, {}), state.table)
    with reader.opened(broken) as opened, pytest.raises(ChecksumMismatch, match="the footer"):
        opened.roots(broken)


def test_runs_share_the_rows_that_are_held(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs' batches have so many rows together, in proportion to the rows of the runs."""
    path = "airflow_provider_segtable.data.keyed.group_reader"
    monkeypatch.setattr(f"{path}._ROWS_HELD", 2500)
    monkeypatch.setattr(f"{path}._LEAST", 1)
    state = table.ports.log.load()
    (group,) = file_groups(state.timeline.lookup(None), None)
    runs = GroupReader(open_files(table.ports.uri, {}), state.table).runs(group.segments)
    assert sorted(next(iter(run)).num_rows for run in runs) == [500, 1000, 1000]
