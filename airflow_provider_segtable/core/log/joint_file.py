"""Events that share a file: several changes, one put.

1. Commits of several writers that are ready at the same time are put as one object. Each keeps an
   event of its own, with its number, time, commit id, author and feeds. The object has the number
   of the first one as its name; the next object has the number after the last one.
2. So numbers have no gaps and no twins. A writer that knows event ``n`` has read the whole file of
   ``n``, and puts the number after it. Were a number within a file put by another writer, readers
   would skip it; nothing puts it, since only a state at the end of a file is ever followed
   (``State.joined``).
3. Each change is admitted on the state after the change before it, as if it had been put alone. A
   change that is refused is left out, and its author gets the conflict.
4. Either all events of a file are in the log or none is: put-if-absent creates the whole object.
5. Only kinds of events that say so (``EventKind.joins``) share a file: rows that come and go, many
   times a second. All others are alone, so that nothing is created, altered, dropped, cleaned or
   restored in the middle of a file.
6. While a table has an index about records, all events are alone: the corrections that keep keys
   unique (``table.indexes.routing``) are worked out from the events in the log.

7. A change may be put by another process of its author's host. It is *offered* as the bytes of an
   event file, with numbers from 0, below the table's id. Whatever cannot be read, or does not join
   the newest state, is left to its author.

Source of the idea: group commit (DeWitt et al., 1984), as one put-if-absent of a log.
"""

from collections.abc import Callable, Sequence

from airflow_provider_segtable.core.dataclass import dataclass, replace
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_state import Feed
from airflow_provider_segtable.core.log.events import (
    Action,
    Event,
    decode_file,
    encode_file,
    kind_of,
)
from airflow_provider_segtable.core.log.fold import Conflict, admit, apply
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamped:
    """Everything of a new event but its number, and the earliest time that it may have."""

    action: Action
    commit: str
    author: str
    not_before: Instant
    feeds: tuple[Feed, ...] = ()


def joins(action: Action, state: State) -> bool:
    """Return whether the event of an action may share a file with others (rules 5 and 6)."""
    return kind_of(action).joins and all(
        index.definition.kind.about_files for index in state.indexes.values()
    )


def follow(state: State, change: Stamped) -> tuple[Event, State]:
    """Return the next event, of a change that was admitted on a state, and the state after it."""
    event = Event(
        n=state.n + 1,
        time=max(change.not_before, state.time + 1),
        commit=change.commit,
        author=change.author,
        action=change.action,
        feeds=change.feeds,
    )
    return event, apply(state, event)


def encode_offer(changes: Sequence[Stamped], state: State) -> bytes:
    """Return changes of a table as an offer to another process.

    None may be earlier there than the one before it, as in the file that they will be put in.
    """
    events: list[Event] = []
    for number, change in enumerate(changes):
        event = Event(
            n=number,
            time=max(change.not_before, events[-1].time + 1 if events else 0),
            commit=change.commit,
            author=change.author,
            action=change.action,
        )
        events.append(event)
    return state.table.table_id.encode() + b"\n" + encode_file(events)


def decode_offer(data: bytes, state: State) -> tuple[Stamped, ...]:
    """Return the changes of an offer to a table; none if it cannot be read."""
    table, _, body = data.partition(b"\n")
    if table.decode(errors="replace") != state.table.table_id:
        return ()
    try:
        events = decode_file(body, "an offer")
    except SegtableError:
        return ()
    return tuple(
        Stamped(action=e.action, commit=e.commit, author=e.author, not_before=e.time)
        for e in events
    )


def join_offered(
    state: State, offered: Sequence[Stamped], now: Callable[[], Instant]
) -> tuple[tuple[Event, ...], State]:
    """Return the events of offered changes that may follow a state, and the state after them."""
    events: list[Event] = []
    for change in offered:
        if change.commit in state.commits or not is_offered(change.action, state):
            continue
        try:
            admitted = admit(change.action, state)
        except SegtableError:
            continue
        if not isinstance(admitted, Conflict):
            not_before = max(change.not_before, now())
            event, state = follow(state, replace(change, action=admitted, not_before=not_before))
            events.append(event)
    return tuple(events), state


def is_offered(action: Action, state: State) -> bool:
    """Return whether another process may put the event of an action: no index has to be fed."""
    return joins(action, state) and not state.indexes


def in_one_file(events: Sequence[Event]) -> tuple[Event, ...]:
    """Return consecutive events as they stand in one file."""
    if len(events) < 2:
        return tuple(events)
    place = (events[0].n, events[-1].n)
    return tuple(replace(event, joined=place) for event in events)
