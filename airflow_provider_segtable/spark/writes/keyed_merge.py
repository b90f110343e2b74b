"""Merge into a primary-key table on Spark: join a source to it by key, once.

1. Rows of the table are numbered and joined to the numbered source; the matches are kept.
2. Several source rows for one row are ambiguous if they update it. A new event time in another time
   chunk is refused: the row would stay, and another one would be made.
3. Source rows without a match are upserted; columns that were added later have their defaults.

The records of a change:

4. Matches are evaluated once and kept (a local checkpoint), so counts and records are of the same
   evaluation, also if records are written again for other buckets.
5. A frame of records has the table's columns, whether each deletes its key (``DELETED``), and exact
   copies of columns that Spark cannot hold (``tasks.reading``).
6. Spark finds a null that would set nothing as it computes it: the change then fails.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.change_request import (
    Delete,
    Matched,
    Unmatched,
    Update,
)
from airflow_provider_segtable.core.tables.keyed_kind import lost_null, unset
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.dataframe_scan import rows_to_change
from airflow_provider_segtable.spark.spark_columns import chunk_key, column, instant
from airflow_provider_segtable.spark.tasks.reading import PREFIX, copied
from airflow_provider_segtable.spark.writes.dataframe_ingest import SparkRecords, commit_records
from airflow_provider_segtable.spark.writes.dataframe_merge import (
    NUMBER,
    Joining,
    assigned,
    carried,
    expression,
    of_side,
)
from airflow_provider_segtable.table.append import AppendResult
from airflow_provider_segtable.table.changes.row_change import Recorded
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.upsert import merge_rules

DELETED = "__segtable_deleted"


# Records of a change
def changed_records(
    snapshot: Snapshot, request: Delete | Update, rows: DataFrame, exactly: Sequence[str]
) -> Recorded[DataFrame]:
    """Return the records of a delete or an update.

    Args:
        snapshot: the version.
        request: the change.
        rows: the rows that match, with copies of the columns ``exactly``.
        exactly: what ``copied_columns`` says.

    Raises:
        InvalidInput, SchemaMismatch: a value does not fit its column.
        ExecutionFailed: Spark failed, or a value is null where a null sets nothing.
    """
    gone = isinstance(request, Delete)
    given = {} if isinstance(request, Delete) else request.set
    values = {name: expression(name, value) for name, value in given.items()}
    with translated("looking for the rows to change"):
        olds = {name: column(rows, name) for name in snapshot.schema.names}
        fresh = olds if gone else set_columns(olds, values, values, rules_of(snapshot))
        copies = (column(rows, PREFIX + name) for name in exactly)
        new = assigned(rows, fresh, snapshot.schema)
        kept = rows.select(*new, *copies, F.lit(gone).alias(DELETED)).localCheckpoint()
        count = kept.count()
    return Recorded(
        matched=count,
        deleted=count,
        inserted=0 if gone else count,
        new=kept if count else None,
    )


def copied_columns(
    snapshot: Snapshot, given: Collection[str], *, whole: bool = False
) -> tuple[str, ...]:
    """Return the columns of which records have exact copies.

    Args:
        snapshot: the version.
        given: the columns that are set.
        whole: whether records are whole rows: tombstones.
    """
    names = snapshot.schema.names
    bare = () if whole else unset(rules_of(snapshot), names, given)
    return carried(snapshot.schema, {*given, *bare})


def rules_of(snapshot: Snapshot) -> MergeRules:
    """Return how the records of a key become its row."""
    return merge_rules(snapshot.state, snapshot.ports.uri)


def set_columns(
    olds: Mapping[str, Column],
    values: Mapping[str, Column],
    explicit: Collection[str],
    rules: MergeRules,
) -> dict[str, Column]:
    """Return the columns of records that set some columns of rows.

    Args:
        olds: the columns of the rows.
        values: the new values.
        explicit: those that are given one by one, whose nulls are refused where they set nothing.
        rules: the table's rules.
    """
    bare, singles = {*unset(rules, olds, values)}, {*rules.singles(olds)}
    found = {}
    for name, old in olds.items():
        value = values.get(name, F.lit(None) if name in bare else old)
        if name in explicit and name in singles:
            lost = F.raise_error(F.lit(lost_null(name, "a row")))
            value = F.when(value.isNull() & old.isNotNull(), lost).otherwise(value)
        found[name] = value
    return found


def upsert_records(snapshot: Snapshot, records: DataFrame, commit_id: str) -> AppendResult:
    """Commit a frame of records in one event; the snapshot is the version it was made from.

    Raises:
        InvalidInput: there are no records, or a key is null.
        ExecutionFailed, CommitConflict, CommitUnknown: see ``dataframe_upsert``.
    """
    state = snapshot.state
    given = SparkRecords(
        values=records,
        flags=F.col(DELETED),
        schema=given_schema(state.table),
        deleted=DELETED,
    )
    done = commit_records(
        snapshot.ports, given, rules_of(snapshot), commit_id=commit_id, state=state
    )
    if done is None:
        raise InvalidInput(f"there are no records to write to {snapshot.ports.uri}")
    return done


_ROW, _CHUNK = "__segtable_matched", "__segtable_chunk"


# The join by key
@dataclass(frozen=True, slots=True)
class KeyJoining(Joining):
    """One merge by key on one snapshot."""

    def records(self) -> Recorded[DataFrame]:
        """Return the records of the merge."""
        matched = self.request.matched
        with translated("joining the source of a merge"):
            joined = self._joined()
            values = assigned(joined, self._values(), self.snapshot.schema)
            copies = (of_side("target", name) for name in self.copies)
            places = (F.col(_ROW), F.col(_CHUNK), F.col(NUMBER))
            kept = joined.select(*places, *values, *copies).localCheckpoint()
            rows, pairs = kept.select(F.count_distinct(_ROW), F.count("*")).collect()[0]
        if matched is Matched.UPDATE:
            self._refuse(kept, several=pairs > rows)
        written = 0 if matched is Matched.IGNORE else rows
        coming, alone = self._parts(kept, written)
        return Recorded(
            matched=rows,
            deleted=written,
            inserted=alone + (rows if matched is Matched.UPDATE else 0),
            new=reduce(DataFrame.union, coming) if coming else None,
        )

    @property
    def copies(self) -> dict[str, "pa.Field"]:
        """Return the exact copies that records of matched rows have."""
        gone = self.request.matched is Matched.DELETE
        given = () if gone else self._given()
        names = copied_columns(self.snapshot, given, whole=gone)
        return {PREFIX + name: copied(self.snapshot.schema.field(name)) for name in names}

    def _target(self) -> DataFrame:
        exactly = [name.removeprefix(PREFIX) for name in self.copies]
        rows = rows_to_change(self.spark, self.snapshot, addressed=False, carried=exactly)
        at = instant(rows, self.snapshot.state.table.time_column)
        chunk = chunk_key(at, self.snapshot.state.layout)
        numbered = rows.withColumn(_CHUNK, chunk).withColumn(_ROW, F.monotonically_increasing_id())
        return numbered.alias("target")

    def _given(self) -> Collection[str]:
        """Return the columns that an update sets."""
        request = self.request
        return self._fresh(self.snapshot.schema) if request.set is None else request.set

    def _values(self) -> dict[str, Column]:
        """Return the columns of the records of matched rows."""
        olds = {name: of_side("target", name) for name in self.snapshot.schema.names}
        if self.request.matched is not Matched.UPDATE:
            return olds
        explicit = self.request.set or {}
        values = {name: expression(name, of) for name, of in explicit.items()}
        fresh = values or {name: of_side("source", name) for name in self._given()}
        return set_columns(olds, fresh, values, rules_of(self.snapshot))

    def _parts(self, kept: DataFrame, written: int) -> tuple[list[DataFrame], int]:
        """Return the records, and the number of source rows among them that are inserted."""
        parts = []
        if written:
            gone = self.request.matched is Matched.DELETE
            rows = kept.dropDuplicates([_ROW]) if gone else kept
            flagged = rows.drop(_ROW, _CHUNK, NUMBER).select("*", F.lit(gone).alias(DELETED))
            parts.append(flagged)
        count = 0
        if self.request.unmatched is Unmatched.INSERT:
            met = kept.select(F.col(NUMBER).alias("met"))
            alone = self.source.numbered.join(met, F.col(NUMBER) == F.col("met"), "left_anti")
            with translated("reading the source of a merge"):
                new = self._inserted(alone).localCheckpoint()
                count = new.count()
            parts += [new] if count else []
        return parts, count

    def _inserted(self, alone: DataFrame) -> DataFrame:
        new = self._inserted_columns(alone)
        return alone.select(*new, *self._no_copies(), F.lit(False).alias(DELETED))

    def _refuse(self, kept: DataFrame, *, several: bool) -> None:
        """Refuse several source rows for one row, and rows that would change their time chunk."""
        shown = [column(kept, name) for name in rules_of(self.snapshot).key]
        with translated("looking for what matches twice"):
            if several:
                twice = kept.groupBy(_ROW, *shown).count().where("count > 1").first()
                told = _told(twice.asDict() if twice else {})
                raise InvalidInput(
                    f"several rows of the source match one row of the table, that with {told}: "
                    "the merge is ambiguous; keep one of them"
                )
            at = instant(kept, self.snapshot.state.table.time_column)
            moved = chunk_key(at, self.snapshot.state.layout) != F.col(_CHUNK)
            row = kept.where(moved).select(*shown).first()
        if row is not None:
            raise InvalidInput(
                f"the source row of {_told(row.asDict())} has an event time in another time chunk "
                "than the row: the event time decides where a row is kept; leave it out of set, or "
                "delete the row and upsert it anew"
            )


def _told(row: dict[str, object]) -> str:
    known = {name: value for name, value in row.items() if name not in (_ROW, "count")}
    return ", ".join(f"{name} = {value!r}" for name, value in known.items())
