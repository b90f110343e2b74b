"""Which files of a file group may be left out by a condition, given what each file may hold.

A condition is on merged rows. A file that holds no matching record may hold one that hides another
file's record, so it is left out only where that cannot change a row:

1. The records of a key all satisfy a condition on the key alone, or none does (``by_key``). So a
   file without such records is left out by itself.
2. Engine ``latest``: a row is one record, so a group no file of which may hold a matching record
   has no matching row (``by_row``). Fixed columns may be another record's: each is judged alone.
3. Engine ``partial_update``: the columns of a row are those of several records, or no record's, so
   only the key counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from airflow_provider_segtable.core.deletes.predicate import (
    AllOf,
    Predicate,
    columns_of,
    conjuncts,
)
from airflow_provider_segtable.core.reads.selection import MayHold
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.tables.keyed.merge_rules import MergeRules


@dataclass(frozen=True, slots=True)
class RecordTests:
    """What records satisfy so that a row may match.

    Attributes:
        by_key: every record of a matching row; None if the condition is not on the key.
        by_row: each holds for some record of a matching row.
    """

    by_key: Predicate | None
    by_row: tuple[Predicate, ...]

    @property
    def all(self) -> tuple[Predicate, ...]:
        """Return all tests."""
        return (*([] if self.by_key is None else [self.by_key]), *self.by_row)

    def left(self, segments: Sequence[Segment], may_hold: MayHold) -> tuple[Segment, ...]:
        """Return the files of a file group that a matching row may depend on."""
        key = self.by_key
        found = tuple(each for each in segments if key is None or may_hold(each, key))
        possible = all(any(may_hold(each, test) for each in found) for test in self.by_row)
        return found if possible else ()


def record_tests(tests: Iterable[Predicate], rules: MergeRules) -> RecordTests:
    """Return the tests of records that follow from conditions on rows, all of which hold."""
    parts = [(part, {*columns_of(part)}) for test in tests for part in conjuncts(test)]
    by_key = tuple(part for part, columns in parts if columns <= {*rules.key})
    if rules.partial:
        return RecordTests(_all(by_key), ())
    fixed = {*rules.fixed}
    together = _all(tuple(part for part, columns in parts if not columns & fixed))
    alone = (part for part, columns in parts if columns & fixed and len(columns) == 1)
    by_row = (*([] if together is None or together == _all(by_key) else [together]), *alone)
    return RecordTests(_all(by_key), by_row)


def _all(parts: tuple[Predicate, ...]) -> Predicate | None:
    return AllOf(parts) if parts else None
