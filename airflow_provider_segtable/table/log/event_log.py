"""The event log on storage: read and fold events, with checkpoints for cheap opening.

1. Event ``n`` is ``_segtable/timeline/<n, 20 digits>.json``; the log ends before the first absent
   number.
2. A checkpoint ``_segtable/checkpoints/<n>.parquet`` is the state after event ``n``; ``_last``
   names the newest. Both are hints while no event has expired: if one is lost or damaged, the log
   is folded from the start.
3. Old events *expire*: a marker ``_segtable/expired/<n>`` allows the deletion of events below
   ``n``. It is put after checkpoint ``n`` proved readable and before the first deletion. The
   highest marker counts, and one always stays.
4. So an absent number has two meanings: the log ends here, or it expired here. A process that has
   read (or put) an event lists the markers *afterwards*. If none is above the event, the deletions
   did not affect the read. Otherwise the result is discarded and the newest checkpoint is read.
5. A tagged version has its own checkpoint, ``_segtable/tags/<name>-<n>.parquet``.
6. Opening reads the checkpoint, the later events by number, and one or two markers. Long listings,
   which some stores update late, are needed only if the hints fail. On a remote storage the events
   are requested together with the checkpoint (``table.log.read_ahead``): three round trips.
7. An ``EventLog`` caches the newest state, so that later calls read new events only. The cache is
   valid while its last event is still in the log. A log that has read one table does not go on
   with another one that was created in its place: that is ``TableGone``. A writer on a remote
   storage begins with ``for_writing``, which lists no markers: its commit lists them after its put.
   The last event that was read is cached, too. ``openings`` counts how often the log was read from
   a checkpoint or its start: after the first time, its numbers may stand for other events. So to
   find whether the last event is there, ``load`` reads it, and nothing that is cached.
8. ``TableDropped`` ends a log. A marker above it keeps this event as its content, so that the rest
   of the log can be deleted: each reader finds the marker (rule 4), and no author takes the
   number of a deleted event. A table that is created later begins at the marker's number.
9. A checkpoint of a large table lists *sidecars*, files with most of its chunks, which it shares
   with others (``table.log.sidecars``). They are there before it is, and are not deleted while a
   present checkpoint lists them. An author whose own checkpoint rests on one that has expired
   meanwhile takes it back: so the cleaner sees the new checkpoint, or the author sees the marker.
10. A state reads sidecars as long as it is used. So it is opened anew once the checkpoint that it
   came from has expired, or is more than ``FAR`` events old.
11. The error of a log that is dropped, expired, replaced or damaged says what happened at which
   place, and the way out.
12. Events that were committed together share a file, which has the first one's number as its name
    (``core.log.joint_file``). A state within a file knows its place there; the newest state is
    never within one, since a file is read whole. The file of another number is looked for
    below it, at most ``MOST_JOINED`` numbers.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CorruptTable,
    LogExpired,
    NotATable,
    NotFound,
    OutcomeUnknown,
    SegtableError,
    StorageError,
    TableGone,
)
from airflow_provider_segtable.core.log.events import MOST_JOINED, Event, decode, decode_file
from airflow_provider_segtable.core.log.families.table_events import TableDropped
from airflow_provider_segtable.core.log.fold import apply, fold
from airflow_provider_segtable.core.log.log_paths import (
    CHECKPOINTS,
    EXPIRED,
    LAST,
    TIMELINE,
    checkpoint_path,
    event_path,
    expired_path,
    number,
    tag_path,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Instant, iso
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage.together import together
from airflow_provider_segtable.table.log.log_errors import (
    expired,
    gone,
    no_table,
    replaced,
    unreadable,
)
from airflow_provider_segtable.table.log.read_ahead import ReadAhead
from airflow_provider_segtable.table.log.sidecars import (
    SIDECARS,
    is_large,
    layers_of,
    oldest_needed,
)

if TYPE_CHECKING:
    from airflow_provider_segtable.table.log.checkpoint import CheckpointFiles, SidecarFiles

OPENING = 32
"""Number of events that are requested together with a checkpoint."""
UNHINTED = 4
"""Number of events that are requested first where no checkpoint is known."""
FAR = 1024
"""Number of events after which a state is opened from a newer checkpoint."""
TRIES = 5
"""Number of reads that may be invalidated by expiry before the reader gives up."""


def path_of(event: Event) -> str:
    """Return the path of the file that has an event."""
    return event_path(event.joined[0] if event.joined else event.n)


def _of_one_table(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of one table: up to its end, or to the begin of another one."""
    for place, event in enumerate(events):
        if place and isinstance(event.action, TableDefinition):
            return
        yield event
        if isinstance(event.action, TableDropped):
            return


def _rebuilt(storage: Storage, n: int) -> State:
    """Return the state after event ``n`` without the checkpoint of that event.

    Raises:
        TableGone: the table was dropped meanwhile.
        CorruptTable: the events that lead there have expired.
    """
    log = EventLog(storage)
    state = log.without_checkpoint(n)
    if state is not None:
        return state
    newest = log.load()
    if log.begin() > n:
        raise replaced(storage.uri, newest)
    raise CorruptTable(
        f"{storage.uri}: a sidecar of checkpoint {n} is lost, and so are the events before it: "
        f"restore {SIDECARS}/, or run `segtable repair`"
    )


class EventLog:
    """The log of one table; rule 7 describes its cache."""

    def __init__(self, storage: Storage) -> None:
        """Use ``storage``, without reading it yet."""
        self.storage = storage
        self.openings = 0
        self._newest: State | None = None
        self._event: Event | None = None
        self._file: tuple[bytes | None, tuple[Event, ...]] = (None, ())  # the last read or put
        self._shared: tuple[Event, ...] = ()

    def load(self) -> State:
        """Return the newest state.

        Raises:
            NotATable: the location has no log.
            TableGone: the table was dropped.
            UnsupportedFormat: a newer segtable wrote to it.
            CorruptTable: the log has a hole or a damaged event.
        """
        known, self._shared = self._newest, ()
        if known is not None:
            with self._read_ahead(self._file_of(known), window=2) as ahead:
                events = dropwhile(lambda each: each.n < known.n, self._whole(known.n, ahead))
                last = None
                with suppress(CorruptTable):  # a checkpoint may stand for it, as on opening
                    last = next(events, None)
                if last is not None and last.time == known.time:
                    return self._refreshed(known, events)
        return self._present(self._load(), known)

    def for_writing(self, state: State | None = None) -> State:
        """Return the newest state as far as a writer needs it, by one request if it can be.

        If the log has expired or was dropped meanwhile, the writer's commit discovers it.

        Args:
            state: the state that the writer knows; by default the cached one.

        Raises:
            NotATable, TableGone, UnsupportedFormat, CorruptTable: as ``load``.
        """
        known = state or self._newest
        if known is None or not self.storage.remote:
            return self.load() if state is None else self.refresh(state)
        newest = known if known.dropped else self._newest_of(known, known.n + 1) or known
        return self._present(newest, known)

    def _file_of(self, known: State) -> int:
        """Return the number that the file of a state's event has, as far as it is known."""
        last = self._event
        if last is None or last.n != known.n or last.joined is None:
            return known.n
        return last.joined[0]

    def known(self) -> State:
        """Return the newest state that this process knows; the log is read if it is local.

        It may be outdated, so it is for a look at what a commit decides on the newest state.
        Errors as ``load``.
        """
        known = self._newest
        if known is None or known.dropped or not self.storage.remote:
            return self.load()
        return known

    def newer(self, state: State) -> State:
        """Return the newest state that a process far from its storage knows of a state's table."""
        known = self._newest
        if known is None or not self.storage.remote or known.n <= state.n or known.dropped:
            return state
        return known if known.table.table_id == state.table.table_id else state

    def guessed(self, state: State) -> State:
        """Return a state for a put that fails if it is outdated; no markers are listed yet."""
        if self.storage.remote:
            return self.newer(state)
        return state if state.dropped else self._newest_of(state, state.n + 1) or state

    def remember(self, state: State, file: tuple[bytes, tuple[Event, ...]] | None = None) -> State:
        """Cache ``state`` as the newest one, and perhaps its file: the bytes and the events."""
        self._newest = state
        if file is not None:
            self._file, self._event = file, file[1][-1]
        return state

    def last_event(self, state: State) -> Event | None:
        """Return the event that led to a state; None if it has expired.

        The last event that this process read or put is not read again: events never change. One
        that was read while its number expired may be another one, and has another time.
        """
        last = self._event
        same = last is not None and (last.n, last.time) == (state.n, state.time)
        return last if same else self.event(state.n)

    def _load(self) -> State:
        self.openings += 1
        self._event, self._file, self._shared = None, (None, ()), ()
        base, state = self._opened()
        start = base.n + 1 if base else 0
        for attempt in range(TRIES):
            if attempt:
                state = self._newest_of(base, start)
            first = self.first()
            if first <= start:
                if state is None:
                    raise no_table(self.storage.uri)
                return state
            base = self._base(first=first)
            start = base.n + 1 if base else first
        raise unreadable(self.storage.uri, CHECKPOINTS, self.first())

    def _opened(self) -> tuple[State | None, State | None]:
        """Return the newest checkpoint by the hint, and the newest state from there."""
        n = self._last_checkpoint()
        after = 0 if n is None else n + 1
        with self._read_ahead(after, window=UNHINTED if n is None else OPENING) as ahead:
            base = None if n is None else self._read_checkpoint(checkpoint_path(n))
            start = base.n + 1 if base else 0
            return base, self._newest_of(base, start, iter(ahead) if start == after else None)

    def refresh(self, state: State) -> State:
        """Return ``state`` with all later events applied; errors as ``load``."""
        return self._refreshed(state)

    def _refreshed(self, state: State, events: Iterator[Event] | None = None) -> State:
        newest = state if state.dropped else self._newest_of(state, state.n + 1, events) or state
        needed = min(state.n + 1, oldest_needed(state))
        return self._present(newest if self.first() <= needed else self._load(), state)

    def end(self) -> Event | None:
        """Return the event that dropped the location's last table; None if there is a table.

        Raises:
            NotATable: the location has no log.
            CorruptTable: as ``load``.
        """
        try:
            self.load()
        except TableGone:
            return self._drop()
        return None

    def _drop(self) -> Event | None:
        """Return the event of rule 8: that of the newest marker, or the last one of the log."""
        first = self.first()
        if first and not self._begins(first) and (kept := self.kept(first)):
            return kept
        known = self._newest
        return self.event(known.n) if known and known.dropped else None

    def kept(self, first: int) -> Event | None:
        """Return the event in a marker; None if the marker is one of expiry, and empty."""
        path = expired_path(first)
        try:
            data = self.storage.read(path)
        except NotFound:  # a later marker took its place
            return None
        return decode(data, f"{self.storage.uri}/{path}") if data else None

    def _present(self, state: State, before: State | None) -> State:
        """Return the newest state, of the same table as an earlier one, and cache it."""
        if before is not None and before.table.table_id != state.table.table_id:
            raise replaced(self.storage.uri, before)
        if state.n - oldest_needed(state) > FAR:
            state = self._on_newest(state)
        self.remember(state)
        if state.dropped:
            raise gone(self.storage.uri, self._drop())
        return state

    def at(self, n: int) -> State:
        """Return the state after event ``n``.

        Raises:
            VersionExpired: the version is no longer kept.
            NotATable: the log ends before event ``n``.
        """
        newest = self.load()
        if not 0 <= n <= newest.n:
            raise NotATable(f"{self.storage.uri} has no event {n}: it ends with event {newest.n}")
        return newest if n == newest.n else self.version(n, newest)

    def version(self, n: int, newest: State) -> State:
        """Return the state after event ``n``, given the newest one; errors as ``at``."""
        for _ in range(TRIES):
            if not newest.keeps(n):
                raise expired(self.storage.uri, f"version {n}", newest)
            found = self._tagged(n, newest) or self._last(lambda event: event.n <= n, most=n)
            if found is not None and found.n == n:
                return found
            newest = self.load()  # events expired during the read
        raise CorruptTable(
            f"{self.storage.uri} keeps version {n}, but the events that lead there are gone: "
            f"restore {TIMELINE}/ or {CHECKPOINTS}/"
        )

    def _tagged(self, n: int, newest: State) -> State | None:
        for name in (name for name, tagged in newest.tags.items() if tagged == n):
            found = self._read_checkpoint(tag_path(name, n))
            if found is not None and found.n == n:
                return found
        return None

    def _last(
        self,
        inside: Callable[[Event], bool],
        *,
        most: int | None = None,
        until: Instant | None = None,
    ) -> State | None:
        """Return the last state whose event is ``inside``; None if its events have expired."""
        begin, state = self.begin(), self._base(most=most, until=until)
        if state is not None and state.n < begin:  # a late write, of a table that was dropped
            state = None
        start = state.n + 1 if state else begin
        for event, following in self._steps(state, start):
            if not inside(event):
                break
            state = following
        return state if self.first() <= start else None

    def without_checkpoint(self, n: int) -> State | None:
        """Return the state after event ``n`` from older checkpoints; None if it has expired."""
        base = self._base(most=n - 1)
        start = base.n + 1 if base else self.begin()
        try:
            state = fold(base, islice(self.events(start), max(0, n + 1 - start)))
        except CorruptTable:  # the first events are not there
            return None
        there = state is not None and state.n == n and self.first() <= start
        return state if there else None

    def before(self, end: Event) -> State | None:
        """Return the last state before a table was dropped; None if it cannot be read any more."""
        base = self._base(most=end.n - 1)
        start = base.n + 1 if base else self.begin()
        # A table that took the place of the dropped one begins after its end.
        state = fold(base, islice(self.events(start), max(0, end.n - start)))
        return state if state is not None and state.n == end.n - 1 else None

    def as_of(self, time: Instant) -> State:
        """Return the state with every event whose time is <= ``time``.

        Raises:
            VersionExpired: the version of that time is no longer kept.
            NotATable: the table did not exist at that time.
        """
        newest = self.load()
        if time < newest.base_version:
            raise NotATable(
                f"{self.storage.uri} did not exist at {iso(time)}: it was created at "
                f"{iso(newest.base_version)}"
            )
        if time >= newest.time:
            return newest
        for _ in range(TRIES):
            found = self._last(lambda event: event.time <= time, until=time)
            newest = self.refresh(newest)
            if found is not None and newest.keeps(found.n):
                return found
            if found is not None or self._oldest_time() > time:
                break
        raise expired(self.storage.uri, f"the version of {iso(time)}", newest)

    def _oldest_time(self) -> Instant:
        oldest = self.event(self.first())
        return oldest.time if oldest else 0

    def history(self, until: Instant, most: int) -> Iterator[tuple[Event | None, State]]:
        """Yield events, each with the state after it.

        The first state is the newest checkpoint within ``until`` and ``most`` (without its event).
        Without one, it is the state after event 0 or the oldest readable state.

        Raises:
            LogExpired: at the end, if events expired meanwhile: begin anew with a newer state.
        """
        base, first = self._base(until=until, most=most), self.first()
        if first and (base is None or base.n + 1 < first):
            base = self._read_checkpoint(checkpoint_path(first))
            if base is None:
                self._require_beginning(first)
        start = base.n + 1 if base else first
        state = base
        if state is not None:
            yield None, state
        for event, state in self._steps(base, start):
            if state.dropped:
                raise gone(self.storage.uri, event)
            yield event, state
        if state is None or self.first() > start:
            raise LogExpired(f"{self.storage.uri}: the log expired while it was read; try again")

    def event(self, n: int) -> Event | None:
        """Return event ``n``; None if it expired or is not in the log yet."""
        found = self.file(n)
        if found is not None:
            return found[0]
        return next((each for each in self._around(n) if each.n == n), None)

    def file(self, n: int) -> tuple[Event, ...] | None:
        """Return the events of the file with the number ``n``; None if there is no such file."""
        path = event_path(n)
        try:
            data = self.storage.read(path)
        except NotFound:
            return None
        known, events = self._file
        if data != known:
            events = decode_file(data, f"{self.storage.uri}/{path}")
            self._file = (data, events)
        first, last = events[0].n, events[-1]
        if first != n:
            raise CorruptTable(f"{self.storage.uri}/{path} holds event {first}: files were mixed")
        if self._event is None or self._event.n <= last.n:
            self._event = last
        if last.n > n:
            self._shared = events
        return events

    def _around(self, n: int) -> tuple[Event, ...]:
        """Return the events of the file that has event ``n`` after others; empty without one."""
        known, shared = self._newest, self._shared
        if not n or (known is not None and known.n + 1 == n and known.joined is None):
            return ()
        if shared and shared[0].n < n <= shared[-1].n:
            return shared
        below = max(n - MOST_JOINED, 0)
        for first in self._listed(below, n) if self.storage.remote else range(n - 1, below - 1, -1):
            found = self.file(first)
            if found is not None:
                return found if found[-1].n >= n else ()
        return ()

    def _listed(self, below: int, n: int) -> list[int]:
        """Return the number of the last file from ``below`` to before ``n``; one at most."""
        after = event_path(below - 1) if below else None
        entries = self.storage.list(TIMELINE, after=after)
        names = takewhile(lambda name: name is None or name < n, (number(e.path) for e in entries))
        return [name for name in names if name is not None][-1:]

    def has(self, n: int) -> bool:
        """Return whether there is a file with the number ``n``; nothing is decoded."""
        try:
            self.storage.read(event_path(n))
        except StorageError:
            return False
        return True

    def events(self, start: int) -> Iterator[Event]:
        """Yield events from number ``start`` to the end of the log.

        If another table's log begins there, in the place of a dropped one, none of it is returned.
        """
        with self._read_ahead(start) as ahead:
            yield from _of_one_table(self._whole(start, ahead))

    def _events_after(self, state: State) -> Iterator[Event]:
        """Yield the events after a state, as ``events``; its own file is read again if need be."""
        start = state.joined[0] if state.joined else state.n + 1
        with self._read_ahead(start) as ahead:
            yield from _of_one_table(dropwhile(lambda each: each.n <= state.n, ahead))

    def _whole(self, start: int, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events from a number on; read from there, they may begin within a file."""
        first = next(found := iter(events), None)
        if first is not None:
            yield first
            yield from found
        elif rest := [each for each in self._around(start) if each.n >= start]:
            yield from rest
            with self._read_ahead(rest[-1].n + 1) as ahead:
                yield from ahead

    def _read_ahead(self, start: int, *, window: int = 1) -> ReadAhead[Event]:
        return ReadAhead(self.file, start, remote=self.storage.remote, window=window)

    def _steps(self, base: State | None, start: int) -> Iterator[tuple[Event, State]]:
        """Yield events with the states after them, up to an expired one."""
        state = base
        try:
            for event in self.events(start):
                state = apply(state, event)
                yield event, state
        except CorruptTable:
            if self.first() <= start:
                raise

    def _newest_of(
        self, base: State | None, start: int, events: Iterator[Event] | None = None
    ) -> State | None:
        """Return ``base`` with all later events; some may be missing if the log has expired.

        Args:
            base: the state before event ``start``.
            start: the first event's number.
            events: the events from there on; read by default.
        """
        if events is None:
            found = self.events(start) if base is None else self._events_after(base)
        else:
            found = _of_one_table(events)
        try:
            return fold(base, found)
        except CorruptTable:
            if self.first() <= start:
                raise
            return base

    def first(self) -> int:
        """Return the number below which events may be deleted; 0 if none expired."""
        markers = (number(entry.path) for entry in self.storage.list(EXPIRED))
        return max((n for n in markers if n is not None), default=0)

    def checkpoint(self, state: State) -> State:
        """Write a checkpoint of ``state``; failures are harmless and ignored.

        Returns:
            The state as a reader of the checkpoint has it, if that has sidecars.
        """
        from airflow_provider_segtable.table.log.checkpoint import checkpoint_files

        try:
            files = checkpoint_files(self._on_newest(state))
            if files.listed:
                written = self._write_layered(state.n, files)
            else:
                self.storage.replace(checkpoint_path(state.n), files.own)
                written = True
            if written:
                self.storage.replace(LAST, json.dumps({"n": state.n}).encode())
        except SegtableError:
            return state
        return self._opened_anew(state, files.own) if files.listed and written else state

    def _write_layered(self, n: int, files: "CheckpointFiles") -> bool:
        """Write a checkpoint and its new sidecars; return whether it stays (rule 9)."""
        new = files.new.items()
        together(self.storage, *(partial(self.storage.replace, path, data) for path, data in new))
        try:
            self.storage.create(checkpoint_path(n), files.own)
        except (AlreadyExists, OutcomeUnknown):
            return False
        if files.rests_on is not None and self.first() > files.rests_on:
            self.storage.delete(checkpoint_path(n))
            return False
        return True

    def _opened_anew(self, state: State, checkpoint: bytes) -> State:
        """Return a state as its checkpoint has it, and cache it if it is the newest."""
        found = self._read(checkpoint)
        if self._newest is state:
            self._newest = found
        return found

    def _on_newest(self, state: State) -> State:
        """Return a state as one of the newest checkpoint's, and of the events after it.

        So what other authors have moved to sidecars is not moved again.
        """
        if not is_large(state):
            return state
        layers, last = layers_of(state), self._last_checkpoint()
        if last is None or not (layers.n if layers else 0) < last < state.n:
            return state
        base = self.at_checkpoint(last)
        found = fold(base, islice(self.events(last + 1), state.n - last)) if base else None
        same = found is not None and (found.n, found.time) == (state.n, state.time)
        return found if found is not None and same else state

    def checkpoints(self) -> list[int]:
        """Return the numbers of the listed checkpoints, newest first."""
        found = (number(entry.path) for entry in self.storage.list(CHECKPOINTS))
        return sorted((n for n in found if n is not None), reverse=True)

    def sidecar_files(self) -> "SidecarFiles":
        """Return how sidecars are read."""
        from airflow_provider_segtable.table.log.checkpoint import SidecarFiles

        # Not this log: it caches a state, which would keep the log, and itself.
        return SidecarFiles(self.storage.read, partial(_rebuilt, self.storage))

    def at_checkpoint(self, n: int) -> State | None:
        """Return the state of checkpoint ``n``; None if it is gone or damaged."""
        found = self._read_checkpoint(checkpoint_path(n))
        return found if found is not None and found.n == n else None

    def _last_checkpoint(self) -> int | None:
        """Return the number of the newest checkpoint by the hint; None without one."""
        try:
            n = json.loads(self.storage.read(LAST))["n"]
            return n if isinstance(n, int) and n >= 0 else None
        except (NotFound, ValueError, KeyError, TypeError):
            return None

    def _read_checkpoint(self, path: str) -> State | None:
        try:
            return self._read(self.storage.read(path))
        except (NotFound, CorruptTable):
            return None

    def _read(self, checkpoint: bytes) -> State:
        """Return the state in a checkpoint; a table without one is opened without Arrow."""
        from airflow_provider_segtable.table.log.checkpoint import read_checkpoint

        return read_checkpoint(checkpoint, self.sidecar_files())

    def _base(
        self, *, first: int = 0, most: int | None = None, until: Instant | None = None
    ) -> State | None:
        """Return the newest readable checkpoint within bounds; None means: fold from the start.

        Raises:
            TableGone, CorruptTable: events below ``first`` expired, and there is none.
        """
        for n in self.checkpoints():
            if n < first or (most is not None and n > most):
                continue
            if until is not None and ((event := self.event(n)) is None or event.time > until):
                continue
            found = self._read_checkpoint(checkpoint_path(n))
            if found and found.n == n:
                return found
        if first:
            self._require_beginning(first)
        return None

    def _require_beginning(self, first: int) -> None:
        """Refuse a log whose first events expired, unless a table begins there, or later.

        The marker is read first: a creation empties it after its event.

        Raises:
            TableGone: the log ended there.
            CorruptTable: its checkpoints are lost.
        """
        dropped = self.kept(first)
        if self._begins(first) or self.first() > first:
            return
        if dropped:
            raise gone(self.storage.uri, dropped)
        raise unreadable(self.storage.uri, CHECKPOINTS, first)

    def _begins(self, n: int) -> bool:
        """Return whether a table was created by event ``n``, after another one was dropped."""
        event = self.event(n)
        return event is not None and isinstance(event.action, TableDefinition)

    def begin(self) -> int:
        """Return the number of the event that created the table; 0 if that has expired."""
        first = self.first()
        return first if first and self._begins(first) else 0
