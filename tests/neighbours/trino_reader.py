"""Trino's connectors of Delta Lake and Iceberg, as readers of published tables."""

import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import deltalake
import pyarrow as pa
from pyiceberg.table import StaticTable

from tests.neighbours.session import Refused, Session
from tests.neighbours.trino_server import PATIENCE_S
from tests.property.published_readers import metadata, newest_iceberg


@dataclass(frozen=True)
class TrinoReader:
    """A client of a server in which each table is registered when it is first read."""

    session: Session
    names: dict[tuple[str, str, int | None], str] = field(default_factory=dict)
    numbers: "count[int]" = field(default_factory=count)

    @classmethod
    def start(cls, folder: Path, port: int) -> "TrinoReader":
        """Start a client, and make the schema ``lake`` in both catalogs."""
        made = cls(Session.start("trino_program", folder, str(port)))
        for catalog in ("delta", "iceberg"):
            made.sql(f"CREATE SCHEMA {catalog}.lake")
        return made

    def sql(self, statement: str, schema: pa.Schema | None = None) -> pa.Table:
        """Return the rows of a statement, or raise ``Refused``.

        A server that has just started may have no node for a query yet: then nothing was run, and
        the statement is asked again.
        """
        typed = {} if schema is None else {"schema": schema.serialize().to_pybytes().hex()}
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.session.ask(sql=statement, **typed)
            except Refused as error:
                if "NO_NODES_AVAILABLE" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def delta(self, root: Path) -> str:
        """Return the name of a Delta table."""
        return self._name("delta", root, None, f"table_location => 'file://{root}'")

    def iceberg(self, root: Path, number: int | None = None) -> str:
        """Return the name of an Iceberg table, as of its newest version or another one."""
        given = f"table_location => 'file://{root}/_iceberg'"
        if number is not None:
            given += f", metadata_file_name => '{Path(metadata(root, number)).name}'"
        return self._name("iceberg", root, number, given)

    def _name(self, catalog: str, root: Path, number: int | None, given: str) -> str:
        key = catalog, str(root), number
        if key not in self.names:
            name = f"t{next(self.numbers)}"
            parts = f"schema_name => 'lake', table_name => '{name}', {given}"
            self.sql(f"CALL {catalog}.system.register_table({parts})")
            self.names[key] = f"{catalog}.lake.{name}"
        return self.names[key]

    def delta_rows(self, root: Path, number: int) -> pa.Table:
        """Read a version of a Delta table by its number."""
        schema = pa.schema(deltalake.DeltaTable(root, version=number).schema().to_arrow())
        asked = f"SELECT * FROM {self.delta(root)} FOR VERSION AS OF {number}"  # noqa: S608
        return self.sql(asked, schema)

    def iceberg_rows(self, root: Path, number: int) -> pa.Table:
        """Read a version of an Iceberg table by its metadata, the newest one as Trino finds it."""
        newest = number == newest_iceberg(root)
        schema = StaticTable.from_metadata(metadata(root, number)).schema().as_arrow()
        name = self.iceberg(root, None if newest else number)
        return self.sql(f"SELECT * FROM {name}", schema)  # noqa: S608
