"""The keys that a read asks for, and the buckets that can have them.

1. A condition *pins* a column if it holds only for certain values of it: ``=``, ``IN``, and these
   joined by ``AND`` and ``OR``. If it pins all columns that decide the bucket, the rows of each
   time chunk are in the buckets of these keys alone (``data.keyed.keyed_rows``).
2. Values are hashed in the column's type. If a value is of another type, or does not fit, nothing
   is left out.
3. A file names the number of buckets that its rows were divided by, so each is judged by its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    Compare,
    Compares,
    Day,
    Moment,
    Predicate,
    Value,
    pinned_values,
)
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.conditions import value_array
from airflow_provider_segtable.data.keyed.keyed_rows import buckets_of
from airflow_provider_segtable.data.sort_keys import Indices

MOST_KEYS = 4_096
"""The most combinations of values of several columns that are hashed."""

_KINDS = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_string, str),
    (pa.types.is_large_string, str),
    (pa.types.is_timestamp, Moment),
    (pa.types.is_date32, Day),
    (pa.types.is_decimal128, Decimal),
)


@dataclass(frozen=True, slots=True)
class WantedKeys:
    """The keys that a read asks for.

    Attributes:
        columns: the columns that decide the bucket.
        rows: their values.
    """

    columns: tuple[str, ...]
    rows: pa.Table
    _buckets: dict[int, Indices] = field(default_factory=dict, compare=False)
    _numbers: dict[int, frozenset[int]] = field(default_factory=dict, compare=False)

    @staticmethod
    def pinned(
        tests: Iterable[Predicate], rules: MergeRules, schema: pa.Schema
    ) -> "WantedKeys | None":
        """Return the keys that conditions pin, all of which hold; None if they do not.

        Args:
            tests: the conditions.
            rules: the table's rules.
            schema: its columns.
        """
        both = AllOf(tuple(tests))
        values = {name: pinned_values(both, name) for name in rules.bucket_key}
        given = {name: some for name, some in values.items() if some is not None}
        several = len(given) > 1 and prod(map(len, given.values())) > MOST_KEYS
        if len(given) < len(values) or several:
            return None
        columns = _product(given, schema)
        return None if columns is None else WantedKeys(rules.bucket_key, pa.table(columns))

    def in_bucket(self, count: int) -> Indices:
        """Return the bucket of each key, of so many."""
        if count not in self._buckets:
            self._buckets[count] = buckets_of(self.rows, self.columns, count).astype(np.int64)
        return self._buckets[count]

    def rows_in(self, segment: Segment, standard: int) -> Indices:
        """Return the numbers of the keys that a file may have; arguments as for ``may_be_in``."""
        return np.flatnonzero(self.in_bucket(segment.buckets or standard) == segment.id.bucket)

    def may_be_in(self, segment: Segment, standard: int) -> bool:
        """Return whether a file may have records of the keys.

        Args:
            segment: the file.
            standard: the table's number of buckets.
        """
        count = segment.buckets or standard
        if count not in self._numbers:
            self._numbers[count] = frozenset(self.in_bucket(count).tolist())
        return segment.id.bucket in self._numbers[count]


def _product(
    given: Mapping[str, Sequence[Value]], schema: pa.Schema
) -> Mapping[str, pa.Array] | None:
    """Return all combinations of values, as columns; None if one is no value of its column."""
    columns: dict[str, pa.Array] = {}
    for name, some in given.items():
        kind = schema.field(name).type
        expected = next((own for test, own in _KINDS if test(kind)), None)
        present = [value for value in some if value is not None]
        if any(type(value) is not expected for value in present):
            return None
        try:
            columns[name] = value_array(present, kind, name)
        except InvalidInput:
            return None
    if len(columns) == 1:
        return columns
    places = [*product(*(range(len(column)) for column in columns.values()))]
    numbers = np.array(places, np.int64).reshape(-1, len(columns))
    return {
        name: column.take(pa.array(numbers[:, at]))
        for at, (name, column) in enumerate(columns.items())
    }


def one_of(rows: pa.Table, columns: Sequence[str]) -> Predicate | None:
    """Return a predicate that all rows with the keys of some rows satisfy; None if none is known.

    Of several columns, it says that each has one of its values.
    """
    parts: list[Predicate] = []
    for name in columns:
        values = _values(pc.unique(rows.column(name)))
        if values is not None and len(values) == 1:
            parts.append(Compare(name, Compares.EQUAL, values[0]))
        elif values is not None:
            parts.append(Among(name, values))
    return AllOf(tuple(parts)) if parts else None


def _values(column: pa.Array) -> tuple[Value, ...] | None:
    """Return values for a predicate; None of a type that predicates do not have."""
    kind = column.type
    if pa.types.is_date32(kind):
        return tuple(map(Day, column.cast(pa.int32()).to_pylist()))
    if pa.types.is_timestamp(kind):
        micros = pc.cast(column, pa.timestamp("us", kind.tz)).cast(pa.int64())
        return tuple(map(Moment, micros.to_pylist()))
    if any(test(kind) for test, _ in _KINDS):
        return tuple(column.to_pylist())
    return None
