"""Collect millions of row addresses from Spark as bitmaps for the log.

1. Each partition becomes one row per root (``tasks.packing``); the driver unites them.
2. A scan names rows of traced segments by place. The driver turns places into root addresses by
   the runs of the segment with that file.
3. Addresses given by a caller are looked up in the snapshot: addresses of deleted or unknown rows
   are left out.
"""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import CorruptTable, InvalidInput, SegtableError
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ROOT, ROW, Segment, SegmentId
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import AnyChunk, Timeline
from airflow_provider_segtable.data.row_filter import flags_of
from airflow_provider_segtable.data.vector_file import Rows
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.dataframe_scan import addresses
from airflow_provider_segtable.spark.reads.file_locations import place
from airflow_provider_segtable.spark.reads.row_bitmaps import Words, marked, words_of
from airflow_provider_segtable.spark.reads.spark_schemas import spark_schema
from airflow_provider_segtable.spark.tasks.packing import PACKED, packed
from airflow_provider_segtable.table.snapshot import Snapshot

MOST_ROWS = 1 << 32


@dataclass(frozen=True, slots=True)
class Collected:
    """The rows that a frame names, by root; ``named`` counts duplicates too."""

    rows: Rows
    named: int

    @property
    def matched(self) -> int:
        """Return the number of distinct rows."""
        return sum(map(len, self.rows.values()))


def collected(frame: DataFrame, state: State) -> Collected:
    """Return the rows that a frame names by the columns of ``scan(addressed=True)``.

    Raises:
        InvalidInput: a name is malformed, or its file has been cleaned.
        ExecutionFailed, InvalidInput: Spark failed, or refused the frame.
    """
    with translated("looking for the rows to change"):
        given = frame.select(ROOT, F.col(ROW).cast("bigint").alias(ROW))
        real = given.where(F.col(ROOT).isNotNull() & F.col(ROW).between(0, MOST_ROWS - 1))
        found = real.mapInArrow(packed, spark_schema(PACKED)).toArrow()
    named: dict[str, BitMap] = {}
    for name, bits in zip(found["name"].to_pylist(), found["bits"].to_pylist(), strict=True):
        named[name] = named.get(name, BitMap()) | _bitmap(bits)
    count = sum(found["rows"].to_pylist())
    return Collected(rows=rooted(named, state), named=count)


def present(spark: SparkSession, snapshot: Snapshot, rows: Rows) -> Collected:
    """Return the rows of ``rows`` that exist in a snapshot."""
    wanted = {root: some for root, some in rows.items() if some}
    if not wanted:
        return Collected(rows={}, named=0)
    bitmaps = {str(root): _words(some) for root, some in wanted.items()}
    for segment in snapshot.state.timeline.visible_near(root.interval for root in wanted):
        some = _places(segment, wanted) if segment.path and segment.traced else BitMap()
        if some:
            bitmaps[place(segment.path)] = _words(some)
    return collected(marked(addresses(spark, snapshot, wanted), bitmaps), snapshot.state)


def _bitmap(bits: bytes) -> BitMap:
    return BitMap(array("I", np.flatnonzero(flags_of(bits)).astype(np.uint32).tobytes()))


def _words(rows: BitMap) -> Words:
    flags = np.zeros(rows.max() + 1, np.bool_)
    flags[np.frombuffer(rows.to_array(), np.uint32)] = True
    return words_of(flags)


def rooted(named: Mapping[str, BitMap], state: State) -> dict[SegmentId, BitMap]:
    """Return rows by root, from names that are roots or places.

    Only the chunks near a place are decoded.

    Raises:
        InvalidInput: a name is malformed, or its file is not in the table.
    """
    folders = {name.partition("/")[0] for name in named if "/" in name}
    near = {chunk.key: chunk for each in folders for chunk in _chunks_of(each, state.timeline)}
    known = (s for chunk in near.values() for s in chunk.unpacked.segments() if s.path and s.traced)
    places = {place(segment.path): segment for segment in known}
    found: dict[SegmentId, BitMap] = {}
    for name, rows in named.items():
        for root, some in _by_root(name, rows, places):
            found[root] = found[root] | some if root in found else some
    return found


def _chunks_of(folder: str, timeline: Timeline) -> Iterator[AnyChunk]:
    """Return the chunks that may have files of a folder: those that overlap its interval."""
    try:
        return timeline.chunks(Interval.from_name(folder))
    except (ValueError, SegtableError):
        return iter(())


def _by_root(
    name: str, rows: BitMap, places: Mapping[str, Segment]
) -> Iterator[tuple[SegmentId, BitMap]]:
    if "/" not in name:
        yield _root(name), rows
        return
    if name not in places:
        raise InvalidInput(
            f"{name} is not in the table any more: scan a newer snapshot for addresses"
        )
    at = 0
    for run in places[name].runs:
        some = rows & BitMap(range(at, at + run.rows))
        if some:
            yield run.root, some.shift(run.start - at)
        at += run.rows


def _root(name: str) -> SegmentId:
    try:
        return SegmentId.parse(name)
    except CorruptTable as error:
        raise InvalidInput(f"no address: {error}; take them from scan(addressed=True)") from None


def _places(segment: Segment, wanted: Rows) -> BitMap:
    """Return the positions of rows in a traced segment's file."""
    found, at = BitMap(), 0
    for run in segment.runs:
        if run.root in wanted:
            some = wanted[run.root] & BitMap(range(run.start, run.start + run.rows))
            found |= some.shift(at - run.start)
        at += run.rows
    return found
