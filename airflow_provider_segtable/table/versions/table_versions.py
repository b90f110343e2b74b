"""What a table does with its versions: names, tags and consumers that keep them, and restores."""

from airflow_provider_segtable.core.consumer import Consumer
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import BucketManifest
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.time import Time
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.versions.consumers import advance, drop_consumer
from airflow_provider_segtable.table.versions.restoration import RestoreResult, restore
from airflow_provider_segtable.table.versions.tags import put_tag, remove_tag


class TableVersions:
    """The part of ``Table`` that is about whole versions."""

    __slots__ = ()
    ports: TableContext

    def state(self) -> State:
        """Return the newest state of the log."""
        return self.ports.log.load()

    def tag(self, name: str, *, version: int | None = None) -> int:
        """Tag a version, the newest by default, so that it is kept; return its number.

        Raises:
            InvalidName: the name is not a valid file name.
            VersionExpired: the version is no longer kept.
            InvalidInput: the tag exists.
            CommitConflict: the version was cleaned meanwhile.
        """
        return put_tag(self.ports, name, version)

    def untag(self, name: str) -> None:
        """Remove a tag; the next cleaning may delete files that only this tag kept.

        Raises:
            InvalidInput: the tag does not exist.
            CommitConflict: another process has just removed it.
        """
        remove_tag(self.ports, name)

    def consumers(self) -> dict[str, Consumer]:
        """Return the consumers of the table by name, each with its position."""
        return dict(self.state().consumers)

    def advance_consumer(
        self, name: str, version: int | None = None, *, before: int | None = None
    ) -> int:
        """Record that a consumer has read everything up to a version; return its position.

        The first call makes the consumer. If no row changed since its position, it stays there.
        Cleaning keeps the versions from its position on, so that ``scan(consumer=name)`` can read
        what follows, for ``retention.consumer_hours`` at most.

        Args:
            name: the consumer's name.
            version: usually ``Scan.version`` of what was read; the newest by default.
            before: the position that the consumer went on from; refused if it has another one.

        Raises:
            InvalidName: the name is not a valid file name.
            InvalidInput: the version does not exist yet.
            VersionExpired: the version is no longer kept.
            CommitConflict: another process of this name has moved the position.
        """
        return advance(self.ports, name, version, before=before)

    def drop_consumer(self, name: str) -> None:
        """Remove a consumer; the next cleaning may delete files that only it kept.

        Raises:
            InvalidInput: there is none of that name.
        """
        drop_consumer(self.ports, name)

    def log_positions(self) -> dict[int, BucketManifest]:
        """Return the buckets of the log store by number: epoch, owner, and committed end."""
        return dict(self.state().log_store)

    def restore(
        self,
        *,
        version: int | None = None,
        as_of: Time | None = None,
        tag: str | None = None,
        commit_id: str | None = None,
        dry_run: bool = False,
        columns: bool = False,
    ) -> RestoreResult:
        """Show the rows of an earlier version again, by one event; nothing is lost or rewritten.

        Everything before the event is undone: appends, deletes, compactions. Earlier versions
        stay readable until they are cleaned, also the one before the restore. Properties and tags
        stay as they are, and so do columns unless they are asked for. Pending plans of the restored
        time are aborted. The log store's buckets end where they did; a running service has to begin
        a new epoch.

        Args:
            version: the table after this event.
            as_of: the table at this time, inclusive; a naive time is UTC.
            tag: the table at this tag.
            commit_id: equal ids restore once; random by default.
            dry_run: only find out what would change.
            columns: also give the table its columns of then, by a second event: dropped ones come
                back with their values, later ones go, names and order are as they were. Types that
                were widened stay wide, and what became nullable stays so, for rows written since.

        Raises:
            InvalidInput: no version, or more than one, is named. Or an index, or the clustering,
                needs a column that would go; nothing is restored.
            VersionExpired: the version is no longer kept.
            RestoreRefused: a repair has changed its segments, or its deletes cannot be carried
                over; the message has the way out.
            CommitUnknown: run again with the same commit id.
        """
        return restore(
            self.ports,
            read_request(version=version, as_of=as_of, tag=tag),
            commit_id=commit_id or self.ports.randomness.token(),
            dry_run=dry_run,
            columns=columns,
        )
