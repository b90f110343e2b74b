"""The index ``bloom_filter``: which values a file certainly does not have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import (
    FILE,
    AboutFiles,
    check_type,
    ids_of,
    known_columns,
)
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.tables.schema import Column

DEFAULT_RATE = 0.01

_TYPES = (
    *("int8", "int16", "int32", "int64", "bool", "string", "large_string", "binary"),
    *("date32", "timestamp", "decimal128"),
)


def bits(number: int) -> str:
    """Return the column with the filter of an indexed column."""
    return f"bloom_{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilter(AboutFiles):
    """One entry a file, with a filter for each column.

    Attributes:
        columns: the ids of the indexed columns.
        rate: the share of absent values that a filter lets pass, above 0 and below 1.
    """

    name: ClassVar[str] = "bloom_filter"
    settings: ClassVar[Mapping[str, Any]] = {"columns": (), "rate": DEFAULT_RATE}
    columns: tuple[int, ...]
    rate: float = DEFAULT_RATE

    def __post_init__(self) -> None:
        """Refuse a rate out of range."""
        if not 0 < self.rate < 1:
            raise InvalidInput(
                f"a false-positive rate of {self.rate} is not between 0 and 1: write e.g. 0.01"
            )

    @property
    def key(self) -> tuple[str, ...]:
        """Return the path."""
        return (FILE,)

    def check(self, table: TableCreated) -> None:
        """Refuse columns of types that are not compared for equality."""
        for column in known_columns(self.columns, table):
            check_type(column, _TYPES, "bloom_filter")

    def entry_columns(self, table: TableCreated) -> tuple[Column, ...]:
        """Return the filter of each column."""
        found = known_columns(self.columns, table)
        return tuple(Column(name=bits(column.id), type="binary") for column in found)

    def encoded(self) -> dict[str, Any]:
        """Return the columns and the rate."""
        return {"columns": [*self.columns], "rate": self.rate}

    @classmethod
    def decoded(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encoded``."""
        return cls(columns=ids_of(body), rate=body["rate"])
