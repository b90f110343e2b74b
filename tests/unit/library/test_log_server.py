"""External services of log stores: two of them in this process, over Arrow Flight."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import (
    InvalidInput,
    LogStoreUnavailable,
    SchemaMismatch,
    TableGone,
)
from airflow_provider_segtable.core.schema import Metric, MetricKind
from airflow_provider_segtable.core.tables.evolution import AddColumn
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.library.log_server import LogServer
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
from airflow_provider_segtable.ports.log_store import DeployMode, LogWriter
from airflow_provider_segtable.services.log_directory import BucketFinder, addresses
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.checkpointing import begin_epoch
from tests.contract.worlds import eventually

PROVIDER = FlightLogStoreProvider(deploy_mode=DeployMode.EXTERNAL)
SCHEMA = pa.schema([pa.field("at", pa.timestamp("us", "UTC"), nullable=False), ("x", pa.int64())])


def rows(*values: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Return records, with nulls in later columns."""
    found = {"at": [0] * len(values), "x": list(values)}
    columns = [pa.array(found.get(f.name, [None] * len(values)), f.type) for f in schema]
    return pa.record_batch(columns, schema=schema)


class World:
    """One table, its coordinator, and services."""

    def __init__(self, folder: Path) -> None:
        self.address = f"memory://{uuid4()}"
        self.table = Table.create(
            str(folder / "t"),
            schema=SCHEMA,
            time_column="at",
            properties={"log_store.buckets": "2"},
            zookeeper=self.address,
        )
        self.id = self.table.state().table.table_id
        self.servers: list[LogServer] = []

    def ports(self) -> TableContext:
        """Return ports with a session of their own."""
        return Table.open(self.table.ports.uri, zookeeper=self.address).ports

    def serve(self) -> LogServer:
        """Start another service, which commits on request alone."""
        made = LogServer([self.ports()], PROVIDER, checkpoint_s=3600, look_s=0.05)
        made.start()
        self.servers.append(made)
        return made

    def served(self) -> dict[int, str]:
        """Return the address of each bucket."""
        found = addresses(self.table.ports.coordinator, self.id)
        return {bucket: at.address for bucket, at in found.items()}

    def writer(self, bucket: int) -> LogWriter:
        """Begin to write a bucket, at its service."""
        client = BucketFinder(self.table.ports.coordinator, self.id, PROVIDER.connect)(bucket)
        assert client
        begun = begin_epoch(self.table.ports, [bucket], owner="test")
        return client.writer(bucket, epoch=begun.epoch, committed=begun.ends[bucket])

    def values(self) -> list[int]:
        """Return what the table has."""
        return sorted(int(x) for x in self.table.scan().to_arrow().column("x").to_pylist())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for each in made.servers:
        each.close()


def test_services_share_buckets_and_hand_them_over_committed(world: World) -> None:
    """A second one gets its bucket with everything committed, and the rest when the first ends."""
    first = world.serve()
    eventually(lambda: len(world.served()) == 2)
    assert len(set(world.served().values())) == 1
    writers = [world.writer(bucket) for bucket in range(2)]
    for n, writer in enumerate(writers):
        writer.append(rows(n), wait_s=60)
    assert world.values() == []
    world.serve()
    eventually(lambda: len(set(world.served().values())) == 2)
    assert world.values() == [0, 1]
    moved = [writer for writer in writers if not _goes_on(writer)]
    assert len(moved) == 1
    first.close()
    eventually(lambda: len(set(world.served().values())) == 1 and len(world.served()) == 2)
    assert world.values() == [0, 1, 7]
    for bucket in range(2):
        again = world.writer(bucket)
        again.append(rows(8), wait_s=60)
        again.close()
    client = PROVIDER.connect(world.served()[0])
    version = client.checkpoint(wait_s=60)
    assert world.values() == [0, 1, 7, 8, 8]
    assert version == world.table.state().n


def _goes_on(writer: LogWriter) -> bool:
    """Append one more record, unless the bucket has moved."""
    try:
        writer.append(rows(7), wait_s=60)
    except LogStoreUnavailable:
        return False
    finally:
        writer.close()
    return True


def test_an_altered_table_gets_another_store(world: World) -> None:
    """What waited is committed in the old columns; records have the new ones from then on."""
    world.serve()
    eventually(lambda: len(world.served()) == 2)
    before = world.served()
    writer = world.writer(0)
    writer.append(rows(1), wait_s=60)
    world.table.alter(columns=[AddColumn(name="y", type="string")])
    eventually(lambda: len(world.served()) == 2 and world.served()[0] != before[0])
    writer.close()
    wide = SCHEMA.append(pa.field("y", pa.string()))
    again = world.writer(0)
    with pytest.raises(SchemaMismatch):
        again.append(rows(2), wait_s=60)
    again.append(rows(2, schema=wide), wait_s=60)
    again.close()
    world.servers.pop().close()
    assert world.values() == [1, 2]
    assert world.served() == {}


def test_a_dropped_table_ends_its_service(world: World) -> None:
    """``close`` raises why."""
    server = world.serve()
    eventually(lambda: len(world.served()) == 2)
    Table.drop(world.table.ports.uri, zookeeper=world.address)
    eventually(lambda: server.over)
    with pytest.raises(TableGone):
        world.servers.pop().close()


def test_nothing_is_served_if_a_table_cannot_be(world: World, tmp_path: Path) -> None:
    """The first error is raised, and what had been started is ended."""
    other = Table.create(
        str(tmp_path / "r"),
        schema=SCHEMA,
        time_column="at",
        kind=Rollup(dimensions=("x",), metrics=(Metric(name="n", kind=MetricKind.COUNT),)),
        zookeeper=world.address,
    )
    server = LogServer([world.ports(), other.ports], PROVIDER)
    with pytest.raises(InvalidInput, match="cannot have a log store"):
        server.start()
    assert server.over
    assert world.served() == {}
