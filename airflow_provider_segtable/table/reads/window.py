"""Windows of a table's versions: where a read begins and ends, and the rows added in between.

1. The end is a version as of any read, the newest by default. The start is exclusive: an event
   number, the newest version at a time, or a consumer's position.
2. Times are completion times. They increase along the log, so a window by time is one by number;
   a writer that began long before the window is in it iff its event is.
3. Added rows need the start's state and the end's files: the start may be any kept version. Changes
   need every event since the start, and the files that deleted rows were in: the start must be
   within retention, so that all later versions are kept, too.
4. A start before the creation of the table means the creation.
"""

from collections.abc import Iterator
from dataclasses import replace

from airflow_provider_segtable.core.errors import InvalidInput, VersionExpired, WindowExpired
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.effects import added
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.reads.parts import Part
from airflow_provider_segtable.table.versions.consumers import known_consumer
from airflow_provider_segtable.table.versions.tags import known_tag


def version_read(log: EventLog, request: ReadRequest) -> State:
    """Return the version that a request names, the newest by default.

    Raises:
        VersionExpired: it is no longer kept.
        InvalidInput: the tag does not exist.
    """
    if request.tag is not None:
        newest = log.load()
        return log.version(known_tag(newest, request.tag), newest)
    if request.version is not None:
        return log.at(request.version)
    return log.load() if request.as_of is None else log.as_of(request.as_of)


def start_read(log: EventLog, request: ReadRequest, end: State) -> State | None:
    """Return the version that a request's window begins after; None if it reads a whole version.

    Raises:
        WindowExpired: the start is no longer kept; the message names the oldest one.
        InvalidInput: the start is after the end, there is no such consumer, or rows of this kind of
            table cannot be told apart by events.
    """
    if not request.windowed:
        return None
    end.table.kind.check_window(log.storage.uri)
    newest = log.refresh(end)
    try:
        start = _started(log, request, newest)
    except VersionExpired:
        raise expired(log, _words(request), newest) from None
    if start.n > end.n:
        raise InvalidInput(
            f"{_words(request)} is version {start.n}, after the end of the window, version {end.n}"
        )
    if request.changes and start.n < newest.retained_from:
        raise expired(log, _words(request), newest)
    return start


def settled(log: EventLog, request: ReadRequest, end: State) -> ReadRequest:
    """Return the request with its window's start as a version: it reads the same window again.

    Raises:
        WindowExpired, InvalidInput: as ``start_read``.
    """
    start = start_read(log, request, end)
    if start is None:
        return request
    return replace(request, since_version=start.n, since=None, consumer=None)


def expired(log: EventLog, what: str, newest: State) -> WindowExpired:
    """Return the error of a window whose start is no longer kept."""
    oldest = log.event(newest.retained_from)
    time = f" ({iso(oldest.time)})" if oldest else ""
    return WindowExpired(
        f"{log.storage.uri}: what was committed after {what} was cleaned: the oldest start is "
        f"version {newest.retained_from}{time}; read a whole version, and go on from there. A "
        "consumer's position keeps versions: `segtable consumers advance`"
    )


def walked(log: EventLog, start: State, end: State) -> Iterator[tuple[Event, State, State]]:
    """Yield the events of a window, each with the states before and after it.

    Raises:
        WindowExpired: an event is gone.
    """
    before = start
    for n in range(start.n + 1, end.n + 1):
        event = log.event(n)
        if event is None:
            raise expired(log, f"version {start.n}", log.load())
        after = apply(before, event)
        yield event, before, after
        before = after


def added_part(part: Part, start: State) -> Part:
    """Return the part with the rows that were added after ``start`` only."""
    found = added(part.segment, start)
    if found.whole:
        return part
    chosen = dict.fromkeys(map(str, found.roots))
    return replace(part, row_filter=replace(part.row_filter, chosen=chosen))


def _started(log: EventLog, request: ReadRequest, newest: State) -> State:
    if request.since is not None:
        created = log.begin()
        early = request.since < newest.base_version
        return log.version(created, newest) if early else log.as_of(request.since)
    if request.consumer is not None:
        n = known_consumer(newest, request.consumer).version
    else:
        n = request.since_version or 0
    return log.at(n)


def _words(request: ReadRequest) -> str:
    if request.since is not None:
        return f"since={iso(request.since)}"
    if request.consumer is not None:
        return f"the position of consumer {request.consumer!r}"
    return f"since_version={request.since_version}"
