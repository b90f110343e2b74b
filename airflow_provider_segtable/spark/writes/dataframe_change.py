"""Delete, update and merge rows of any size and by any expression, with Spark.

1. A change reads one snapshot. Its matches are evaluated once and kept (a local checkpoint), so
   deleted and appended rows come from the same evaluation even if an expression is not
   deterministic. If an executor is lost with a part of it, the change fails; nothing is committed.
2. Deleted rows are collected as bitmaps of addresses. Tasks write the appended rows, as in an
   ingest. ``table.changes.row_change`` commits both as one event, and repeats the search if
   another writer changed the same rows meanwhile.
3. Expressions are Spark SQL. They may name the table's columns bare or as ``target.column``,
   columns of a merge's source as ``source.column``, and the session's temporary views in
   sub-queries.
4. A rollup table only supports deletes by a condition over dimensions and time. The log stores it
   as a predicate delete, parsed by ``data.arrow.sql`` (no sub-queries).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.segments.segment import ROOT, ROW
from airflow_provider_segtable.data.arrow.sql import parse_predicate
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.reads.spark_predicates import matching
from airflow_provider_segtable.spark.reads.spark_times import column
from airflow_provider_segtable.spark.writes.address_bitmaps import collected, present
from airflow_provider_segtable.spark.writes.assignments import assigned, check_rewritable, check_set
from airflow_provider_segtable.spark.writes.dataframe_ingest import Sizing, prepared
from airflow_provider_segtable.spark.writes.dataframe_merge import Merging
from airflow_provider_segtable.table.changes.erasing import check_erasure
from airflow_provider_segtable.table.changes.row_change import (
    ChangeKind,
    ChangeResult,
    Find,
    Found,
    change,
)
from airflow_provider_segtable.table.changes.updating import refuse_rollup
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.snapshot import Snapshot

WAIT_S = 60.0


def delete(
    spark: SparkSession,
    ports: TableContext,
    where: str | None = None,
    *,
    matches: DataFrame | None = None,
    addresses: DataFrame | None = None,
    commit_id: str | None = None,
    wait_s: float = WAIT_S,
    dry_run: bool = False,
) -> ChangeResult:
    """Delete rows in one atomic event, without a lock and without waiting for other writers.

    Args:
        spark: the session.
        ports: the table's ports.
        where: a condition on the rows; ``"true"`` selects all.
        matches: selects rows that equal one of these in all columns of ``matches``; null equals
            null. With ``where``, both must hold.
        addresses: row addresses from ``scan(addressed=True)`` of any snapshot. Addresses without a
            row now are ignored. Not to be combined with the others.
        commit_id: equal ids delete once; a fresh one by default.
        wait_s: seconds to wait for the coordinator, if it is needed.
        dry_run: only count the matching rows.

    Raises:
        InvalidInput: the selection does not fit this table.
        ExecutionFailed: Spark failed; nothing was committed.
        ChangeConflict, CommitUnknown: see ``table.changes.row_change``.
    """
    wanted = _Rows(spark, where, matches, addresses)
    asked = _Asked(ports, ChangeKind.DELETE, str(wanted), commit_id, wait_s, dry_run)
    return asked.run(wanted.deleted)


def update(
    spark: SparkSession,
    ports: TableContext,
    set: Mapping[str, str],  # noqa: A002  # SQL's word
    where: str | None = None,
    *,
    matches: DataFrame | None = None,
    commit_id: str | None = None,
    wait_s: float = WAIT_S,
    dry_run: bool = False,
) -> ChangeResult:
    """Update rows: delete the old ones and append the new ones, in one atomic event.

    Args:
        spark: the session.
        ports: the table's ports.
        set: by column, an expression over the old row.
        where: selects the rows, as for ``delete``.
        matches: selects the rows, as for ``delete``.
        commit_id: equal ids update once; a fresh one by default.
        wait_s: seconds to wait for the coordinator.
        dry_run: only count the matching rows.

    Raises:
        InvalidInput: a column is missing or cannot be set so, or the table rolls up.
        ExecutionFailed: Spark failed, or a value does not fit its column; nothing was committed.
        ChangeConflict, LockLost, CommitUnknown: see ``table.changes.row_change``.
    """
    wanted = _Rows(spark, where, matches)
    sets = ", ".join(f"{name} = {value}" for name, value in set.items())
    reason = f"set {sets} {wanted}"
    asked = _Asked(ports, ChangeKind.UPDATE, reason, commit_id, wait_s, dry_run)
    return asked.run(lambda snapshot: wanted.updated(snapshot, set))


def merge(  # noqa: PLR0913 - a merge's arguments, and those of every change
    spark: SparkSession,
    ports: TableContext,
    source: DataFrame,
    on: Sequence[str] | str,
    *,
    matched: str = "update",
    unmatched: str = "insert",
    set: Mapping[str, str] | None = None,  # noqa: A002  # SQL's word
    commit_id: str | None = None,
    wait_s: float = WAIT_S,
    dry_run: bool = False,
) -> ChangeResult:
    """Merge source rows into the table by key, in one atomic event.

    Args:
        spark: the session.
        ports: the table's ports.
        source: the source rows; evaluated once.
        on: columns of both (null equals nothing), or a condition over ``target.*`` and
            ``source.*``.
        matched: ``"update"`` sets the table row to the source's other columns, or by ``set``;
            ``"delete"`` deletes it; ``"ignore"`` keeps it.
        unmatched: ``"insert"`` appends the source row (missing columns are null); ``"ignore"``
            does not. Two concurrent merges may both insert a key.
        set: by column, an expression over ``target.*`` and ``source.*``; other columns stay.
        commit_id: equal ids merge once; a fresh one by default.
        wait_s: seconds to wait for the coordinator.
        dry_run: only count the matching rows of the table.

    Raises:
        InvalidInput: the columns do not fit, or several source rows match one table row.
        ExecutionFailed, ChangeConflict, LockLost, CommitUnknown: as ``update``.
    """
    wanted = Merging.of(spark, source, on, matched, unmatched, set)
    asked = _Asked(ports, ChangeKind.MERGE, str(wanted), commit_id, wait_s, dry_run)
    return asked.run(wanted.find)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A requested change."""

    ports: TableContext
    kind: ChangeKind
    reason: str
    commit_id: str | None
    wait_s: float
    dry_run: bool

    def run(self, find: Find) -> ChangeResult:
        ports = self.ports
        if not self.dry_run:
            name = self.commit_id or ports.randomness.token()
            return change(
                ports,
                find,
                kind=self.kind,
                reason=self.reason,
                commit_id=name,
                wait_s=self.wait_s,
            )
        state = ports.log.load()
        found = find(Snapshot(ports=ports, state=state))
        return ChangeResult(n=None, state=state, matched=found.matched, deleted=0, inserted=0)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A selection of a table's rows."""

    spark: SparkSession
    where: str | None = None
    matches: DataFrame | None = None
    addresses: DataFrame | None = None

    def __post_init__(self) -> None:
        """Refuse an empty selection, and addresses combined with another one."""
        some = self.where is not None or self.matches is not None
        if some == (self.addresses is not None):
            raise InvalidInput(
                "give where or matches (or both), or addresses alone; where='true' is all rows"
            )

    def __str__(self) -> str:
        """Return the description for the log."""
        if self.addresses is not None:
            return "given addresses"
        said = [f"where {self.where}"] if self.where is not None else []
        if self.matches is not None:
            said.append(f"rows that equal one of a table in {', '.join(self.matches.columns)}")
        return " and ".join(said)

    def deleted(self, snapshot: Snapshot) -> Found:
        """Return the rows of a snapshot to delete."""
        if snapshot.state.table.rollup is not None:
            return self._erased(snapshot)
        if self.addresses is not None:
            given = collected(_named(self.addresses), snapshot.state)
            found = present(self.spark, snapshot, given.rows)
        else:
            found = collected(self._found(snapshot), snapshot.state)
        return Found(rows=found.rows, matched=found.matched)

    def updated(self, snapshot: Snapshot, given: Mapping[str, str]) -> Found:
        """Return the rows of a snapshot to delete, and their updated versions to append."""
        refuse_rollup(snapshot, "updated")
        schema = snapshot.schema
        check_set(given, schema)
        check_rewritable(schema, given)
        with translated("looking for the rows to update"):
            found = self._found(snapshot)
            values = {
                name: F.expr(given[name]) if name in given else column(found, name)
                for name in schema.names
            }
            new = assigned(found, values, schema)
            kept = found.select(*new, F.col(ROOT), F.col(ROW)).localCheckpoint()
        gone = collected(kept, snapshot.state)
        coming = prepared(snapshot.ports, kept.drop(ROOT, ROW), schema, Sizing())
        return Found(rows=gone.rows, matched=gone.matched, prepare=coming if gone.matched else None)

    def _found(self, snapshot: Snapshot) -> DataFrame:
        """Return the selected rows of a snapshot, with their addresses."""
        with translated("looking for the rows to change"):
            frame = scan(self.spark, snapshot, addressed=True).alias("target")
            if self.where is not None:
                frame = frame.where(self.where)
            return frame if self.matches is None else _equal(frame, self.matches, snapshot)

    def _erased(self, snapshot: Snapshot) -> Found:
        table = snapshot.state.table
        if self.where is None or self.matches is not None or table.rollup is None:
            raise InvalidInput(
                f"{snapshot.ports.uri} is a rollup table: its rows stand for many and have no "
                "address, so only a condition in SQL, over dimensions and time, can delete there"
            )
        predicate = parse_predicate(self.where, snapshot.schema)
        check_erasure(predicate, table.rollup, table.time_column)
        rows = scan(self.spark, snapshot)
        with translated("looking for the rows to delete"):
            matched = rows.where(matching(predicate, rows)).count()
        return Found(rows={}, matched=matched, predicate=predicate if matched else None)


def _equal(frame: DataFrame, matches: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Return the rows equal to one of ``matches`` in all its columns; null equals null."""
    for name in matches.columns:
        if name not in snapshot.schema.names:
            known = ", ".join(snapshot.schema.names)
            raise SchemaMismatch(f"no column {name!r} to compare with: the table has {known}")
    if not matches.columns or len({*matches.columns}) < len(matches.columns):
        raise InvalidInput(f"matches has columns {matches.columns}: name some, each once")
    names = {name: f"__segtable_match_{at}" for at, name in enumerate(matches.columns)}
    other = matches.toDF(*names.values())
    same = (column(frame, name).eqNullSafe(F.col(mine)) for name, mine in names.items())
    return frame.join(other, reduce(and_, same), "left_semi")


def _named(given: DataFrame) -> DataFrame:
    for name in (ROOT, ROW):
        if name not in given.columns:
            raise InvalidInput(f"addresses have no column {name}: take them from a scan")
    return given
