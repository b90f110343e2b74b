"""What is sent to tasks arrives and works in the Python of an executor, from the archive alone."""

import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.reads.effects import RowChange, RowEffect
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.time import Granularity, Interval
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.keyed.file_groups import FileGroup, MergedRead
from airflow_provider_segtable.data.row_filter import RowFilter
from airflow_provider_segtable.data.rows import FEED
from airflow_provider_segtable.spark.driver.session import package_archive
from airflow_provider_segtable.spark.tasks.reading import (
    MergedPart,
    MergedReading,
    ReadTask,
    SegmentPart,
    SegmentReading,
)
from airflow_provider_segtable.spark.tasks.writing import (
    SLOT,
    CheckTask,
    LogTask,
    SampleTask,
    WriteTask,
    decode_result,
    packed,
    run_group,
)
from airflow_provider_segtable.table.definition import of_kind
from tests.support.bare import bare_python

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.int64())])
PROGRAM = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
function, arguments = pickle.loads(sys.stdin.buffer.read())
sys.stdout.buffer.write(pickle.dumps(list(function(*arguments))))
"""
Arriving = Callable[..., Any]


@pytest.fixture(scope="module")
def arriving(tmp_path_factory: pytest.TempPathFactory) -> Arriving:
    """Return what calls a function as a task does: by the name of its module, in a bare Python."""
    folder = tmp_path_factory.mktemp("executor")
    python = bare_python(folder / "bare", "pyarrow", "numpy")
    archive = package_archive(folder)

    def call(function: Callable[..., Any], *arguments: object) -> Any:
        given = pickle.dumps((function, arguments))
        command = [str(python), "-I", "-c", PROGRAM, str(archive)]
        done = subprocess.run(command, input=given, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        return pickle.loads(done.stdout)  # noqa: S301  # of our own making

    return call


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, SCHEMA.field(0).type), [*numbers]], schema=SCHEMA)


def test_rows_are_written_checked_and_read_back(tmp_path: Path, arriving: Arriving) -> None:
    """A written segment is what its footer says, and is read again, each by a task."""
    segment_id = SegmentId(interval=Interval(start=0, end=3_600_000_000), version=0, partition=0)
    write = WriteTask(
        uri=str(tmp_path), ids=(segment_id,), schema=SCHEMA, time_column="at", created=1
    )
    slotted = pa.record_batch(
        [pa.array([0, 0], pa.int32()), *rows(1, 2).columns], names=[SLOT, *SCHEMA.names]
    )
    (told,) = arriving(write.run, [slotted], len)
    assert told["error"].to_pylist() == [None]
    segment = decode_result(told["segment"][0].as_py())
    assert arriving(CheckTask(uri=str(tmp_path), storage_options={}).run, [segment]) == []
    read = ReadTask(
        uri=str(tmp_path),
        storage_options={},
        work=SimpleNamespace(
            value=[SegmentPart(segment=segment, row_filter=RowFilter.idle(segment))]
        ),
        reading=SegmentReading(schema=SCHEMA, time_column="at", columns=("at", "row")),
        target=SCHEMA,
        time_column="at",
    )
    (found,) = arriving(read.read_in_task, [pa.record_batch([pa.array([0])], names=["id"])])
    assert found == rows(1, 2)


def test_event_times_of_windows_are_rounded_down(tmp_path: Path) -> None:
    """Before 1970, too, an event time stays in its time chunk when its nanoseconds go."""
    schema = pa.schema([("at", pa.timestamp("ns", "UTC"))])
    segment_id = SegmentId(interval=Interval(start=-3_600_000_000, end=0), version=0, partition=0)
    write = WriteTask(
        uri=str(tmp_path), ids=(segment_id,), schema=schema, time_column="at", created=1
    )
    times = pa.array([-3_600_000_000_000, -1_001], schema.field(0).type)
    given = pa.record_batch([pa.array([0, 0], pa.int32()), times], names=[SLOT, "at"])
    (told,) = write.run([given], print)
    segment = decode_result(told["segment"][0].as_py())
    near = pa.timestamp("us", "UTC")
    read = ReadTask(
        uri=str(tmp_path),
        storage_options={},
        work=SimpleNamespace(
            value=[
                SegmentPart(
                    segment=segment,
                    row_filter=RowFilter.idle(segment),
                    change=RowChange(RowEffect.INSERT, 7, 1),
                )
            ]
        ),
        reading=SegmentReading(schema=schema, time_column="at", columns=("at", FEED.names[1])),
        target=pa.schema([("at", near), FEED.field(1)]),
        time_column="at",
    )
    (found,) = read.read_in_task([pa.record_batch([pa.array([0])], names=["id"])])
    assert found["at"].cast(pa.int64()).to_pylist() == [-3_600_000_000, -2]
    assert found[FEED.names[1]].to_pylist() == [7, 7]


def test_records_are_written_and_merged(tmp_path: Path, arriving: Arriving) -> None:
    """Log files of two tasks are merged by a third: the later records win."""
    plain = TableDefinition(
        table_id="00000000-0000-0000-0000-000000000041",
        name="keyed",
        schema=from_arrow(SCHEMA),
        time_column="at",
        granularity=Granularity.DAY,
    )
    table = of_kind(plain, PrimaryKey(key=("row",), buckets=1))
    rules = table.kind.rules
    assert rules is not None
    segments = []
    for instant, numbers, gone in ((1, (1, 2, 3), False), (2, (3, 2), True)):
        write = LogTask(
            uri=str(tmp_path),
            storage_options={},
            table=table,
            rules=rules,
            layout=table.layout(),
            base_version=0,
            instant=instant,
            schema=SCHEMA,
        )
        flagged = [pa.array([gone] * len(numbers)), *rows(*numbers).columns]
        (told,) = arriving(write.run, [pa.record_batch(flagged, names=["0", "1", "2"])], len)
        assert told["message"].to_pylist() == [None]
        segments.append(decode_result(told["segment"][0].as_py()))
    read = ReadTask(
        uri=str(tmp_path),
        storage_options={},
        work=SimpleNamespace(value=[MergedPart(FileGroup(tuple(segments), None))]),
        reading=MergedReading(table=table, merged=MergedRead(rules=rules, columns=("at", "row"))),
        target=SCHEMA,
        time_column="at",
    )
    (found,) = arriving(read.read_in_task, [pa.record_batch([pa.array([0])], names=["id"])])
    assert found == rows(1)


def test_rows_are_packed_and_weighed(arriving: Arriving) -> None:
    """Addresses become bits, and rows a weight, with numpy and pyarrow."""
    named = pa.record_batch([["a", "a"], [0, 3]], names=["__segtable_root", "__segtable_row"])
    (found,) = arriving(packed, [named])
    assert found["rows"].to_pylist() == [2]
    (weighed,) = arriving(SampleTask(sketches=()).run, [rows(*range(100))])
    assert weighed["weight"].to_pylist() == [1600.0]


def test_a_group_of_jobs_arrives(arriving: Arriving) -> None:
    """The function that runs kernel jobs needs nothing of the driver."""
    assert arriving(run_group, ()) == []
