"""Whether a predicate can hold in a block of rows, by the values that the block does not have.

1. The answer is True unless the values exclude it: blocks are skipped, and rows never lost.
2. Only equality is excluded: ``=`` and ``IN``, also within ``AND``, ``OR`` and ``NOT``, and a
   negated ``!=``. All other comparisons can be true or false of values that are not known.
3. No row equals null, so a comparison with null is neither true nor false.
"""

from collections.abc import Callable
from typing import TypeAlias

from airflow_provider_segtable.core.deletes.predicate import (
    OPPOSITE,
    Among,
    Compare,
    Compares,
    IsNull,
    Predicate,
    Value,
)
from airflow_provider_segtable.core.deletes.predicate_logic import Comparison, possible

MayHave: TypeAlias = Callable[[str, Value], bool]
"""Returns whether a row may have a value in a column; True if that is not known."""


def can_equal(predicate: Predicate, may_have: MayHave) -> bool:
    """Return whether the predicate can be true for one of the rows."""

    def judge(comparison: Comparison, wanted: bool) -> bool:  # noqa: FBT001
        values = excluded_by(comparison, wanted=wanted)
        column = comparison.column
        return values is None or any(may_have(column, v) for v in values if v is not None)

    return possible(predicate, judge)


def excluded_by(comparison: Comparison, *, wanted: bool) -> tuple[Value, ...] | None:
    """Return the values without which the comparison cannot be ``wanted``; None if there are none.

    A null among them is no value of any row.
    """
    match comparison:
        case Compare(how=how, value=value):
            asked = how if wanted else OPPOSITE[how]
            return (value,) if value is None or asked is Compares.EQUAL else None
        case Among(values=values) if wanted:
            return values
        case Among() | IsNull():
            return None
