"""The feed of a stream over a log store, without Spark: where batches end, what each one reads."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import (
    InvalidInput,
    LogStoreUnavailable,
    WindowExpired,
)
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.log_store.bucket import Limits
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.data.open_files import LayeredFiles, open_files
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.spark.source.log_stream import LogBatch, LogFeed
from airflow_provider_segtable.spark.source.source_options import (
    LogRequest,
    LogStart,
    follows_log,
    to_follow_log,
)
from airflow_provider_segtable.spark.tasks.log_reading import ServedPart
from airflow_provider_segtable.table.context import TableContext
from tests.unit.table.logged import rows_of
from tests.unit.table.streamed import Streamed, table_of
from tests.unit.table.test_windows import cleaned, compacted


def feed(streamed: Streamed, **asked: Any) -> LogFeed:
    """Return the feed of a stream from the first records on; its driver is not needed."""
    context: Any = None
    ports = streamed.table.ports
    request = LogRequest(**{"start": LogStart.EARLIEST, **asked})
    return LogFeed.of(context, ports, request, lambda: (ports, streamed.find))


def with_events(ports: TableContext) -> DataFiles:
    """Return the files of a table in memory; tasks find the event files among them."""
    known = [event_path(n) for n in range(ports.log.load().n + 1)]
    return LayeredFiles(ports.files, {path: ports.storage.read(path) for path in known})


def rows(found: LogFeed, after: str, up_to: str) -> list[int]:
    """Return the row numbers of a batch."""
    numbers: list[int] = read(found.batch(after, up_to), "row").column("row").to_pylist()
    return numbers


def read(batch: LogBatch, *columns: str, pauses: list[float] | None = None) -> pa.Table:
    """Return columns of a batch, as its tasks read them one after another."""
    waited = [] if pauses is None else pauses
    reading = replace(batch.reading(columns or batch.columns.names), pause=waited.append)
    rows_of = reading.opened(with_events(batch.ports()))
    found = [each for part in batch.plan.parts for each in rows_of(part)]
    return pa.concat_tables([reading.columns.empty_table(), *found])


@pytest.fixture
def streamed() -> Streamed:
    """Rows 0 to 3 are committed, and evicted; rows 4 to 6 are not committed."""
    made = Streamed(table_of(), Limits(kept_checkpoints=0))
    made.send(0, rows_of(range(4)))
    made.checkpoint()
    made.send(0, rows_of(range(4, 7)))
    return made


def test_batches_follow_each_other(streamed: Streamed) -> None:
    """From files and from services; a stream begins at the first records or at the newest."""
    found, latest = feed(streamed), feed(streamed, start=LogStart.LATEST)
    first = found.newest()
    assert first == '{"0": [1, 7], "1": [1, 0]}'
    assert rows(found, "", first) == [*range(7)]
    assert rows(latest, "", first) == []
    streamed.send(1, rows_of([7]))
    streamed.send(0, rows_of([8, 9]))
    second = found.newest()
    assert found.next(first, second, True) == second
    assert sorted(rows(latest, first, second)) == [7, 8, 9]
    streamed.checkpoint()
    streamed.served = False
    assert rows(found, second, found.newest()) == []


def test_batches_are_divided(streamed: Streamed) -> None:
    """None has more records of a bucket than asked for, also behind discarded ones."""
    found = feed(streamed, records=3)
    seen, after = [], ""
    while (end := found.next(after, found.newest(), True)) != after:
        seen.append(rows(found, after, end))
        after = end
    assert seen == [[0, 1, 2], [3, 4, 5], [6]]
    streamed.begin(0)
    streamed.send(0, rows_of(range(30, 36)))
    assert rows(found, after, found.next(after, found.newest(), True)) == [30, 31, 32]
    assert found.next(after, found.newest(), False) == found.newest()


def test_a_batch_that_is_run_again_has_the_same_rows(streamed: Streamed) -> None:
    """Also if it was committed, compacted and appended to since."""
    found = feed(streamed)
    middle = '{"0": [1, 2], "1": [0, 0]}'
    end = found.newest()
    before = rows(found, "", middle), rows(found, middle, end)
    assert before == ([0, 1], [2, 3, 4, 5, 6])
    streamed.checkpoint()
    compacted(streamed.table, "major")
    streamed.send(0, rows_of([20]))
    streamed.served = False
    assert (rows(found, "", middle), rows(found, middle, end)) == before


def test_what_was_discarded_is_read_again_as_it_was_written_then(
    streamed: Streamed, caplog: pytest.LogCaptureFixture
) -> None:
    """The next batch begins where the records begin that replaced those; a warning says so."""
    found = feed(streamed)
    end = found.newest()
    assert rows(found, "", end) == [*range(7)]
    streamed.begin(0)
    streamed.send(0, rows_of([30, 31, 32, 33]))
    newest = found.newest()
    assert newest == '{"0": [2, 8], "1": [1, 0]}'
    assert rows(found, "", end) == [*range(4)], "a batch has no records of a later epoch"
    assert not caplog.records
    assert rows(found, end, newest) == [30, 31, 32, 33]
    assert "records of bucket 0 from offset 4 on were discarded" in caplog.text


def test_records_that_were_cleaned_end_a_stream(streamed: Streamed) -> None:
    """A stream that begins at the first records begins after them."""
    found = feed(streamed)
    streamed.checkpoint()
    compacted(streamed.table, "major")
    cleaned(streamed.table)
    streamed.send(0, rows_of([40]))
    assert rows(found, "", found.newest()) == [40]
    with pytest.raises(WindowExpired, match="after offset 2 were cleaned up to 7"):
        rows(found, '{"0": [1, 2]}', found.newest())


def test_records_of_keys_say_whether_they_delete() -> None:
    """The column is not one of the table's."""
    made = Streamed(table_of(PrimaryKey(key=("row",), buckets=2)))
    made.send(0, rows_of([1, 2]), [False, True])
    found = feed(made)
    batch = found.batch("", found.newest())
    assert read(batch, "row", "_segtable_deleted").to_pylist() == [
        {"row": 1, "_segtable_deleted": False},
        {"row": 2, "_segtable_deleted": True},
    ]
    assert '"name":"_segtable_deleted"' in found.schema()
    made.checkpoint()
    again = found.batch("", found.newest())
    columns = ("row", "at", "_segtable_deleted")
    assert read(again, *columns).to_pylist() == read(batch, *columns).to_pylist()


# Between the plan of a batch and its tasks
def nothing(streamed: Streamed) -> None:
    """Change nothing."""
    del streamed


def forgotten(streamed: Streamed) -> None:
    """Commit the records; the service keeps none, and goes on."""
    streamed.checkpoint()
    streamed.send(0, rows_of([50]))


def compacted_and_ended(streamed: Streamed) -> None:
    """Commit the records in two steps, compact them, and end the service."""
    streamed.checkpoint()
    streamed.send(0, rows_of([50, 51]))
    streamed.checkpoint()
    compacted(streamed.table, "major")
    streamed.store.shutdown()


def replaced(streamed: Streamed) -> None:
    """Begin an epoch after the commit of the records: it has other ones behind them."""
    streamed.checkpoint()
    streamed.begin(0)
    streamed.send(0, rows_of([60]))


@pytest.mark.parametrize("meanwhile", [nothing, forgotten, compacted_and_ended, replaced])
def test_tasks_read_what_was_planned(
    streamed: Streamed, meanwhile: Callable[[Streamed], None]
) -> None:
    """Wherever the records are by the time: at the service, or in files of later events."""
    found = feed(streamed)
    batch = found.batch('{"0": [1, 2], "1": [0, 0]}', found.newest())
    assert [type(part).__name__ for part in batch.plan.parts] == ["CommittedPart", "ServedPart"]
    meanwhile(streamed)
    pauses: list[float] = []
    for _ in range(2):  # a task that is run again
        assert read(batch, "row", pauses=pauses)["row"].to_pylist() == [2, 3, 4, 5, 6]
    assert not pauses


@pytest.mark.parametrize("ended", [False, True])
def test_tasks_read_no_record_of_a_later_epoch(streamed: Streamed, *, ended: bool) -> None:
    """What was discarded after the plan is in no batch; what came instead is in the next one."""
    found = feed(streamed)
    end = found.newest()
    batch = found.batch("", end)
    assert isinstance(batch.plan.parts[-1], ServedPart)
    streamed.begin(0)
    streamed.send(0, rows_of([30, 31, 32, 33]))
    streamed.checkpoint()
    newest = found.newest()
    if ended:
        streamed.store.shutdown()
        streamed.served = False
    assert read(batch, "row")["row"].to_pylist() == [*range(4)]
    assert rows(found, end, newest) == [30, 31, 32, 33]


def test_records_that_are_nowhere_are_waited_for(streamed: Streamed) -> None:
    """A bounded time; the batch fails, so the stream reads the same positions when it restarts."""
    found = feed(streamed)
    end = found.newest()
    batch = found.batch("", end)
    assert batch.plan.parts
    cut = streamed.cut()
    streamed.store.shutdown()
    pauses: list[float] = []
    with pytest.raises(LogStoreUnavailable, match="the records 4 to 7 of bucket 0 are not in"):
        read(batch, pauses=pauses)
    assert 50 < sum(pauses) < 70
    streamed.commit(cut)
    assert read(batch, "row")["row"].to_pylist() == rows(found, "", end) == [*range(7)]


def test_the_driver_opens_no_data_file(streamed: Streamed, tmp_path: Path) -> None:
    """A plan has the descriptors of files; their rows are the business of tasks."""
    found = feed(streamed)
    ports = replace(streamed.table.ports, files=open_files(str(tmp_path)))
    unread = replace(found, connect=lambda: (ports, streamed.find))
    plan = unread.batch("", found.newest()).plan
    assert len(plan.parts) == 2


def test_a_stream_of_a_log_store_has_few_options() -> None:
    """Those of a table's versions say nothing about it."""
    assert follows_log({"LOG": "true"})
    assert not follows_log({"path": "t"})
    assert to_follow_log({"path": "t", "log": "true"})[1] == LogRequest()
    asked = {"path": "t", "log": "true", "start": "earliest", "maxRecordsPerTrigger": "5"}
    assert to_follow_log(asked)[1] == LogRequest(start=LogStart.EARLIEST, records=5)
    with pytest.raises(InvalidInput, match="start='first' is not latest or earliest"):
        to_follow_log({"path": "t", "log": "true", "start": "first"})
    with pytest.raises(InvalidInput, match="there is no option 'where' here"):
        to_follow_log({"path": "t", "log": "true", "where": "n > 1"})
