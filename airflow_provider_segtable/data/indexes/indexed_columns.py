"""Which indexed columns a condition names, and whether entries about them can exclude rows."""

from collections.abc import Collection, Mapping, Sequence

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.predicate import (
    Comparison,
    Judge,
    Predicate,
    comparisons,
    possible,
)


def indexed_columns(ids: Collection[int], table: TableCreated) -> Mapping[str, int]:
    """Return the ids of the indexed columns that the table still has, by their present names."""
    return {column.name: column.id for column in table.schema.numbered if column.id in ids}


def needed_columns(test: Predicate, indexed: Mapping[str, int], excludes: Judge) -> Sequence[int]:
    """Return the ids of columns whose entries may exclude a condition; none if they never do.

    Args:
        test: the condition.
        indexed: the ids of the indexed columns, by name.
        excludes: whether entries about its column can exclude a comparison.
    """

    def told(comparison: Comparison, wanted: bool) -> bool:  # noqa: FBT001
        return comparison.column in indexed and excludes(comparison, wanted)

    if possible(test, lambda comparison, wanted: not told(comparison, wanted)):
        return ()
    used = (each.column for each, wanted in comparisons(test) if told(each, wanted))
    return tuple(indexed[name] for name in dict.fromkeys(used))
