"""The log stores of a table that run as processes of their own (``segtable logstore serve``)."""

from collections.abc import Callable, Sequence

from airflow_provider_segtable.core.errors import InvalidInput, LogStoreUnavailable
from airflow_provider_segtable.ports.log_store import LogClient


class ExternalLog:
    """The services of a writer's buckets; ``find`` knows where they are now.

    Args:
        uri: the table's place, for messages.
        buckets: the buckets of the writer.
        find: returns the client of the service that has a bucket now, if there is one.
    """

    failure = None

    def __init__(
        self, uri: str, buckets: Sequence[int], find: Callable[[int], LogClient | None]
    ) -> None:
        self._uri, self._buckets, self._find = uri, buckets, find

    def start(self) -> None:
        """Do nothing: the services run."""

    def publish(self) -> None:
        """Do nothing: the services publish their addresses."""

    def client(self, bucket: int) -> LogClient:
        """Return the client of a bucket's store.

        Raises:
            LogStoreUnavailable: no service has the bucket now.
        """
        found = self._find(bucket)
        if found is None:
            raise LogStoreUnavailable(
                f"no service has bucket {bucket} of the log store of {self._uri}: start one with "
                "`segtable logstore serve`, or open the writer with embedded=True"
            )
        return found

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

    def close(self) -> None:
        """Do nothing: the services go on, and will commit."""

    def discard(self) -> None:
        """Do nothing: the services commit what was sent, until another epoch begins."""
