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
   The first attempt lists no markers before its put, since they are listed after it (rule 5). On a
   remote storage it reads nothing at all: it puts the event after the state that the author knows.
   That put is refused if there are newer events, for a log has no gaps. Only success is believed.
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
from contextlib import ExitStack, suppress
from dataclasses import field, replace
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
from airflow_provider_segtable.core.log.events import MOST_JOINED, Action, Event, encode_file
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.log.joint_file import (
    Stamped,
    decode_offer,
    encode_offer,
    follow,
    in_one_file,
    is_offered,
    join_offered,
    joins,
)
from airflow_provider_segtable.core.log.log_paths import TIMELINE, event_path
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.planning.properties import PUBLISH_PREFIX
from airflow_provider_segtable.ports.files import Ready
from airflow_provider_segtable.ports.storage import Turn
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.feeding import MANY, Feeder, forward, new_files
from airflow_provider_segtable.table.indexes.router import Router
from airflow_provider_segtable.table.publishing.after_commit import publish_after_commit

CHECKPOINT_EVERY = 32
"""Smallest number of events between checkpoints."""
SEGMENTS_AN_EVENT = 4096
"""Large tables add one event per this number of segments, rounded up to a power of two."""
MOST_EVENTS = 256
"""Largest number of events between checkpoints: an opening reads so many."""
MOST_SPARED = MOST_EVENTS // CHECKPOINT_EVERY
"""Files of several events are checkpointed less often by their number of events, or this.

So an opening reads as many files after a checkpoint as if each event had one.
"""
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
    """Return the number of events between checkpoints; up to a size, their cost grows with it."""
    wanted = 1 << (segments // SEGMENTS_AN_EVENT).bit_length()
    return max(CHECKPOINT_EVERY, min(wanted, MOST_EVENTS))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Put:
    """The numbers of the events of a file that was put, and whether they are part of a stream."""

    first: int
    last: int
    streams: bool

    @classmethod
    def after(cls, state: State, events: Sequence[Event]) -> "_Put":
        """Return the numbers of new events after a state."""
        first, last = events[0], events[-1].n
        soon = first.time - state.time < STREAM_US
        return cls(first=first.n, last=last, streams=soon and not _has(first.n, last, 8))


def _has(first: int, last: int, every: int) -> bool:
    """Return whether a multiple of a number is among consecutive numbers."""
    return last // every > (first - 1) // every


class _Loop:
    """The commit loop of one change.

    ``unresolved`` is the number of a file with our event that may have been put or may still be.
    It is set before every put, and cleared when another writer's event has the number or the put
    certainly failed. While it is set, no failure may be reported as certain. ``outcome``, or an
    ``error`` to raise, is that of the last attempt; without either it has to be repeated. ``put``
    is the file that this loop put, for itself and others; ``carried`` is whether another one did.
    """

    def __init__(self, ports: TableContext, change: Change, state: State) -> None:
        self.ports = ports
        self.change = change
        self.state = state
        self.log = ports.log
        self.feeder = Feeder(ports, change.feeds, change.ready)
        self.router = Router(ports, change.action, change.feeds, change.ready)
        self.unresolved: int | None = None
        self.outcome: Outcome | None = None
        self.error: Exception | None = None
        self.guesses = True
        self.offers = True
        self.raced = False
        self.queued = False
        self.put: _Put | None = None
        self.carried = False
        self.turn: ExitStack | None = None

    @property
    def joins(self) -> bool:
        """Return whether the event may share a file with others."""
        return joins(self.change.action, self.state)

    @property
    def over(self) -> bool:
        """Return whether the last attempt has an outcome."""
        return self.outcome is not None or self.error is not None

    def wait_durable(self) -> None:
        """Wait until the files that the action names are durable."""
        if self.change.ready is not None:
            self.change.ready()

    def run(self, retry: Retry) -> Outcome:
        """Attempt the commit until there is an outcome, a bounded number of times."""
        with ExitStack() as self.turn:
            try:
                outcome = self._in_turn() or self._repeated(retry)
            finally:
                self.ports.commits.leave(self)
        if isinstance(outcome, Committed):
            self.router.tidy()
            self.feeder.tidy()
            if self.carried:
                self._publish()  # maybe before this commit returns
            else:
                self._follow_up(self.put or _Put(first=outcome.n, last=outcome.n, streams=False))
                if outcome.state.n == self.state.n:
                    outcome = replace(outcome, state=self.state)
                if self._feeds():
                    with suppress(SegtableError):  # readers see feeds wherever they are
                        forward(self.ports, self.state, _put_feed, at_least=MANY)
        return outcome

    def _feeds(self) -> tuple[Feed, ...]:
        return (*self.feeder.feeds(self.state), *self.router.feeds(self.state))

    def _new_files(self, state: State) -> tuple[Segment, ...]:
        return new_files(self.router.routed(self.change.action, state))

    def discard(self) -> None:
        """Delete the files that were written for indexes: the event certainly does not land."""
        self.feeder.discard()
        self.router.discard()

    def _in_turn(self) -> Outcome | None:
        """Attempt the commit once, by this thread or another one of the process."""
        self.router.prepare(self.state)
        self.feeder.prepare(self.state, self._new_files(self.state))
        self._forget()
        self.ports.commits.attempt(self, attempt_together, self.ports.clock)
        if self.put is not None and not isinstance(self.outcome, Committed):
            self._follow_up(self.put)  # of others' events
        if self.error is not None:
            raise self.error
        return self.outcome

    def _forget(self) -> None:
        """Forget the last attempt."""
        self.outcome, self.error, self.put = None, None, None

    def queue_up(self) -> None:
        """After a lost race, wait for a turn at the coordinator, once for all further attempts."""
        coordinator = self.ports.optional_coordinator
        if self.raced and self.turn is not None and coordinator is not None and not self.queued:
            self.queued = True
            table = self.state.table.table_id
            self.turn.enter_context(coordinator.commit_turn(table, wait_s=TURN_WAIT_S))

    def offered(self) -> Stamped | None:
        """Return the change as another process may put it; None if it has to be put here.

        Its guard is called here, for the last time: a claim is like a put that is on its way.
        """
        if self.over or not self.offers or self.change.feeds:
            return None
        if not is_offered(self.change.action, self.state):
            return None
        try:
            now = self.ports.checked_now()
            self.change.guard()
        except SegtableError:
            return None  # it is raised by the attempt in turn
        return Stamped(
            action=self.change.action,
            commit=self.change.commit_id,
            author=self.ports.author,
            not_before=max(now, self.change.begun),
        )

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
        if self._read() and (landed := self.landed()) is not None:
            return landed
        if self.unresolved is not None:
            return self.unknown()
        reason = f"lost the race for the next event {retry.attempts} times; try again"
        return Conflict(reason=reason, winner=self.state.n)

    def _read(self) -> bool:
        """Read the new events; return whether that was possible.

        Raises:
            StorageError: it was not, and no put is unresolved.
            TableGone: the table was dropped, and with it any event of ours.
        """
        try:
            self.state = self.log.refresh(self.state)
        except (TableGone, StorageError) as error:
            self.unreadable(error)
            if self.error is not None:
                raise
            return False
        return True

    def unreadable(self, error: Exception) -> None:
        """Fail because the log cannot be read, unless a put may have landed: then read again."""
        if isinstance(error, TableGone):
            self.unresolved = None
        if self.unresolved is None or not isinstance(error, StorageError):
            self.error = error

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

    def stamped(self, state: State, *, guess: bool) -> Stamped | None:
        """Return the change as it may follow a state; None if not yet, or with an outcome.

        Args:
            state: the state before its event, maybe with events that are put together with it.
            guess: whether the state may be outdated: then it says nothing about the outcome.
        """
        try:
            admitted = admit(self.router.routed(self.change.action, state), state)
            if not isinstance(admitted, Conflict):
                now = self.ports.checked_now()
                self.change.guard()
        except SegtableError as error:
            self._refused(error, guess=guess)
            return None
        if isinstance(admitted, Conflict):
            self._refused(admitted, guess=guess)
            return None
        fed = self.feeder.ready(state, self._new_files(state))
        if not fed or not self.router.ready(state):
            return None  # an index was requested, or a key written, meanwhile: prepare anew
        return Stamped(
            action=admitted,
            commit=self.change.commit_id,
            author=self.ports.author,
            not_before=max(now, self.change.begun),
            feeds=(*self.feeder.feeds(state), *self.router.feeds(state)),
        )

    def _refused(self, why: Conflict | SegtableError, *, guess: bool) -> None:
        """Note an outcome, unless the state may be outdated or a put may have landed."""
        if guess:
            return
        if self.unresolved is not None:
            self.outcome = self.unknown()
        elif isinstance(why, Conflict):
            self.outcome = why
        else:
            self.error = why

    def _follow_up(self, put: _Put) -> None:
        """Announce the newest event, write a checkpoint if it is due, and let it be published."""
        self._announce(put)
        fewer = min(put.last - put.first + 1, MOST_SPARED)
        every = min(checkpoint_every(len(self.state.timeline)) * fewer, MOST_EVENTS)
        due = _has(put.first, put.last, every)
        if due and not self.state.dropped:
            self.state = self.log.checkpoint(self.state)
        self._publish()

    def _publish(self) -> None:
        if self.state.table.has_below(PUBLISH_PREFIX):
            publish_after_commit(self.ports, self.state)

    def _announce(self, put: _Put) -> None:
        coordinator, newest = self.ports.optional_coordinator, self.state.n
        if coordinator is not None:
            overtaken = [partial(self.log.has, newest + 1)] if put.streams else []
            coordinator.announce(self.state.table.table_id, newest, *overtaken)


# Attempts
def attempt_together(loops: Sequence[_Loop]) -> bool:
    """Attempt the commits of changes of this process, with one put; note the outcome of each.

    Returns:
        Whether the first loop, which leads, lost a race and has to try again.
    """
    lead, others = loops[0], loops[1:]
    if others:
        _await_files(lead)
    together = [each for each in loops if not each.over]
    lead.queue_up()
    made: list[_Loop] = []
    offer = partial(_offered, together, made)
    with ExitStack() as stack:
        held = lead.ports.storage.turn(TIMELINE, wait_s=HOST_WAIT_S, offer=offer)
        turn = stack.enter_context(held)
        lost = False
        if turn.claimed:
            stack.close()  # another process has put the changes, or is about to
        elif all(each.guesses for each in together):
            lost = _guess(together, turn)
        if not lost:
            _settle([each for each in together if not each.over], turn, made)
    for each in loops:
        each.guesses = False
    return lead.raced and not lead.over


def _guess(loops: Sequence[_Loop], turn: Turn) -> bool:
    """Put changes after a state that may be outdated; note the outcome of those that landed.

    Returns:
        Whether that was the whole attempt: a put failed that was made after reading new events.
    """
    lead = loops[0]
    with suppress(SegtableError):  # read and decided anew
        put = _put_all(loops, lead.log.guessed(lead.state), turn, guess=True)
        return put is False and not lead.ports.storage.remote
    return False


def _settle(loops: Sequence[_Loop], turn: Turn, made: Sequence[_Loop]) -> None:
    """Decide changes on the newest state, and put those that may follow it.

    Args:
        loops: the changes without an outcome.
        turn: the turn of their process.
        made: those that it offered while it waited.
    """
    for each in made if turn.claimed else ():
        each.offers = False
        if turn.claimed_as is not None:
            each.unresolved = turn.claimed_as
    if not loops or (state := _read_newest(loops)) is None:
        return
    for each in made if turn.claimed else ():
        each.carried = isinstance(each.outcome, Committed)
    left = [each for each in loops if not each.over]
    if left and not turn.claimed:
        _put_all(left, state, turn)


def _offered(loops: Sequence[_Loop], made: list[_Loop]) -> bytes | None:
    """Return the changes that another process may put, and note their loops."""
    if len(loops) == 1:
        _await_files(loops[0])
    some = [(each, change) for each in loops if (change := each.offered()) is not None]
    made += [each for each, _ in some]
    return encode_offer([change for _, change in some], loops[0].state) if some else None


def _await_files(loop: _Loop) -> None:
    try:
        loop.wait_durable()
    except SegtableError as error:
        if loop.unresolved is None:
            loop.error = error
        else:
            loop.outcome = loop.unknown()


def _read_newest(loops: Sequence[_Loop]) -> State | None:
    """Read the new events for all loops; None if that failed. Those that landed have an outcome."""
    lead = loops[0]
    try:
        state = lead.log.refresh(lead.state)
    except Exception as error:  # noqa: BLE001 - each loop raises it for its own author
        for each in loops:
            each.unreadable(error)
        return None
    for each in loops:
        each.state = state
        each.outcome = each.landed()
    return state


def _put_all(
    loops: Sequence[_Loop], state: State, turn: Turn, *, guess: bool = False
) -> bool | None:
    """Put the changes that may follow a state, in one file; note the outcome of each.

    Args:
        loops: the changes; the first one leads.
        state: the newest known state.
        turn: the turn of this process; changes that others offer are put, too.
        guess: whether the state may be outdated. Only a put that succeeds says something about the
            log then. All else is read and decided anew.

    Returns:
        Whether the put succeeded; None if there was nothing to put.
    """
    if state.joined:
        return None  # the next number is within a file: read it whole
    after, members, events = state, list[_Loop](), list[Event]()
    for each in loops:
        known = each.change.commit_id in after.commits
        if known or (events and not joins(each.change.action, after)):
            continue
        stamped = each.stamped(after, guess=guess)
        if stamped is not None:
            event, after = follow(after, stamped)
            members.append(each)
            events.append(event)
    if not events:
        return None
    others: tuple[Event, ...] = ()
    if is_offered(events[0].action, after):
        offered = turn.claim(state.n + 1, MOST_JOINED - len(events))
        some = [change for each in offered for change in decode_offer(each, after)]
        room = some[: MOST_JOINED - len(events)]
        others, after = join_offered(after, room, loops[0].ports.checked_now)
    together = in_one_file([*events, *others])
    data = encode_file(together)
    if not _created(members, together[0].n, data, turn):
        return False
    newest = loops[0].log.remember(after, (data, together))
    _note(loops[0], members, together, _Put.after(state, together), newest)
    return True


def _note(
    lead: _Loop, members: Sequence[_Loop], events: Sequence[Event], put: _Put, newest: State
) -> None:
    """Note that the events of members were put, and that the leader put them."""
    for each, event in zip(members, events, strict=False):  # others' events follow
        each.state, each.outcome = newest, Committed(n=event.n, state=newest)
        each.carried = each is not lead
    first = put.first if lead.put is None else lead.put.first  # of one attempt
    lead.state, lead.put = newest, replace(put, first=first)


def _created(members: Sequence[_Loop], n: int, data: bytes, turn: Turn) -> bool:
    """Put the file of event ``n``; return whether it is certainly in the log.

    The claims of a turn end when the outcome of the file's number is certain.
    """
    storage, log = members[0].ports.storage, members[0].log
    earlier = [each.unresolved for each in members]
    for each in members:
        each.unresolved = n
    own = members[0].change.ready if len(members) == 1 else None
    ready = {} if own is None else {"ready": own}
    try:
        storage.create(event_path(n), data, **ready)
    except (AlreadyExists, OutcomeUnknown) as error:
        if isinstance(error, AlreadyExists):
            turn.end_claims()
        for each in members:
            each.raced = True
        return False  # possibly our own earlier attempt: read the event
    except SegtableError as error:
        turn.end_claims()
        for each, before in zip(members, earlier, strict=True):
            each.unresolved = before
            each.error = error if before is None else None
        return False
    turn.end_claims()
    try:
        if log.first() > n:  # its number was free: the event there had expired
            storage.delete(event_path(n))
            return False
    except StorageError:
        return False  # read again
    return True
