"""The index ``files``: the files of each time chunk, with sizes and numbers of rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from airflow_provider_segtable.core.indexes.index_kind import FILE, AboutFiles
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.tables.schema import Column

END = "end"
BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList(AboutFiles):
    """One entry a file: its time chunk, size and number of rows."""

    name: ClassVar[str] = "files"
    settings: ClassVar[Mapping[str, Any]] = {}
    reads_rows: ClassVar[bool] = False
    columns: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """Return the path."""
        return (FILE,)

    def check(self, table: TableCreated) -> None:
        """Accept every table."""

    def entry_columns(self, table: TableCreated) -> tuple[Column, ...]:
        """Return the end of the chunk, and the size."""
        del table
        return (
            Column(name=END, type="timestamp[us, tz=UTC]"),
            Column(name=BYTES, type="int64"),
        )

    def encoded(self) -> dict[str, Any]:
        """Return nothing: there are no settings."""
        return {}

    @classmethod
    def decoded(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encoded``."""
        del body
        return cls()
