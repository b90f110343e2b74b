"""DuckDB and ClickHouse (chDB): a program for ``test_embedded_engines.py``.

python -m tests.neighbours.embedded_program
"""

from importlib.resources import files
from typing import Any

import chdb
import duckdb
import pyarrow as pa

from tests.neighbours.answers import serve

EXTENSIONS = ("avro", "delta", "iceberg")


def connected() -> Any:
    """Return a connection of DuckDB that has the extensions of their packages."""
    made = duckdb.connect(config={"autoinstall_known_extensions": False})
    made.execute("SET TimeZone = 'UTC'")
    for name in EXTENSIONS:
        place = files(f"duckdb_extension_{name}") / "extensions" / f"v{duckdb.__version__}"
        made.execute(f"LOAD '{place / name}.duckdb_extension'")
    return made


def main() -> None:
    """Answer requests, each of which names an engine."""
    connection = connected()

    def rows_of(asked: dict[str, Any]) -> pa.Table:
        if asked["engine"] == "duckdb":
            return connection.sql(asked["sql"]).to_arrow_table()
        return chdb.query(asked["sql"], "ArrowTable")

    serve(rows_of)


if __name__ == "__main__":
    main()
