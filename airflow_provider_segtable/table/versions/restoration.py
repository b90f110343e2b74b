"""Restore: an earlier version's rows come back by one event, without a lock or a new file.

1. The event is computed by the log's admission (``core.log.families.restore_events``), which a dry
   run asks, too: so it shows what the event would change.
2. A version that shows the same rows as the newest one is not restored: no event is written.
"""

from dataclasses import dataclass, field

from airflow_provider_segtable.core.errors import InvalidInput, RestoreRefused, VersionExpired
from airflow_provider_segtable.core.log.conflict import Conflict
from airflow_provider_segtable.core.log.events import VersionRestored
from airflow_provider_segtable.core.log.families import restore_events
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.committer import Change, commit_or_raise
from airflow_provider_segtable.table.reads.window import version_read


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """The result of a restore: event ``n``, and what it changed.

    ``n`` is None in a dry run, and if the version shows the same rows as the newest one.
    """

    n: int | None
    version: int
    regions: tuple[Interval, ...] = ()
    segments: int = 0
    rows: int = 0
    state: State = field(repr=False)

    def __str__(self) -> str:
        """Return e.g. ``version 3 restored in 2 regions of time: event 9``."""
        event = "no event" if self.n is None else f"event {self.n}"
        return f"version {self.version} restored in {len(self.regions)} regions of time: {event}"


def restore(
    ports: TableContext, asked: ReadRequest, *, commit_id: str, dry_run: bool = False
) -> RestoreResult:
    """Restore the version that a request names; see ``Table.restore``."""
    if asked.version is None and asked.as_of is None and asked.tag is None:
        raise InvalidInput("nothing to restore was named: give a version, a time or a tag")
    state = ports.log.load()
    if (landed := state.commits.get(commit_id)) is not None:
        return _landed(ports, landed, state)
    old = version_read(ports.log, asked)
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
