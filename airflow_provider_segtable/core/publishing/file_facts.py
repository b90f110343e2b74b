"""File facts: what the footer of a data file tells of its columns.

A bound is a Python value of the file's type: bool, int, float, ``Decimal``, str or bytes. Times are
integers, so that no unit and no year is out of range: timestamps in microseconds since the epoch
(UTC if the column has a zone, else as they read), times of day in microseconds since midnight,
dates in days since the epoch. Nanoseconds are rounded outwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """What the footer of a file tells of a top-level column; None if it does not.

    Attributes:
        low: a lower bound of its values that are neither null nor NaN.
        high: an upper bound of them.
        nulls: the number of nulls.
        size: its compressed bytes.
        nan: whether there may be values that are not a number; no bound is one of these. A format
            whose readers count NaN as the greatest value must not state the bounds.
    """

    low: Any = None
    high: Any = None
    nulls: int | None = None
    size: int | None = None
    nan: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What the footer of a file tells.

    Attributes:
        columns: by the ids of the columns in the schema that the file was written with.
        numbered: whether all its columns, nested ones too, carry ids.
        split_offsets: where its row groups begin.
    """

    columns: Mapping[int, ColumnFacts] = field(default_factory=dict)
    numbered: bool = False
    split_offsets: tuple[int, ...] = ()
