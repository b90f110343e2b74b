"""Parts of a read: which segments of a version are read, clipped to which interval, filtered how.

1. Only segments that may have wanted rows are parts: by the interval, and by the event times for
   which a condition can hold. They are chosen step by step (``core.reads.selection``).
2. A segment of which a higher version hides a part is clipped to the rest.
3. A part's row filter drops deleted rows, and chooses rows by their root addresses. The filter and
   the descriptor are plain data, so that any reader may read a part, in Spark's tasks, too.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from airflow_provider_segtable.core.deletion import holds_any
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.reads.effects import Origins, RowChange
from airflow_provider_segtable.core.reads.selection import MayHold, PrunedBy, Selection
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import Visible
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.deletes.row_filter import RowFilter
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import stored_columns
from airflow_provider_segtable.ports.files import DataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A segment to read, with its row filter, and the interval to clip it to, if any.

    ``change`` is what happened to its rows, in a change feed; ``origins`` are those of its rows, if
    they are asked for.
    """

    segment: Segment
    row_filter: RowFilter
    clip: Interval | None
    change: RowChange | None = None
    origins: Origins | None = None

    @property
    def known_rows(self) -> int | None:
        """Return the number of rows; None if files have to be read for it."""
        if self.clip is not None or self.row_filter.reads:
            return None
        gone = 0 if self.row_filter.passes_all else self.row_filter.deleted_rows()
        return self.segment.rows - gone


class Clipped(NamedTuple):
    """A visible segment, and the interval to clip it to, if any."""

    segment: Segment
    clip: Interval | None

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Return the segment."""
        return (self.segment,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The rows that a read wants, as far as descriptors tell.

    Attributes:
        interval: outside of it no row is wanted; everywhere if None.
        conditions: conditions that all wanted rows satisfy.
        time_column: the event time.
        merged: whether conditions are on merged rows of a rollup table: of the rows in files, only
            the event times are theirs.
    """

    interval: Interval | None
    conditions: tuple[Condition, ...]
    time_column: str
    merged: bool = False

    @property
    def tests(self) -> tuple[Predicate, ...]:
        """Return what all wanted rows in files satisfy, as far as it is known as predicates."""
        return () if self.merged else tuple(p for each in self.conditions for p in each.predicates)

    def among(self, state: State, roots: Collection[SegmentId] | None = None) -> Selection[Clipped]:
        """Return the visible segments that may have wanted rows.

        With ``roots``, only those that may hold rows of these.
        """
        near = Selection.begun(PrunedBy.TIME_CHUNKS, clipped(visible_groups(state, self.interval)))
        if roots is not None:
            near = near.pruned(PrunedBy.ROOTS, lambda each: holds_any(each.segment, roots))
        return near.pruned(PrunedBy.EVENT_TIMES, self.may_hold)

    def may_hold(self, found: Clipped) -> bool:
        """Return whether a segment may have wanted rows, by its first and last event time."""
        segment, clip = found
        first, last = segment.time_min, segment.time_max
        if clip is not None and not (first < clip.end and clip.start <= last):
            return False
        return all(each.may_hold(self.time_column, first, last) for each in self.conditions)

    def narrow(self, found: Clipped, may_hold: MayHold) -> Clipped | None:
        """Return a segment unless no wanted row can be in its file."""
        return found if all(may_hold(found.segment, test) for test in self.tests) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReader:
    """Reads parts in the columns of a table's definition, whatever schema their files have.

    ``checked`` compares their bytes with checksums.
    """

    files: DataFiles
    table: TableCreated
    checked: bool

    def read(
        self,
        part: Part,
        *,
        columns: Sequence[str] | None,
        schema: pa.Schema | None = None,
        where: Condition | None = None,
        addressed: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of a part; arguments as for ``reading``."""
        return self.reading(
            part, columns=columns, schema=schema, where=where, addressed=addressed
        ).batches()

    def reading(
        self,
        part: Part,
        *,
        columns: Sequence[str] | None,
        schema: pa.Schema | None = None,
        where: Condition | None = None,
        addressed: bool = False,
    ) -> SegmentRead:
        """Return the read of a part; ``where`` skips row groups, and filters nothing."""
        return SegmentRead(
            self.files,
            part.segment,
            schema=schema or stored_columns(self.table.schema),
            time_column=self.table.time_column,
            columns=columns,
            clip=part.clip,
            row_filter=part.row_filter,
            addressed=addressed,
            checked=self.checked,
            where=where,
        )


def visible_groups(state: State, interval: Interval | None) -> tuple[Visible, ...]:
    """Return the visible groups that have rows, clipped to an interval."""
    found = state.timeline.lookup(interval)
    return tuple(each for each in found if any(segment.rows for segment in each.segments))


def clipped(groups: Iterable[Visible]) -> Iterator[Clipped]:
    """Yield the segments with rows of visible groups."""
    for found in groups:
        for segment in found.segments:
            if segment.rows:
                yield Clipped(segment, clip_of(segment, found.interval))


def clip_of(segment: Segment, interval: Interval | None) -> Interval | None:
    """Return the interval if a segment has rows outside of it, else None."""
    if interval is None:
        return None
    within = interval.holds(segment.time_min) and interval.holds(segment.time_max)
    return None if within else interval
