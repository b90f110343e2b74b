"""Log stores over Arrow Flight, published by claims, with records that no commit has."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pyarrow as pa

from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
from airflow_provider_segtable.ports.log_store import DeployMode, LogContext
from airflow_provider_segtable.services.log_directory import ClaimedBuckets
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.checkpointing import begin_epoch, log_schema

WAIT_S = 60.0


@contextmanager
def served(ports: TableContext, given: Mapping[int, pa.Table]) -> Iterator[None]:
    """Serve rows in the buckets of a table's log store, each bucket by a service of its own."""
    begun = begin_epoch(ports, [*given], owner="host:7")
    table, schema = begun.state.table.table_id, log_schema(begun.state)
    with ExitStack() as until:
        for bucket, rows in given.items():
            provider = FlightLogStoreProvider()
            store = provider.create(LogContext(table=table, schema=schema, buckets=(bucket,)))
            store.start()
            until.callback(store.shutdown)
            claims = ClaimedBuckets(
                ports.coordinator, table, service=f"s{bucket}", deploy_mode=DeployMode.EMBEDDED
            )
            claims.take([bucket], store.address)
            until.callback(claims.release, [bucket])
            client, end = provider.connect(store.address), begun.ends[bucket]
            writer = client.writer(bucket, epoch=begun.epoch, committed=end)
            until.callback(writer.close)
            for batch in rows.cast(schema).to_batches(2):
                writer.append(batch, wait_s=WAIT_S)
        yield
