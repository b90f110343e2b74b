"""Append tables: rows are kept as they are written.

1. Files have the columns that readers see; a compaction adds the columns of root addresses where
   the log does not record them.
2. Every row has a root address: the place where it was first written. So deletes name rows by
   address, and updates and merges delete and append.
3. A compaction keeps every row that is not deleted: outputs have as many rows as ingested rows,
   and, as far as the log records rows, the very rows of the inputs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.requests.change_request import ChangeRequest
from airflow_provider_segtable.core.schema import Column, Order, Schema
from airflow_provider_segtable.core.segment import Roots, Run, Segment, concatenated, roots_of
from airflow_provider_segtable.core.tables.evolution import AddColumn, ColumnChange
from airflow_provider_segtable.core.tables.table_kind import DeletionForm
from airflow_provider_segtable.core.time import Granularity, Instant


@dataclass(frozen=True, slots=True)
class Append:
    """A table that keeps rows as they are written; methods as of ``TableKind``."""

    name: ClassVar[str] = "append"
    deletion: ClassVar[DeletionForm] = DeletionForm.VECTORS
    merges: ClassVar[bool] = False
    shows_base: ClassVar[bool] = False
    buckets: ClassVar[int] = 0
    major_tidies: ClassVar[bool] = True
    properties: ClassVar[Mapping[str, str]] = {}
    rules: ClassVar[None] = None
    unmerged: ClassVar[str] = ""

    def bound(
        self, schema: Schema, *, time_column: str, granularity: Granularity
    ) -> "tuple[Append, Schema]":
        """Accept any columns; readers see all of them."""
        del time_column, granularity
        return self, schema

    def encoded(self) -> dict[str, Any]:
        """Return nothing: a definition that names no kind is an append table's."""
        return {}

    @staticmethod
    def decoded(body: Mapping[str, Any]) -> "Append":
        """Parse the output of ``encoded``."""
        del body
        return Append()

    def facts(self) -> Mapping[str, str | list[str]]:
        """Return nothing: there are no settings."""
        return {}

    def needed(self, names: Sequence[str], time_column: str) -> Sequence[str]:
        """Return all columns."""
        del time_column
        return names

    def input_schema(self, stored: Schema, time_column: str) -> Schema:
        """Return the columns that readers see."""
        del time_column
        return stored

    @property
    def hidden(self) -> tuple[Column, ...]:
        """Return none: which files have addresses is a matter of each segment."""
        return ()

    def identity(self, names: Sequence[str], time_column: str) -> Sequence[str]:
        """Return all columns."""
        del time_column
        return names

    def check_columns(self, changes: Sequence[ColumnChange], table: str) -> None:
        """Accept all columns; refuse groups of columns."""
        for change in changes:
            if isinstance(change, AddColumn) and change.group:
                raise InvalidInput(
                    f"column {change.name!r} is to join the group {change.group!r}, but {table} "
                    "has no primary key, so it has no column groups: leave the group out"
                )

    def with_columns(
        self, changes: Sequence[ColumnChange], before: Schema, after: Schema
    ) -> "Append":
        """Return the kind, which goes by no columns."""
        del changes, before, after
        return self

    def placed(self, segment: Segment, n: int, *, renamed: bool) -> Segment:
        """Return the segment; a renamed one gets root addresses of its own."""
        del n
        if not renamed:
            return segment
        return replace(segment, lineage=(Run(segment.id, 0, segment.rows),))

    def published(self, segment: Segment, at: Instant) -> Segment:
        """Return the segment; if its rows were first written in it, with their completion time."""
        own = (segment.id, segment.file_id)
        first = segment.traced and all(run.root in own for run in segment.runs)
        return replace(segment, completed=at) if first else segment

    def roots(self, inputs: Sequence[Segment]) -> tuple[Roots, ...]:
        """Return the roots of the inputs."""
        return roots_of(inputs)

    def unaccounted(self, inputs: Sequence[Segment], outputs: Sequence[Segment]) -> Iterable[str]:
        """Yield a wrong number of rows, and roots that are absent from the inputs."""
        rows, events = sum(s.rows for s in outputs), sum(s.events for s in outputs)
        if rows != events:
            yield f"rows: expected {events}, found {rows}"
        known = {roots.chunk: roots.spans for roots in roots_of(inputs)}
        for roots in roots_of(outputs):
            for start, end in roots.spans:
                if not any(a <= start and end <= b for a, b in known.get(roots.chunk, ())):
                    yield f"rows of {roots.chunk} {start}..{end}, which no input has"

    def misplaced(self, inputs: Sequence[Segment], outputs: Sequence[Segment]) -> Iterable[str]:
        """Yield a lineage that differs from the inputs', if every row is traced."""
        if not any(segment.rows for segment in outputs):
            return
        if not all(segment.traced for segment in outputs):
            return
        found = concatenated(sorted(outputs, key=lambda s: s.shard.partition))
        expected = concatenated(inputs)
        if found != expected:
            yield f"lineage: expected {expected}, found {found}"

    def doubled(self, segments: Iterable[Segment]) -> Iterator[str]:
        """Yield the ranges of a root that two runs name, if every row is traced."""
        segments = tuple(segments)
        if not all(segment.traced for segment in segments):
            return
        runs = sorted(
            (run.root, run.start, run.start + run.rows) for s in segments for run in s.runs
        )
        for before, after in pairwise(runs):
            if before[0] == after[0] and after[1] < before[2]:
                yield f"rows {after[1]}..{before[2]} of {after[0]} are doubled"

    def tie_columns(self, time_column: str) -> tuple[str, ...]:
        """Return the event time."""
        return (time_column,)

    def check_order(self, order: Order, time_column: str, table: str) -> None:
        """Accept any order of sortable columns."""

    def check_buckets(self, buckets: int, table: str) -> None:
        """Refuse: rows without a key are in no bucket."""
        raise InvalidInput(
            f"{table} has no primary key, so it cannot have {buckets} buckets: leave them out"
        )

    def check_granularity(self, granularity: Granularity, table: str) -> None:
        """Accept any granularity: a row has one instant."""

    @property
    def only_spark(self) -> str:
        """Return nothing: Arrow can."""
        return ""

    def check_degree(self, degree: str, table: str) -> None:
        """Refuse: rows are not merged."""
        raise InvalidInput(
            f"{table} is not a rollup table, so {degree} rollup is impossible: leave it out"
        )

    def check_addresses(self, uri: str) -> None:
        """Accept: every row has a root address."""

    def check_window(self, uri: str) -> None:
        """Accept: a row's root address names the event that added it."""

    def check_change(self, request: ChangeRequest, uri: str) -> None:
        """Accept: old rows are deleted by address, new ones appended."""

    def check_predicate(self, predicate: Predicate, time_column: str) -> None:
        """Accept any predicate: it is evaluated once, and the log records addresses."""

    def unpublished(self, stored: Schema, unmerged: Iterable[str]) -> str:
        """Return nothing: there is nothing to merge."""
        del stored, unmerged
        return ""
