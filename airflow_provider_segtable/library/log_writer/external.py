"""The log stores of a table that run as processes of their own (``segtable logstore serve``).

A service that stands still, or whose host is gone, does not say so. So a thread looks at who has
the buckets now, and the writer leaves services that were replaced, also while it waits for them.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

from airflow_provider_segtable.core.errors import (
    CoordinationError,
    InvalidInput,
    LogStoreUnavailable,
)
from airflow_provider_segtable.core.log_store.manifest import Epoch
from airflow_provider_segtable.ports.log_store import LogClient
from airflow_provider_segtable.services.log_store.directory import BucketAddress, BucketFinder

LOOK_S = 2.0
"""How often the services are looked at; their changes are noticed at once."""


class ExternalLog:
    """The services of a writer's buckets; ``find`` knows where they are now.

    Args:
        uri: the table's place, for messages.
        buckets: the buckets of the writer.
        find: finds the service that has a bucket now.
    """

    failure = None

    def __init__(self, uri: str, buckets: Sequence[int], find: BucketFinder) -> None:
        self._uri, self._buckets, self._find = uri, buckets, find
        self._found: dict[int, int] = {}
        self._used: Mapping[int, int] = {}
        self._closed = threading.Event()

    def start(self, on_moved: Callable[[int], None]) -> None:
        """Watch the services, which run already."""
        threading.Thread(
            target=self._watch, args=(on_moved,), name="segtable-log-moves", daemon=True
        ).start()

    def publish(self, epoch: Epoch) -> None:  # noqa: ARG002 - the log's form
        """Note whose services the writer uses from now on; they publish their own addresses."""
        self._used = dict(self._found)

    def client(self, bucket: int) -> LogClient:
        """Return the client of a bucket's store.

        Raises:
            LogStoreUnavailable: no service has the bucket now.
        """
        at = self._find.find(bucket)
        if at is None:
            raise LogStoreUnavailable(
                f"no service has bucket {bucket} of the log store of {self._uri}: start one with "
                "`segtable logstore serve`, or open the writer with embedded=True"
            )
        self._found[bucket] = at.number
        return self._find.client(at)

    def check(self) -> None:
        """Do nothing: a service's errors come with its answers."""

    def checkpoint(self, commit_id: str | None, *, wait_s: float) -> int | None:
        """Have all services of the buckets commit; return the last version.

        Raises:
            InvalidInput: a commit id is given: a service commits the records of other writers, too.
        """
        if commit_id is not None:
            raise InvalidInput(
                f"commit id {commit_id!r} was given for a checkpoint of {self._uri}, but external "
                "services commit for several writers: open the writer with embedded=True"
            )
        clients = {id(each): each for each in map(self.client, self._buckets)}
        versions = [each.checkpoint(wait_s=wait_s) for each in clients.values()]
        return max((n for n in versions if n is not None), default=None)

    def close(self) -> frozenset[int]:
        """End the watch; the services go on, and will commit."""
        self._closed.set()
        return frozenset()

    def discard(self) -> None:
        """End the watch; the services commit what was sent, until another epoch begins."""
        self._closed.set()

    def _watch(self, on_moved: Callable[[int], None]) -> None:
        seen: Mapping[int, BucketAddress] = {}
        while not self._closed.is_set():
            try:
                seen = self._find.wait(seen, LOOK_S)
            except CoordinationError:  # what the writer uses goes on meanwhile
                self._closed.wait(LOOK_S)
                continue
            for bucket, number in self._used.items():
                if bucket in seen and seen[bucket].number != number:
                    on_moved(bucket)
