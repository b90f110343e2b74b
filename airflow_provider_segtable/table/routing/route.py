"""Route the keys of an event: decide which records win, and write what corrects the others.

1. The facts of the new records and all that is known of their keys are decided together
   (``data.indexes.records.decision``).
2. A new record that wins is certain: a correction below it hides what is lower, if that is there at
   all. Where a known record wins and another is to be corrected, the records of the key are read,
   because facts outlive their records; what is there decides.
3. The feed leaves one fact of each key whose winner is certain. Where a known record wins and there
   is nothing to correct, all facts stay, because none was compared with the table.
4. A route is about a version. It *holds* in a later one if since then no event fed a fact of its
   keys, or published files without feeding the index, and the time chunks are the same. If it
   rests on records that were read, no event may have taken records back, either.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexState
from airflow_provider_segtable.core.indexes.record_index import TOKEN
from airflow_provider_segtable.core.log.events import TableRepaired, VersionRestored
from airflow_provider_segtable.core.log.families.index_events import index_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Layout
from airflow_provider_segtable.data.arrow.equality import Keys
from airflow_provider_segtable.data.indexes.records.decision import Decision, decided, places_of
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.fed_entries import fed_entries
from airflow_provider_segtable.table.indexes.feed_writer import discard_feed, write_feed
from airflow_provider_segtable.table.routing.corrections import corrections
from airflow_provider_segtable.table.routing.facts import among, facts_of, records_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What an event brings besides its own files, as of a version.

    Attributes:
        index: the id of the index.
        n: the version.
        layout: its time chunks.
        keys: the keys that were routed.
        corrections: log files of the table.
        feed: the feed of the index.
        read: whether it rests on records that were read.
    """

    index: str
    n: int
    layout: Layout
    keys: Keys
    corrections: tuple[Segment, ...]
    feed: Feed
    read: bool

    @property
    def corrected(self) -> int:
        """Return the number of records that it corrects."""
        return sum(segment.rows for segment in self.corrections)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What was decided of facts, which of them win, and what the index is fed."""

    facts: pa.Table
    decision: Decision
    wins: npt.NDArray[np.bool_]
    fed: pa.Table
    gone: pa.Table
    read: bool


def routed(ports: TableContext, state: State, index: IndexState, new: pa.Table) -> Route:
    """Route the records of an event after a version.

    Args:
        ports: the table's ports.
        state: the version.
        index: the index of records.
        new: the facts about the new records.

    Raises:
        SegtableError: the index or the table could not be read or written.
    """
    known = _not_of(facts_of(ports, index, new), new)
    return _written(ports, state, index, new, _planned(ports, state, index, new, known))


def rerouted(ports: TableContext, state: State, index: IndexState, known: pa.Table) -> Route:
    """Route the records of some keys, without a new one; otherwise as ``routed``.

    Args:
        ports: the table's ports.
        state: the version.
        index: the index of records.
        known: all facts about these keys.
    """
    plan = _planned(ports, state, index, known.slice(0, 0), known)
    return _written(ports, state, index, known, plan)


def _written(
    ports: TableContext, state: State, index: IndexState, keys: pa.Table, plan: _Plan
) -> Route:
    """Write what a plan says about the keys of some facts."""
    written = tuple(corrections(ports, state, index.definition, plan.facts, plan.decision))
    try:
        feed = write_feed(ports, index.definition, plan.fed, plan.gone)
    except Exception:
        discard_files(ports, written)
        raise
    return Route(
        index=index.definition.id,
        n=state.n,
        layout=state.layout,
        keys=Keys.of(keys, index.definition.kind.divided_by, nulls=False),
        corrections=written,
        feed=feed,
        read=plan.read,
    )


def _planned(
    ports: TableContext, state: State, index: IndexState, new: pa.Table, known: pa.Table
) -> _Plan:
    plan = _proposed(state, index, new, known, new.slice(0, 0), None)
    doubtful = plan.decision.over[plan.decision.over >= new.num_rows]
    if not len(doubtful):
        return plan
    key = index.definition.kind.divided_by
    keys = Keys.of(plan.facts.take(pa.array(doubtful)), key, nulls=False)
    met = keys.find(known.combine_chunks()) >= 0
    checked, left = known.filter(pa.array(met)), known.filter(pa.array(~met))
    there = _not_of(records_of(ports, state, index, checked), new)
    found = _proposed(state, index, new, left, there, keys)
    kept = found.facts.filter(pa.array(found.wins))
    return replace(
        found,
        fed=_without(found.fed, checked, index.definition.kind.key),
        gone=pa.concat_tables([found.gone, _without(checked, kept, index.definition.kind.key)]),
    )


def _proposed(
    state: State,
    index: IndexState,
    new: pa.Table,
    known: pa.Table,
    there: pa.Table,
    checked: Keys | None,
) -> _Plan:
    """Decide new facts, known ones, and those of records that are there, of the keys checked."""
    facts = pa.concat_tables([new, known, there]).combine_chunks()
    decision = decided(facts, places_of(facts, state.layout)[0], index.definition.kind.divided_by)
    rows = np.arange(facts.num_rows)
    is_new, is_there = rows < new.num_rows, rows >= new.num_rows + known.num_rows
    wins = decision.winner_of == rows
    certain = is_new[decision.winner_of]
    if checked is not None:
        certain = certain | (checked.find(facts) >= 0)
    fed = np.where(certain, wins & (is_new | is_there), is_new)
    return _Plan(
        facts=facts,
        decision=decision,
        wins=wins,
        fed=facts.filter(pa.array(fed)),
        gone=facts.filter(pa.array(certain & ~wins & ~is_new & ~is_there)),
        read=checked is not None,
    )


def _not_of(facts: pa.Table, new: pa.Table) -> pa.Table:
    """Return the facts about records of other files than some whole files of new ones."""
    of_new = pc.is_in(facts.column(TOKEN), value_set=pc.unique(new.column(TOKEN)))
    return facts.filter(pc.invert(of_new))


def _without(rows: pa.Table, others: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Return the rows whose keys others do not have."""
    found = Keys.of(others, key, nulls=False).find(rows.combine_chunks())
    return rows.filter(pa.array(found < 0))


def holds(ports: TableContext, route: Route, state: State) -> bool:
    """Return whether a route is right for an event after a version, too.

    Raises:
        SegtableError: what came in between cannot be read.
    """
    if state.n == route.n:
        return True
    index = index_of(route.index, state)
    if index is None or state.layout != route.layout:
        return False
    if any(lack.n > route.n for lack in index.lacks):
        return False
    if route.read and any(_taken_back(ports, route.n)):
        return False
    return not among(route.keys, fed_entries(ports, index, route.n)).num_rows


def _taken_back(ports: TableContext, after: int) -> Iterator[bool]:
    """Yield for each event after a version whether it may have taken records back."""
    for event in ports.log.events(after + 1):
        yield isinstance(event.action, VersionRestored | TableRepaired)


def discard(ports: TableContext, route: Route) -> None:
    """Delete the files of a route that no event names, and none ever will."""
    discard_files(ports, route.corrections)
    discard_feed(ports, route.feed)


def discard_files(ports: TableContext, segments: tuple[Segment, ...]) -> None:
    """Delete files of the table that no event names, and none ever will."""
    for segment in segments:
        with suppress(SegtableError):  # an orphan, which cleaning removes
            ports.files.delete(segment.path)
