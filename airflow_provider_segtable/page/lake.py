"""The lake: tables by name, what was seen of them, and answers about them.

For a view module::

    class MapData(Shown): ...                      # (1) models

    def map_of(seen: Seen, *, limit: int) -> MapData: ...    # (2) from what was seen; no request

    def routes(lake: Lake) -> APIRouter:           # (3) thin; coroutines only
        router = APIRouter()

        @router.get("/api/map")
        async def segment_map(table: str, limit: int = 2000) -> Answer[MapData]:
            return await lake.answer(table, map_of, limit=limit)

        return router

1. ``answer`` runs the function in the lake's threads, with the newest state. The function may use
   ``seen.ports`` to read (events, locks, published metadata); it never writes.
2. Equal questions (same table, function and arguments) share one run, and one answer for
   ``fresh_s``. So arguments have to be hashable, and a function must not keep what it was given.
3. At most one load of a table is under way at once; states are bounded (``page.table_states``).
4. An answer that takes longer than ``limit_s`` is the last known one, with its age and the reason;
   ``Unanswered`` if there is none. The run goes on, and a later question finds its answer.
5. Each source has its own threads: a store that hangs delays no table of another one.
6. Answers are kept within ``answer_bytes``, those that were made last; a size is about right.
7. A table is known by the last search, or is below the root. A name that leads out of it is no
   table. If the lake has several sources, names begin with the source's own.
8. The sources are read at the first question, and again every ``REREAD_S``: a connection and a
   fleet file may change. A source of the same place keeps what is known.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import field, replace
from functools import partial
from typing import Any, TypeVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import NotATable, StorageError
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso
from airflow_provider_segtable.page.answer import Answer, Unanswered, about_bytes
from airflow_provider_segtable.page.fleet_watch import FleetWatch, Fleetwide, Known
from airflow_provider_segtable.page.sources import Source, TablePlace
from airflow_provider_segtable.page.table_states import Seen, TableStates
from airflow_provider_segtable.page.workers import Workers
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.ports.clock import Clock

__all__ = ["FleetSeen", "Lake", "Limits", "Part", "Seen"]
T = TypeVar("T")
Sources = Callable[[], Mapping[str, Source]]
REREAD_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the lake's work and memory; times in seconds.

    ``first_s`` is for the list of tables: so long its first answer waits for tables to be seen.
    """

    limit_s: float = 10.0
    first_s: float = 0.4
    fresh_s: float = 1.0
    threads: int = 8
    most_waiting: int = 64
    state_bytes: int = 96 * 1024 * 1024
    answer_bytes: int = 32 * 1024 * 1024


DEFAULT = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is known of one source; ``prefix`` begins the names of its tables."""

    prefix: str
    source: Source
    known: Fleetwide

    def name_of(self, table: str) -> str:
        """Return the name of a table in the lake."""
        return f"{self.prefix}/{table}" if self.prefix else table


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSeen:
    """What is known of all tables, as of now."""

    parts: tuple[Part, ...]
    now: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """An answer, and when it was made by the monotonic clock."""

    version: int | None
    at: Instant
    made_s: float
    data: Any
    late: str = ""
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        """Measure the answer, once."""
        object.__setattr__(self, "bytes", about_bytes(self.data))


@dataclass(slots=True)
class _Side:
    """A source with its threads and its watch."""

    source: Source
    workers: Workers
    watch: FleetWatch


class Lake:
    """The tables of one or several sources."""

    def __init__(self, sources: Sources, clock: Clock, limits: Limits = DEFAULT) -> None:
        """Begin without looking at anything.

        Args:
            sources: returns them by the name that tables' names begin with, empty for the only
                one; called in a thread, now and then.
            clock: the wall clock, and the one for time limits.
            limits: bounds.
        """
        self.clock = clock
        self.limits = limits
        self.states = TableStates(clock, fresh_s=limits.fresh_s, most_bytes=limits.state_bytes)
        self._sources = sources
        self._reader = Workers("the settings of the page", threads=1, most_waiting=1)
        self._reading: Future[None] | None = None
        self._read_s = 0.0
        self._sides: Mapping[str, _Side] = {}
        self._views = Workers("views", threads=2, most_waiting=limits.most_waiting)
        self._mutex = threading.RLock()
        self._answers: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._running: dict[Hashable, Future[_Kept]] = {}

    async def sources(self) -> tuple[Source, ...]:
        """Return the sources.

        Raises:
            Unanswered: they are not known yet, and cannot be read in time.
            SegtableError: why they cannot be read.
        """
        return tuple(side.source for side in (await self._known_sides()).values())

    async def _known_sides(self) -> Mapping[str, _Side]:
        """Return the sources as they were read last; wait for them only if there are none."""
        with self._mutex:
            old = not self._sides or self.clock.monotonic() - self._read_s >= REREAD_S
            if old and (self._reading is None or self._reading.done()):
                self._reading = self._reader.submit(self._read)
            reading = self._reading
        if not self._sides and reading is not None:
            try:
                await _within(reading, self.limits.limit_s)
            except TimeoutError as error:
                raise Unanswered(f"the places of tables were {error}") from None
        return self._sides

    def _read(self) -> None:
        """Read the sources; those of the same place keep their threads and what is known."""
        try:
            found, before = self._sources(), self._sides
            sides = {prefix: self._side(prefix, source) for prefix, source in found.items()}
            gone = [side for name, side in before.items() if sides.get(name) is not side]
            if gone:  # names mean other tables from now on
                self._answers.clear()
                self.states.forget()
            self._sides = sides
            for side in gone:
                side.source.close()
        finally:
            self._read_s = self.clock.monotonic()

    def _side(self, prefix: str, source: Source) -> _Side:
        old = self._sides.get(prefix)
        if old is not None and old.source.place == source.place:
            # Its session with ZooKeeper goes on; the fleet file may be another one.
            old.source = old.watch.source = replace(
                source, opening=old.source.opening, close=old.source.close
            )
            return old
        bounds = self.limits
        workers = Workers(source.label, threads=bounds.threads, most_waiting=bounds.most_waiting)
        return _Side(source=source, workers=workers, watch=FleetWatch(source, self.clock))

    async def fleet(self, view: Callable[..., T], /, **arguments: Hashable) -> Answer[T]:
        """Answer a question about all tables from what is known; begin to look at them anew.

        Args:
            view: called with ``FleetSeen`` and the arguments; it reads nothing.
            arguments: of the view.

        Raises:
            Unanswered: too many questions wait.
        """
        sides = (await self._known_sides()).values()
        passes = [each for side in sides if (each := side.watch.look()) is not None]
        if passes and not all(part.known.at for part in self._parts()):
            await asyncio.wait(map(_waited, passes), timeout=self.limits.first_s)
        key = _key("", view, arguments)
        kept, run = self._fresh(key, self.limits.fresh_s)
        if kept is None:
            made = partial(self._of_fleet, partial(view, **arguments))
            run = run or self._begun(key, lambda: self._views.submit(made))
            kept = await _within(run, self.limits.limit_s)
        return self._shown(kept)

    def _of_fleet(self, view: Callable[[FleetSeen], Any]) -> _Kept:
        parts, now = self._parts(), self.clock.now()
        return _Kept(
            version=None,
            at=min((part.known.at for part in parts if part.known.at), default=now),
            made_s=self.clock.monotonic(),
            data=view(FleetSeen(parts=parts, now=now)),
            late="; ".join(part.known.late for part in parts if part.known.late),
        )

    def _parts(self) -> tuple[Part, ...]:
        return tuple(
            Part(prefix=prefix, source=side.source, known=side.watch.known())
            for prefix, side in self._sides.items()
        )

    def known(self, table: str) -> Known:
        """Return what the list of tables knows of one; nothing is read.

        Raises:
            NotATable: there is no such table.
        """
        side, own = self._side_of(table)
        return side.watch.known().tables.get(own, Known())

    def safe(self, text: str) -> str:
        """Return a text without the credentials of any source."""
        for side in self._sides.values():
            text = side.source.safe(text)
        return redacted(text)

    def now(self, data: T) -> Answer[T]:
        """Return an answer that is of no table, and as new as can be."""
        return Answer(version=None, as_of=iso(self.clock.now()), age_seconds=0.0, data=data)

    def _side_of(self, table: str) -> tuple[_Side, str]:
        """Return the source of a table by name, and the table's name there.

        Raises:
            NotATable: there is no such source, or the name leads out of its root.
        """
        for prefix, side in self._sides.items():
            if prefix and not table.startswith(f"{prefix}/"):
                continue
            own = table.removeprefix(f"{prefix}/") if prefix else table
            if _below_the_root(own, side.source.fleet):
                return side, own
        raise NotATable(f"there is no table {table!r} in this lake: look at the list of its tables")

    async def answer(
        self,
        table: str,
        view: Callable[..., T],
        /,
        *,
        fresh_s: float | None = None,
        limit_s: float | None = None,
        **arguments: Hashable,
    ) -> Answer[T]:
        """Answer a question about a table.

        Args:
            table: its name in the lake.
            view: called with ``Seen`` and the arguments.
            fresh_s: for so long the last answer is given again; by default the lake's. With 0 the
                table is asked for its next event, too.
            limit_s: so long a newer answer is waited for; likewise.
            arguments: of the view.

        Raises:
            NotATable: there is no such table, or it was dropped.
            Unanswered: the store does not answer, and nothing is known.
            SegtableError: as the view.
        """
        await self._known_sides()
        key, (side, own) = _key(table, view, arguments), self._side_of(table)
        kept, run = self._fresh(key, self.limits.fresh_s if fresh_s is None else fresh_s)
        if kept is not None:
            return self._shown(kept)
        try:
            if run is None:
                if fresh_s == 0:
                    self.states.ask_again(table)
                workers, made = side.workers, partial(view, **arguments)
                loading = partial(self.states.load, workers, side.source, table, own)
                run = self._begun(key, lambda: self._viewed(workers, loading(), made))
            return self._shown(await _within(run, limit_s or self.limits.limit_s))
        except (StorageError, OSError, Unanswered) as error:
            return self._late(key, side.source, error)

    async def act(self, table: str, work: Callable[[Seen], T]) -> T:
        """Do something to a table, with its newest state, in its source's threads.

        Raises:
            NotATable: there is no such table, or it was dropped.
            Unanswered: it did not end within the time limit, and goes on; or too much waits.
            SegtableError: as the work.
        """
        await self._known_sides()
        side, own = self._side_of(table)
        self.states.ask_again(table)
        loading = self.states.load(side.workers, side.source, table, own)
        try:
            run = self._viewed(side.workers, loading, work)
            done: T = (await _within(run, self.limits.limit_s)).data
        except TimeoutError as error:
            raise Unanswered(
                f"{side.source.label} has {error}. It may have been done, or be done later: look "
                "at the timeline"
            ) from None
        finally:
            self.states.ask_again(table)
        return done

    async def aside(self, table: str, work: Callable[[TablePlace], T]) -> T:
        """Do something about a table that reads nothing of it, in a thread of the page.

        Args:
            table: its name in the lake.
            work: called with the table's place.

        Raises:
            NotATable: there is no such source, or the name leads out of its root.
            Unanswered: it did not end within the time limit, or too much waits.
        """
        sides = await self._known_sides()
        side, own = self._side_of(table)
        source = next(name for name, each in sides.items() if each is side)
        place = TablePlace(name=table, source=source, own_name=own, fleet=side.source.fleet)
        try:
            return await _within(self._views.submit(lambda: work(place)), self.limits.limit_s)
        except TimeoutError as error:
            raise Unanswered(f"the rights to {table!r} were {error}: try again") from None

    def _fresh(self, key: Hashable, fresh_s: float) -> tuple[_Kept | None, "Future[_Kept] | None"]:
        """Return the last answer if it is fresh, and the run for a newer one if there is one."""
        with self._mutex:
            kept = self._answers.get(key)
            old = kept is None or self.clock.monotonic() - kept.made_s >= fresh_s
            return (None if old else kept), self._running.get(key)

    def _begun(self, key: Hashable, begin: Callable[[], "Future[_Kept]"]) -> "Future[_Kept]":
        """Begin a run, unless another question has."""
        with self._mutex:
            if key in self._running:
                return self._running[key]
            run = self._running[key] = begin()
        run.add_done_callback(lambda done: self._ended(key, done))
        return run

    def _viewed(
        self, workers: Workers, loading: "Future[Seen]", view: Callable[[Seen], Any]
    ) -> "Future[_Kept]":
        """Call a view with a table, once it is loaded; no thread waits for that."""
        outcome: Future[_Kept] = Future()

        def view_it(loaded: "Future[Seen]") -> None:
            try:
                seen = loaded.result()
                _follow(workers.submit(lambda: self._made(view, seen)), outcome)
            except BaseException as error:  # noqa: BLE001 - those that wait get it
                outcome.set_exception(error)

        loading.add_done_callback(view_it)
        return outcome

    def _made(self, view: Callable[[Seen], Any], seen: Seen) -> _Kept:
        data = view(seen)
        return _Kept(version=seen.state.n, at=seen.at, made_s=self.clock.monotonic(), data=data)

    def _ended(self, key: Hashable, done: "Future[_Kept]") -> None:
        with self._mutex:
            self._running.pop(key, None)
            if done.exception() is None:
                self._answers[key] = done.result()
                self._answers.move_to_end(key)
                left = sum(each.bytes for each in self._answers.values())
                while left > self.limits.answer_bytes and len(self._answers) > 1:
                    left -= self._answers.popitem(last=False)[1].bytes

    def _shown(self, kept: _Kept, late: str = "") -> Answer[Any]:
        return Answer(
            version=kept.version,
            as_of=iso(kept.at),
            age_seconds=max(0, self.clock.now() - kept.at) / SECOND_US,
            late=late or kept.late,
            data=kept.data,
        )

    def _late(self, key: Hashable, source: Source, error: Exception) -> Answer[Any]:
        """Return the last known answer, with the reason."""
        if isinstance(error, TimeoutError):
            error = Unanswered(f"{source.label} has {error}")
        kept = self._answers.get(key)
        if kept is None:
            raise error
        return self._shown(kept, source.safe(str(error)))


def _key(table: str, view: Callable[..., Any], arguments: Mapping[str, Hashable]) -> Hashable:
    return table, view.__module__, view.__qualname__, *sorted(arguments.items())


def _below_the_root(own: str, fleet: Fleet) -> bool:
    """Return whether a name is of a table that the fleet may have."""
    parts = own.split("/")
    if ".." in parts or "\\" in own or "\0" in own or any(part[:1] == "_" for part in parts):
        return False
    absolute = "://" in own or own.startswith("/")
    return (not absolute or own in fleet.tables) and fleet.holds(own)


async def _within(run: "Future[T]", limit_s: float) -> T:
    """Return the result of a run, which goes on after the limit.

    Raises:
        TimeoutError: the limit is over.
    """
    waited = _waited(run)
    done, _ = await asyncio.wait({waited}, timeout=limit_s)
    if not done:
        raise TimeoutError(f"not answered within {limit_s:g} s")
    return waited.result()


def _waited(run: "Future[T]") -> "asyncio.Future[T]":
    """Return a run as this loop waits for it; its error may be of no interest any more."""
    waited = asyncio.wrap_future(run)
    waited.add_done_callback(lambda done: done.cancelled() or done.exception())
    return waited


def _follow(work: "Future[T]", outcome: "Future[T]") -> None:
    """Give the outcome of one future to another one."""

    def settle(done: "Future[T]") -> None:
        error = done.exception()
        outcome.set_exception(error) if error else outcome.set_result(done.result())

    work.add_done_callback(settle)
