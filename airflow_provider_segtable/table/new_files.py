"""New data files of one write, which become durable in the background.

1. A file is committed while the next one is written. Before an event names any of them, its author
   waits for all (``wait_durable``).
2. The rows that indexes need are kept in memory (``data.indexes.kept_rows``).
"""

from collections.abc import Sequence
from typing import Self

from airflow_provider_segtable.core.errors import AlreadyExists, StorageError
from airflow_provider_segtable.core.log.state import State, source_columns
from airflow_provider_segtable.data.indexes.kept_rows import KeptRows
from airflow_provider_segtable.ports.files import Ready, Sink
from airflow_provider_segtable.table.context import TableContext

UPLOADS = 8
"""The most files of one write that are uploaded at once."""


class NewFiles:
    """The files of one write; their commits run in the background, some at a time."""

    def __init__(self, at_once: int = 1, kept: KeptRows | None = None) -> None:
        """Start without files.

        Args:
            at_once: the most commits under way.
            kept: keeps the rows that indexes need; by default none are kept.
        """
        self._at_once = at_once
        self._ready: list[Ready] = []
        self.kept = kept or KeptRows()

    @classmethod
    def of(
        cls, ports: TableContext, state: State | None = None, *, most_copies: int | None = None
    ) -> Self:
        """Return the files of one write: one after another reaches a disk, several a store.

        Args:
            ports: the table's ports.
            state: the version that is written to, with its indexes; no rows are kept without it.
            most_copies: the most bytes of rows to keep for them, if these are copies.
        """
        kept = None
        if state is not None:
            kept = KeptRows(state.table.schema, source_columns(state), most_copies)
        return cls(UPLOADS if ports.storage.remote else 1, kept)

    def commit(self, sink: Sink) -> None:
        """Begin to commit a file, after earlier ones if too many are under way."""
        while len(self._ready) >= self._at_once:
            self._wait(self._ready[:1])
            del self._ready[0]
        ready = sink.begin_commit()
        if ready is not None:
            self._ready.append(ready)

    @property
    def ready(self) -> Ready | None:
        """Return a function that waits until all files are durable; None if they are."""
        return self.wait_durable if self._ready else None

    def wait_durable(self) -> None:
        """Wait until all files are durable.

        Raises:
            StorageError: one of them could not be committed.
        """
        self._wait(self._ready)

    def _wait(self, some: Sequence[Ready]) -> None:
        errors: list[StorageError] = []
        for ready in some:
            try:
                ready()
            except AlreadyExists as error:  # of a data file: not an event that another writer put
                errors.append(StorageError(str(error)))
            except StorageError as error:
                errors.append(error)
        if errors:
            raise errors[0]
