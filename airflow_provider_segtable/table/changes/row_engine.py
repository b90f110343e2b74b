"""Row engines: what a change needs of Arrow or Spark.

1. An engine selects rows, joins a source, and writes rows. It evaluates a request on one snapshot
   and decides nothing else: the order of a change, its commit and its conflicts are in
   ``run_change`` and ``row_change``, for all engines alike.
2. Appended rows are in the engine's own form (``New``), from the same evaluation as the deleted
   ones. So are the records of a change of a primary-key table (``Rec``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from pyroaring import BitMap

from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    Merge,
    Update,
    Where,
)
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.table.reads.snapshot import Snapshot
from airflow_provider_segtable.table.writes.append import AppendResult, Prepare

New = TypeVar("New")
Rec = TypeVar("Rec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected(Generic[New]):
    """The rows of a snapshot that a request concerns.

    Attributes:
        matched: number of matching rows of the table.
        rows: the addresses of the rows to delete, by root.
        new: the rows to append; None if there are none.
        count: returns the number of rows to append; may run a query.
    """

    matched: int
    rows: Mapping[SegmentId, BitMap] = field(default_factory=dict)
    new: New | None = None
    count: Callable[[], int] = lambda: 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(Generic[Rec]):
    """The records that carry out a change of a primary-key table.

    Attributes:
        matched: number of matching rows of the table.
        deleted: number of those that are deleted or replaced.
        inserted: number of rows that are upserted.
        new: the records; None if there are none.
    """

    matched: int
    deleted: int
    inserted: int
    new: Rec | None


class RowEngine(Protocol[New]):
    """Evaluates change requests, whose rows are read, on a snapshot."""

    def select(
        self, snapshot: Snapshot, request: Delete | Update, *, addressed: bool
    ) -> Selected[New]:
        """Return the rows that a delete or update selects, and their new values.

        Args:
            snapshot: the table at one version.
            request: the change; ``where`` may be a ``core.deletes.predicate.Predicate``, too.
            addressed: False if the table's rows have no addresses; they are only counted.

        Raises:
            InvalidInput: the engine cannot evaluate the request, or a value does not fit.
        """
        ...

    def condition(self, snapshot: Snapshot, where: Where) -> Condition | None:
        """Return a condition, to bound the rows that it selects; None if nothing is known of it.

        Raises:
            InvalidInput: no engine can evaluate it.
        """
        ...

    def join(self, snapshot: Snapshot, request: Merge) -> Selected[New]:
        """Return the rows that a merge deletes and appends.

        Raises:
            InvalidInput: as ``select``, or several source rows would update one row.
        """
        ...

    def write(self, snapshot: Snapshot, new: New) -> Prepare:
        """Return the step of an append that plans and writes rows; it does nothing yet."""
        ...


class KeyEngine(Protocol[Rec]):
    """Evaluates change requests on a snapshot of a primary-key table, and writes records."""

    def records(self, snapshot: Snapshot, request: ChangeRequest) -> Recorded[Rec]:
        """Return the records that carry out a change.

        Raises:
            InvalidInput: the engine cannot evaluate the request, a value does not fit, or several
                source rows would update one row.
        """
        ...

    def upsert(self, snapshot: Snapshot, records: Rec, commit_id: str) -> AppendResult:
        """Commit records in one event; the snapshot is the version that they were made from.

        Raises:
            CommitUnknown: run again with the same commit id.
        """
        ...


class Engine(RowEngine[New], KeyEngine[Rec], Protocol[New, Rec]):
    """Evaluates change requests for tables of all kinds."""
