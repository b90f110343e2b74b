"""Records of a log store between two positions of each bucket, as a batch of a stream.

1. The positions alone say what a batch has: committed records are the same whenever it is read.
2. Records that a new epoch has discarded are in no batch any more. A batch that ends in them ends
   where they begin; one that begins behind them begins there again (``Lineage.span``). So the new
   records at these offsets are in the next batch, after those that the stream has already seen.
3. Records are read from files or from the service (``table.log_store.tail``), by the driver. One
   that is neither here nor discarded is waited for, because its service may come back.
4. Of a primary-key table a committed range is one step: a batch may have records again that the one
   before had, in their last form.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from airflow_provider_segtable.core.errors import LogStoreUnavailable, WindowExpired
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log_store.manifest import BEGINNING, Offset, Position
from airflow_provider_segtable.core.log_store.reading import Expired, Reset
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.checkpointing import DELETED
from airflow_provider_segtable.table.log_store.file_reader import first_available
from airflow_provider_segtable.table.log_store.tail import BucketTail, Finder, LogRecords

Positions: TypeAlias = Mapping[int, Position]
"""The position of each bucket."""

WAIT_S = 60.0
"""Longest wait for records whose service does not answer."""
LOOK_S = 1.0

_LOG = logging.getLogger(__name__)


def encode_positions(positions: Positions) -> str:
    """Return positions as a stream's offset, e.g. ``{"0": [1, 50]}``."""
    found = {str(n): [each.epoch, each.offset] for n, each in sorted(positions.items())}
    return json.dumps(found)


def decode_positions(text: str) -> Positions:
    """Parse the output of ``encode_positions``."""
    found = json.loads(text)
    return {int(n): Position(epoch=epoch, offset=at) for n, (epoch, at) in found.items()}


def batch_end(
    ports: TableContext, start: Positions | None, up_to: Positions, records: int
) -> Positions:
    """Return the end of a batch that has at most so many records of each bucket.

    Arguments as for ``batch_rows``. A checkpoint of a primary-key table is never divided.
    """
    state, found = ports.log.load(), {}
    for bucket, last in up_to.items():
        if start is None:
            first = first_available(ports, bucket).offset
        else:
            lineage = bucket_of(state, bucket).lineage
            first, _ = lineage.span(start.get(bucket, BEGINNING), last)
        found[bucket] = replace(last, offset=min(last.offset, first + records))
    return found


def batch_rows(
    ports: TableContext, find: Finder, start: Positions | None, end: Positions, schema: pa.Schema
) -> pa.Table:
    """Return the records from one position of each bucket to another.

    Args:
        ports: the table's ports.
        find: finds the services of buckets.
        start: the first positions; None for all that can be read.
        end: the last positions.
        schema: the columns.

    Raises:
        WindowExpired: records after the start were cleaned.
        LogStoreUnavailable: records are neither in the table nor at a service, for ``WAIT_S``.
    """
    found = [schema.empty_table()]
    for bucket, last in sorted(end.items()):
        first = None if start is None else start.get(bucket, BEGINNING)
        reading = _BucketBatch(ports, find, bucket, first, last)
        found += [_in_columns(each, schema) for each in reading.records()]
    return pa.concat_tables(found)


def _in_columns(records: LogRecords, schema: pa.Schema) -> pa.Table:
    rows = records.rows
    if DELETED in schema.names:
        rows = rows.append_column(schema.field(DELETED), pa.array(records.deleted, pa.bool_()))
    return rows.select(schema.names).cast(schema)


class _BucketBatch:
    """The records of one bucket in a batch; ``start`` is None for all that can be read."""

    def __init__(
        self,
        ports: TableContext,
        find: Finder,
        bucket: int,
        start: Position | None,
        end: Position,
    ) -> None:
        self._ports, self._find, self._bucket = ports, find, bucket
        self._start, self._end = start, end

    def records(self) -> Iterator[LogRecords]:
        """Yield the records."""
        first, last = self._span()
        at = first.offset
        waited_s = 0.0
        with closing(BucketTail(self._ports, self._bucket, first, self._find)) as tail:
            while at < last:
                match tail.read(LOOK_S):
                    case LogRecords() as found:
                        yield _until(found, last)
                        at, waited_s = found.after.offset, 0.0
                    case Reset():
                        return  # what was discarded meanwhile: the next batch begins there
                    case Expired(position=position):
                        self._check_start(position)
                        at = position.offset
                    case None:
                        waited_s += LOOK_S
                        last = self._span()[1]
                        self._check_wait(waited_s, at, last)

    def _span(self) -> tuple[Position, Offset]:
        """Return the first position, and the offset after the last record, as of now."""
        known = bucket_of(self._ports.log.load(), self._bucket)
        start = BEGINNING if self._start is None else self._start
        first, last = known.lineage.span(start, self._end)
        if first == start.offset:
            return start, last
        _LOG.warning(
            "%s: records of bucket %s from offset %s on were discarded before they were committed; "
            "the stream has read up to %s, and goes on with the records of epoch %s",
            self._ports.uri,
            self._bucket,
            first,
            start.offset,
            known.epoch,
        )
        return Position(epoch=known.epoch, offset=first), last

    def _check_start(self, position: Position) -> None:
        if self._start is not None:
            raise WindowExpired(
                f"{self._ports.uri}: the records of bucket {self._bucket} after offset "
                f"{self._start.offset} were cleaned up to {position.offset}: read a version of the "
                "table, and start a new stream, with a checkpoint of its own"
            )

    def _check_wait(self, waited_s: float, at: Offset, last: Offset) -> None:
        if waited_s >= WAIT_S and at < last:
            raise LogStoreUnavailable(
                f"{self._ports.uri}: the records {at} to {last} of bucket {self._bucket} are not "
                f"in the table, and no service has them since {waited_s:g} s: start the writer "
                "again, then the stream"
            )


def _until(records: LogRecords, last: Offset) -> LogRecords:
    """Return the records of an append table up to an offset; all of a merged range."""
    count = last - records.first
    if records.deleted is not None or records.rows.num_rows <= count:
        return records
    return replace(records, rows=records.rows.slice(0, count))
