"""Restore an earlier version's rows by one event, without a lock or a new file.

1. The log's admission computes the event (``core.log.families.restore_events``). A dry run calls
   it, too, and so shows the changes of the event.
2. If a version shows the same rows as the newest one, no event is written.
3. Columns stay, unless the request includes them: then an alteration brings them back right after
   the rows' event. It is checked before that event. If the process ends between both, the same
   restore completes it (same commit id), or another one with the version.

``TableVersions`` is the part of ``Table`` about whole versions: tags, consumers and restores.
"""

from dataclasses import field, replace

from airflow_provider_segtable.core.consumer import Consumer
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, RestoreRefused, VersionExpired
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families import restore_events
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import BucketManifest
from airflow_provider_segtable.core.requests.read_request import ReadRequest, read_request
from airflow_provider_segtable.core.tables.evolution import ColumnsDiffer, difference
from airflow_provider_segtable.core.time import Interval, Time
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.kept_versions import (
    advance,
    drop_consumer,
    put_tag,
    remove_tag,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """The result of a restore: event ``n``, and the restored version, time, segments and rows.

    ``n`` is None in a dry run, and if the version shows the same rows as the newest one.
    ``columns`` are the differences between the columns at the restore and those of the version;
    ``columns_n`` is the event that restored the columns, None if they stay.
    """

    n: int | None
    version: int
    regions: tuple[Interval, ...] = ()
    segments: int = 0
    rows: int = 0
    columns: ColumnsDiffer = field(default_factory=ColumnsDiffer)
    columns_n: int | None = None
    state: State = field(repr=False)

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        return {
            "restored": self.version,
            "event": self.n,
            "intervals": [str(interval) for interval in self.regions],
            "segments": self.segments,
            "rows": self.rows,
            "columns_event": self.columns_n,
            "columns": self.columns.facts(),
            "columns_summary": str(self.columns) if self.columns else "",
        }

    def __str__(self) -> str:
        """Return e.g. ``version 3 restored in 2 regions of time: event 9``."""
        event = "no event" if self.n is None else f"event {self.n}"
        where = counted(len(self.regions), "region")
        what = f"{counted(self.rows, 'row')} in {counted(self.segments, 'segment')}"
        return f"version {self.version} restored in {where} of time, {what}: {event}"


def restore(
    ports: TableContext,
    asked: ReadRequest,
    *,
    commit_id: str,
    dry_run: bool = False,
    columns: bool = False,
) -> RestoreResult:
    """Restore the version that a request names; see ``Table.restore``."""
    from airflow_provider_segtable.table.alteration import ColumnsAsOf, alter, check_fits

    if asked.version is None and asked.as_of is None and asked.tag is None:
        raise InvalidInput("nothing to restore was named: give a version, a time or a tag")
    state = ports.log.load()
    if commit_id in state.commits and not columns:  # the version may be cleaned by now
        return _landed(ports, state.commits[commit_id], state)
    old = _named(ports, asked, state, commit_id)
    differ = difference(state.table.schema, old.table.schema)
    wanted = ColumnsAsOf(then=old.table)
    if columns:
        check_fits(ports, wanted, state)
    done = _restored(ports, old, state, commit_id, dry_run=dry_run)
    if not (columns and differ) or dry_run:
        return replace(done, columns=differ)
    n = alter(ports, wanted, commit_id=f"{commit_id}/columns")
    return replace(done, columns=differ, columns_n=n, state=ports.log.refresh(done.state))


def _named(ports: TableContext, asked: ReadRequest, state: State, commit_id: str) -> State:
    """Return the version that a request names; in a repeated request, the one that it restored."""
    from airflow_provider_segtable.table.windows import version_read

    n = state.commits.get(commit_id)
    event = None if n is None else ports.log.event(n)
    if event is not None and isinstance(event.action, VersionRestored):
        asked = read_request(version=event.action.version)
    return version_read(ports.log, asked)


def _restored(
    ports: TableContext, old: State, state: State, commit_id: str, *, dry_run: bool
) -> RestoreResult:
    """Restore the rows of a version."""
    if (landed := state.commits.get(commit_id)) is not None:
        return _landed(ports, landed, state)
    wanted = restore_events.restoration(old)
    admitted = restore_events.admit(wanted, state)
    if isinstance(admitted, Conflict):
        refused = RestoreRefused if state.keeps(old.n) else VersionExpired
        raise refused(f"{ports.uri}: {admitted.reason}")
    if dry_run or not restore_events.changes_anything(admitted, state):
        return _result(admitted, None, state)
    done = commit_or_raise(ports, state, Change(action=wanted, commit_id=commit_id))
    return _landed(ports, done.n, done.state)


def _landed(ports: TableContext, n: int, state: State) -> RestoreResult:
    event = ports.log.event(n)
    action = event.action if event else None
    if not isinstance(action, VersionRestored):
        return RestoreResult(n=n, version=n, state=state)
    return _result(action, n, state)


def _result(action: VersionRestored, n: int | None, state: State) -> RestoreResult:
    live = [segment for segment in action.segments if segment.rows]
    return RestoreResult(
        n=n,
        version=action.version,
        regions=tuple(sorted({segment.id.interval for segment in action.segments})),
        segments=len(live),
        rows=sum(segment.rows for segment in live),
        state=state,
    )


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
        Cleaning keeps the versions from its position on, for ``retention.consumer_hours`` at most,
        so that ``scan(consumer=name)`` can read the later ones.

        Args:
            name: the consumer's name.
            version: usually the ``Scan.version`` that was read; the newest by default.
            before: the position that the consumer started from; refused if it has another one.

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
            dry_run: only compute the changes.
            columns: also restore the columns of the version, by a second event: dropped ones with
                their values, names and order; later columns are dropped. Widened types stay wide,
                and nullable columns stay nullable, for rows written since.

        Raises:
            InvalidInput: no version, or more than one, is named. Or an index, or the clustering,
                needs a column that would be dropped; nothing is restored.
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
