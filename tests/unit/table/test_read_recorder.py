"""What readers leave beside the log: columns and counts, never values, and nothing in their way."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_segtable.core.errors import StorageError
from airflow_provider_segtable.core.reads.read_facts import FilterKind, ReadFacts
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.health.repair import plan_repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.fleet_tables import find_tables
from airflow_provider_segtable.storage.local import LocalStorage
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.read_recorder import FOLDER, ReadRecorder, recorded_reads
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import SCHEMA, rows

ON = {"statistics.reads": "all"}
FIRST_HOUR = "1970-01-01T00:00:00Z/1970-01-01T01:00:00Z"


@pytest.fixture
def recorder() -> Iterator[ReadRecorder]:
    """A recorder that writes when it is closed."""
    made = ReadRecorder()
    yield made
    made.close()


@pytest.fixture
def read(table: Table, recorder: ReadRecorder) -> Table:
    """The table with a recorder of its own; all reads are recorded."""
    table.alter(set=ON)
    return Table(replace(table.ports, reads=recorder))


def recorded(table: Table) -> ReadFacts:
    """Return the facts of the only object."""
    table.ports.reads.close()
    state = table.state()
    (found,) = recorded_reads(table.ports.storage, state.table.table_id, 0)
    return found


def test_a_read_leaves_its_columns_and_counts(read: Table) -> None:
    """Files by each step, opened, possible by statistics, matching; and no value at all."""
    read.scan(where="row = 2 AND name IN ('n1', 'n2')", interval=FIRST_HOUR).to_arrow()
    found = recorded(read)
    (shape,) = found.shapes
    assert shape.filters == (
        ("at", FilterKind.RANGE),
        ("name", FilterKind.AMONG),
        ("row", FilterKind.EQUALITY),
    )
    assert shape.columns == ("at", "row", "name", "price")
    counts = found.shapes[shape]
    assert (counts.reads, counts.chunks, counts.found, counts.opened) == (1, 1, 4, 4)
    assert (counts.possible, counts.matching, counts.rows) == (1, 1, 1)
    ((_, chunk),) = found.chunks.items()
    assert (chunk.reads, chunk.opened, chunk.wasted) == (1, 4, 3)
    assert b"n1" not in found.encoded()
    assert b"n2" not in found.encoded()


def test_steps_count_the_files_that_they_left_out(read: Table) -> None:
    """Segments outside of the condition's event times are not opened."""
    read.scan(where="at < TIMESTAMP '1970-01-01 00:00:00.000010'").to_arrow()
    ((_, counts),) = recorded(read).shapes.items()
    assert (counts.found, counts.opened, counts.pruned) == (4, 1, {"event_times": 3})


def test_equal_reads_are_one_shape(read: Table) -> None:
    """Values differ, sums add up, and a read that was left early is not among them."""
    for number in range(3):
        read.scan(where=f"row = {number}", columns=["name"]).to_arrow()
    read.scan(columns=["name"], limit=1).to_arrow()
    read.scan(since_version=2).to_arrow()
    ((shape, counts),) = recorded(read).shapes.items()
    assert (shape.columns, counts.reads, counts.opened) == (("name",), 3, 24)


def test_a_table_without_the_property_leaves_nothing(table: Table, recorder: ReadRecorder) -> None:
    """Off is the default."""
    table = Table(replace(table.ports, reads=recorder))
    table.scan().to_arrow()
    recorder.close()
    assert not [*table.ports.storage.list(FOLDER)]


def test_sampled_reads_stand_for_all(read: Table) -> None:
    """One in ten is recorded, and counts for ten: the sum estimates all reads."""
    read.alter(set={"statistics.reads": "sampled"})
    for _ in range(300):
        read.scan(where="row = 1", interval=FIRST_HOUR, columns=["row"]).to_arrow()
    ((_, counts),) = recorded(read).shapes.items()
    assert counts.reads % 10 == 0
    assert 100 <= counts.reads <= 600


class Refusing:
    """A storage that a reader may not write to; it counts the requests."""

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.refused = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def create(self, path: str, data: bytes, **_: object) -> None:
        """Refuse."""
        self.refused += 1
        raise StorageError(f"{path} of {len(data)} bytes is not allowed")


def test_a_reader_without_the_right_to_write_reads(read: Table) -> None:
    """Its facts are lost, at the end, without an error; no read sent a request."""
    storage = Refusing(read.ports.storage)
    reader = Table(replace(read.ports, storage=storage))  # type: ignore[arg-type]
    assert reader.scan().to_arrow().num_rows == 40
    assert storage.refused == 0
    reader.ports.reads.close()
    assert storage.refused == 1


def test_cleaning_deletes_old_facts(read: Table) -> None:
    """By their age, ``statistics.hours``; a dry run names them; the table stays as it was."""
    read.scan().to_arrow()
    recorded(read)
    (entry,) = read.ports.storage.list(FOLDER)
    before = read.scan().to_arrow()
    assert clean(read.ports).reads == ()
    read.alter(set={"statistics.hours": "0"})
    assert clean(read.ports, dry_run=True).reads == (entry.path,)
    assert clean(read.ports, retention=Retention()).reads == (entry.path,)
    assert not [*read.ports.storage.list(FOLDER)]
    assert read.scan().to_arrow().equals(before)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"format": 2}',
        b'{"format": 1}',
        json.dumps(
            {
                "format": 1,
                "table": "t",
                "start": "now",
                "end": "",
                "shapes": [],
                "chunks": [],
                "unlisted": 0,
            }
        ).encode(),
    ],
)
def test_an_object_that_is_not_one_of_facts_is_left_out(read: Table, data: bytes) -> None:
    """Torn, foreign or of a later format: the rest is read."""
    read.ports.storage.create(f"{FOLDER}/20130101T00-torn.json", data)
    read.scan().to_arrow()
    assert recorded(read).shapes
    assert ReadFacts.decoded(data) is None


PROCESS = """
import os
import sys
from airflow_provider_segtable import Table
table = Table.open(sys.argv[1])
print(table.scan(where="row = 1").to_arrow().num_rows, flush=True)
if sys.argv[2:] == ["fork"]:
    child = os.fork()
    if not child:
        table.scan(where="row = 1").to_arrow()
        sys.exit(0)
    os.waitpid(child, 0)
if sys.argv[2:] == ["stop"]:
    import airflow_provider_segtable.storage.local as local
    def stopped(fd):
        print("syncing", flush=True)
        sys.stdin.read()
    table.ports.storage._sync = stopped
"""


def run(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(folder), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def on_disk(folder: Path) -> Table:
    made = Table.create(
        str(folder), schema=SCHEMA, time_column="at", properties=ON, zookeeper="memory://reads"
    )
    made.append(rows(range(10)))
    return made


def test_a_process_leaves_its_facts_when_it_ends(tmp_path: Path) -> None:
    """By itself, as one object; a killed one leaves the table as it was."""
    table = on_disk(tmp_path / "table")
    with run(tmp_path / "table") as done:
        assert done.communicate()[0] == "1\n"
    assert done.returncode == 0
    state = table.state()
    (found,) = recorded_reads(table.ports.storage, state.table.table_id, 0)
    ((shape, counts),) = found.shapes.items()
    assert (shape.filters, counts.reads) == ((("row", FilterKind.EQUALITY),), 1)
    before = table.scan().to_arrow()
    with run(tmp_path / "table", "stop") as killed:
        assert killed.stdout is not None
        assert [killed.stdout.readline() for _ in range(2)] == ["1\n", "syncing\n"]
        killed.send_signal(signal.SIGKILL)
    assert len([*table.ports.storage.list(FOLDER)]) == 1
    assert table.state().n == state.n
    assert table.scan().to_arrow().equals(before)
    clean(table.ports)


def test_a_forked_process_has_facts_of_its_own(tmp_path: Path) -> None:
    """It begins without those of its parent: each read is in one object."""
    table = on_disk(tmp_path / "table")
    with run(tmp_path / "table", "fork") as done:
        done.communicate(timeout=120)
    found = recorded_reads(table.ports.storage, table.state().table.table_id, 0)
    assert [[counts.reads for counts in each.shapes.values()] for each in found] == [[1.0], [1.0]]


def test_facts_are_no_part_of_the_table(tmp_path: Path, recorder: ReadRecorder) -> None:
    """Verification, the doctor and a repair find nothing, and a drop leaves none of them."""
    table = Table(replace(on_disk(tmp_path / "table").ports, reads=recorder))
    table.scan().to_arrow()
    recorded(table)
    assert not verify(table.ports, deep=True).findings
    assert not examine(table.ports).findings
    plan = plan_repair(table.ports)
    assert (plan.doubts, plan.event, plan.lost) == ((), None, ())
    fleet = read_fleet('[groups.all]\ntables = ["*"]', "fleet.toml")
    assert find_tables(fleet, lambda _: LocalStorage(tmp_path)).names == ("table",)
    assert drop(table.ports).kept == ()
    assert not [*table.ports.storage.list(FOLDER)]
