"""Arrow rows as data frames of libraries that may not be installed."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.errors import DependencyMissing


def pandas_frame(rows: pa.Table) -> Any:
    """Return rows as a pandas DataFrame.

    Raises:
        DependencyMissing: pandas is not installed.
    """
    return _made("pandas", rows.to_pandas)


def polars_frame(rows: pa.Table) -> Any:
    """Return rows as a Polars DataFrame.

    Raises:
        DependencyMissing: polars is not installed.
    """

    def make() -> Any:
        import polars as pl

        return pl.from_arrow(rows)

    return _made("polars", make)


def duckdb_relation(rows: Any) -> Any:
    """Return a DuckDB relation over a stream of rows, which DuckDB reads when it runs a query.

    Raises:
        DependencyMissing: duckdb is not installed.
    """

    def make() -> Any:
        import duckdb

        return duckdb.from_arrow(rows)

    return _made("duckdb", make)


def _made(library: str, make: Callable[[], Any]) -> Any:
    try:
        __import__(library)
    except ImportError:
        raise DependencyMissing(
            f"package {library} is not installed: pip install {library}, or read with to_arrow()"
        ) from None
    return make()
