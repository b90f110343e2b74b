"""Rows as a user gives them, as batches of records for the buckets of a log store.

1. Rows are checked against the columns before any of them is sent, so that no checkpoint fails by
   them. Nullable columns may be left out.
2. Rows of a primary-key table go to the bucket of their key's hash: the records of a key stay in
   order. Those of an append table go to one bucket, in turn.
3. Batches are small beside a bucket, so that a large append waits for room piece by piece.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import pyarrow as pa

from airflow_provider_segtable.core.counted import MIB, describe_size
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.keyed.keyed_rows import buckets_of
from airflow_provider_segtable.data.rows import Rows, arrow_table
from airflow_provider_segtable.planning.properties.log_store_settings import LogStoreSettings
from airflow_provider_segtable.table.append import check_filled
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.load import check_for
from airflow_provider_segtable.table.log_store.checkpointing import DELETED, log_schema
from airflow_provider_segtable.table.upsert import records_of

LARGEST_BATCH = 8 * MIB
BATCHES_A_BUCKET = 4


class RecordSplitter:
    """Makes the batches of one writer.

    Args:
        state: the version whose columns the records have.
        uri: the table's place, for messages.
        settings: the settings of the log store.
        buckets: the buckets that the writer has.
    """

    def __init__(
        self, state: State, uri: str, settings: LogStoreSettings, buckets: Sequence[int]
    ) -> None:
        self.schema = log_schema(state, uri)
        self._state, self._uri, self._buckets = state, uri, tuple(buckets)
        self._count = settings.buckets
        self._room = settings.limits.bucket_bytes
        self._turns = count()

    def is_outdated(self, state: State) -> bool:
        """Return whether the table's columns were altered since."""
        return state.table.schema != self._state.table.schema

    def split(self, given: Rows, deleted: str | None) -> Mapping[int, list[pa.RecordBatch]]:
        """Return the batches of each bucket, in order.

        Args:
            given: the rows.
            deleted: in a primary-key table: the column that says which rows delete their key.

        Raises:
            SchemaMismatch, TimeOutOfRange: the rows do not fit.
            InvalidInput: a key is null or of a bucket that the writer does not have, a record is
                larger than a bucket, or the table has no keys to delete.
        """
        rules = self._state.table.kind.rules
        if rules is not None:
            parts = self._by_key(self._keyed(arrow_table(given), deleted), rules)
        elif deleted is None:
            table = self._state.table
            rows = check_filled(arrow_table(given), given_schema(table), table.time_column)
            parts = {self._buckets[next(self._turns) % len(self._buckets)]: rows}
        else:
            raise InvalidInput(
                f"column {deleted!r} is to delete keys, but {self._uri} has no primary key: delete "
                "the rows by a condition (Table.delete)"
            )
        return {n: [*self._batches(rows)] for n, rows in parts.items() if rows.num_rows}

    def _keyed(self, rows: pa.Table, deleted: str | None) -> pa.Table:
        """Return records with a mark of deletes."""
        state = self._state
        named = DELETED if deleted is None and DELETED in rows.column_names else deleted
        found = records_of(rows, state, named, check=check_for(state, named, check_filled))
        marked = found.rows.append_column(DELETED, pa.array(found.deleted))
        return marked.cast(self.schema)

    def _by_key(self, rows: pa.Table, rules: MergeRules) -> Mapping[int, pa.Table]:
        found = buckets_of(rows, rules.bucket_key, self._count)
        if self._count == 1:
            return {0: rows}
        parts = {n: rows.filter(pa.array(found == n)) for n in sorted({*found.tolist()})}
        for bucket in parts.keys() - set(self._buckets):
            raise InvalidInput(
                f"{parts[bucket].num_rows} of the rows have keys of bucket {bucket} of the log "
                f"store of {self._uri}, and this writer has {list(self._buckets)}: give them to "
                "the writer of that bucket, or open this one with all buckets"
            )
        return parts

    def _batches(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        for batch in rows.combine_chunks().to_batches():
            yield from self._pieces(batch)

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if batch.nbytes <= min(LARGEST_BATCH, self._room // BATCHES_A_BUCKET):
            yield batch
        elif batch.num_rows > 1:
            half = batch.num_rows // 2
            yield from self._pieces(batch.slice(0, half))
            yield from self._pieces(batch.slice(half))
        elif batch.nbytes <= self._room:
            yield batch
        else:
            raise InvalidInput(
                f"a record of {describe_size(batch.nbytes)} exceeds a bucket of the log store of "
                f"{self._uri} ({describe_size(self._room)}): raise log_store.bucket_mb, or append "
                "it to the table"
            )
