"""What a table does with its versions: it names them, keeps them by tags, and restores them."""

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.time.times import Time
from airflow_provider_segtable.table.context import TableContext
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
            CommitConflict: the tag exists, or the version was cleaned meanwhile.
        """
        return put_tag(self.ports, name, version)

    def untag(self, name: str) -> None:
        """Remove a tag; the next cleaning may delete files that only this tag kept.

        Raises:
            CommitConflict: the tag does not exist.
        """
        remove_tag(self.ports, name)

    def restore(
        self,
        *,
        version: int | None = None,
        as_of: Time | None = None,
        tag: str | None = None,
        commit_id: str | None = None,
        dry_run: bool = False,
    ) -> RestoreResult:
        """Show the rows of an earlier version again, by one event; nothing is lost or rewritten.

        Everything before the event is undone: appends, deletes, compactions. Earlier versions
        stay readable until they are cleaned, also the one before the restore. Properties, columns
        and tags stay as they are. Pending plans of the restored time are aborted.

        Args:
            version: the table after this event.
            as_of: the table at this time, inclusive; a naive time is UTC.
            tag: the table at this tag.
            commit_id: equal ids restore once; random by default.
            dry_run: only find out what would change.

        Raises:
            InvalidInput: no version, or more than one, is named.
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
        )
