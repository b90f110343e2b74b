"""The commit loop: read what is new, rebase, try to own the next number.

1. ``refresh -> admit -> clock -> guard -> create event n+1``; on "already exists" go round again.
   No event passes by this loop, so no author sets the log's time by a clock that is off
   (``table.clocks``); the first events of a table and of a rebuilt log ask for the same.
2. The outcome is a value: ``Committed``, ``Conflict`` (an event that landed first forbids the
   change) or ``Unknown``.
3. After a lost reply, or "exists" (which may answer our own first attempt), the number is read
   again: our own commit id there means it landed. Until it is seen to be somebody else's, no
   failure is called certain: the change is put again, and if that cannot be done the outcome is
   ``Unknown``.
4. ``guard`` (usually ``lease.check``) runs right before each put; a lost lease stops the commit.
5. A number may also be free because its event expired while we slept: after a put the log's
   first number is read, and if it is above ours, we were never in the log, and go round again.
6. Retries are bounded; each waits longer, with jitter, so that writers who collide part ways.

Files may be deleted only after ``Conflict`` or a certain failure, never after ``Unknown`` or
``CommitUnknown``: ``commit_files`` is the one place that does it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    OutcomeUnknown,
    SegtableError,
    StorageError,
)
from airflow_provider_segtable.core.log.admission import Conflict, admit
from airflow_provider_segtable.core.log.codec import encode
from airflow_provider_segtable.core.log.events import Action, Event
from airflow_provider_segtable.core.log.state import State, apply
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.time.interval import Instant
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import event_path

CHECKPOINT_EVERY = 32
"""Events from checkpoint to checkpoint of a small table ..."""
SEGMENTS_AN_EVENT = 4096
"""... and of a large one: one for so many segments, rounded up to a power of two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The change is in the log as event ``n``; ``state`` includes it."""

    n: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The last put's reply was lost and its slot is still empty: it may land yet."""

    commit_id: str
    n: int


Outcome = Committed | Conflict | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Bounds of the loop: attempts, and seconds of back-off (first, longest)."""

    attempts: int = 50
    first_s: float = 0.005
    longest_s: float = 1.0

    def pause_s(self, attempt: int, jitter: float) -> float:
        """Return how long to wait before the attempt after ``attempt``; jitter in [0, 1)."""
        return min(self.longest_s, self.first_s * 2.0**attempt) * (0.5 + jitter / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be committed, under which id, and what must hold right before."""

    action: Action
    commit_id: str
    guard: Callable[[], None] = field(default=lambda: None)


def commit(
    ports: TableContext, state: State, change: Change, retry: Retry | None = None
) -> Outcome:
    """Commit a change to a table.

    Args:
        ports: the table's ports.
        state: any earlier state of the table; saves reading the log again.
        change: what to commit; equal commit ids commit once.
        retry: bounds of the loop.

    Returns:
        ``Committed``, ``Conflict`` or ``Unknown``.

    Raises:
        LockLost: from the guard, when no put is unresolved.
        ClockSkew: the author's clock is off; nothing was put.
        RowsOutOfBalance: if outputs do not hold exactly the inputs' rows.
        CommitConflict: after too many lost races, naming the last winner.
        StorageError: if the storage fails for certain.
        CommitUnknown: if anything goes wrong while a put of ours may have landed.
    """
    loop = _Loop(ports, change, state)
    try:
        return loop.run(retry or Retry())
    except Exception as error:
        if loop.unresolved is None:
            raise
        raise CommitUnknown(way_out(ports, change, loop.unresolved)) from error


def commit_files(
    ports: TableContext, state: State, change: Change, segments: Sequence[Segment]
) -> Outcome:
    """Commit a change that names data files; they are deleted if it certainly did not land.

    Raises:
        CommitUnknown: it may have landed; the files stay.
        SegtableError: as ``commit``; the files are gone.
    """
    try:
        outcome = commit(ports, state, change)
    except CommitUnknown:
        raise
    except Exception:
        _discard(ports, segments)
        raise
    if isinstance(outcome, Conflict):
        _discard(ports, segments)
    return outcome


def _discard(ports: TableContext, segments: Sequence[Segment]) -> None:
    for segment in segments:
        if segment.path:  # a segment without rows has no file
            ports.files.delete(segment.path)


def way_out(ports: TableContext, change: Change, n: int) -> str:
    """Return what to tell the author of a change whose put of event ``n`` may land yet."""
    return (
        f"{ports.uri}: the reply to event {n} was lost and the log does not show it yet; "
        f"run the same again with commit id {change.commit_id!r}: it commits once"
    )


def commit_or_raise(
    ports: TableContext, state: State, change: Change, retry: Retry | None = None
) -> Committed:
    """Commit, or raise ``CommitConflict`` / ``CommitUnknown`` with the way out."""
    match commit(ports, state, change, retry):
        case Committed() as committed:
            return committed
        case Conflict(reason=reason, winner=winner):
            by = "" if winner is None else f" (event {winner} won)"
            raise CommitConflict(f"{ports.uri}: {reason}{by}")
        case Unknown(n=n):
            raise CommitUnknown(way_out(ports, change, n))


def checkpoint_every(segments: int) -> int:
    """Return how many events apart checkpoints are: writing one costs time for every segment."""
    return max(CHECKPOINT_EVERY, 1 << (segments // SEGMENTS_AN_EVENT).bit_length())


class _Loop:
    """One change on its way into the log.

    ``unresolved`` is the number of a put of ours that may have landed or may land yet: set before
    every put, cleared when the number is seen to be somebody else's or the put failed for certain.
    While it is set, nothing may be reported as a failure.
    """

    def __init__(self, ports: TableContext, change: Change, state: State) -> None:
        self.ports = ports
        self.change = change
        self.state = state
        self.log = ports.log
        self.unresolved: int | None = None

    def run(self, retry: Retry) -> Outcome:
        """Go round until there is an outcome, a bounded number of times."""
        for attempt in range(retry.attempts):
            outcome = self.turn()
            if outcome is not None:
                return outcome
            self.ports.clock.sleep(retry.pause_s(attempt, self.ports.randomness.uniform()))
        if self.unresolved is not None:
            return self.unknown()
        reason = f"lost the race for the next event {retry.attempts} times; try again"
        return Conflict(reason=reason, winner=self.state.n)

    def turn(self) -> Outcome | None:
        """Go round once; None means: once more."""
        try:
            self.state = self.log.refresh(self.state)
        except StorageError:
            if self.unresolved is None:
                raise
            return None  # it may have landed: look again
        landed = self.state.commits.get(self.change.commit_id)
        if landed is not None:
            return self._landed(landed)
        if self.unresolved is not None and self.state.n >= self.unresolved:
            self.unresolved = None
        try:
            admitted = admit(self.change.action, self.state)
            if not isinstance(admitted, Conflict):
                now = self.ports.checked_now()
                self.change.guard()
        except SegtableError:
            if self.unresolved is None:
                raise
            return self.unknown()
        if isinstance(admitted, Conflict):
            return admitted if self.unresolved is None else self.unknown()
        return self._put(admitted, now)

    def unknown(self) -> Unknown:
        """Return the outcome of a put that may land yet."""
        return Unknown(commit_id=self.change.commit_id, n=self.unresolved or self.state.n + 1)

    def _put(self, action: Action, now: Instant) -> Outcome | None:
        event = Event(
            n=self.state.n + 1,
            time=max(now, self.state.time + 1),
            commit=self.change.commit_id,
            author=self.ports.author,
            action=action,
        )
        earlier, self.unresolved = self.unresolved, event.n
        try:
            self.ports.storage.create(event_path(event.n), encode(event))
        except (AlreadyExists, OutcomeUnknown):
            return None  # maybe our own earlier attempt: reading the number will tell
        except SegtableError:
            self.unresolved = earlier
            if earlier is None:
                raise
            return None
        try:
            if self.log.first() > event.n:
                return None  # we slept, and the number was free because it had expired
        except StorageError:
            return None  # look again
        self.state = self.log.remember(apply(self.state, event))
        return self._landed(event.n)

    def _landed(self, n: int) -> Committed:
        if n % checkpoint_every(len(self.state.timeline)) == 0:
            self.log.checkpoint(self.state)
        if self.ports.optional_coordinator is not None:
            self.ports.optional_coordinator.announce(self.state.table.table_id, self.state.n)
        return Committed(n=n, state=self.state)
