"""The checker that holds the indexes of a table against its files, after every event.

It knows the events, the files and nothing else: what an index lacks is worked out from the whole
log, hour by hour, in a way of its own. After every event:

1. *right*: an entry about a file is what the file gives; whatever else was committed, and whatever
   became of the file's id;
2. *whole*: a file that readers see has its entries, or the state says that its time is lacking; of
   an index of records each row has the fact about the record that is it, if nothing is lacking;
3. *told*: what the state says is lacking is exactly what events published without a feed, and no
   build has read since; the index is available from the first event on after which that is nothing;
4. *kept*: a feed is applied in the index's own table, or waits in the state, in order, once; if it
   was joined with others, it counts as one with them;
5. *harmless*: a scan with a condition, which leaves files out by the indexes, finds the rows of the
   model (``scan_oracle``); of the newest version, and in the end of some that are kept.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_kind import FILE
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexDefinition, IndexState
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.index_events import (
    FeedsJoined,
    IndexBuilt,
    IndexRequested,
)
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import HOUR_US, Interval
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_entries import (
    entries_in,
    feed_commit,
    index_ports,
)
from tests.simulation.indexes.scan_oracle import wrong_answers
from tests.simulation.model import Model

PUBLISHING = (Appended, RowsChanged, PlanCompleted, VersionRestored, TableRepaired)
OLD = 10
"""Most versions that are read again in the end."""

Entries = list[dict[str, Any]]
Lacking = dict[int, frozenset[int]]
"""By hour: the events whose files there have no entries."""


@dataclass(slots=True)
class Life:
    """What the events say of one index, from its request on."""

    definition: IndexDefinition
    lacking: Lacking
    fed: list[tuple[int, Feed]] = field(default_factory=list)
    available: int | None = None

    def follow(self, event: Event) -> None:
        """Move on by an event."""
        mine = next((f for f in event.feeds if f.index == self.definition.id), None)
        if isinstance(event.action, IndexBuilt) and event.action.index == self.definition.id:
            self._built(event.action)
        if mine is not None and not mine.empty:
            self.fed.append((event.n, mine))
        if isinstance(event.action, FeedsJoined) and event.action.index == self.definition.id:
            self._joined(event.action)
        if mine is None and isinstance(event.action, self._publishing):
            for segment in event.action.segments:
                for hour in hours(segment.id.interval):
                    self.lacking[hour] = self.lacking.get(hour, frozenset()) | {event.n}
        self.apply(event.n)

    @property
    def _publishing(self) -> tuple[type, ...]:
        """Return the actions that have something to index: compactions write no new records."""
        if self.definition.kind.about_files:
            return PUBLISHING
        return tuple(each for each in PUBLISHING if each is not PlanCompleted)

    def apply(self, n: int) -> None:
        """Note that event ``n`` left nothing lacking, if it is the first one."""
        if self.available is None and not self.lacking:
            self.available = n

    def _joined(self, action: FeedsJoined) -> None:
        run = [(n, feed) for n, feed in self.fed if action.first <= n <= action.through]
        assert run, f"{action} joins nothing"
        assert all(feed.entries for _, feed in run), f"{action} joins what has files"
        joined = (action.through, Feed(index=action.index, segments=action.segments))
        self.fed = sorted([*(each for each in self.fed if each not in run), joined], key=first_of)

    def _built(self, action: IndexBuilt) -> None:
        for hour in [hour for hour in self.lacking if hour in hours(action.interval)]:
            left = frozenset(n for n in self.lacking[hour] if n > action.through)
            self.lacking.pop(hour)
            if left:
                self.lacking[hour] = left


@dataclass(slots=True)
class IndexOracle:
    """What the indexes should be.

    ``seen`` has what decided the entries of each index when they were compared last, ``happened``
    counts the events, those with and without a feed, and how often entries were compared.
    """

    lives: dict[str, Life] = field(default_factory=dict)
    known: dict[tuple[str, str], Entries] = field(default_factory=dict)
    seen: dict[str, object] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)

    def follow(self, event: Event, state: State, model: Model, ports: TableContext) -> None:
        """Check the indexes after an event.

        Raises:
            AssertionError: naming the event, the index, and what is wrong with it.
        """
        for life in self.lives.values():
            life.follow(event)
        self._count(event)
        if isinstance(event.action, IndexRequested):
            self._begin(event, event.action, state)
        present = {each.definition.id: each for each in state.indexes.values()}
        self.lives = {i: life for i, life in self.lives.items() if i in present}
        wrong = [
            f"index {each.definition.name}: {what}"
            for each in present.values()
            for what in self._differences(each, state, model, ports)
        ]
        wrong += wrong_answers(state, model, ports)
        if wrong:
            raise AssertionError(f"after event {event.n} ({event.kind}):\n  " + "\n  ".join(wrong))

    def conclude(self, state: State, models: Mapping[int, Model], ports: TableContext) -> None:
        """Check the end: every index lacks nothing, its own table is sound, and old versions too.

        Raises:
            AssertionError: naming the index, or the version.
        """
        for index in state.indexes.values():
            name = index.definition.name
            assert index.current, f"index {name} lacks {index.lacks} at the end"
            problems = [*violations(index_ports(ports, index.definition).log.load())]
            assert not problems, f"index {name}: {problems}"
        kept = range(state.retained_from, state.n + 1)
        for n in kept[:: len(kept) // OLD + 1]:
            wrong = [*wrong_answers(ports.log.version(n, state), models[n], ports)]
            assert not wrong, f"version {n}, read at the end: {wrong}"

    def _count(self, event: Event) -> None:
        again = isinstance(event.action, IndexRequested) and event.action.replaces is not None
        self.happened["rebuilt" if again else event.kind] += 1
        if self.lives and isinstance(event.action, PUBLISHING):
            self.happened["fed" if len(event.feeds) == len(self.lives) else "unfed"] += 1

    def _begin(self, event: Event, action: IndexRequested, state: State) -> None:
        chunks = {s.id.interval for s in state.timeline.visible_segments()}
        lacking = {hour: frozenset({event.n}) for chunk in chunks for hour in hours(chunk)}
        life = Life(definition=action.index, lacking=lacking)
        life.apply(event.n)
        self.lives[action.index.id] = life

    def _differences(
        self, index: IndexState, state: State, model: Model, ports: TableContext
    ) -> Iterator[str]:
        life = self.lives[index.definition.id]
        told = lacking_of(index)
        if told != life.lacking:
            yield f"the state says that {told} is lacking, the events say {life.lacking}"
        if index.available_n != life.available:
            yield f"available at {index.available_n}, the events say {life.available}"
        try:
            own = index_ports(ports, index.definition).log.load()
        except SegtableError as error:
            yield f"it cannot be read: {error}"
            return
        yield from _lost(index, life, own)
        visible = [segment for segment in state.timeline.visible_segments() if segment.path]
        seen = (own.n, index.lacks, index.feeds, [s.path for s in visible], state.table.schema)
        if self.seen.get(index.definition.id) != seen:
            self.seen[index.definition.id] = seen
            self.happened["compared"] += 1
            if index.definition.kind.about_files:
                yield from self._wrong_entries(index, state, visible, ports)
            elif index.current:
                yield from model.lost_facts(entries_in(ports, index).to_pylist())

    def _wrong_entries(
        self, index: IndexState, state: State, visible: Sequence[Segment], ports: TableContext
    ) -> Iterator[str]:
        for segment in visible:
            at = (index.definition.id, segment.path)
            if at not in self.known:
                self.known[at] = entries_of(index, state, segment, ports)
        given = {path: rows for (i, path), rows in self.known.items() if i == index.definition.id}
        yield from wrong_entries(index, visible, given, ports)


def wrong_indexes(state: State, ports: TableContext) -> Iterator[str]:
    """Yield what is wrong with the indexes of a version, by its files alone."""
    visible = [segment for segment in state.timeline.visible_segments() if segment.path]
    for index in state.indexes.values():
        given = {s.path: entries_of(index, state, s, ports) for s in visible}
        for wrong in wrong_entries(index, visible, given, ports):
            yield f"index {index.definition.name}: {wrong}"


def entries_of(index: IndexState, state: State, segment: Segment, ports: TableContext) -> Entries:
    """Return the entries about a file that the file gives."""
    return entries(index.definition, state.table, [segment], ports.files).to_pylist()


def wrong_entries(
    index: IndexState,
    visible: Sequence[Segment],
    given: Mapping[str, Entries],
    ports: TableContext,
) -> Iterator[str]:
    """Yield in what the entries of an index differ from those that files give, by their paths."""
    found: dict[str, Entries] = {}
    for row in entries_in(ports, index).to_pylist():
        found.setdefault(row[FILE], []).append(row)
    lacking = lacking_of(index)
    for segment in visible:
        missing = segment.path not in found and given[segment.path]
        if missing and not any(hour in lacking for hour in hours(segment.id.interval)):
            yield f"it has no entry about {segment.path}, and {segment.id} is not lacking"
    for path, some in found.items():
        if _in_order(given.get(path, some)) != _in_order(some):
            yield f"its entries about {path} are {some}, not {given[path]}"


def first_of(numbered: tuple[int, Feed]) -> int:
    """Return the number of the event that brought a feed."""
    return numbered[0]


def hours(interval: Interval) -> range:
    """Return the hours of a time, by their numbers."""
    return range(interval.start // HOUR_US, -(-interval.end // HOUR_US))


def lacking_of(index: IndexState) -> Lacking:
    """Return what a state says is lacking."""
    found: Lacking = {}
    for lack in index.lacks:
        for hour in hours(lack.interval):
            found[hour] = found.get(hour, frozenset()) | {lack.n}
    return found


def _lost(index: IndexState, life: Life, own: State) -> Iterator[str]:
    """Yield which feeds are neither in the index's own log nor in the state, or are not in order.

    Feeds are copied in order, so those of the own log come first.
    """
    copied = [
        (n, feed) for n, feed in life.fed if feed.segments and feed_commit(n, feed) in own.commits
    ]
    if copied != life.fed[: len(copied)]:
        yield f"feeds were copied out of order: {[n for n, _ in copied]}"
    pending = dict(index.feeds)
    for n, feed in life.fed[len(copied) :]:
        if pending.get(n) != feed:
            yield f"the feed of event {n} is lost: forwarded is {index.forwarded}"


def _in_order(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)
