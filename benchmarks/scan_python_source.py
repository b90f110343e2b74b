"""A data source in Python over Parquet files, as an alternative that ``scan.py`` measures."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    Filter,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
)
from pyspark.sql.types import StructType

PUSHED = "spark.sql.python.filterPushdown.enabled"
COLUMNS = (
    "id bigint, at timestamp, user string, n bigint, x double, y double, kind int, page string"
)


class PythonSource(DataSource):
    """A data source in Python: Arrow batches of files, filtered by what Spark pushes."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "python_source"

    def schema(self) -> str:
        """Return the columns."""
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader; Spark gives it all columns, whatever a query needs."""
        return PythonReader(self.options["files"].split(","), schema.names)


class PythonReader(DataSourceReader):
    """Reads files, one a partition."""

    def __init__(self, files: Sequence[str], columns: Sequence[str]) -> None:
        """Read all rows, until filters are pushed."""
        self.files, self.columns = files, columns
        self.bounds: list[tuple[str, str, Any]] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Take bounds of columns; Spark evaluates the rest."""
        for each in filters:
            if isinstance(each, GreaterThanOrEqual | LessThan):
                how = "greater_equal" if isinstance(each, GreaterThanOrEqual) else "less"
                self.bounds.append((how, each.attribute[0], each.value))
            else:
                yield each

    def partitions(self) -> Sequence[InputPartition]:
        """Return the files."""
        return [InputPartition(file) for file in self.files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file."""
        test = None
        for how, name, value in self.bounds:
            one = getattr(pc, how)(pc.field(name), pa.scalar(value, pa.timestamp("us", "UTC")))
            test = one if test is None else test & one
        found = ds.dataset(partition.value).to_batches(columns=self.columns, filter=test)
        for rows in found:  # Spark wants fields that may be null
            yield pa.RecordBatch.from_arrays(rows.columns, names=rows.schema.names)
