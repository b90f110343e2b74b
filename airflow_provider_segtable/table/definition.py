"""Check a table's definition, and create the table by the first event of its log.

1. A definition is checked when it is given: at creation and at alteration. Its properties are
   checked against the rest of it (``table.property_checks``).
2. The first event has number 0. Where a table was dropped, it has the number of the marker that
   ends the old log (``table.log.event_log``, rule 8); the marker then becomes one of expiry.
3. A table with publication in other formats is published at once, without rows.
"""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CommitUnknown,
    InvalidName,
    OutcomeUnknown,
    SchemaMismatch,
    TableExists,
    TableGone,
)
from airflow_provider_segtable.core.log.events import Event, encode
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.log_paths import TIMELINE, event_path, expired_path
from airflow_provider_segtable.core.schema import Schema, check_name, no_column
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import (
    check_once,
    check_zones,
    from_arrow,
    storable,
)
from airflow_provider_segtable.data.files.text_values import Needed
from airflow_provider_segtable.data.parquet.table_file import incoming_columns
from airflow_provider_segtable.data.rows import is_time
from airflow_provider_segtable.planning.properties import PUBLISH_PREFIX
from airflow_provider_segtable.storage import probe
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.property_checks import check_properties
from airflow_provider_segtable.table.publishing.after_commit import publish_after_commit


def known_granularity(value: str | Granularity) -> Granularity:
    """Return the granularity of this name.

    Raises:
        InvalidName: there is none.
    """
    try:
        return Granularity(value)
    except ValueError:
        choices = ", ".join(Granularity)
        raise InvalidName(f"granularity {value!r} is unknown: choose one of {choices}") from None


def checked_schema(schema: pa.Schema, time_column: str) -> Schema:
    """Return the table schema of an Arrow schema.

    Raises:
        SchemaMismatch: a type cannot be stored, a time zone does not exist, a name is there twice,
            or the time column is missing or not a time.
        InvalidName: a table cannot have a column of this name.
    """
    check_once(schema)
    if time_column not in schema.names:
        raise no_column(time_column, schema.names, "for the event time", of="the schema")
    if not is_time(schema.field(time_column).type):
        raise SchemaMismatch(
            f"time column {time_column!r} has type {schema.field(time_column).type}: "
            "it must be a timestamp or a date; in text files these are read from ISO 8601 only "
            "(2013-01-31, 2013-01-31T12:00:00Z)"
        )
    return from_arrow(stored_form(schema))


def stored_form(schema: pa.Schema) -> pa.Schema:
    """Return columns in the types that a table stores: dictionaries and views as their values.

    Raises:
        InvalidName: a table cannot have a column of this name.
        SchemaMismatch: Parquet cannot store a type.
    """
    for name in schema.names:
        check_name(name)
    stored = pa.schema([f if pa.types.is_null(f.type) else storable(f) for f in schema])
    for field in stored:
        check_writable(field)
    return stored


def check_writable(field: "pa.Field[Any]") -> None:
    """Refuse a column that Parquet cannot store, or whose time zone does not exist.

    Raises:
        SchemaMismatch: with the column, its type and the reason.
    """
    check_zones(field.type, field.name)
    try:
        pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
    except (pa.ArrowException, OSError) as error:
        raise SchemaMismatch(
            f"column {field.name!r} has type {field.type}, which Parquet cannot store ({error}): "
            "choose another type"
        ) from None


def given_schema(definition: TableDefinition) -> pa.Schema:
    """Return the schema of rows to append; it marks columns that may be left out."""
    return incoming_columns(definition.kind.input_schema(definition.schema, definition.time_column))


def needed_values(definition: TableDefinition) -> Needed:
    """Return the values that a row of a file needs to be appended."""
    rules = definition.kind.rules
    key = rules.key if rules is not None else ()
    columns = (each.name for each in given_schema(definition) if not each.nullable)
    names = dict.fromkeys((*key, *columns))
    names.pop(definition.time_column, None)
    return Needed(time=definition.time_column, columns=tuple(names))


def of_kind(definition: TableDefinition, kind: TableKind) -> TableDefinition:
    """Return the definition with a kind, whose stored columns replace those of incoming rows."""
    found, schema = kind.bound(
        definition.schema,
        time_column=definition.time_column,
        granularity=definition.granularity,
    )
    for name in schema.names:
        check_name(name)
    properties = {**found.properties, **definition.properties}
    return replace(definition, schema=schema, kind=found, properties=properties)


def begin_log(ports: TableContext, definition: TableDefinition) -> None:
    """Write the first event, after checking the definition and the storage.

    Raises:
        InvalidInput, SchemaMismatch: the properties are invalid; no table was created.
        TableExists: there is a table already.
        TableGone: a table that was dropped there has files left; no table was created.
        UnsafeStorage: the store does not honour put-if-absent.
        CommitUnknown: the reply was lost; the table may exist, or be created later.
        ClockSkew: this host's clock is off; no table was created.
    """
    check_properties(definition, definition.properties)
    n = _first_number(ports)
    log = ports.log
    probe(ports.storage, ports.randomness)
    commit_id = ports.randomness.token()
    event = Event(
        n=n, time=ports.checked_now(), commit=commit_id, author=ports.author, action=definition
    )
    try:
        ports.storage.create(event_path(n), encode(event))
    except (AlreadyExists, OutcomeUnknown) as error:
        found = log.event(n)
        if found is None and isinstance(error, OutcomeUnknown):
            raise CommitUnknown(
                f"{ports.uri}: the reply to the creation was lost: look whether the table is "
                "there; if it is not, create it again"
            ) from error
        if found is None or found.commit != commit_id:
            raise _exists(ports) from None
    if log.first() > n:  # event n had expired, so its number was free
        raise _exists(ports)
    if n:
        ports.storage.replace(expired_path(n), b"")
    made = apply(None, event)
    if made.table.has_below(PUBLISH_PREFIX):
        publish_after_commit(ports, made)


def _first_number(ports: TableContext) -> int:
    """Return the number of a new table's first event; errors as ``begin_log``."""
    log = ports.log
    n = log.first()
    if not n:
        return 0
    if log.event(n) is not None or log.kept(n) is None:
        raise _exists(ports)
    left = next(iter(ports.storage.list(TIMELINE)), None)
    if left is not None:
        raise TableGone(
            f"{ports.uri}: the table that was dropped here left {left.path} and maybe more: run "
            "`segtable table drop` again, then create the new one"
        )
    return n


def _exists(ports: TableContext) -> TableExists:
    return TableExists(f"{ports.uri} is a table already: open it, or choose another place")
