"""Consumers of a table: readers of windows, whose positions are events of the log.

1. A consumer reads the window after its position, handles the rows, and then advances. If it dies
   in between, it reads the same window again: at least once. A consumer that writes its results and
   the end of the window in one transaction of its own handles each row once.
2. While no row changes, its position stays where it is, and cleaning keeps it. From the first
   change on that it leaves unread, cleaning keeps it for ``retention.consumer_hours``.
3. Two processes of one name notice each other if they name the position that they went on from.
"""

from airflow_provider_segtable.core.consumer import Consumer
from airflow_provider_segtable.core.errors import (
    InvalidInput,
    InvalidName,
    VersionExpired,
)
from airflow_provider_segtable.core.log.events import (
    Appended,
    ConsumerAdvanced,
    ConsumerDropped,
    Event,
)
from airflow_provider_segtable.core.log.families.consumer_events import needed_from
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import is_name
from airflow_provider_segtable.core.reads.effects import effects
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.committer import Change, commit_or_raise
from airflow_provider_segtable.table.log.event_log import EventLog

LOOKED = 32
"""Number of events up to which it is looked whether one of them changed rows."""


def advance(
    ports: TableContext, name: str, version: int | None, *, before: int | None = None
) -> int:
    """Set a consumer's position; see ``Table.advance_consumer``."""
    if not is_name(name):
        raise InvalidName(
            f"{name!r} is not a consumer's name: use up to 100 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    newest = ports.log.load()
    wanted = newest.n if version is None else version
    if not 0 <= wanted <= newest.n:
        raise InvalidInput(f"{ports.uri} has no version {wanted}: the newest is {newest.n}")
    if wanted < newest.retained_from:
        raise VersionExpired(
            f"{ports.uri}: version {wanted} was cleaned, so consumer {name!r} cannot go on from "
            f"there: the oldest position is {newest.retained_from}"
        )
    known = newest.consumers.get(name)
    if known and known.log:
        raise InvalidInput(
            f"consumer {name!r} reads the log store: its readers store their positions "
            "(Table.log_reader); use another name, or drop it first"
        )
    if known and before in (None, known.version) and _nothing_read(ports.log, known, wanted):
        return known.version
    action = ConsumerAdvanced(name=name, version=wanted, before=before)
    commit_or_raise(ports, newest, Change(action=action, commit_id=ports.randomness.token()))
    return wanted


def _nothing_read(log: EventLog, known: Consumer, wanted: int) -> bool:
    """Return whether no row changed between a position and the next one.

    Otherwise a consumer of an idle table would read its own last event, and record that by another.
    """
    if not 0 <= wanted - known.version <= LOOKED:
        return False
    events = (log.event(n) for n in range(known.version + 1, wanted + 1))
    return not any(event is None or effects(event.action) for event in events)


def unread_since(log: EventLog, state: State, consumer: Consumer) -> Instant | None:
    """Return the time of the first event that a consumer has yet to read; None if there is none."""
    first = needed_from(state, consumer) + 1
    if consumer.log and first > state.n:
        return None
    unread = _has_unread_records if consumer.log else _changes_rows
    return next((event.time for event in log.events(first) if unread(event, consumer)), None)


def _changes_rows(event: Event, consumer: Consumer) -> bool:  # noqa: ARG001 - as the other one
    return bool(effects(event.action))


def _has_unread_records(event: Event, consumer: Consumer) -> bool:
    ranges = event.action.log if isinstance(event.action, Appended) else ()
    return any(
        each.bucket in consumer.log and each.end > consumer.log[each.bucket].position.offset
        for each in ranges
    )


def drop_consumer(ports: TableContext, name: str) -> None:
    """Remove a consumer; see ``Table.drop_consumer``."""
    newest = ports.log.load()
    known_consumer(newest, name)
    change = Change(action=ConsumerDropped(name=name), commit_id=ports.randomness.token())
    commit_or_raise(ports, newest, change)


def known_consumer(state: State, name: str) -> Consumer:
    """Return a consumer.

    Raises:
        InvalidInput: it does not exist; the message lists the consumers.
    """
    if name not in state.consumers:
        known = ", ".join(sorted(state.consumers)) or "no consumers"
        raise InvalidInput(
            f"there is no consumer {name!r}: the table has {known}; `segtable consumers advance` "
            "makes one"
        )
    return state.consumers[name]
