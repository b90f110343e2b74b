"""One checkpoint after another: cut the store, commit the cut, and bring the store the outcome.

1. A cut of all buckets is committed in one event of the table (``table.log_store.checkpointing``).
2. After a certain failure the records of the cut are in the next one.
3. After an unknown outcome the same cut, under the same commit id, is committed again before
   anything else. So it is committed once.
4. A bucket that the table's log refuses was taken by another writer or service, or the table was
   restored. It is left out, given up in the store, and reported; the others are committed.

One thread at a time uses a checkpointer (``services.log_store.service``).
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass, field

from airflow_provider_segtable.core.errors import (
    CommitUnknown,
    Fenced,
    LogStoreError,
    OffsetGap,
    SegtableError,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.ports.log_store import Cut, LogStore
from airflow_provider_segtable.table.append import AppendResult
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.checkpointing import (
    commit_cut,
    deleted_column,
    refused,
)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """The result of a checkpoint.

    Attributes:
        result: the commit; None if there was nothing to commit.
        lost: the buckets whose records were refused, and why.
    """

    result: AppendResult | None = None
    lost: dict[int, LogStoreError] = field(default_factory=dict)


class Checkpointer:
    """Commits what a store has buffered.

    Args:
        ports: the table's ports, used by this service alone.
        store: the store.
        columns: the version whose columns the store's records have.
    """

    def __init__(self, ports: TableContext, store: LogStore, columns: State) -> None:
        self._ports, self._store, self._columns = ports, store, columns
        self._unsettled: tuple[Cut, str | None] | None = None

    @property
    def unsettled(self) -> bool:
        """Return whether the outcome of the last commit is unknown."""
        return self._unsettled is not None

    def run(self, commit_id: str | None = None) -> Checkpointed:
        """Commit what the store has now; errors as ``commit_cut``, whose retry is another run.

        Args:
            commit_id: equal ids commit once; by default the ranges of offsets name the commit.
        """
        before = Checkpointed()
        if self._unsettled is not None:
            before = self._commit(*self._unsettled)
        found = self._commit(self._store.checkpoint(), commit_id)
        return Checkpointed(
            result=found.result or before.result, lost={**before.lost, **found.lost}
        )

    def _commit(self, cut: Cut, commit_id: str | None) -> Checkpointed:
        lost: dict[int, LogStoreError] = {}
        while cut.buckets:
            try:
                result = self._committed(cut, commit_id)
            except (Fenced, OffsetGap) as refusal:
                cut = self._without_refused(cut, lost, refusal)
            else:
                return Checkpointed(result=result, lost=lost)
        self._unsettled = None
        return Checkpointed(lost=lost)

    def _committed(self, cut: Cut, commit_id: str | None) -> AppendResult | None:
        """Commit a cut, and tell the store."""
        again = self._unsettled is not None and self._unsettled[0] is cut
        self._unsettled = cut, commit_id  # unless an error says more
        try:
            result = commit_cut(
                self._ports,
                cut,
                deleted=deleted_column(self._columns),
                columns=self._columns,
                commit_id=commit_id,
            )
        except (CommitUnknown, Fenced, OffsetGap):
            raise
        except SegtableError:
            if not again:  # else the first attempt may have landed
                self._unsettled = None
                self._store.abandon(cut)
            raise
        self._unsettled = None
        self._store.committed(cut)
        return result

    def _without_refused(
        self, cut: Cut, lost: dict[int, LogStoreError], refusal: LogStoreError
    ) -> Cut:
        """Return a cut without the buckets that the log refuses; raise if it refuses none."""
        found = refused(self._ports.log.load(), cut)
        if not found:
            self._unsettled = None
            self._store.abandon(cut)
            raise refusal
        for bucket, why in found.items():
            _LOG.info("%s: %s", self._ports.uri, why)
            self._store.fence(bucket, cut.buckets[bucket].epoch)
            lost[bucket] = why
        return _part(cut, cut.buckets.keys() - found.keys())


def _part(cut: Cut, buckets: Collection[int]) -> Cut:
    return Cut(buckets={n: taken for n, taken in cut.buckets.items() if n in buckets})
