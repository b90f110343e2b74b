"""Merge on Spark: join a source to a table once, for deleted and for appended rows.

1. The source is evaluated once, however often conflicts repeat the merge. Its rows are numbered.
2. It is joined to a snapshot's rows with their addresses, and the matches are evaluated once, too.
   A source row is unmatched if its number is missing from the matches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.segments.segment import ROOT, ROW
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.reads.spark_times import column
from airflow_provider_segtable.spark.writes.address_bitmaps import Collected, collected
from airflow_provider_segtable.spark.writes.assignments import assigned, check_rewritable, check_set
from airflow_provider_segtable.spark.writes.dataframe_ingest import Sizing, prepared
from airflow_provider_segtable.table.changes.merge_rows import Matched, Unmatched
from airflow_provider_segtable.table.changes.row_change import Found
from airflow_provider_segtable.table.changes.updating import refuse_rollup
from airflow_provider_segtable.table.snapshot import Snapshot

_NUMBER = "__segtable_number"


@dataclass(frozen=True)
class Merging:
    """A merge: its source, its condition, and its actions on matched and unmatched rows."""

    spark: SparkSession
    source: DataFrame
    on: tuple[str, ...] | str
    matched: Matched
    unmatched: Unmatched
    set: Mapping[str, str] | None = None

    @staticmethod
    def of(
        spark: SparkSession,
        source: DataFrame,
        on: Sequence[str] | str,
        matched: str,
        unmatched: str,
        given: Mapping[str, str] | None,
    ) -> "Merging":
        """Return a merge from a caller's arguments.

        Raises:
            InvalidInput: an action is unknown, or there is no key, or nothing to do.
        """
        for value, known in ((matched, Matched), (unmatched, Unmatched)):
            if value not in tuple(known):
                choices = ", ".join(known)
                raise InvalidInput(f"{known.__name__.lower()}={value!r}: choose one of {choices}")
        if (matched, unmatched) == (Matched.IGNORE, Unmatched.IGNORE):
            raise InvalidInput("matched and unmatched are both 'ignore': there is nothing to do")
        if given is not None and matched != Matched.UPDATE:
            raise InvalidInput(f"set is given, and matched rows are not updated but {matched!r}")
        keys = on if isinstance(on, str) else tuple(on)
        if not keys or (not isinstance(on, str) and len({*on}) < len(keys)):
            raise InvalidInput(f"on={on!r}: name the columns to join by, each once, or a condition")
        return Merging(spark, source, keys, Matched(matched), Unmatched(unmatched), given)

    def __str__(self) -> str:
        """Return the description for the log."""
        by = self.on if isinstance(self.on, str) else ", ".join(self.on)
        sets = ", ".join(f"{name} = {value}" for name, value in (self.set or {}).items())
        does = f"{self.matched.value} (set {sets})" if sets else self.matched.value
        return f"merge on {by}: matched {does}, unmatched {self.unmatched.value}"

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the columns to join by; empty if ``on`` is a condition."""
        return () if isinstance(self.on, str) else self.on

    @cached_property
    def rows(self) -> DataFrame:
        """Return the source's rows, evaluated and numbered."""
        with translated("reading the source of a merge"):
            numbered = self.source.withColumn(_NUMBER, F.monotonically_increasing_id())
            return numbered.localCheckpoint().alias("source")

    def find(self, snapshot: Snapshot) -> Found:
        """Return the rows of a snapshot to delete, and the rows to append."""
        self._check(snapshot)
        with translated("joining the source of a merge"):
            joined = self._joined(snapshot)
            new = self._updated(joined, snapshot.schema)
            kept = joined.select(F.col(ROOT), F.col(ROW), F.col(_NUMBER), *new).localCheckpoint()
        gone = collected(kept, snapshot.state)
        if self.matched is not Matched.IGNORE and gone.named > gone.matched:
            self._refuse_doubles(joined, kept)
        coming = self._coming(kept, gone, snapshot)
        with translated("reading the source of a merge"):
            some = coming is not None and not coming.isEmpty()
        return Found(
            rows={} if self.matched is Matched.IGNORE else gone.rows,
            matched=gone.matched,
            prepare=prepared(snapshot.ports, coming, snapshot.schema, Sizing())
            if coming is not None and some
            else None,
        )

    def _check(self, snapshot: Snapshot) -> None:
        refuse_rollup(snapshot, "merged")
        schema, named = snapshot.schema, self.source.columns
        if len({*named}) < len(named):
            raise InvalidInput(f"the source has columns {named}: rename those given twice")
        for name in self.keys:
            if name not in named or name not in schema.names:
                where = "the source" if name not in named else "the table"
                raise SchemaMismatch(f"{where} has no column {name!r} to join by")
        strange = [name for name in named if name not in schema.names]
        if strange and self.set is None and self.keys:
            raise SchemaMismatch(
                f"the source has a column {strange[0]!r} that the table has not: drop it, or say "
                "by set what it is for"
            )
        if self.set is not None:
            check_set(self.set, schema)
        if self.matched is Matched.UPDATE:
            check_rewritable(schema, self.set if self.set is not None else dict.fromkeys(named))
        if self.unmatched is Unmatched.INSERT:
            _check_insertable(named, schema, snapshot.state.table.time_column)

    def _joined(self, snapshot: Snapshot) -> DataFrame:
        """Return the table joined to the source: one row per match."""
        target = scan(self.spark, snapshot, addressed=True).alias("target")
        if isinstance(self.on, str):
            return target.join(self.rows, F.expr(self.on))
        same = (_of("target", name) == _of("source", name) for name in self.on)
        return target.join(self.rows, reduce(and_, same))

    def _updated(self, joined: DataFrame, schema: pa.Schema) -> list[Column]:
        """Return the new values of matched rows; empty unless they are updated."""
        if self.matched is not Matched.UPDATE:
            return []
        if self.set is not None:
            given = {name: F.expr(value) for name, value in self.set.items()}
        else:
            given = {name: _of("source", name) for name in self._fresh(schema)}
        values = {name: given.get(name, _of("target", name)) for name in schema.names}
        return assigned(joined, values, schema)

    def _fresh(self, schema: pa.Schema) -> list[str]:
        return [n for n in self.source.columns if n in schema.names and n not in self.keys]

    def _coming(self, kept: DataFrame, gone: Collected, snapshot: Snapshot) -> DataFrame | None:
        schema, parts = snapshot.schema, []
        if self.matched is Matched.UPDATE and gone.matched:
            parts.append(kept.drop(ROOT, ROW, _NUMBER))
        if self.unmatched is Unmatched.INSERT:
            met = kept.select(F.col(_NUMBER).alias("met"))
            alone = self.rows.join(met, F.col(_NUMBER) == F.col("met"), "left_anti")
            values = {
                name: column(alone, name) if name in self.source.columns else F.lit(None)
                for name in schema.names
            }
            parts.append(alone.select(*assigned(alone, values, schema)))
        return reduce(DataFrame.union, parts) if parts else None

    def _refuse_doubles(self, joined: DataFrame, kept: DataFrame) -> None:
        with translated("looking for what matches twice"):
            twice = kept.groupBy(ROOT, ROW).count().where("count > 1").first()
            if twice is None:
                return
            one = joined.where((F.col(ROOT) == twice[ROOT]) & (F.col(ROW) == twice[ROW]))
            shown = [_of("target", name) for name in self.keys] or [F.col("target.*")]
            key = one.select(*shown).drop(ROOT, ROW).first()
        given = key.asDict() if key else {}
        told = ", ".join(f"{name} = {value!r}" for name, value in given.items())
        raise InvalidInput(
            f"{twice['count']} rows of the source match one row of the table, that with {told}: "
            "which of them it would become is not said; leave one of them"
        )


def _of(side: str, name: str) -> Column:
    return F.col(f"{side}.`" + name.replace("`", "``") + "`")


def _check_insertable(named: Sequence[str], schema: pa.Schema, time_column: str) -> None:
    for field in schema:
        needed = not field.nullable or field.name == time_column
        if needed and field.name not in named:
            raise SchemaMismatch(
                f"the source has no column {field.name!r}, which no row of the table can do "
                "without: add it, or give unmatched='ignore'"
            )
