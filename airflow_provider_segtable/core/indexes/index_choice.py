"""The kind of index that a user asks for: by its name, with settings by theirs.

1. Columns are named by users, and kept by their ids.
2. A setting that the kind does not have is refused: a rate for bounds would do nothing.
"""

from collections.abc import Sequence

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import IndexKind, column_ids
from airflow_provider_segtable.core.indexes.index_kinds import KINDS
from airflow_provider_segtable.core.log.families.table_events import TableCreated


def in_words(kind: IndexKind, table: TableCreated) -> str:
    """Return a kind with its settings: ``bloom_filter(city, rate=0.01)``."""
    known = {column.id: column.name for column in table.schema.numbered}
    columns = [known.get(number, f"dropped column {number}") for number in kind.columns]
    settings = ((key, value) for key, value in kind.encoded().items() if key != "columns")
    return f"{kind.name}({', '.join([*columns, *(f'{key}={value}' for key, value in settings)])})"


def chosen_kind(
    name: str, table: TableCreated, *, columns: Sequence[str] = (), rate: float | None = None
) -> IndexKind:
    """Return the kind of index that a user asks for, checked against the table.

    Args:
        name: the kind's name.
        table: the table to index.
        columns: the names of the indexed columns, for kinds that have columns.
        rate: the false-positive rate, for kinds that have one; the kind's own by default.

    Raises:
        InvalidInput: the kind is unknown, does not have a setting, or does not fit the table.
    """
    if name not in KINDS:
        raise InvalidInput(
            f"index kind {name!r} is unknown: choose one of {', '.join(sorted(KINDS))}"
        )
    kind = KINDS[name]
    given = {"columns": column_ids(columns, table), "rate": rate}
    wanted = {key: value for key, value in given.items() if value not in (None, ())}
    for key in wanted:
        if key not in kind.settings:
            having = ", ".join(sorted(k for k, each in KINDS.items() if key in each.settings))
            raise InvalidInput(
                f"an index of kind {name} has no {key}: leave it out, or choose a kind that has "
                f"({having})"
            )
    chosen = kind.decoded({**kind.settings, **wanted}).for_table(table)
    chosen.check(table)
    return chosen
