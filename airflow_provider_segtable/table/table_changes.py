"""The changes of ``Table``: delete, update, merge and overwrite rows, each in one event.

Each method makes one request and carries it out in this process.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.core.requests.change_request import (
    WAIT_S,
    ChangeRequest,
    Delete,
    Matched,
    Merge,
    Unmatched,
    Update,
    Where,
    action,
)
from airflow_provider_segtable.core.requests.overwrite import Extent, Overwrite, extent_of
from airflow_provider_segtable.core.time import TimeRange
from airflow_provider_segtable.table.context import TableContext

if TYPE_CHECKING:
    from airflow_provider_segtable.data.rows import Rows
    from airflow_provider_segtable.table.changes.row_change import ChangeResult


class TableChanges:
    """Changes of the rows of one table; a part of ``Table``."""

    __slots__ = ()
    ports: TableContext

    def delete(
        self,
        where: Where | None = None,
        *,
        rows: "Rows | None" = None,
        addresses: "Rows | None" = None,
        commit_id: str | None = None,
        dry_run: bool = False,
    ) -> "ChangeResult":
        """Delete rows in one atomic event, without locks or waiting.

        Args:
            where: delete the rows that match a condition: SQL (``data.sql`` defines the
                subset; Spark accepts more) or a ``pyarrow.compute.Expression``. ``"true"``
                matches all rows.
            rows: delete the rows that equal one of these in all their columns; null equals null.
            addresses: delete the rows at these root addresses: columns ``__segtable_root`` and
                ``__segtable_row`` as in ``Snapshot.addressed``. Addresses without a visible row
                are ignored.
            commit_id: equal ids delete once; random by default.
            dry_run: only count the rows that would be deleted.

        Raises:
            InvalidInput: the condition, rows or addresses do not fit this table. A rollup table
                accepts only SQL over dimensions and time.
            ChangeConflict: other writers repeatedly updated the same rows first.
            CommitUnknown: run again with the same commit id.
        """
        from airflow_provider_segtable.table.changes.arrow_engine import arrow_rows

        wanted = Delete(
            where=where,
            rows=None if rows is None else arrow_rows(rows),
            addresses=None if addresses is None else arrow_rows(addresses),
            commit_id=commit_id,
            dry_run=dry_run,
        )
        return self.change(wanted)

    def update(
        self,
        set: Mapping[str, Any],  # noqa: A002 - SQL's word
        where: Where,
        *,
        commit_id: str | None = None,
        dry_run: bool = False,
    ) -> "ChangeResult":
        """Update rows: delete them and append their new values, in one atomic event.

        Args:
            set: new values by column: a plain value; ``Sql("price * 2")``, an expression over the
                old row (``data.sql.sql_values`` lists what this process computes); or a
                ``pyarrow.compute.Expression``.
            where: a condition, as for ``delete``; ``"true"`` matches all rows.
            commit_id: equal ids update once; random by default.
            dry_run: only count the rows that would be updated.

        Raises:
            InvalidInput: a column does not exist or does not accept the value, or the table is
                a rollup table.
            ChangeConflict: other writers repeatedly changed the same rows first.
            LockLost, CommitUnknown: as ``append``.
        """
        return self.change(Update(set=set, where=where, commit_id=commit_id, dry_run=dry_run))

    def merge(
        self,
        source: "Rows",
        *,
        on: Sequence[str],
        matched: str = "update",
        unmatched: str = "insert",
        set: Mapping[str, Any] | None = None,  # noqa: A002 - SQL's word
        commit_id: str | None = None,
        dry_run: bool = False,
    ) -> "ChangeResult":
        """Merge source rows into the table by key columns, in one atomic event.

        In a table with a primary key it writes records of the keys, without a lock: their order
        decides between them and those of other writers (``table.changes.run_change``).

        Args:
            source: rows, as for ``append``, with some of the table's columns and all of ``on``;
                with ``set``, others, too.
            on: the key columns; null equals nothing. With a primary key, its columns.
            matched: if a table row has a source key, it gets the source's other columns
                (``"update"``), is deleted (``"delete"``) or stays (``"ignore"``).
            unmatched: if a source row has no match, it is inserted (``"insert"``; columns that the
                source lacks have their default, or null) or skipped (``"ignore"``). Two concurrent
                merges may both insert a key, unless it is the primary key.
            set: new values of updated rows instead of the source's, as for ``update``:
                ``{"n": Sql("target.n + source.n")}``; other columns stay.
            commit_id: equal ids merge once; random by default.
            dry_run: only count the rows that would be deleted and inserted.

        Raises:
            InvalidInput: the columns do not fit, or several source rows would update one row; it
                joins by other columns than the primary key.
            ChangeConflict, LockLost, CommitUnknown: as ``update``.
        """
        from airflow_provider_segtable.table.changes.arrow_engine import arrow_rows

        wanted = Merge(
            source=arrow_rows(source),
            on=(on,) if isinstance(on, str) else tuple(on),
            matched=action(Matched, matched),
            unmatched=action(Unmatched, unmatched),
            set=set,
            commit_id=commit_id,
            dry_run=dry_run,
        )
        return self.change(wanted)

    def overwrite(
        self,
        rows: "Rows",
        *,
        interval: Extent | TimeRange | None = None,
        where: Where | None = None,
        commit_id: str | None = None,
        dry_run: bool = False,
    ) -> "ChangeResult":
        """Replace rows by others, in one atomic event; without rows, delete.

        Rows that others append while it runs stay. Of two overwrites of the same time, the later
        one replaces the rows of the earlier one. In deltalake this is ``write_deltalake`` with
        ``mode="overwrite"`` and a predicate, in pyiceberg ``Table.overwrite``.

        Args:
            rows: the new rows, as for ``append``; each must be in the replaced interval, or match
                the condition.
            interval: replace the rows with event times in it, as for ``Table.scan``;
                ``"chunks"`` means the time chunks that ``rows`` touch.
            where: instead, replace the rows that match a condition, as for ``delete``.
            commit_id: equal ids overwrite once, another one replaces again; random by default.
            dry_run: only count.

        Raises:
            InvalidInput, SchemaMismatch, TimeOutOfRange: rows do not fit; nothing is written.
            ChangeConflict: other writers repeatedly changed the same rows first.
            LockLost, CommitUnknown: as ``append``.
        """
        from airflow_provider_segtable.table.changes.arrow_engine import ArrowEngine, new_arrow_rows
        from airflow_provider_segtable.table.changes.row_change import landed_before
        from airflow_provider_segtable.table.changes.run_change import run_overwrite

        wanted = Overwrite(
            extent=extent_of(interval), where=where, commit_id=commit_id, dry_run=dry_run
        )
        state = self.ports.log.load()
        before = landed_before(self.ports.log, commit_id, state)
        if before is not None:  # the columns may have changed since
            return before
        new = new_arrow_rows(state, rows)
        return run_overwrite(self.ports, wanted, new, ArrowEngine())

    def change(self, request: ChangeRequest, *, wait_s: float = WAIT_S) -> "ChangeResult":
        """Carry out a change request, in this process; the common form of the first three.

        Args:
            request: the change; the files that it names (``FileRows``) are read here.
            wait_s: how long to wait for the coordinator, in seconds.
        """
        from airflow_provider_segtable.table.changes.arrow_engine import ArrowEngine, with_files
        from airflow_provider_segtable.table.changes.run_change import run_change

        return run_change(self.ports, with_files(self.ports, request), ArrowEngine(), wait_s=wait_s)
