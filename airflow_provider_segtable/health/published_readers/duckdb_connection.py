"""DuckDB with the extensions that are installed on this machine; none is downloaded."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.health.published_readers.reader import PublishedPlace
from airflow_provider_segtable.health.published_readers.store_options import duckdb_secret

_CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


def lacking_extensions(wanted: Iterable[str]) -> str:
    """Return which extensions are not installed; empty if all are."""
    with _connect() as db:
        query = "SELECT extension_name FROM duckdb_extensions() WHERE installed"
        found = {name for (name,) in db.execute(query).fetchall()}
    missing = [each for each in wanted if each not in found]
    return f"duckdb has no extension {' and '.join(missing)}" if missing else ""


def rows_of(
    query: str, extensions: Iterable[str], place: PublishedPlace, *, first: Iterable[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield what a query answers, after the statements ``first``."""
    secret = duckdb_secret(place)
    with _connect() as db:
        for each in (*extensions, *(["httpfs"] if secret else [])):
            db.execute(f"LOAD {each}")
        for statement in (*([secret] if secret else []), *first):
            db.execute(statement)
        yield from pa.RecordBatchReader.from_stream(db.sql(query))


def quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _connect() -> Any:
    import duckdb

    db = duckdb.connect(config=dict(_CONFIG))
    db.execute("SET enable_progress_bar = false")
    return db
