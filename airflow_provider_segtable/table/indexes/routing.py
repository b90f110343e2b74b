"""Route the keys of an event in each index of records: choose the winners, and correct the losers.

Routes, which an event of a primary-key table brings besides its files:

1. Upserts, deletes and updates of a primary-key table append records. Before they are committed,
   their keys are routed in each index of records: of equal keys in several time chunks one record
   wins, and the others are corrected in the same event.
2. An index that was requested meanwhile is seen in the next attempt of the commit. A route is made
   again if it does not hold any more (rule 7), or if a cleaning deleted its files. So two writers
   that write one key to two time chunks leave one row, without a lock: the log decides the order,
   and the later writer corrects.
3. As with all indexes, a writer never waits or fails because of one. If the index cannot be read,
   or is left out (``table.indexes.feeding.left_out``), the event is not routed: the log records
   that the index lacks it, and its next run corrects the keys (``services.indexing``).

Winners:

4. The entries of the new records and all known entries of their keys are decided together
   (``data.indexes.records``).
5. A new record that wins is certain: a correction below it hides any lower record. If a known
   record wins and another may have to be corrected, the records of the key are read, because
   entries outlive their records; the records decide.
6. The feed leaves one entry of each key with a certain winner, and those of places that the event
   does not touch: if it is taken back, they decide. If a known record wins and nothing is to be
   corrected, all entries stay, because none was compared with the table.
7. A route is about a version. It *holds* in a later one if since then no event fed a entry of its
   keys, or published files without feeding the index, and the time chunks are the same. If it
   rests on records that were read, no event may have taken records back, either.

Corrections, tombstones over the losing records as log files in their places:

8. The order of a correction is in the name of its file (instant, log version, write token) and in
   its ordering value. So there is a file for each order and place.
9. No correction may roll over to a file of a higher version: files have at most ``MOST_ROWS``.
10. Corrections are no ingested rows, so they do not count in a compaction's balance.

Late log files beside a finer granularity (``parted_corrections``):

11. A major compaction that cuts a time chunk into several merges the records of each key before it
    divides them (``data.keyed.merge_job``), so its outputs have one row for a key of the old chunk.
12. A log file that was committed meanwhile has further records of these keys. After its division
    such a record may lie in another of the new chunks than the record that it hid, or that hid it.
    The loser is *corrected*, as if the chunks had been new ones before: by tombstones right above
    it, in its place, in the event of the compaction.
13. The old chunk decides, as its readers see it. Other chunks need nothing: the writer of the late
    file has corrected the losers there.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexDefinition, IndexState
from airflow_provider_segtable.core.indexes.record_index import TOKEN, RecordIndex, rules_of
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.state import State, index_of
from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time import Instant, Layout
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.data.indexes.records import (
    Decision,
    Orders,
    correction_orders,
    correction_rows,
    decided,
    places_of,
    tops,
)
from airflow_provider_segtable.data.keyed.log_files import LogWriter, Records, commit_now
from airflow_provider_segtable.data.rows import Keys
from airflow_provider_segtable.ports.files import Sink
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_entries import (
    discard_feed,
    fed_entries,
    write_feed,
)
from airflow_provider_segtable.table.indexes.key_entries import among, known_of_keys, records_of
from airflow_provider_segtable.table.new_files import NewFiles

MOST_ROWS = 100_000
"""Most corrections in a file; so many tombstones are far below ``log_files.LOG_BYTES``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a compaction's corrections: its time chunks, at its version."""

    layout: Layout
    version: Instant


def corrections(
    ports: TableContext,
    state: State,
    index: IndexDefinition,
    entries: pa.Table,
    decision: Decision,
    target: Target | None = None,
    commit: Callable[[Sink], None] = commit_now,
) -> Iterator[Segment]:
    """Write the corrections of all losers; yield the segments.

    Args:
        ports: the table's ports.
        state: a version of the table.
        index: its index of records.
        entries: the decided entries.
        decision: the decision about them.
        target: the target in a compaction; by default the place of new records.
        commit: commits a file, or begins to.

    Raises:
        SegtableError: a file could not be written.
    """
    if not len(decision.losers):
        return
    rows = correction_rows(index.kind.columns, state.table, entries, decision)
    for order, places in _by_order(correction_orders(entries, decision)):
        for start in range(0, len(places), MOST_ROWS):
            some = rows.take(pa.array(places[start : start + MOST_ROWS]))
            deleted = np.ones(some.num_rows, bool)
            writer = replace(_writer(ports, state, order, target), commit=commit)
            yield from writer.written(Records(rows=some, deleted=deleted))


def _by_order(orders: Orders) -> Iterator[tuple[tuple[int, int, str], list[int]]]:
    """Yield each order with the numbers of its corrections."""
    found: dict[tuple[int, int, str], list[int]] = defaultdict(list)
    instants, versions = orders.instants.tolist(), orders.versions.tolist()
    for at, order in enumerate(zip(instants, versions, orders.tokens, strict=True)):
        found[order].append(at)
    yield from found.items()


def _writer(
    ports: TableContext, state: State, order: tuple[int, int, str], target: Target | None
) -> LogWriter:
    instant, version, token = order
    return LogWriter(
        files=ports.files,
        table=state.table,
        rules=rules_of(state.table),
        layout=target.layout if target else state.layout,
        base_version=state.base_version,
        version=target.version if target else None,
        ingested=target is None,
        instant=instant,
        token=ports.randomness.token,
        first_version=version,
        token_start=token,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The corrections and the feed of an event, as of a version.

    Attributes:
        index: the id of the index.
        n: the version.
        layout: its time chunks.
        keys: the keys that were routed.
        corrections: log files of the table.
        feed: the feed of the index.
        read: whether records were read for it.
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
        """Return the number of corrected records."""
        return sum(segment.rows for segment in self.corrections)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The decision about entries, which ones are kept, and the feed of the index."""

    entries: pa.Table
    decision: Decision
    kept: npt.NDArray[np.bool_]
    fed: pa.Table
    gone: pa.Table
    read: bool


def routed(ports: TableContext, state: State, index: IndexState, new: pa.Table) -> Route:
    """Route the records of an event after a version.

    Args:
        ports: the table's ports.
        state: the version.
        index: the index of records.
        new: the entries about the new records.

    Raises:
        SegtableError: the index or the table could not be read or written.
    """
    known = _without_files_of(known_of_keys(ports, state, index, new), new)
    return _written(ports, state, index, new, _planned(ports, state, index, new, known))


def rerouted(ports: TableContext, state: State, index: IndexState, known: pa.Table) -> Route:
    """Route known records of some keys, without new ones; otherwise as ``routed``.

    Args:
        ports: the table's ports.
        state: the version.
        index: the index of records.
        known: all entries about these keys.
    """
    plan = _planned(ports, state, index, known.slice(0, 0), known)
    return _written(ports, state, index, known, plan)


def _written(
    ports: TableContext, state: State, index: IndexState, keys: pa.Table, plan: _Plan
) -> Route:
    """Write the corrections and the feed of a plan about the keys of some entries."""
    files, decided_entries = NewFiles(), (plan.entries, plan.decision)
    written = tuple(
        corrections(ports, state, index.definition, *decided_entries, commit=files.commit)
    )
    try:
        feed = write_feed(ports, index.definition, plan.fed, plan.gone)
        files.wait_durable()
    except Exception:
        with suppress(SegtableError):  # a file that was not committed does not exist
            files.wait_durable()
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
    keys = Keys.of(plan.entries.take(pa.array(doubtful)), key, nulls=False)
    met = keys.find(known.combine_chunks()) >= 0
    checked, left = known.filter(pa.array(met)), known.filter(pa.array(~met))
    there = _without_files_of(records_of(ports, state, index, checked), new)
    found = _proposed(state, index, new, left, there, keys)
    kept = found.entries.filter(pa.array(found.kept))
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
    """Decide new entries, known ones, and ``there``, the entries of the records of checked keys."""
    entries = pa.concat_tables([new, known, there]).combine_chunks()
    rows = np.arange(entries.num_rows)
    is_new, is_there = rows < new.num_rows, rows >= new.num_rows + known.num_rows
    places, _ = places_of(entries, state.layout)
    decision = decided(entries, places, index.definition.kind.divided_by, is_new | is_there)
    certain = is_new[decision.winner_of]
    if checked is not None:
        certain = certain | (checked.find(entries) >= 0)
    on_top = np.zeros(entries.num_rows, bool)
    on_top[decision.tops] = True
    apart = ~_touched(decision, places) & (on_top | ~is_there)
    kept = apart | (decision.winner_of == rows)
    fed = np.where(certain, kept & (is_new | is_there), is_new)
    return _Plan(
        entries=entries,
        decision=decision,
        kept=kept,
        fed=entries.filter(pa.array(fed)),
        gone=entries.filter(pa.array(certain & ~kept & ~is_new & ~is_there)),
        read=checked is not None,
    )


def _touched(decision: Decision, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which entries are in the place of their key's winner, or of one that is corrected."""
    winners, losers = decision.winner_of, decision.losers
    pairs = winners * (int(places.max(initial=0)) + 1) + places
    return np.isin(pairs, np.union1d(pairs[losers], pairs[winners]))


def _without_files_of(entries: pa.Table, new: pa.Table) -> pa.Table:
    """Return the entries without those about records of the new files."""
    of_new = pc.is_in(entries.column(TOKEN), value_set=pc.unique(new.column(TOKEN)))
    return entries.filter(pc.invert(of_new))


def _without(rows: pa.Table, others: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Return the rows with keys that others do not have."""
    found = Keys.of(others, key, nulls=False).find(rows.combine_chunks())
    return rows.filter(pa.array(found < 0))


def holds(ports: TableContext, route: Route, state: State) -> bool:
    """Return whether a route is still right for an event after a version (rule 7).

    Raises:
        SegtableError: the events in between cannot be read.
    """
    if state.n == route.n:
        return True
    index = index_of(route.index, state)
    if index is None or state.layout != route.layout:
        return False
    if any(lack.n > route.n for lack in index.lacks):
        return False
    if route.read and any(_taken_back(ports, route.n, state.n)):
        return False
    return not among(route.keys, fed_entries(ports, index, route.n)).num_rows


def _taken_back(ports: TableContext, after: int, until: int) -> Iterator[bool]:
    """Yield a flag for each event after a version: it may have taken records back.

    So may those that have expired.
    """
    last = after
    for event in ports.log.events(after + 1):
        last = event.n
        yield isinstance(event.action, VersionRestored | TableRepaired)
    yield last < until


def discard(ports: TableContext, route: Route) -> None:
    """Delete the files of a route that no event names or ever will name."""
    discard_files(ports, route.corrections)
    discard_feed(ports, route.feed)


def discard_files(ports: TableContext, segments: tuple[Segment, ...]) -> None:
    """Delete files of the table that no event names or ever will name."""
    for segment in segments:
        with suppress(SegtableError):  # an orphan, which cleaning removes
            ports.files.delete(segment.path)


def parted_corrections(
    ports: TableContext, state: State, target: Target, late: Sequence[Segment]
) -> Iterator[Segment]:
    """Write the corrections of late records that are parted from others of their keys.

    Args:
        ports: the table's ports.
        state: the version with the late files, in the old chunks.
        target: the time chunks and the version of the compaction.
        late: the late files, to be divided into the new chunks.

    Yields:
        The log files, with provisional ids.

    Raises:
        SegtableError: a file could not be read or written.
    """
    indexes = (each.definition for each in state.indexes.values())
    index = next((each for each in indexes if isinstance(each.kind, RecordIndex)), None)
    if index is None:
        return
    chunks = dict.fromkeys(s.id.chunk for s in late if _cut(s.id.chunk, target.layout))
    for chunk in chunks:
        mine = [segment for segment in late if segment.id.chunk == chunk]
        entries = _entries(ports, state, index, mine)
        decision = decided(entries, places_of(entries, target.layout)[0], index.kind.divided_by)
        yield from corrections(ports, state, index, entries, decision, target)


def _cut(chunk: ChunkKey, layout: Layout) -> bool:
    return layout.holds(chunk.interval.start, chunk.interval.end - 1) is None


def _entries(
    ports: TableContext, state: State, index: IndexDefinition, late: Sequence[Segment]
) -> pa.Table:
    """Return the entries of late files, and the former top entry of each of their keys."""
    (chunk,) = {segment.id.chunk for segment in late}
    names = {segment.id for segment in late}
    before = [
        segment
        for segment in state.timeline.visible_among({chunk})
        if segment.path and segment.id not in names
    ]
    new = entries(index, state.table, late, ports.files)
    keys = Keys.of(new, index.kind.divided_by, nulls=False)
    old = [among(keys, entries(index, state.table, [each], ports.files)) for each in before]
    known = pa.concat_tables([new.slice(0, 0), *old]).combine_chunks()
    top = tops(known, np.zeros(known.num_rows, np.int64), index.kind.divided_by)
    return pa.concat_tables([new, known.take(pa.array(top))]).combine_chunks()
