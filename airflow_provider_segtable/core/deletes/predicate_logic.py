"""The logic of predicates, for decisions about blocks of rows.

1. A *judge* says of one comparison whether it can be true, or whether it can be false, for one of
   the rows. It may say yes without need, and never no by mistake.
2. Logic is three-valued: ``wanted=False`` asks whether the predicate can be false, and a null is
   neither true nor false. So a negation asks for the opposite of what it negates.
3. The answer can only turn from no to yes if a judge says yes more often.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from airflow_provider_segtable.core.deletes.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    IsNull,
    Not,
    Predicate,
)

Comparison: TypeAlias = Compare | Among | IsNull
Judge: TypeAlias = Callable[[Comparison, bool], bool]
"""Takes a comparison, and whether it is wanted to be true or to be false."""


def possible(predicate: Predicate, judge: Judge, *, wanted: bool = True) -> bool:
    """Return whether the predicate can be ``wanted`` for one of the rows."""
    match predicate:
        case Not(of=one):
            return possible(one, judge, wanted=not wanted)
        case AllOf(of=some) | AnyOf(of=some):
            parts = (possible(one, judge, wanted=wanted) for one in some)
            return all(parts) if isinstance(predicate, AllOf) is wanted else any(parts)
        case Compare() | Among() | IsNull():
            return judge(predicate, wanted)


def comparisons(predicate: Predicate, *, wanted: bool = True) -> Iterator[tuple[Comparison, bool]]:
    """Yield the comparisons of a predicate, each as a judge is asked for it."""
    match predicate:
        case Not(of=one):
            yield from comparisons(one, wanted=not wanted)
        case AllOf(of=some) | AnyOf(of=some):
            for one in some:
                yield from comparisons(one, wanted=wanted)
        case Compare() | Among() | IsNull():
            yield predicate, wanted
