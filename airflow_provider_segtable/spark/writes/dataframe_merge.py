"""Merge on Spark: join a source to a table once, for deleted and for appended rows.

1. The source is evaluated once, however often conflicts repeat the merge. Its rows are numbered.
2. It is joined to a snapshot's rows with their addresses, and the matches are evaluated once, too.
   A source row is unmatched if its number is missing from the matches. It is inserted with the
   defaults of columns that it lacks.
"""

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.change_request import Matched, Merge, Sql, Unmatched
from airflow_provider_segtable.core.segment import ROOT, ROW
from airflow_provider_segtable.data.parquet.table_file import default_of
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.dataframe_scan import rows_to_change
from airflow_provider_segtable.spark.reads.spark_schemas import readable, spark_schema
from airflow_provider_segtable.spark.reads.spark_times import column
from airflow_provider_segtable.spark.tasks.exact_columns import PREFIX, copied
from airflow_provider_segtable.spark.writes.address_bitmaps import Collected, collected
from airflow_provider_segtable.spark.writes.assignments import (
    assigned,
    carried,
    expression,
)
from airflow_provider_segtable.table.changes.row_change import Selected
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.snapshot import Snapshot

NUMBER = "__segtable_number"
"""The column that numbers the rows of a source."""


class SourceFrame:
    """A DataFrame of a request; for a merge its rows are evaluated once and numbered."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame

    @cached_property
    def numbered(self) -> DataFrame:
        """Return the rows, evaluated and numbered."""
        with translated("reading the source of a merge"):
            numbered = self.frame.withColumn(NUMBER, F.monotonically_increasing_id())
            return numbered.localCheckpoint().alias("source")


@dataclass(frozen=True, slots=True)
class Joining:
    """One merge on one snapshot."""

    spark: SparkSession
    snapshot: Snapshot
    request: Merge
    source: SourceFrame

    def found(self) -> Selected[DataFrame]:
        """Return the rows to delete, and the rows to append."""
        schema, matched = self.snapshot.schema, self.request.matched
        with translated("joining the source of a merge"):
            joined = self._joined()
            new = self._updated(joined, schema)
            copies = (of_side("target", name) for name in self.copies)
            addresses = (F.col(ROOT), F.col(ROW), F.col(NUMBER))
            kept = joined.select(*addresses, *new, *copies).localCheckpoint()
        gone = collected(kept, self.snapshot.state)
        if matched is not Matched.IGNORE and gone.named > gone.matched:
            self._refuse_doubles(joined, kept)
        coming = self._coming(kept, gone)
        with translated("reading the source of a merge"):
            some = coming is not None and not coming.isEmpty()
        return Selected(
            rows={} if matched is Matched.IGNORE else gone.rows,
            matched=gone.matched,
            new=coming if some else None,
            count=coming.count if coming is not None and some else lambda: 0,
        )

    @property
    def columns(self) -> list[str]:
        """Return the columns of the source."""
        return self.source.frame.columns

    @property
    def copies(self) -> dict[str, pa.Field]:
        """Return the exact copies that updated rows have (``tasks.exact_columns``)."""
        if self.request.matched is not Matched.UPDATE:
            return {}
        schema = self.snapshot.schema
        given = self._fresh(schema) if self.request.set is None else self.request.set
        return {PREFIX + name: copied(schema.field(name)) for name in carried(schema, given)}

    def _joined(self) -> DataFrame:
        """Return the table joined to the source: one row per match."""
        target = self._target()
        if isinstance(self.request.on, Sql):
            return target.join(self.source.numbered, F.expr(self.request.on.text))
        same = (of_side("target", name) == of_side("source", name) for name in self.request.on)
        return target.join(self.source.numbered, reduce(and_, same))

    def _target(self) -> DataFrame:
        """Return the rows of the table, under the name ``target``."""
        exactly = [name.removeprefix(PREFIX) for name in self.copies]
        return rows_to_change(self.spark, self.snapshot, carried=exactly)

    def _updated(self, joined: DataFrame, schema: pa.Schema) -> list[Column]:
        """Return the new values of matched rows; empty unless they are updated."""
        if self.request.matched is not Matched.UPDATE:
            return []
        if self.request.set is not None:
            given = {name: expression(name, of) for name, of in self.request.set.items()}
        else:
            given = {name: of_side("source", name) for name in self._fresh(schema)}
        values = {name: given.get(name, of_side("target", name)) for name in schema.names}
        return assigned(joined, values, schema)

    def _fresh(self, schema: pa.Schema) -> list[str]:
        keys = self.request.keys
        return [name for name in self.columns if name in schema.names and name not in keys]

    def _coming(self, kept: DataFrame, gone: Collected) -> DataFrame | None:
        parts = []
        if self.request.matched is Matched.UPDATE and gone.matched:
            parts.append(kept.drop(ROOT, ROW, NUMBER))
        if self.request.unmatched is Unmatched.INSERT:
            met = kept.select(F.col(NUMBER).alias("met"))
            alone = self.source.numbered.join(met, F.col(NUMBER) == F.col("met"), "left_anti")
            parts.append(alone.select(*self._inserted_columns(alone), *self._no_copies()))
        return reduce(DataFrame.union, parts) if parts else None

    def _inserted_columns(self, alone: DataFrame) -> list[Column]:
        """Return the columns of inserted rows; those that the source lacks have their defaults."""
        values = {
            field.name: column(alone, field.name)
            if field.name in self.columns
            else F.lit(default_of(field).as_py())
            for field in given_schema(self.snapshot.state.table)
        }
        return assigned(alone, values, self.snapshot.schema)

    def _no_copies(self) -> list[Column]:
        """Return nulls in place of copies, for rows that Spark has whole."""
        kinds = spark_schema(readable(pa.schema(self.copies.values())))
        return [F.lit(None).cast(each.dataType).alias(each.name) for each in kinds]

    def _refuse_doubles(self, joined: DataFrame, kept: DataFrame) -> None:
        with translated("looking for what matches twice"):
            twice = kept.groupBy(ROOT, ROW).count().where("count > 1").first()
            if twice is None:
                return
            one = joined.where((F.col(ROOT) == twice[ROOT]) & (F.col(ROW) == twice[ROW]))
            shown = [of_side("target", name) for name in self.request.keys] or [F.col("target.*")]
            key = one.select(*shown).drop(ROOT, ROW).first()
        given = key.asDict() if key else {}
        told = ", ".join(f"{name} = {value!r}" for name, value in given.items())
        raise InvalidInput(
            f"{twice['count']} rows of the source match one row of the table, that with {told}: "
            "the merge is ambiguous; keep one of them"
        )


def of_side(side: str, name: str) -> Column:
    """Return a column of a side of the join, by its literal name."""
    return F.col(f"{side}.`" + name.replace("`", "``") + "`")
