"""Kinds of table: one object decides how a table keeps its rows.

1. A table's kind is a part of its definition (``TableDefinition.kind``): a value with settings of
   its own. Each kind is one file: ``append_kind`` keeps all rows, ``rollup_kind`` keeps
   one row for a group.
2. Other code asks the kind. It never asks *which* kind a table is of: no ``isinstance``, no
   comparison of names. So a new kind cannot take the branch of an old one by accident.
3. This is the pure part. Arrow's part is in ``data.table_kinds``, Spark's in
   ``spark.table_kinds``; both are found by the kind's ``name``, in one registry each.
4. ``table_kinds`` is the registry of this layer: it encodes and decodes kinds.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Protocol

from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.requests.change_request import ChangeRequest
from airflow_provider_segtable.core.schema import Column, Order, Schema
from airflow_provider_segtable.core.segment import Roots, Segment
from airflow_provider_segtable.core.tables.evolution import ColumnChange
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Granularity, Instant


class DeletionForm(Enum):
    """How the log records which rows a delete removes."""

    VECTORS = "vectors"
    """By root address: rows are found first, and named one by one."""
    PREDICATE = "predicate"
    """By a condition, which readers and compactions evaluate: rows have no address."""
    TOMBSTONES = "tombstones"
    """By further rows, which delete their keys: a delete is an append."""

    @property
    def counted(self) -> bool:
        """Return whether the log also records how many rows a delete removes."""
        return self is DeletionForm.VECTORS

    @property
    def in_files(self) -> bool:
        """Return whether data files have rows that delete others, and are not shown."""
        return self is DeletionForm.TOMBSTONES


class TableKind(Hashable, Protocol):
    """How a table keeps its rows.

    Attributes:
        name: the kind's name in the registries, in JSON and in ``describe``.
        deletion: how the log records deletes.
        merges: whether rows of equal keys become one. Then a region is perfect only after a major
            compaction, and sorting must not part rows of equal keys.
        unmerged: the planner's words for segments that no major compaction has merged yet.
        shows_base: whether readers of other formats, which merge nothing, are shown the base of a
            chunk alone (``core.segment``), instead of all visible files.
        major_tidies: whether sorting, sizes and deleted rows are reasons for a major compaction.
            If not, only a wanted granularity or number of buckets is one.
        buckets: the number of buckets of a time chunk; 0 without a primary key.
        rules: how the records of a key become its row; None without a primary key.
        properties: properties that the table has unless others are given.
    """

    name: ClassVar[str]
    deletion: ClassVar[DeletionForm]
    merges: ClassVar[bool]
    shows_base: ClassVar[bool]
    major_tidies: ClassVar[bool]
    unmerged: ClassVar[str]

    @property
    def buckets(self) -> int:
        """Return the number of buckets."""
        ...

    @property
    def rules(self) -> MergeRules | None:
        """Return how records are merged."""
        ...

    @property
    def properties(self) -> Mapping[str, str]:
        """Return the properties."""
        ...

    # The definition of the table

    def bound(
        self, schema: Schema, *, time_column: str, granularity: Granularity
    ) -> "tuple[TableKind, Schema]":
        """Check the kind against the columns of incoming rows.

        Returns:
            The kind, with its record of these columns, and the columns that readers
            see.

        Raises:
            SchemaMismatch, InvalidName, InvalidInput: the kind does not fit the columns.
        """
        ...

    def encoded(self) -> dict[str, Any]:
        """Return the fields of a table's definition in JSON that record the kind."""
        ...

    def facts(self) -> Mapping[str, str | list[str]]:
        """Return the settings as ``describe`` shows them: JSON values, each a text or texts."""
        ...

    # Columns

    def needed(self, names: Sequence[str], time_column: str) -> Sequence[str]:
        """Return the given columns that the table needs of incoming rows."""
        ...

    def input_schema(self, stored: Schema, time_column: str) -> Schema:
        """Return the columns of incoming rows, given the columns that readers see."""
        ...

    @property
    def hidden(self) -> tuple[Column, ...]:
        """Return the columns that files have after the columns that readers see."""
        ...

    def identity(self, names: Sequence[str], time_column: str) -> Sequence[str]:
        """Return the columns that determine a stored row; a row's hash is made of these."""
        ...

    def check_columns(self, changes: Sequence[ColumnChange], table: str) -> None:
        """Refuse changes of columns that the rows kept do not allow.

        Raises:
            InvalidInput: with the column, the reason and the way out.
        """
        ...

    def with_columns(
        self, changes: Sequence[ColumnChange], before: Schema, after: Schema
    ) -> "TableKind":
        """Return the kind after changes of columns, which were checked.

        Args:
            changes: the changes, in order.
            before: the columns before.
            after: the columns after.
        """
        ...

    # Segments in the log

    def placed(self, segment: Segment, n: int, *, renamed: bool) -> Segment:
        """Return an appended segment as event ``n + 1`` publishes it.

        Args:
            segment: the segment, under its final id.
            n: the last event before.
            renamed: another segment was published under the id in its file.
        """
        ...

    def published(self, segment: Segment, at: Instant) -> Segment:
        """Return an appended segment as the state keeps it, after an event at this time."""
        ...

    def roots(self, inputs: Sequence[Segment]) -> tuple[Roots, ...]:
        """Return the roots that the hidden columns of sorted outputs may name."""
        ...

    def unaccounted(self, inputs: Sequence[Segment], outputs: Sequence[Segment]) -> Iterable[str]:
        """Yield where outputs of any compaction do not account for the rows of the inputs.

        The number of ingested rows is compared for every kind, by the balance check itself.
        """
        ...

    def misplaced(self, inputs: Sequence[Segment], outputs: Sequence[Segment]) -> Iterable[str]:
        """Yield where outputs inside one version do not have the rows of the inputs in order."""
        ...

    def doubled(self, segments: Iterable[Segment]) -> Iterator[str]:
        """Yield the rows that occur twice in a group, as far as the log records rows."""
        ...

    # Compaction

    def tie_columns(self, time_column: str) -> tuple[str, ...]:
        """Return the columns that sort rows which are equal in the columns of an order."""
        ...

    def check_order(self, order: Order, time_column: str, table: str) -> None:
        """Refuse an order that the table cannot be sorted by; its columns exist.

        Raises:
            InvalidInput: with the order, and the columns to choose among.
        """
        ...

    def check_buckets(self, buckets: int, table: str) -> None:
        """Refuse a number of buckets that the kind does not allow.

        Raises:
            InvalidInput: with the number and the way out.
        """
        ...

    def check_granularity(self, granularity: Granularity, table: str) -> None:
        """Refuse a granularity of time chunks that would part a stored row.

        Raises:
            InvalidInput: with the finest granularity.
        """
        ...

    @property
    def only_spark(self) -> str:
        """Return why only Spark can compact the table; empty if this process can, too."""
        ...

    def check_degree(self, degree: str, table: str) -> None:
        """Refuse a compaction that is to merge rows to some degree, if the kind merges none.

        Raises:
            InvalidInput: the kind merges no rows.
        """
        ...

    # Reads and changes

    def check_addresses(self, uri: str) -> None:
        """Refuse to read rows with their addresses, if they have none.

        Raises:
            InvalidInput: rows have no addresses.
        """
        ...

    def check_window(self, uri: str) -> None:
        """Refuse to read a window, if stored rows do not show its commits.

        Raises:
            InvalidInput: with the reason and the way out.
        """
        ...

    def check_change(self, request: ChangeRequest, uri: str) -> None:
        """Refuse a change that the rows kept do not allow.

        A request for a kind whose deletes are predicates is a ``Delete`` by SQL, or refused here.

        Raises:
            InvalidInput: with the table, the reason and the changes that are possible.
        """
        ...

    def check_predicate(self, predicate: Predicate, time_column: str) -> None:
        """Refuse a predicate delete whose effect would depend on compactions.

        Raises:
            InvalidInput: with the column or the time, and the way out.
        """
        ...

    # Readers of other formats, which merge nothing

    def unpublished(self, stored: Schema, unmerged: Iterable[str]) -> str:
        """Return why the rows in files differ from the table's, with the way out.

        Args:
            stored: the columns that readers see.
            unmerged: chunks that a major compaction has yet to merge, found while iterated.

        Returns:
            The reason; empty if they are.
        """
        ...
