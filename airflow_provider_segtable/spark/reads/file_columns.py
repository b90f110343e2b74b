"""The columns of files of one schema, as Spark reads them and as the table has them now.

Spark reads a file by the names and types that the file has. Then columns get their present names
and types, and missing ones their default. The log knows both schemas, so no file is opened.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.log.events import TableCreated
from airflow_provider_segtable.data.parquet.table_file import (
    default_of,
    file_names,
    plain_columns,
    stored_columns,
)
from airflow_provider_segtable.spark.reads.spark_schemas import spark_schema
from airflow_provider_segtable.spark.reads.spark_times import column


def identified(table: TableCreated, fields: pa.Schema) -> pa.Schema:
    """Return fields with the ids of the table's columns, by which tasks read them."""
    known = stored_columns(table.schema)
    return pa.schema([known.field(f.name) if f.name in known.names else f for f in fields])


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """Some columns of the table, in files of one schema.

    Attributes:
        target: the columns as the table has them, with ids.
        schema: the columns that the files have, under their names there.
        names: the name of each target column in the files; None if they lack it.
    """

    target: pa.Schema
    schema: pa.Schema
    names: Mapping[str, str | None]

    @staticmethod
    def of(table: TableCreated, number: int, fields: pa.Schema) -> "FileColumns":
        """Return the columns ``fields`` in files of schema ``number``."""
        if number == table.schema.number:
            return FileColumns(target=fields, schema=fields, names={n: n for n in fields.names})
        target, old = identified(table, fields), stored_columns(table.schema_of(number))
        names = file_names(old, target)
        have = {field.name: field for field in old}
        hidden = {field.name: field for field in fields if field.name not in table.schema.names}
        stored = (name for name in dict.fromkeys(names.values()) if name)
        schema = plain_columns(pa.schema([have.get(n) or hidden[n] for n in stored]))
        return FileColumns(target=target, schema=schema, names=names)

    def shown(self, frame: DataFrame) -> DataFrame:
        """Return a frame of the files' columns with the table's; other columns stay."""
        if self.target is self.schema:
            return frame
        stored = {name for name in self.names.values() if name}
        others = [column(frame, name) for name in frame.columns if name not in stored]
        return frame.select(*(self._shown(frame, field) for field in self.target), *others)

    def _shown(self, frame: DataFrame, field: "pa.Field") -> Column:
        kind = spark_schema(pa.schema([field]))[0].dataType
        stored = self.names[field.name]
        value = F.lit(default_of(field).as_py()) if stored is None else column(frame, stored)
        return value.cast(kind).alias(field.name)
