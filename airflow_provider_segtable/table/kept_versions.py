"""Keep versions of a table for tags and consumers, and list its history as short values.

Tags, versions that are kept by name:

1. A tag's checkpoint is written first, so that the version can be opened after its events have
   expired; then ``Tagged`` is committed. Without the event the file has no meaning.
2. The event is admitted only while its version is kept. So an earlier cleaner cannot have removed
   files that the tag needs, and a later cleaner reads the tag from the log.
3. The file of a version that is neither kept nor tagged is an orphan: no later event can name it.

Consumers, readers of windows with an event of the log as their position:

4. A consumer reads the window after its position, handles the rows, and then advances. If it dies
   in between, it reads the same window again: at least once. A consumer that writes its results and
   the end of the window in one transaction of its own handles each row once.
5. While no row changes, its position stays where it is, and cleaning keeps it. From the first
   unread change on cleaning keeps it for ``retention.consumer_hours``.
6. Two processes of one name notice each other if they give the position that they started from.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from airflow_provider_segtable.core.consumer import Consumer
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    InvalidInput,
    InvalidName,
    VersionExpired,
)
from airflow_provider_segtable.core.log.events import Event, effects
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.consumer_events import (
    ConsumerAdvanced,
    ConsumerDropped,
    needed_from,
)
from airflow_provider_segtable.core.log.families.tag_events import Tagged, Untagged
from airflow_provider_segtable.core.log.log_paths import tag_path
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import is_name
from airflow_provider_segtable.core.time import Instant, moment
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog


def put_tag(ports: TableContext, name: str, version: int | None = None) -> int:
    """Tag a version, the newest by default; see ``Table.tag``."""
    from airflow_provider_segtable.table.log.checkpoint import write_checkpoint

    newest = ports.log.load()
    state = taggable(ports.log, newest, name, version)
    ports.storage.replace(tag_path(name, state.n), write_checkpoint(state))
    change = Change(action=Tagged(name=name, n=state.n), commit_id=ports.randomness.token())
    commit_or_raise(ports, newest, change)
    return state.n


def taggable(log: EventLog, newest: State, name: str, version: int | None = None) -> State:
    """Return the version that a tag would name; errors as ``Table.tag``."""
    if not is_name(name):
        raise InvalidName(
            f"{name!r} is not a tag name: use up to 100 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    if name in newest.tags:
        raise InvalidInput(
            f"tag {name!r} is version {newest.tags[name]} already: choose another name, or delete "
            "that tag first"
        )
    return newest if version is None else log.at(version)


def remove_tag(ports: TableContext, name: str) -> None:
    """Remove a tag; see ``Table.untag``."""
    newest = ports.log.load()
    known_tag(newest, name)
    change = Change(action=Untagged(name=name), commit_id=ports.randomness.token())
    commit_or_raise(ports, newest, change)


def known_tag(state: State, name: str) -> int:
    """Return the version that a tag names.

    Raises:
        InvalidInput: the tag does not exist; the message lists the existing tags.
    """
    if name not in state.tags:
        known = ", ".join(sorted(state.tags))
        there = f"the table has {known}" if known else "the table has no tags"
        raise InvalidInput(f"there is no tag {name!r}: {there}")
    return state.tags[name]


LOOKED = 32
"""Most events that are read to find one that changed rows."""


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
    if known and before in (None, known.version) and _nothing_changed(ports.log, known, wanted):
        return known.version
    action = ConsumerAdvanced(name=name, version=wanted, before=before)
    commit_or_raise(ports, newest, Change(action=action, commit_id=ports.randomness.token()))
    return wanted


def _nothing_changed(log: EventLog, known: Consumer, wanted: int) -> bool:
    """Return whether no row changed between a position and the next one.

    Without this check a consumer of an idle table would read its own last event, and record it by
    another event.
    """
    if not 0 <= wanted - known.version <= LOOKED:
        return False
    events = (log.event(n) for n in range(known.version + 1, wanted + 1))
    return not any(event is None or effects(event.action) for event in events)


def unread_since(log: EventLog, state: State, consumer: Consumer) -> Instant | None:
    """Return the time of a consumer's first unread event; None if there is none."""
    first = needed_from(state, consumer) + 1
    if consumer.log and first > state.n:
        return None
    unread = _has_unread_records if consumer.log else _changes_rows
    return next((event.time for event in log.events(first) if unread(event, consumer)), None)


def _changes_rows(event: Event, consumer: Consumer) -> bool:  # noqa: ARG001 - one signature
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One event.

    Attributes:
        n: its number, which is a version of the table.
        time: the time of its commit, UTC.
        what: ``appended``, ``delete``, ``update``, ``merge``, ``plan completed``, and so on.
        rows: the number of rows that it adds, minus its deleted rows; None if these were not
            counted, as in a rollup table.
        author: the process that committed it.
    """

    n: int
    time: datetime
    what: str
    rows: int | None
    author: str


def history(log: EventLog, limit: int | None) -> list[HistoryEntry]:
    """Return the newest events, newest first; all that the log keeps without a limit."""
    newest, first = log.load().n, log.first()
    return [_entry(event) for event in islice(_backwards(log, newest, first), limit)]


def _backwards(log: EventLog, newest: int, first: int) -> Iterator[Event]:
    for n in range(newest, first - 1, -1):
        event = log.event(n)
        if event is None:  # it expired meanwhile, and all before it
            return
        yield event


def _entry(event: Event) -> HistoryEntry:
    what, rows = _kind_name(event.kind), 0
    match event.action:
        case Appended(segments=segments):
            rows = sum(segment.rows for segment in segments)
        case RowsChanged() as change:
            what = change.kind
            rows = sum(segment.rows for segment in change.segments) - change.deleted
            if change.predicate is not None:
                return _history_entry(event, what, None)
    return _history_entry(event, what, rows)


def _history_entry(event: Event, what: str, rows: int | None) -> HistoryEntry:
    return HistoryEntry(
        n=event.n, time=moment(event.time), what=what, rows=rows, author=event.author
    )


def _kind_name(kind: str) -> str:
    """Return e.g. ``plan completed`` for ``PlanCompleted``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()
