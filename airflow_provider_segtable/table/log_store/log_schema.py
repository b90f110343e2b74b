"""The columns of a log store's records: those of the table's rows, and perhaps a mark of deletes.

Records are committed in the columns of the version whose schema this is; a later alteration of the
table does not change them (``table.log_store.checkpointing``).
"""

import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.table.lifetime.definition import given_schema
from airflow_provider_segtable.table.writes.upsert import check_deleted

DELETED = "_segtable_deleted"
"""In records of a primary-key table: whether a record deletes its key. Null means no."""


def log_schema(state: State, uri: str = "") -> pa.Schema:
    """Return the columns of the records of a table's log store.

    Raises:
        InvalidInput: the table's rows do not show when they came, as in a rollup table; or it has
            a column with the name of the mark.
    """
    name = uri or state.table.name
    try:
        state.table.kind.check_window(name)
    except InvalidInput as error:
        raise InvalidInput(f"{name} cannot have a log store: {error}") from None
    check_deleted(state, DELETED)
    schema = given_schema(state.table)
    if state.table.kind.rules is None:
        return schema
    return schema.append(pa.field(DELETED, pa.bool_()))


def deleted_column(state: State) -> str | None:
    """Return the column of the records that says which delete their key, if there is one."""
    return None if state.table.kind.rules is None else DELETED
