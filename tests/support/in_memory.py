"""Contexts and definitions of tables that are kept in memory."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.context import TableContext
from tests.support.clock import FakeClock, FakeRandomness
from tests.support.rooted import RootedFiles


def context_in_memory(
    service: MemoryService | None = None,
    *,
    clock: FakeClock | None = None,
    uri: str = "memory://t",
    author: str = "first",
    rooted: bool = False,
) -> TableContext:
    """Return the context of an empty place, with a session at the service.

    Args:
        service: where locks are kept; a new one if absent.
        clock: the time of storage, context and coordinator; a new one if absent.
        uri: the place's name.
        author: the process's name.
        rooted: keep data files in the storage, beside the log, where a listing shows them.
    """
    clock = clock or FakeClock()
    storage = MemoryStorage(clock=clock)
    return TableContext(
        uri=uri,
        storage=storage,
        files=RootedFiles(storage) if rooted else MemoryFiles(),
        clock=clock,
        randomness=FakeRandomness(),
        author=author,
        optional_coordinator=MemoryCoordinator(clock, service or MemoryService()),
    )


def in_another_process(
    ports: TableContext, service: MemoryService, author: str = "second"
) -> TableContext:
    """Return the context of the same table with a session and random numbers of its own."""
    return replace(
        ports,
        author=author,
        randomness=FakeRandomness(1),
        optional_coordinator=MemoryCoordinator(ports.clock, service),
    )


def defined_by(
    schema: pa.Schema,
    granularity: Granularity = Granularity.HOUR,
    properties: Mapping[str, str] | None = None,
) -> TableDefinition:
    """Return the definition of table ``t`` with the event time ``at``."""
    return TableDefinition(
        table_id="t",
        name="t",
        schema=from_arrow(schema),
        time_column="at",
        granularity=granularity,
        properties=properties or {},
    )


def keyed_by(schema: pa.Schema, granularity: Granularity, wanted: PrimaryKey) -> TableDefinition:
    """Return the definition of table ``t`` with the event time ``at`` and a primary key."""
    plain = defined_by(schema, granularity)
    kind, bound = wanted.bound(plain.schema, time_column="at", granularity=granularity)
    return replace(plain, schema=bound, properties=kind.properties, kind=kind)
