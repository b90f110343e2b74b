"""Read and write the entries of an index: its own table, the feeds above it, and their removal.

The layers of a look-up:

1. The rows of the index's own table are the lowest layer. The feeds that its log does not have yet
   (``waiting_feeds``) lie above it, in the order of their events, whenever their authors began
   (``data.keyed.log_files``). So a reader sees every entry that the indexed table's log names.
2. A feed with files is in the index's own log if an event there has the feed's commit id
   (``feed_commit``). An inline feed is not there before it is joined.
3. A reader that keeps entries in memory keeps the two apart (``table_entries``,
   ``waiting_entries``): the table changes seldom, and the waiting entries are few.
4. The index's own table is created before the index is requested. Its id is new, so no other
   process creates it.
5. ``fed_entries`` takes feeds from the state, and those of older events from the log. So they are
   known without reading the index's own table, however large it is.

Feeds, written to be named by an event:

6. Entries of at most ``MOST_INLINE`` bytes (``MOST_INLINE_RECORDS``) are the feed themselves:
   nothing is written, and the index's own table is not read. So a small commit pays little for an
   index.
7. More entries become log files of the index's table. The files get provisional ids, as those of
   any upsert. Until an event names them they are orphans, which cleaning removes when they are old.
8. Records of feeds count in the order of the events that bring them, not of the authors' clocks.

Removal of the entries about files that no segment has any more:

9. The entries are read before the newest state, so that files committed meanwhile count as present.
10. An entry is *gone* if no present segment, visible or hidden, has its file. No file is written
    again under a used name, so no reader needs the entry.
11. Tombstones of these entries are a feed like any other. A cleaning names them in the event that
    records the deletion of the files.
12. Entries about records stay when files are deleted, because compactions keep the records.
13. An index that cannot be read stops no cleaning: its entries stay, with a warning.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import (
    CorruptTable,
    LogExpired,
    SegtableError,
    TableExists,
)
from airflow_provider_segtable.core.indexes.index_kind import FILE, START
from airflow_provider_segtable.core.indexes.index_state import (
    Feed,
    IndexDefinition,
    IndexState,
    folder,
    index_table,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP, MergeRules
from airflow_provider_segtable.core.time import ALL_TIME, Instant, Interval
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.keyed.file_groups import within
from airflow_provider_segtable.data.keyed.group_reader import IN_ORDER, GroupReader
from airflow_provider_segtable.data.keyed.log_files import (
    LogWriter,
    Records,
    decode_records,
    encode_records,
    joined_records,
    layer_of,
    rows_of_layers,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import begin_log
from airflow_provider_segtable.table.new_files import NewFiles
from airflow_provider_segtable.table.parts import MergedScan, groups_to_read


def index_ports(ports: TableContext, index: IndexDefinition) -> TableContext:
    """Return the ports of the table of an index."""
    return ports.within(folder(index.id))


def create_index_table(ports: TableContext, index: IndexDefinition, table: TableDefinition) -> None:
    """Create the table of a new index; nothing if it is there already.

    Raises:
        StorageError: it could not be created.
    """
    try:
        begin_log(index_ports(ports, index), index_table(index, table))
    except TableExists:
        return


def entry_rules(own: TableContext, state: State) -> MergeRules:
    """Return the rules that merge the entries of a key, in the table of an index.

    Raises:
        CorruptTable: the table has no primary key.
    """
    rules = state.table.kind.rules
    if rules is None:
        raise CorruptTable(f"{own.uri} keeps an index, so it has a primary key: this one has none")
    return rules


def feed_commit(n: int, feed: Feed) -> str:
    """Return the commit id, in the index's log, of the feed of event ``n``.

    It includes a file's path: after a repair of a log that had lost its end, ``n`` is another
    event.
    """
    return f"feed-{n}-{feed.segments[0].path}"


def waiting_feeds(index: IndexState, own: State) -> list[Feed]:
    """Return the feeds of an index, oldest first, that the log of its table does not have yet."""
    return [
        feed for n, feed in index.feeds if feed.inline or feed_commit(n, feed) not in own.commits
    ]


def feed_records(
    own: TableContext, table: TableDefinition, feed: Feed, columns: Sequence[str]
) -> Records:
    """Return the entries and tombstones of a feed.

    Args:
        own: the ports of the index's own table.
        table: its definition.
        feed: the feed.
        columns: the columns of the entries.

    Raises:
        SegtableError: a file of the feed cannot be read, or its bytes are broken.
    """
    if feed.inline:
        return _inline_records(own, feed, columns)
    known = to_arrow(table.schema)
    schema = pa.schema([known.field(name) for name in columns])
    with GroupReader(own.files, table).opened(feed.segments) as reader:
        runs = reader.runs(feed.segments, [*columns, OP])
        return joined_records(schema, [_records(rows) for run in runs for rows in run])


def fed_entries(ports: TableContext, index: IndexState, after: int) -> pa.Table:
    """Return the entries fed by events after version ``after``, in all columns.

    For equal keys the entry of the latest event is returned; none if it is a tombstone. Entries of
    somewhat older events may be among them.

    Args:
        ports: the indexed table's ports.
        index: the index, in a version after ``after``: only its events count.
        after: a version of the indexed table.

    Raises:
        SegtableError: events or entries cannot be read.
    """
    own = index_ports(ports, index.definition)
    state = own.log.load()
    schema = to_arrow(state.table.schema)
    layers = fed_layers(ports, index, after, schema.names)
    return rows_of_layers(schema, layers, entry_rules(own, state))


def fed_layers(
    ports: TableContext, index: IndexState, after: int, columns: Sequence[str]
) -> list[Records]:
    """Return the feeds of events after a version in some columns, oldest first.

    The index's own table is read only if some of them are files; otherwise as ``fed_entries``.
    """
    own = index_ports(ports, index.definition)
    feeds = [
        *_forwarded_feeds(ports, index, after),
        *(feed for n, feed in index.feeds if n > after),
    ]
    if all(feed.inline for feed in feeds):
        return [_inline_records(own, feed, columns) for feed in feeds]
    table = own.log.load().table
    return [feed_records(own, table, feed, columns) for feed in feeds]


def _inline_records(own: TableContext, feed: Feed, columns: Sequence[str]) -> Records:
    found = decode_records(feed.entries, own.uri)
    return replace(found, rows=found.rows.select([*columns]))


def _forwarded_feeds(ports: TableContext, index: IndexState, after: int) -> Iterator[Feed]:
    """Yield the feeds of events after a version that are already copied.

    Raises:
        LogExpired: some of these events have expired.
    """
    if after >= index.forwarded:
        return
    last = after
    for event in takewhile(lambda each: each.n <= index.forwarded, ports.log.events(after + 1)):
        last = event.n
        yield from _feeds_of(index, event.feeds)
    if last < index.forwarded:
        raise LogExpired(f"{ports.uri}: event {last + 1} has expired: read the index's own table")


def _feeds_of(index: IndexState, feeds: Iterable[Feed]) -> Iterator[Feed]:
    return (feed for feed in feeds if feed.index == index.definition.id)


def _records(rows: pa.Table) -> Records:
    deleted = np.asarray(pc.equal(rows.column(OP), DELETE))
    return Records(rows=rows, deleted=deleted)


def entries_in(
    ports: TableContext,
    index: IndexState,
    interval: Interval | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return the entries about files of the time chunks that begin in an interval.

    Args:
        ports: the indexed table's ports.
        index: the index, in the version of the table that is read.
        interval: all time if left out.
        columns: all columns if left out.

    Raises:
        SegtableError: the entries cannot be read; do not use the index.
    """
    own = index_ports(ports, index.definition)
    state = own.log.load()
    names = [*(state.table.schema.names if columns is None else columns)]
    feeds = waiting_feeds(index, state)
    if not feeds:
        return _in_table(own, state, interval, names)
    wanted = [*dict.fromkeys([*names, *index.definition.kind.key, START])]
    base = _in_table(own, state, interval, wanted)
    above = [feed_records(own, state.table, feed, wanted) for feed in feeds]
    found = rows_of_layers(base.schema, [layer_of(base), *above], entry_rules(own, state))
    return within(found, START, interval).select(names)


def table_entries(
    ports: TableContext, index: IndexState, interval: Interval, columns: Sequence[str]
) -> pa.Table:
    """Return the entries of the index's own table; arguments and errors as ``entries_in``."""
    own = index_ports(ports, index.definition)
    return _in_table(own, own.log.load(), interval, columns)


def waiting_entries(ports: TableContext, index: IndexState, columns: Sequence[str]) -> pa.Table:
    """Return the entries of the feeds that a version carries; otherwise as ``table_entries``."""
    own = index_ports(ports, index.definition)
    state = own.log.load()
    wanted = [*dict.fromkeys([*columns, *index.definition.kind.key])]
    known = to_arrow(state.table.schema)
    schema = pa.schema([known.field(name) for name in wanted])
    layers = [feed_records(own, state.table, feed, wanted) for _, feed in index.feeds]
    return rows_of_layers(schema, layers, entry_rules(own, state)).select(list(columns))


def _in_table(
    own: TableContext, state: State, interval: Interval | None, columns: Sequence[str]
) -> pa.Table:
    known = to_arrow(state.table.schema)
    schema = pa.schema([known.field(name) for name in columns])
    found = MergedScan(
        files=own.files,
        table=state.table,
        rules=entry_rules(own, state),
        columns=schema.names,
        found=groups_to_read(state, interval or ALL_TIME),
    )
    return pa.Table.from_batches(found.batches(), schema)


MOST_INLINE = 8 << 10
"""Most bytes of encoded entries about files in an event; more are written to files."""
MOST_INLINE_RECORDS = 32 << 10
"""Most bytes of encoded entries about records in an event: files of them are one a bucket."""
_PACKED = 16
"""Greatest compression of entries: larger ones need not be encoded to be measured."""


def write_feed(
    ports: TableContext,
    index: IndexDefinition,
    entries: pa.Table,
    gone: pa.Table | None = None,
) -> Feed:
    """Return a feed with entries, and tombstones of entries, to name in an event.

    Args:
        ports: the indexed table's ports.
        index: the index.
        entries: in the columns of the index's table.
        gone: the keys of entries to delete; other columns may be missing.

    Raises:
        SegtableError: the files could not be written.
    """
    rows = pa.concat_tables([entries, *(() if gone is None else [_filled(gone, entries.schema)])])
    records = Records(rows=rows, deleted=np.arange(rows.num_rows) >= entries.num_rows)
    if not rows.num_rows:
        return Feed(index=index.id)
    most = MOST_INLINE if index.kind.about_files else MOST_INLINE_RECORDS
    if rows.nbytes <= most * _PACKED:
        data = encode_records(records)
        if len(data) <= most:
            return Feed(index=index.id, entries=data)
    return _in_files(ports, index, records)


def write_joined(ports: TableContext, index: IndexDefinition, feeds: Iterable[Feed]) -> Feed:
    """Write the entries and tombstones of several feeds, oldest first, as one feed with files.

    Raises:
        SegtableError: the index's table cannot be read or written.
    """
    own = index_ports(ports, index)
    table = own.log.load().table
    schema = to_arrow(table.schema)
    layers = [feed_records(own, table, feed, schema.names) for feed in feeds]
    return _in_files(ports, index, joined_records(schema, layers))


def _in_files(ports: TableContext, index: IndexDefinition, records: Records) -> Feed:
    own = index_ports(ports, index)
    state = own.log.load()
    instant: Instant = max(ports.checked_now(), state.time + 1)
    files = NewFiles()
    writer = LogWriter(
        files=own.files,
        table=state.table,
        rules=entry_rules(own, state),
        layout=state.layout,
        base_version=state.base_version,
        instant=instant,
        token=ports.randomness.token,
        order=IN_ORDER,
        commit=files.commit,
    )
    segments = tuple(writer.written(records))
    files.wait_durable()
    return Feed(index=index.id, segments=segments)


def _filled(keys: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return keys in all columns, the others null."""
    known, count = set(keys.column_names), keys.num_rows
    columns = (
        keys.column(each.name) if each.name in known else pa.nulls(count, each.type)
        for each in schema
    )
    return pa.Table.from_arrays([*columns], schema=schema)


def discard_feed(ports: TableContext, feed: Feed) -> None:
    """Delete the files of a feed that no event names or ever will name."""
    own = ports.within(folder(feed.index))
    for segment in feed.segments:
        with suppress(SegtableError):  # an orphan, which cleaning removes
            own.files.delete(segment.path)


_LOG = logging.getLogger(__name__)


def gone_entries(
    ports: TableContext, state: State, going: Collection[str]
) -> Iterator[tuple[IndexState, pa.Table]]:
    """Yield each index with gone entries, and the keys of these (rule 10).

    Args:
        ports: the indexed table's ports.
        state: a state of the table.
        going: paths of the files to be deleted.
    """
    for name, index in state.indexes.items():
        if not index.definition.kind.about_files:
            continue
        try:
            gone = _gone_keys(ports, index, state, going)
        except (SegtableError, OSError) as error:
            _LOG.warning("%s: entries of index %s were kept: %s", ports.uri, name, error)
            continue
        if gone.num_rows:
            yield index, gone


def _gone_keys(
    ports: TableContext, index: IndexState, state: State, going: Collection[str]
) -> pa.Table:
    kind = index.definition.kind
    keys = tuple(dict.fromkeys((*kind.key, FILE, START)))
    found = entries_in(ports, index, columns=keys)
    newest = ports.log.refresh(state)
    present = pa.array((p for p in newest.timeline.paths() if p not in going), pa.string())
    return found.filter(pc.invert(pc.is_in(found.column(FILE), present)))


def tombstones(
    ports: TableContext, state: State, going: Collection[str]
) -> dict[str, tuple[Feed, int]]:
    """Write tombstones of gone entries; return feeds and counts by index name."""
    feeds: dict[str, tuple[Feed, int]] = {}
    for index, gone in gone_entries(ports, state, going):
        definition = index.definition
        try:
            schema = to_arrow(index_table(definition, state.table).schema)
            feed = write_feed(ports, definition, schema.empty_table(), gone)
        except (SegtableError, OSError) as error:
            name = definition.name
            _LOG.warning("%s: entries of index %s were kept: %s", ports.uri, name, error)
            continue
        feeds[definition.name] = (feed, gone.num_rows)
    return feeds
