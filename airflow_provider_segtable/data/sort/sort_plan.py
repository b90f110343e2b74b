"""The specification of a sort, and the plan made from the sort sample.

1. The order is checked before anything is read.
2. A time chunk gets several ranges for each segment to be written, and enough ranges that the rows
   moved at once stay within their share of memory.
3. The plan gathers *directly* from the inputs if few bytes are then read more than once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.schema import Order, Schema, no_column
from airflow_provider_segtable.core.segment import Roots, Segment, SegmentId
from airflow_provider_segtable.core.tables.field_ids import field_ids
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.data.deletes.row_filter import RowFilter, row_filter_of
from airflow_provider_segtable.data.parquet.blocks import Block, Shape
from airflow_provider_segtable.data.parquet.table_file import stored_columns, with_hidden_ids
from airflow_provider_segtable.data.sort.ranges import (
    Keying,
    Ranges,
    assigned,
    cut,
    grid_of,
    joined,
)
from airflow_provider_segtable.data.sort.sizing import Sizing, grouped, packed, parts_of
from airflow_provider_segtable.data.sort.sort_jobs import Task
from airflow_provider_segtable.data.sort.sort_keys import Indices, check_sortable
from airflow_provider_segtable.data.sort.sort_sample import Surveyed, SurveyJob, physical
from airflow_provider_segtable.data.table_kinds.row_kind import RowKind

DIRECT = 2.0
"""The most bytes that gathering directly from the inputs may read, as a multiple of their size."""
SAMPLED_BLOCKS = 24
SAMPLED_ROWS = 50_000
POINTS = 60
"""Sampled rows for each range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortSpec:
    """The specification of a sort.

    Attributes:
        uri: the table's URI.
        storage_options: the table's storage options.
        schema: the table's schema.
        time_column: the event time.
        order: the sort order; if empty, by event time.
        intervals: the target time chunks, sorted and disjoint; most may stay empty.
        target_size: wanted bytes of a segment.
        memory: decoded bytes that one task may hold.
        parallelism: the number of tasks that may run at once.
        attempt: 16 hex digits, part of every file name.
        created: when the attempt began.
        row_kind: the rows of the table's kind.
        replaces: the roots that the result replaces, kept in the first segment of each time chunk.
        buckets: with a primary key: the number of buckets of each time chunk; empty if the rows
            stay in their bucket.
        most: the most segments allowed (0: no limit).
        drop_before: with a primary key: tombstones that completed before may be left out.
        member: at least one segment is needed, an empty one if no row is left.
        row_filters: row filters by input; an input without one has no deletes.
        deletes_applied_through: the last event whose deletes are in the row filters.
        definition: the table's, for the footers; that of some input by default.
    """

    uri: str
    storage_options: Mapping[str, str]
    schema: Schema
    time_column: str
    order: Order
    intervals: tuple[Interval, ...]
    target_size: int
    memory: int = 512 << 20
    parallelism: int = 2
    attempt: str
    created: Instant
    row_kind: RowKind
    replaces: tuple[Roots, ...] = ()
    buckets: tuple[int, ...] = ()
    most: int = 0
    drop_before: Instant = 0
    member: bool = False
    row_filters: Mapping[SegmentId, RowFilter] = field(default_factory=dict)
    deletes_applied_through: int = 0
    definition: bytes = b""

    def sieves_of(self, inputs: Sequence[Segment]) -> dict[int, RowFilter]:
        """Return the row filters of inputs, by input number."""
        return {number: row_filter_of(self.row_filters, one) for number, one in enumerate(inputs)}

    @property
    def share(self) -> float:
        """Return the decoded bytes that may be moved at once."""
        return self.memory / 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SortPlan:
    """The plan of a sort; ``row_filters`` are by input number."""

    spec: SortSpec
    row_filters: Mapping[int, RowFilter]
    task: Task
    ranges: Ranges
    blocks: tuple[tuple[Block, int, int], ...]
    density: float

    @property
    def direct(self) -> bool:
        """Return whether to gather directly from the inputs."""
        if self.ranges.count == 1:
            return True
        if self.spec.row_kind.kind.merges:
            return False
        sizing = self.sizing(self.density)
        read = 0
        for outputs in packed(grouped(self.ranges, sizing), self.ranges.rows, sizing):
            for first, end in parts_of(outputs, self.ranges.rows, sizing):
                read += sum(b.size for b, low, high in self.blocks if low < end and high >= first)
        return read <= DIRECT * sum(block.size for block, _, _ in self.blocks)

    def sizing(self, density: float) -> Sizing:
        """Return the sizes of segments and parts."""
        return Sizing(
            rows=max(1.0, self.spec.target_size / max(density, 1e-9)),
            part=self.spec.share / self.task.shape.width,
            most=self.spec.most,
        )


def keying_of(spec: SortSpec, schema: pa.Schema) -> Keying:
    """Return the sort key as known before sampling.

    Raises:
        InvalidInput: the order names a column that is missing or cannot be sorted by.
    """
    for name in spec.order.columns:
        if name not in schema.names:
            raise no_column(name, schema.names, f"for the order {spec.order}")
        check_sortable(name, schema.field(name).type)
    if not spec.intervals:
        raise InvalidInput("there is no target time chunk to sort into")
    columns = (*spec.order.columns, *spec.row_kind.kind.tie_columns(spec.time_column))
    return Keying(
        columns=tuple(dict.fromkeys(columns)),
        time_column=spec.time_column,
        order=len(spec.order.columns),
        intervals=spec.intervals,
    )


def survey_jobs(
    spec: SortSpec, inputs: Sequence[Segment], schema: pa.Schema, keying: Keying
) -> list[SurveyJob]:
    """Return the jobs of the sample stage."""
    groups = sum(max(1, segment.row_groups) for segment in inputs)
    rows = sum(segment.rows for segment in inputs)
    size = sum(segment.size for segment in inputs)
    segments = max(1, size // spec.target_size)
    points = max(SAMPLED_ROWS, POINTS * Sizing.RANGES * segments + 10 * len(spec.intervals))
    numbered, row_filters = list(enumerate(inputs)), spec.sieves_of(inputs)
    jobs = min(len(inputs), spec.parallelism)
    bounds = np.linspace(0, len(inputs), jobs + 1).astype(int)
    return [
        SurveyJob(
            uri=spec.uri,
            storage_options=spec.storage_options,
            inputs=tuple(segment for _, segment in numbered[a:b]),
            numbers=tuple(number for number, _ in numbered[a:b]),
            row_filters={number: row_filters[number] for number, _ in numbered[a:b]},
            schema=schema,
            keying=keying,
            stride=max(1, groups // SAMPLED_BLOCKS),
            rate=min(1.0, points / rows),
            row_kind=spec.row_kind,
            attempt=spec.attempt,
        )
        for a, b in pairwise(bounds.tolist())
    ]


def planned(
    spec: SortSpec, inputs: Sequence[Segment], keying: Keying, surveys: Sequence[Surveyed]
) -> SortPlan:
    """Return the plan from the sort samples; at least one of them has rows."""
    surveys = [one for one in surveys if one.blocks]
    sample = joined([one.sample for one in surveys])
    if spec.order.curve == "zorder":
        columns = [sample.values.column(name) for name in spec.order.columns]
        keying = replace(keying, grids=tuple(grid_of(c.combine_chunks()) for c in columns))
    shape = _shape(spec, surveys)
    counts = np.sum([one.counts for one in surveys], axis=0)
    weight = np.array([one.sampled for one in surveys], float)
    density = float(np.average([one.density for one in surveys], weights=weight))
    wanted = _wanted(spec, counts, density, shape.width)
    ranges = cut(keying, sample, counts, wanted, divisible=not spec.row_kind.kind.merges)
    blocks = [
        placed
        for one in surveys
        for placed in zip(one.blocks, *_spans(keying, one, ranges), strict=True)
    ]
    task = Task(
        uri=spec.uri,
        storage_options=spec.storage_options,
        shape=shape,
        keying=keying,
        marks=ranges.marks,
        row_kind=spec.row_kind,
        most=spec.share,
        roots=spec.row_kind.kind.roots(inputs),
        deletes_applied_through=spec.deletes_applied_through,
        schema=spec.schema.number,
    )
    return SortPlan(
        spec=spec,
        row_filters=spec.sieves_of(inputs),
        task=task,
        ranges=ranges,
        blocks=tuple(blocks),
        density=density,
    )


def _shape(spec: SortSpec, surveys: Sequence[Surveyed]) -> Shape:
    hidden = {column.name: column for one in surveys for column in one.hidden}
    schema = physical(stored_columns(spec.schema), hidden.values(), spec.row_kind)
    schema = with_hidden_ids(schema, field_ids(spec.schema, spec.row_kind.kind))
    sampled = sum(one.sampled for one in surveys)
    words = [n for n in schema.names if 2 * sum(s.words.get(n, 0) for s in surveys) > sampled]
    width = max(one.width for one in surveys)
    coded = frozenset().union(*(one.coded for one in surveys))
    return Shape(
        schema=schema,
        words=tuple(words),
        width=width,
        coded=coded,
        definition=spec.definition
        or next((one.definition for one in surveys if one.definition), b""),
    )


def _wanted(spec: SortSpec, counts: Indices, density: float, width: float) -> list[int]:
    """Return the number of ranges to make in each time chunk."""
    segments = np.maximum(1, np.round(counts * density / spec.target_size))
    parts = np.ceil(counts * width / spec.share)
    several = np.where(segments > 1, segments * Sizing.RANGES, 1)
    nearly = counts * density > spec.target_size / 2  # the estimate may be too low
    several = np.where((segments == 1) & nearly, Sizing.RANGES, several)
    return [int(n) for n in np.maximum(several, parts * np.where(parts > 1, 2, 1))]


def _spans(keying: Keying, survey: Surveyed, ranges: Ranges) -> tuple[list[int], list[int]]:
    """Return for each block the first and last range that may have rows of it."""
    last = ranges.count - 1
    known = pa.array(np.flatnonzero(survey.bounded))
    ends = [[0, last] for _ in survey.blocks]
    ordinals = np.array([block.ordinals for block in survey.blocks]).reshape(-1, 2)
    for side, table in enumerate((survey.low, survey.high)):
        found = assigned(keying, table.take(known), ordinals[known, side], ranges.marks)
        for at, number in zip(known.to_pylist(), found, strict=True):
            ends[at][side] = int(number)
    return [low for low, _ in ends], [high for _, high in ends]
