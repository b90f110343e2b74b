"""The commit loop: read what is new, rebase, try to own the next number.

1. ``refresh -> admit -> guard -> create event n+1``; on "already exists" go round again.
2. The outcome is a value: ``Committed``, ``Conflict`` (an event that landed first forbids the
   change) or ``Unknown``.
3. After a lost reply the slot is read again: our own commit id there means it landed. While the
   slot is empty the put may still be on its way, so no failure is called certain: the change
   is put again, and if that cannot be done the outcome is ``Unknown``.
4. ``guard`` (usually ``lease.check``) runs right before each put; a lost lease stops the commit.
5. Retries are bounded; each waits longer, with jitter, so that writers who collide part ways.

Files may be deleted only after ``Conflict`` or an exception, never after ``Unknown``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_segtable.core.codec import encode
from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    OutcomeUnknown,
    SegtableError,
)
from airflow_provider_segtable.core.events import Action, Event
from airflow_provider_segtable.core.rebase import Conflict, admit
from airflow_provider_segtable.core.state import State
from airflow_provider_segtable.ports.coordination import Coordinator
from airflow_provider_segtable.table.log import EventLog, event_path
from airflow_provider_segtable.table.ports import TablePorts

CHECKPOINT_EVERY = 32


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
        return min(self.longest_s, self.first_s * 2**attempt) * (0.5 + jitter / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be committed, under which id, and what must hold right before."""

    action: Action
    commit_id: str
    guard: Callable[[], None] = field(default=lambda: None)


def commit(ports: TablePorts, state: State, change: Change, retry: Retry | None = None) -> Outcome:
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
        BooksDoNotBalance: if outputs do not hold exactly the inputs' rows.
        CommitConflict: after too many lost races, naming the last winner.
        StorageError: if the storage fails for certain.
    """
    retry = retry or Retry()
    log = EventLog(ports.storage)
    unresolved: int | None = None
    for attempt in range(retry.attempts):
        state = log.refresh(state)
        landed = state.commits.get(change.commit_id)
        if landed is not None:
            return _landed(ports, log, landed, state)
        if unresolved is not None and state.n >= unresolved:
            unresolved = None  # somebody else owns that number: ours did not land
        try:
            admitted = admit(change.action, state)
            if isinstance(admitted, Conflict):
                return admitted if unresolved is None else _unknown(change, unresolved)
            change.guard()
            _put(ports, state, change, admitted)
        except AlreadyExists:
            pass
        except OutcomeUnknown:
            unresolved = state.n + 1
        except SegtableError:
            if unresolved is None:
                raise
            return _unknown(change, unresolved)
        else:
            return _landed(ports, log, state.n + 1, log.refresh(state))
        ports.clock.sleep(retry.pause_s(attempt, ports.chance.uniform()))
    return _exhausted(log.refresh(state), change, unresolved, retry)


def commit_or_raise(
    ports: TablePorts, state: State, change: Change, retry: Retry | None = None
) -> Committed:
    """Commit, or raise ``CommitConflict`` / ``CommitUnknown`` with the way out."""
    match commit(ports, state, change, retry):
        case Committed() as committed:
            return committed
        case Conflict(reason=reason, winner=winner):
            by = "" if winner is None else f" (event {winner} won)"
            raise CommitConflict(f"{ports.uri}: {reason}{by}")
        case Unknown(n=n):
            raise CommitUnknown(
                f"{ports.uri}: the reply to event {n} was lost and the log does not show it yet; "
                f"run the same again with commit id {change.commit_id!r}: it commits once"
            )


def _put(ports: TablePorts, state: State, change: Change, action: Action) -> None:
    event = Event(
        n=state.n + 1,
        time=max(ports.clock.now(), state.time + 1),
        commit=change.commit_id,
        author=ports.author,
        action=action,
    )
    ports.storage.create(event_path(event.n), encode(event))


def _landed(ports: TablePorts, log: EventLog, n: int, state: State) -> Committed:
    if n % CHECKPOINT_EVERY == 0:
        log.checkpoint(state)
    _announce(ports.coordinator_, state)
    return Committed(n=n, state=state)


def _announce(coordinator: Coordinator | None, state: State) -> None:
    if coordinator is not None:
        coordinator.announce(state.table.table_id, state.n)


def _unknown(change: Change, n: int) -> Unknown:
    return Unknown(commit_id=change.commit_id, n=n)


def _exhausted(state: State, change: Change, unresolved: int | None, retry: Retry) -> Outcome:
    landed = state.commits.get(change.commit_id)
    if landed is not None:
        return Committed(n=landed, state=state)
    if unresolved is not None and state.n < unresolved:
        return _unknown(change, unresolved)
    reason = f"lost the race for the next event {retry.attempts} times; try again"
    return Conflict(reason=reason, winner=state.n)
