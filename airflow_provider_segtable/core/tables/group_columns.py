"""Changes of a rollup table's columns: all are refused, each for its own reason.

Stored rows stand for rows that are not kept, so nothing can be computed for them anew. What a
column is (time, dimension, metric) is in the definition by its name, and so are the hidden columns
of metrics in files.
"""

from collections.abc import Collection, Iterable
from typing import assert_never

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    Reorder,
    WidenColumn,
)


def check_group_columns(
    changes: Iterable[ColumnChange], dimensions: Collection[str], table: str
) -> None:
    """Refuse any change of columns.

    Raises:
        InvalidInput: with the column, the reason and the way out.
    """
    for change in changes:
        raise InvalidInput(
            f"{table} is a rollup table, and {_refused(change, dimensions)}: create another table "
            "with the columns wanted, and ingest the source there"
        )


def _refused(change: ColumnChange, dimensions: Collection[str]) -> str:
    match change:
        case AddColumn(name=name):
            return (
                f"column {name!r} cannot be added: the rows that were rolled up so far are not "
                "kept, so what they had in it is unknown"
            )
        case DropColumn(name=name) if name in dimensions:
            return (
                f"dimension {name!r} cannot be dropped: rows that differ in it alone would be "
                "several rows of one group"
            )
        case DropColumn(name=name):
            return f"column {name!r} cannot be dropped: {_BY_NAME}"
        case RenameColumn(name=name):
            return f"column {name!r} cannot be renamed: {_BY_NAME}; a query can rename it"
        case WidenColumn(name=name, type=kind) if name in dimensions:
            return f"dimension {name!r} cannot become {kind}: rows are grouped by its present type"
        case WidenColumn(name=name, type=kind):
            return (
                f"column {name!r} cannot become {kind}: a metric's type follows from the column "
                "that it aggregates"
            )
        case MakeNullable(name=name):
            return f"column {name!r} cannot be made nullable: {_BY_NAME}"
        case Reorder():
            return "its columns stand in the order time, dimensions, metrics; a query can reorder"
        case _:
            assert_never(change)


_BY_NAME = "the definition of the rollup and the hidden columns of its files name it"
