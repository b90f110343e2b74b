"""Look up the known records of keys: by their entries in an index, and in the table itself.

1. ``entries_of_keys`` reads the buckets of the keys in the index's own table, and the feeds that
   are not copied into it yet. Entries may be about records that do not exist any more.
2. Rows of other keys are left out before anything is merged, and row groups without the keys are
   not read. So the cost of a look-up is reading the files, and its own keys.
3. A process that goes on writing keeps all entries in memory, if there is room (``known_of_keys``,
   ``data.indexes.known_entries``). Later ones are added from the feeds of events, so a look-up
   reads nothing. They are loaded anew if some of these events have expired, or if the log was read
   anew: it may be another one then, as after a repair, with other events of the same numbers.
4. Small files, as writers feed them, are kept in memory (``table.entry_cache``), because files
   never change. A writer reads each of them once, however many commits it makes.
5. ``records_of`` reads the records themselves, in the places that some entries name, and so finds
   the entries that still hold. It reads the keys' columns in all files of these places.
"""

from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import LogExpired
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    Compare,
    Compares,
    Day,
    Moment,
    Predicate,
    Value,
)
from airflow_provider_segtable.core.reads.selection import PrunedBy
from airflow_provider_segtable.core.segment import Place, Segment
from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.data.indexes.known_entries import KnownEntries
from airflow_provider_segtable.data.indexes.records import places_of
from airflow_provider_segtable.data.keyed.file_groups import FileGroup
from airflow_provider_segtable.data.keyed.group_reader import GroupReader, described_roots, own_root
from airflow_provider_segtable.data.keyed.key_groups import SCHEMA, RootOrders
from airflow_provider_segtable.data.keyed.keyed_rows import Part, buckets_of
from airflow_provider_segtable.data.keyed.log_files import (
    Records,
    decode_records,
    layer_of,
    rows_of_layers,
)
from airflow_provider_segtable.data.keyed.merging import merged
from airflow_provider_segtable.data.rows import Keys
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.entry_cache import EntryCache
from airflow_provider_segtable.table.indexes.index_entries import (
    entries_in,
    entry_rules,
    fed_layers,
    index_ports,
    waiting_feeds,
)
from airflow_provider_segtable.table.parts import groups_to_read

SMALL = 1 << 20
"""Size of a file up to which it is kept in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFiles:
    """The files of an index's own table that may have some keys.

    Attributes:
        own: the ports of the index's own table.
        state: a version of it.
        cache: keeps small files.
        buckets: the buckets of the keys.
        wanted: the condition that an entry is about one of the keys.
    """

    own: TableContext
    state: State
    cache: EntryCache
    buckets: Collection[int]
    wanted: Condition

    def groups(self) -> tuple[FileGroup, ...]:
        """Return the file groups that may have entries of the keys."""
        return groups_to_read(self.state, None).pruned(PrunedBy.ROOTS, self._may_have).left

    def _may_have(self, group: FileGroup) -> bool:
        return group.segments[0].id.bucket in self.buckets

    def of_group(self, group: FileGroup) -> pa.Table:
        """Return the entries of a file group, in all columns, merged."""
        found = {segment: self._records(segment) for segment in group.segments}
        filled = {segment: rows for segment, (rows, _) in found.items() if rows.num_rows}
        columns = self.state.table.schema.names
        if not filled:
            return next(iter(found.values()))[0].select(columns)
        roots = [_roots(segment, found[segment][1]) for segment in filled]
        orders = RootOrders.of_table(pa.concat_tables(roots))
        rows = merged([*filled.values()], entry_rules(self.own, self.state), orders)
        return rows.filter(pc.not_equal(rows.column(OP), DELETE)).select(columns)

    def of_feed(self, feed: Feed) -> list[Records]:
        """Return the entries and tombstones of a feed, as layers."""
        if feed.inline:
            records = decode_records(feed.entries, self.own.uri)
            flagged = records.rows.append_column(OP, pa.array(records.deleted))
            kept = self._kept(flagged)
            return [Records(rows=kept.drop_columns([OP]), deleted=np.asarray(kept.column(OP)))]
        near = (segment for segment in feed.segments if segment.id.bucket in self.buckets)
        found = (self._records(segment)[0] for segment in near)
        return [
            Records(rows=rows, deleted=np.asarray(pc.equal(rows.column(OP), DELETE)))
            for rows in found
        ]

    def _records(self, segment: Segment) -> tuple[pa.Table, pa.Table | None]:
        """Return the records of the keys in a file, and the roots that it describes."""
        if segment.size > SMALL:
            return self._read(segment, self.wanted)

        def made() -> tuple[tuple[pa.Table, pa.Table | None], int]:
            rows, roots = self._read(segment, None)
            return (rows, roots), rows.nbytes

        rows, roots = self.cache.view((self.own.uri, segment.path), made)
        return self._kept(rows), roots

    def _kept(self, rows: pa.Table) -> pa.Table:
        kept: Sequence[pa.RecordBatch] = [*map(self.wanted.keep, rows.to_batches())]
        return pa.Table.from_batches(kept, rows.schema)

    def _read(self, segment: Segment, where: Condition | None) -> tuple[pa.Table, pa.Table | None]:
        with GroupReader(self.own.files, self.state.table).opened((segment,)) as reader:
            schema = reader.schema
            (run,) = reader.runs((segment,), schema.names, where)
            found = [rows.cast(schema) for rows in run]
            rows = pa.concat_tables([schema.empty_table(), *found])
            return rows, described_roots(reader.files, segment)


def _roots(segment: Segment, described: pa.Table | None) -> pa.Table:
    if described is not None:
        return described
    return pa.Table.from_pylist([asdict(own_root(segment))], schema=SCHEMA)


FEW = 256
"""Most keys that choose row groups one by one; more are used as a range."""


def among(keys: Keys, rows: pa.Table) -> pa.Table:
    """Return the rows with one of the keys."""
    return rows.filter(pa.array(keys.find(rows.combine_chunks()) >= 0))


def entries_of_keys(ports: TableContext, index: IndexState, wanted: pa.Table) -> pa.Table:
    """Return all entries about the keys of some entries, in all columns.

    Args:
        ports: the indexed table's ports.
        index: the index, in the newest version.
        wanted: entries, or rows with their key columns.

    Raises:
        SegtableError: the index cannot be read.
    """
    own = index_ports(ports, index.definition)
    state = own.log.load()
    key = index.definition.kind.divided_by
    keys = Keys.of(wanted, key, nulls=False)
    schema = to_arrow(state.table.schema)
    buckets = frozenset(buckets_of(wanted, key, state.layout.buckets).tolist())

    files = EntryFiles(
        own=own,
        state=state,
        cache=ports.entries,
        buckets=buckets,
        wanted=Condition(columns=key, keep=keys.among, test=_test(wanted, key)),
    )
    found = (files.of_group(group).cast(schema) for group in files.groups())
    base = pa.concat_tables([schema.empty_table(), *found])
    above = [layer for feed in waiting_feeds(index, state) for layer in files.of_feed(feed)]
    if not above:
        return base
    return rows_of_layers(schema, [layer_of(base), *above], entry_rules(own, state))


# Entries in memory
LOADED_AFTER = 2
"""Look-ups of a process that read files, before it loads all entries: most processes make one."""
MOST_EVENTS = 256
"""Events whose feeds are added to entries in memory; after more they are loaded anew."""


@dataclass(frozen=True, slots=True)
class _NotLoaded:
    """Look-ups of an index that read files; ``too_large`` if its entries have no room."""

    lookups: int = 0
    too_large: bool = False


def known_of_keys(
    ports: TableContext, state: State, index: IndexState, wanted: pa.Table
) -> pa.Table:
    """Return all entries about the keys of some entries, from memory where that pays.

    Args:
        ports: the indexed table's ports.
        state: a version of the indexed table.
        index: the index in this version.
        wanted: entries, or rows with their key columns.

    Raises:
        SegtableError: the index cannot be read.
    """
    known = _known(ports, state, index)
    return entries_of_keys(ports, index, wanted) if known is None else known.of_keys(wanted)


def _known(ports: TableContext, state: State, index: IndexState) -> KnownEntries | None:
    """Return the entries of a version in memory; None if files are to be read."""
    name = memory_key(ports, index)
    held = ports.known.kept(name)
    if isinstance(held, KnownEntries):
        if held.n == state.n:
            return held
        if held.n > state.n:
            return None  # another thread has seen a newer version
        if state.n - held.n <= MOST_EVENTS:
            with suppress(LogExpired):
                layers = fed_layers(ports, index, held.n, held.schema.names)
                return _kept(ports, name, held.after(state.n, layers))
    seen = held if isinstance(held, _NotLoaded) else _NotLoaded()
    if seen.too_large:
        return None
    if held is None or seen.lookups < LOADED_AFTER:
        ports.known.replace(name, _NotLoaded(seen.lookups + 1), 0)
        return None
    return _loaded(ports, state, index)


def memory_key(ports: TableContext, index: IndexState) -> Hashable:
    """Return the key of an index's entries in memory: of one reading of the log."""
    return index.definition.id, ports.log.openings


def _loaded(ports: TableContext, state: State, index: IndexState) -> KnownEntries | None:
    own, kind = index_ports(ports, index.definition), index.definition.kind
    table = own.log.load()
    rows = sum(segment.rows for segment in table.timeline.visible_segments())
    if rows * LEAST_BYTES > ports.known.most:
        ports.known.replace(memory_key(ports, index), _NotLoaded(too_large=True), 0)
        return None
    empty = KnownEntries(
        n=state.n,
        key=kind.divided_by,
        entry_key=kind.key,
        schema=to_arrow(table.table.schema),
    )
    found = empty.after(state.n, [layer_of(entries_in(ports, index))])
    return _kept(ports, memory_key(ports, index), found)


def _kept(ports: TableContext, name: Hashable, known: KnownEntries) -> KnownEntries:
    """Keep entries in memory, if there is room; return them."""
    size = known.nbytes
    large = size > ports.known.most
    ports.known.replace(name, _NotLoaded(too_large=True) if large else known, 0 if large else size)
    return known


LEAST_BYTES = 48
"""Bytes of an entry in memory, at least."""


def _test(wanted: pa.Table, key: Sequence[str]) -> Predicate | None:
    """Return a predicate that rows of the keys satisfy, to choose row groups; None if unknown."""
    column = pc.unique(wanted.column(key[0]))
    if len(column) <= FEW:
        values = _values(column)
        return Among(key[0], values) if values else None
    bounds = pc.min_max(column) if not pa.types.is_boolean(column.type) else None
    if bounds is None:
        return None
    least, most = (
        _values(pa.array([bounds[name].as_py()], column.type)) for name in ("min", "max")
    )
    if not least:
        return None
    return AllOf(
        (
            Compare(key[0], Compares.AT_LEAST, least[0]),
            Compare(key[0], Compares.AT_MOST, most[0]),
        )
    )


def _values(column: pa.Array) -> tuple[Value, ...]:
    """Return values for a predicate; empty if predicates do not support the type."""
    kind = column.type
    if pa.types.is_date32(kind):
        return tuple(map(Day, column.cast(pa.int32()).to_pylist()))
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        return tuple(map(Moment, micros.to_pylist()))
    if pa.types.is_signed_integer(kind) or pa.types.is_string(kind):
        return tuple(column.to_pylist())
    return ()


def records_of(ports: TableContext, state: State, index: IndexState, known: pa.Table) -> pa.Table:
    """Return the entries of a version's records in the places of some entries.

    Args:
        ports: the indexed table's ports.
        state: the version.
        index: the index.
        known: the entries; only records of their keys are returned.

    Raises:
        SegtableError: a file of the table cannot be read.
    """
    keys = Keys.of(known, index.definition.kind.divided_by, nulls=False)
    found = [known.slice(0, 0)]
    for part in _parts(state, index, known):
        segments = _files(state, part)
        rows = among(keys, entries(index.definition, state.table, segments, ports.files))
        numbers, chunks = places_of(rows, state.layout)
        inside = np.asarray([chunk == part.place.interval for chunk in chunks], bool)
        found.append(rows.filter(pa.array(inside[numbers])))
    return pa.concat_tables(found).group_by(known.column_names).aggregate([])


def _parts(state: State, index: IndexState, known: pa.Table) -> Iterator[Part]:
    """Yield the places of entries."""
    key = index.definition.kind.divided_by
    numbers, chunks = places_of(known, state.layout)
    for number, chunk in enumerate(chunks):
        count = state.layout.buckets_at(chunk.start)
        some = known.filter(pa.array(numbers == number))
        for bucket in np.unique(buckets_of(some, key, count)).tolist():
            yield Part(
                place=Place(chunk, bucket), buckets=count, standard=state.layout.buckets, key=key
            )


def _files(state: State, part: Part) -> list[Segment]:
    visible = state.timeline.visible_segments(part.place.interval)
    return [segment for segment in visible if segment.path and part.reaches(segment)]
