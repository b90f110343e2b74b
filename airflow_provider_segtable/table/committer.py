"""The commit loop: read new events, rebase, try to create the next event.

1. ``refresh -> admit -> clock -> guard -> create event n+1``; on "already exists", repeat.
   Every event passes this loop, so no author sets the log's time with a wrong clock
   (``table.context``); the first events of a table and of a rebuilt log make the same check.
2. The outcome is a value: ``Committed``, ``Conflict`` (an earlier event forbids the change) or
   ``Unknown``.
3. After a lost reply, or "already exists" (possibly caused by our own first attempt), the event is
   read again: if it has our commit id, the change landed. Until another writer's event is seen
   there, no failure is certain: the change is put again, and if that is impossible the outcome is
   ``Unknown``.
4. ``guard`` (usually ``lease.check``) runs right before each put; a lost lease stops the commit.
5. A number may also be free because its event expired while this process was paused. So after a
   put the log's first number is read; if it is above ours, our event is not in the log: it is
   deleted, and the commit repeated.
6. Each attempt is made in the storage's turn, so that the writers of one host do not race. A
   committer that still loses a race queues up at the coordinator, so that rivals neither keep each
   other from committing nor starve each other. Both are hints.
7. In a stream of events only every eighth is announced at once. Another one is announced a little
   later, and only if no event has followed it: announcements cost more than the commits.
   On a remote storage the first attempt reads nothing: it puts the event after the state that the
   author knows. That put is refused if there are newer events, for a log has no gaps.
8. Every event has the corrections that keep keys unique (``table.indexes.routing``), then entries
   about all its files, including corrections, for all indexes of the table
   (``table.indexes.feeding``). Both are written outside of the turn.
9. Retries are bounded. While the log does not grow, pauses grow, with jitter. After the last
   attempt the log is read once more, so that a lost race is not reported as a lost reply.
10. After a commit the version is left to be published in other formats, outside of the turn
    (``table.publishing.after_commit``).

Files may be deleted only after ``Conflict`` or a certain failure, never after ``Unknown`` or
``CommitUnknown``: ``commit_files`` applies this rule.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import field
from functools import partial

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    OutcomeUnknown,
    SegtableError,
    StorageError,
    TableGone,
)
from airflow_provider_segtable.core.indexes.index_state import Feed
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Action, Event, encode
from airflow_provider_segtable.core.log.fold import admit, apply
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.planning.properties import PUBLISH_PREFIX
from airflow_provider_segtable.ports.files import Ready
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.feeding import MANY, Feeder, forward, new_files
from airflow_provider_segtable.table.indexes.routing import Router
from airflow_provider_segtable.table.log.event_log import TIMELINE, event_path
from airflow_provider_segtable.table.publishing.after_commit import publish_after_commit

CHECKPOINT_EVERY = 32
"""Smallest number of events between checkpoints."""
SEGMENTS_AN_EVENT = 4096
"""Large tables add one event per this number of segments, rounded up to a power of two."""
TURN_WAIT_S = 2.0
"""Longest wait for a turn in the queue of committers."""
HOST_WAIT_S = 0.5
"""Longest wait for a turn among the writers of this host."""
STREAM_US = 20_000
"""Events at shorter intervals are a stream."""
ANNOUNCED_EVERY = 8
"""In a stream, every event with a multiple of this number is announced at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The change is in the log as event ``n``; ``state`` includes it."""

    n: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The last put's reply was lost and event ``n`` does not exist yet: the put may still land."""

    commit_id: str
    n: int


Outcome = Committed | Conflict | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Bounds of the loop: number of attempts, first and longest pause."""

    attempts: int = 50
    first_s: float = 0.005
    longest_s: float = 1.0

    def pause_s(self, attempt: int, jitter: float) -> float:
        """Return the pause after ``attempt`` in seconds; jitter in [0, 1)."""
        return min(self.longest_s, self.first_s * 2.0**attempt) * (0.5 + jitter / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An action to commit, its commit id, and a guard to call right before each put.

    ``ready`` waits until the files that the action names are durable; None if they are. The event
    is not earlier than ``begun``, even if the author's clock was set back meanwhile. ``feeds`` are
    entries of indexes that the author has written; those of other indexes are written here.
    """

    action: Action
    commit_id: str
    guard: Callable[[], None] = field(default=lambda: None)
    ready: Ready | None = None
    begun: Instant = 0
    feeds: tuple[Feed, ...] = ()


def commit(
    ports: TableContext, state: State, change: Change, retry: Retry | None = None
) -> Outcome:
    """Commit a change to a table.

    Args:
        ports: the table's ports.
        state: any earlier state of the table; saves reading the log again.
        change: the change; equal commit ids commit once.
        retry: bounds of the loop.

    Returns:
        ``Committed``, ``Conflict`` (also after too many lost races, with the last winner) or
        ``Unknown``.

    Raises:
        LockLost: from the guard, when no put is unresolved.
        ClockSkew: the author's clock is off; nothing was put.
        TableGone: the table was dropped.
        RowsOutOfBalance: the outputs do not hold exactly the inputs' rows.
        StorageError: the storage certainly failed.
        CommitUnknown: an error occurred while our put may have landed.
    """
    loop = _Loop(ports, change, state)
    try:
        outcome = loop.run(retry or Retry())
    except Exception as error:
        if loop.unresolved is None:
            loop.discard()
            raise
        raise CommitUnknown(way_out(ports, change, loop.unresolved)) from error
    if isinstance(outcome, Conflict):
        loop.discard()
    return outcome


def commit_files(
    ports: TableContext, state: State, change: Change, segments: Sequence[Segment]
) -> Outcome:
    """Commit a change that names data files; delete the files if it certainly did not land.

    Raises:
        CommitUnknown: the change may have landed; the files stay.
        SegtableError: as ``commit``; the files were deleted.
    """
    try:
        outcome = commit(ports, state, change)
    except CommitUnknown:
        raise
    except Exception:
        _discard(ports, change, segments)
        raise
    if isinstance(outcome, Conflict):
        _discard(ports, change, segments)
    return outcome


def _discard(ports: TableContext, change: Change, segments: Sequence[Segment]) -> None:
    if change.ready is not None:
        with suppress(SegtableError):  # a file that was not committed does not exist
            change.ready()
    for segment in segments:
        if segment.path and not segment.adopted:  # a segment without rows has no file
            ports.files.delete(segment.path)


def way_out(ports: TableContext, change: Change, n: int) -> str:
    """Return the error message for a change whose put of event ``n`` may still land."""
    return (
        f"{ports.uri}: the reply to event {n} was lost and the log does not show it yet; "
        f"run it again with commit id {change.commit_id!r}: it commits once"
    )


def commit_or_raise(
    ports: TableContext, state: State, change: Change, retry: Retry | None = None
) -> Committed:
    """Commit, or raise ``CommitConflict`` or ``CommitUnknown`` with the way out."""
    match commit(ports, state, change, retry):
        case Committed() as committed:
            return committed
        case Conflict(reason=reason, winner=winner):
            by = "" if winner is None else f" (event {winner} won)"
            raise CommitConflict(f"{ports.uri}: {reason}{by}")
        case Unknown(n=n):
            raise CommitUnknown(way_out(ports, change, n))


def checkpoint_every(segments: int) -> int:
    """Return the number of events between checkpoints; their cost grows with the segments."""
    return max(CHECKPOINT_EVERY, 1 << (segments // SEGMENTS_AN_EVENT).bit_length())


def forward_feeds(ports: TableContext, state: State) -> None:
    """Copy the feeds of all indexes into their own tables (``table.indexes.feeding``).

    Raises:
        SegtableError: the log of an index could not be read or written.
    """
    forward(ports, state, _put_feed)


def _put_feed(
    ports: TableContext, state: State, action: Action, commit_id: str
) -> State | Conflict | None:
    outcome = commit(ports, state, Change(action=action, commit_id=commit_id))
    if isinstance(outcome, Committed):
        return outcome.state
    return outcome if isinstance(outcome, Conflict) else None


class _Loop:
    """The commit loop of one change.

    ``unresolved`` is the event number of our put that may have landed or may still land. It is set
    before every put, and cleared when another writer's event has the number or the put certainly
    failed. While it is set, no failure may be reported as certain.
    """

    def __init__(self, ports: TableContext, change: Change, state: State) -> None:
        self.ports = ports
        self.change = change
        self.state = state
        self.log = ports.log
        self.feeder = Feeder(ports, change.feeds, change.ready)
        self.router = Router(ports, change.action, change.feeds, change.ready)
        self.unresolved: int | None = None
        self.streams = False

    def run(self, retry: Retry) -> Outcome:
        """Attempt the commit until there is an outcome, a bounded number of times."""
        outcome = self._in_turn(guess=self.ports.storage.remote)
        if outcome is None:
            with self._queued():
                outcome = self._repeated(retry)
        if isinstance(outcome, Committed):
            self.router.tidy()
            self.feeder.tidy()
            self._follow_up(outcome.n)
            if self._feeds():
                with suppress(SegtableError):  # readers see feeds wherever they are
                    forward(self.ports, self.state, _put_feed, at_least=MANY)
        return outcome

    def _feeds(self) -> tuple[Feed, ...]:
        return (*self.feeder.feeds(self.state), *self.router.feeds(self.state))

    def _new_files(self) -> tuple[Segment, ...]:
        return new_files(self.router.routed(self.change.action, self.state))

    def discard(self) -> None:
        """Delete the files that were written for indexes: the event certainly does not land."""
        self.feeder.discard()
        self.router.discard()

    def _in_turn(self, *, guess: bool = False) -> Outcome | None:
        self.router.prepare(self.state)
        self.feeder.prepare(self.state, self._new_files())
        with self.ports.storage.turn(TIMELINE, wait_s=HOST_WAIT_S):
            return (self._guessed() if guess else None) or self.attempt()

    def _guessed(self) -> Outcome | None:
        """Put the event after the known state, without a read; None if it may be outdated.

        Only a put that succeeds says something about the log. All else is read and decided anew.
        """
        if self.change.commit_id in self.state.commits:
            return None
        try:
            admitted = admit(self.router.routed(self.change.action, self.state), self.state)
            if isinstance(admitted, Conflict):
                return None
            now = self.ports.checked_now()
            self.change.guard()
        except SegtableError:
            return None
        fed = self.feeder.ready(self.state, self._new_files())
        if not fed or not self.router.ready(self.state):
            return None
        return self._put(admitted, now)

    def _queued(self) -> AbstractContextManager[None]:
        coordinator = self.ports.optional_coordinator
        if coordinator is None:
            return nullcontext()
        return coordinator.commit_turn(self.state.table.table_id, wait_s=TURN_WAIT_S)

    def _repeated(self, retry: Retry) -> Outcome:
        stalled = 0
        for _ in range(retry.attempts - 1):
            before = self.state.n
            outcome = self._in_turn()
            if outcome is not None:
                return outcome
            stalled = 0 if self.state.n > before else stalled + 1
            if stalled:
                self.ports.clock.sleep(retry.pause_s(stalled - 1, self.ports.randomness.uniform()))
        if self.read() and (landed := self.landed()) is not None:
            return landed
        if self.unresolved is not None:
            return self.unknown()
        reason = f"lost the race for the next event {retry.attempts} times; try again"
        return Conflict(reason=reason, winner=self.state.n)

    def attempt(self) -> Outcome | None:
        """Attempt the commit once; None means repeat."""
        if not self.read():
            return None  # the put may have landed: read again
        landed = self.landed()
        if landed is not None:
            return landed
        try:
            admitted = admit(self.router.routed(self.change.action, self.state), self.state)
            if not isinstance(admitted, Conflict):
                now = self.ports.checked_now()
                self.change.guard()
        except SegtableError:
            if self.unresolved is None:
                raise
            return self.unknown()
        if isinstance(admitted, Conflict):
            return admitted if self.unresolved is None else self.unknown()
        fed = self.feeder.ready(self.state, self._new_files())
        if not fed or not self.router.ready(self.state):
            return None  # an index was requested, or a key written, meanwhile: prepare anew
        return self._put(admitted, now)

    def read(self) -> bool:
        """Read the new events; return whether that was possible.

        Raises:
            StorageError: it was not, and no put is unresolved.
            TableGone: the table was dropped, and with it any event of ours.
        """
        try:
            self.state = self.log.refresh(self.state)
        except TableGone:
            self.unresolved = None
            raise
        except StorageError:
            if self.unresolved is None:
                raise
            return False
        return True

    def landed(self) -> Committed | None:
        """Return the outcome if the change is in the log; else settle a put that lost its race."""
        n = self.state.commits.get(self.change.commit_id)
        if n is not None:
            self.feeder.discard_unnamed(n)
            return Committed(n=n, state=self.state)
        if self.unresolved is not None and self.state.n >= self.unresolved:
            self.unresolved = None
        return None

    def unknown(self) -> Unknown:
        """Return the outcome of a put that may still land."""
        return Unknown(commit_id=self.change.commit_id, n=self.unresolved or self.state.n + 1)

    def _put(self, action: Action, now: Instant) -> Outcome | None:
        event = Event(
            n=self.state.n + 1,
            time=max(now, self.state.time + 1, self.change.begun),
            commit=self.change.commit_id,
            author=self.ports.author,
            action=action,
            feeds=self._feeds(),
        )
        earlier, self.unresolved = self.unresolved, event.n
        try:
            ready = {} if self.change.ready is None else {"ready": self.change.ready}
            self.ports.storage.create(event_path(event.n), encode(event), **ready)
        except (AlreadyExists, OutcomeUnknown):
            return None  # possibly our own earlier attempt: read the event
        except SegtableError:
            self.unresolved = earlier
            if earlier is None:
                raise
            return None
        try:
            if self.log.first() > event.n:  # its number was free: the event there had expired
                self.ports.storage.delete(event_path(event.n))
                return None
        except StorageError:
            return None  # read again
        self.streams = event.time - self.state.time < STREAM_US and event.n % ANNOUNCED_EVERY > 0
        self.state = self.log.remember(apply(self.state, event), event)
        return Committed(n=event.n, state=self.state)

    def _follow_up(self, n: int) -> None:
        """Announce the newest event, write a checkpoint if it is due, and leave it to be published."""
        self._announce()
        if n % checkpoint_every(len(self.state.timeline)) == 0 and not self.state.dropped:
            self.log.checkpoint(self.state)
        if self.state.table.has_below(PUBLISH_PREFIX):
            publish_after_commit(self.ports, self.state)

    def _announce(self) -> None:
        coordinator, newest = self.ports.optional_coordinator, self.state.n
        if coordinator is not None:
            overtaken = [partial(self.log.has, newest + 1)] if self.streams else []
            coordinator.announce(self.state.table.table_id, newest, *overtaken)
