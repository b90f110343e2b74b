"""Taking buckets of the log store: a new epoch, by one event.

1. The epoch is above all that the buckets had. If another service takes one of them first, the log
   is read again, and a higher epoch tried.
2. The committed ends are those right after the event. No service of an older epoch can commit any
   more, so they are what the new writer goes on from.
3. Writers that take buckets from each other in turn leave each other time for a commit
   (``core.log_store.tenure``): an opening writer waits first (``leave_alone``).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_segtable.core.errors import CommitConflict, CommitUnknown, Fenced
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Appended, LogEpochBegun, VersionRestored
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Epoch
from airflow_provider_segtable.core.log_store.tenure import (
    AT_ONCE,
    MOST_S,
    SECOND_US,
    WINDOW_US,
    left_alone_s,
)
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.committer import (
    Change,
    Committed,
    Unknown,
    commit,
    way_out,
)

TRIES = 5
LOOK_S = 0.5
"""How often a waiting writer looks whether the newest one has committed something."""
READ_BACK = 100
"""Most events that are looked at for takeovers: each is a request to the storage."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBegun:
    """An epoch of event ``n``, and the committed end of each bucket, as of ``state``."""

    n: int
    epoch: Epoch
    ends: Mapping[int, CommittedEnd]
    state: State = field(repr=False)


def begin_epoch(
    ports: TableContext, buckets: Sequence[int], *, owner: str, after: Epoch | None = None
) -> EpochBegun:
    """Take buckets of the log store.

    Args:
        ports: the table's ports; a coordinator is not needed.
        buckets: the numbers of the buckets.
        owner: the service's name, for messages.
        after: the writer's own epoch, if it goes on after a failure: another writer's is not
            fenced then. The owner is then a name that no other writer has.

    Raises:
        Fenced: a bucket is no longer in the epoch ``after``.
        InvalidInput: there are no buckets, or the table's rows do not show when they came.
        CommitConflict: other services were first ``TRIES`` times.
        CommitUnknown: the last reply was lost. Begin again; an epoch that is not used does no harm.
    """
    state = ports.log.load()
    state.table.kind.check_window(ports.uri)
    outcome = Conflict(reason="nothing was tried")
    for _ in range(TRIES):
        _check_own(ports, state, buckets, after, owner)
        epoch = 1 + max((bucket_of(state, bucket).epoch for bucket in buckets), default=0)
        action = LogEpochBegun(buckets=tuple(buckets), epoch=epoch, owner=owner)
        change = Change(action=action, commit_id=ports.randomness.token())
        match commit(ports, state, change):
            case Committed(n=n, state=newest):
                ends = {bucket: bucket_of(newest, bucket).committed_end for bucket in buckets}
                return EpochBegun(n=n, epoch=epoch, ends=ends, state=newest)
            case Unknown(n=n):
                raise CommitUnknown(way_out(ports, change, n))
            case Conflict() as outcome:
                state = ports.log.refresh(state)
    raise CommitConflict(f"{ports.uri}: no epoch begun in {TRIES} attempts: {outcome.reason}")


def leave_alone(ports: TableContext, buckets: Sequence[int]) -> None:
    """Wait as long as the newest writer of some of the buckets is to be left alone.

    Raises:
        StorageError: the table's log cannot be read.
    """
    deadline = ports.clock.monotonic() + MOST_S
    told = False
    while True:
        state, now = ports.log.load(), ports.clock.now()
        left_s = left_alone_s([*_fruitless(ports, state, frozenset(buckets), now)], now)
        left_s = min(left_s, deadline - ports.clock.monotonic())
        if left_s <= 0:
            return
        if not told:
            told = True
            owners = {bucket_of(state, bucket).owner for bucket in buckets}
            _LOG.warning(
                "%s: writers take buckets %s of the log store from each other without a commit in "
                "between; %s has them now, and is left alone for %.0f s. Is one job running twice?",
                *(ports.uri, sorted(buckets), " and ".join(sorted(owners)), left_s),
            )
        ports.clock.sleep(min(left_s, LOOK_S))


def _fruitless(
    ports: TableContext, state: State, buckets: frozenset[int], now: Instant
) -> Iterator[Instant]:
    """Yield when writers took some of the buckets, newest first, back to the last commit there.

    A writer that has committed records of one bucket is not fruitless: others may have no rows.
    """
    known = [bucket_of(state, bucket) for bucket in buckets]
    if min(each.epoch - each.committed.epoch for each in known) <= AT_ONCE:
        return
    owner, since = None, now - int(MOST_S * SECOND_US)
    for n in range(state.n, max(state.n - READ_BACK, -1), -1):
        event = ports.log.event(n)
        if event is None or event.time < since:
            return
        match event.action:
            case LogEpochBegun() as begun if not buckets.isdisjoint(begun.buckets):
                if owner is None:
                    since = event.time - WINDOW_US
                if begun.owner != owner:  # a failover takes from nobody
                    yield event.time
                owner = begun.owner
            case Appended(log=ranges) if any(each.bucket in buckets for each in ranges):
                return
            case VersionRestored():
                return


def _check_own(
    ports: TableContext, state: State, buckets: Sequence[int], after: Epoch | None, owner: str
) -> None:
    """Raise ``Fenced`` if a bucket has left a writer's own epoch for that of another one."""
    for bucket in buckets if after is not None else ():
        known = bucket_of(state, bucket)
        if (
            known.epoch != after and known.owner != owner
        ):  # its own may be one that it lost sight of
            by, end = " since the table was restored or repaired", "open another writer"
            if known.owner:
                by = f", begun by {known.owner}"
                end = "that writer has replaced it, so stop, or open another one to replace that"
            raise Fenced(
                f"{ports.uri}: bucket {bucket} of the log store is in epoch {known.epoch}{by}; "
                f"this writer's was {after}, and is over: {end}"
            )
