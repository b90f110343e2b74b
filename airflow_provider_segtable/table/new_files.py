"""New data files of one write, which become durable in the background.

1. Files are committed while the next ones are written, several at once: a store answers them
   together, and a disk makes them durable by few flushes of its journal. Before an event names any
   of them, its author waits for all (``wait_durable``).
2. The rows that indexes need are kept in memory (``data.indexes.kept_rows``).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from airflow_provider_segtable.core.errors import AlreadyExists, StorageError
from airflow_provider_segtable.core.log.state import State, source_columns
from airflow_provider_segtable.data.indexes.kept_rows import KeptRows
from airflow_provider_segtable.ports.files import Ready, Sink

AT_ONCE = 8
"""The most files of one write that are committed at once."""


class NewFiles:
    """The files of one write; their commits run in the background, some at a time."""

    def __init__(self, kept: KeptRows | None = None) -> None:
        """Start without files; ``kept`` keeps the rows that indexes need, by default none."""
        self._ready: list[Ready] = []
        self._threads = ThreadPoolExecutor(AT_ONCE, "segtable-commit")  # they end with this object
        self.kept = kept or KeptRows()

    @classmethod
    def of(cls, state: State, *, most_copies: int | None = None) -> Self:
        """Return the files of one write, whose rows are kept for the indexes of a version.

        Args:
            state: the version that is written to.
            most_copies: the most bytes of rows to keep, if these are copies.
        """
        return cls(KeptRows(state.table.schema, source_columns(state), most_copies))

    def commit(self, sink: Sink) -> None:
        """Begin to commit a file, after earlier ones if too many are under way."""
        while len(self._ready) >= AT_ONCE:
            self._wait(self._ready[:1])
            del self._ready[0]
        try:
            ready = sink.begin_commit(self._threads)
        except RuntimeError:  # the interpreter ends, or the process may have no more threads
            sink.commit()
            return
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
