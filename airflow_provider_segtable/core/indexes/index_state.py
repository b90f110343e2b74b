"""The state of an index: its definition, its gaps, and its feeds that are not copied yet.

1. An index *lacks* time in which files were published without entries. A new index lacks all time
   that has files; an event without a feed, or whose feed does not cover all its files, adds the
   time chunks of its files; a build of a time removes the files that were published there until
   the version that it read.
2. An index becomes *available* with the event after which it lacks nothing. It stays available if
   it lacks something later: readers open the files that have no entries.
3. So the log answers for each index whether a commit has fed it, and whether it may be used.
4. A *feed* has the entries of an index that an event brings. The publisher of data files writes the
   entries about them, too, for every index of the table, and brings both in one event. So no
   version shows files without the entries that it brought.
5. A small feed is *inline*: its entries are bytes in the event, and no file is written. A larger
   one is log files of the index's own table, applied there as they are (``table.indexes.feeding``).
6. Inline feeds of neighbouring events are joined into log files later, all at once, by an event of
   their own (``FeedsJoined``). Files are never joined, so a copy of them is always the same.
7. An event without a feed for an index is no error, nor is one whose feed is about fewer files than
   it publishes. The log records that the index lacks it (``IndexGap``), and a later run of the
   index builds it.
8. ``KINDS`` is the registry of kinds of index. Definitions and states are encoded as JSON here.
9. A user asks for a kind by its name, with settings by theirs (``chosen_kind``), which the kind
   declares. Columns are named by users, and kept by their ids. A setting that the kind does not
   have is refused: a rate for bounds would do nothing.
10. The entries of an index are kept in a primary-key table like any other, in a folder of its own
    below the log of the indexed table (``folder``). So the same services compact, clean and verify
    it. Its columns, key, buckets and granularity are the kind's. The event time of an entry about a
    file is the start of the time chunk that the file was written for, which never changes; chunks
    are wider, so that there are few files. Its properties (``PROPERTIES``) suit its rows: small
    files, joined early.
11. That table follows the log of the indexed table: an entry is named by an event of that log, and
    is copied later. So nothing is lost if its own log lags behind. A cleaning of this table alone
    takes no file for an orphan, because the indexed table's log names files that its own does not:
    the indexed table's cleaning deletes them.

Source of the idea: Hudi RFC-45. It has index states in the table's configuration, and asks whether
any index was fed; its writers log entries for each index that is being built.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import takewhile
from types import MappingProxyType
from typing import Any

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, UnsupportedFormat
from airflow_provider_segtable.core.indexes.index_kind import (
    COLUMNS,
    START,
    BloomFilter,
    ColumnStats,
    FileList,
    IndexKind,
    Setting,
    column_ids,
    settings_of,
)
from airflow_provider_segtable.core.indexes.record_index import RecordIndex
from airflow_provider_segtable.core.paths import known_name
from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.segment_codec import decode_segments, encode_segments
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.time import Instant, Interval


# Feeds: entries of indexes that an event brings
@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """The entries that an event brings for an index; may be empty.

    Attributes:
        index: the id of the index.
        segments: log files with entries.
        entries: the entries themselves, as bytes; empty if they are in files.
        files: the number of new files of the event that the entries are about; None if its author
            does not say so: an older one, one that built entries, or one of entries about records.
    """

    index: str
    segments: tuple[Segment, ...] = ()
    entries: bytes = b""
    files: int | None = None

    def covers(self, files: int) -> bool:
        """Return whether it is about all of so many new files."""
        return self.files is None or self.files >= files

    @property
    def inline(self) -> bool:
        """Return whether the entries are in the event."""
        return bool(self.entries)

    @property
    def empty(self) -> bool:
        """Return whether it brings nothing."""
        return not self.entries and not self.segments


def encode_feeds(feeds: Iterable[Feed]) -> list[dict[str, Any]]:
    """Return feeds as JSON."""
    return [_encoded(each) for each in feeds]


def _encoded(feed: Feed) -> dict[str, Any]:
    counted = {} if feed.files is None else {"files": feed.files}
    if feed.inline:
        return {"index": feed.index, "entries": base64.b64encode(feed.entries).decode(), **counted}
    return {"index": feed.index, "segments": encode_segments(feed.segments), **counted}


def decode_feeds(body: Iterable[Mapping[str, Any]]) -> tuple[Feed, ...]:
    """Parse the output of ``encode_feeds``."""
    return tuple(
        Feed(
            index=known_name(each["index"], "the folder of an index"),
            segments=decode_segments(each.get("segments", ())),
            entries=base64.b64decode(each.get("entries", "")),
            files=each.get("files"),
        )
        for each in body
    )


# Kinds and definitions, and their JSON
KINDS: Mapping[str, type[IndexKind]] = {
    kind.name: kind for kind in (FileList, ColumnStats, BloomFilter, RecordIndex)
}
"""The kinds by their names; reads look into indexes in this order, the cheapest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinition:
    """An index of a table.

    Attributes:
        name: the name that users know it by.
        id: its own id, which also names the folder of its table: never used again.
        kind: its kind.
    """

    name: str
    id: str
    kind: IndexKind


def encode_index(index: IndexDefinition) -> dict[str, Any]:
    """Return an index's definition as JSON."""
    kind = index.kind
    return {"name": index.name, "id": index.id, "kind": kind.name, **kind.encoded()}


def decode_index(body: Mapping[str, Any]) -> IndexDefinition:
    """Parse the output of ``encode_index``.

    Raises:
        UnsupportedFormat: the kind is not known here; the message names it.
        CorruptTable: the name or the id is not one.
    """
    name = body["kind"]
    if name not in KINDS:
        raise UnsupportedFormat(
            f"index {body['name']} is of kind {name!r}, this segtable knows {', '.join(KINDS)}: "
            "upgrade segtable"
        )
    return IndexDefinition(
        name=known_name(body["name"], "an index"),
        id=known_name(body["id"], "the folder of an index"),
        kind=KINDS[name].decoded(body),
    )


# The state of an index
MOST_LACKS = 512
"""Number of gaps from which on neighbouring ones are joined."""


class IndexStatus(StrEnum):
    """Whether an index may be used; the values are stable."""

    BUILDING = "building"
    AVAILABLE = "available"


@dataclass(frozen=True, slots=True, order=True)
class IndexGap:
    """Files of ``interval`` that event ``n``, at ``time``, published have no entries.

    Joined ones are of several events: ``n`` is the newest, ``oldest`` and ``time`` the oldest.
    """

    interval: Interval
    n: int
    time: Instant
    oldest: int | None = None

    @property
    def since(self) -> int:
        """Return the oldest event whose files it lacks."""
        return self.n if self.oldest is None else self.oldest

    def without(self, built: Interval, through: int) -> "tuple[IndexGap, ...]":
        """Return the gaps left after a time was built, as of version ``through``."""
        mine = self.interval
        if self.n > through or not mine.overlaps(built):
            return (self,)
        sides = ((mine.start, built.start), (built.end, mine.end))
        return tuple(replace(self, interval=Interval(*side)) for side in sides if side[0] < side[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """An index as of a version of its table.

    Attributes:
        definition: its name, id and kind.
        requested_n: the event that requested it.
        requested_at: the time of that event.
        lacks: its gaps, in order.
        feeds: feeds that its own table may lack: by event, oldest first.
        forwarded: the event through which its own table has everything.
        available_n: the event with which it became available; None until then.
    """

    definition: IndexDefinition
    requested_n: int
    requested_at: Instant
    lacks: tuple[IndexGap, ...] = ()
    feeds: tuple[tuple[int, Feed], ...] = ()
    forwarded: int = 0
    available_n: int | None = None

    def __repr__(self) -> str:
        """Return the name, the kind and the progress; feeds and files would fill pages."""
        own, left = self.definition, len(self.lacks)
        lacks = f", lacks files of {counted(left, 'interval')}" if left else ""
        return f"IndexState({own.name}: {own.kind.name}, {self.status}{lacks})"

    @property
    def status(self) -> IndexStatus:
        """Return whether the index may be used."""
        return IndexStatus.BUILDING if self.available_n is None else IndexStatus.AVAILABLE

    @property
    def current(self) -> bool:
        """Return whether the index lacks nothing."""
        return not self.lacks

    @property
    def lagging_commits(self) -> int:
        """Return the number of commits since the request that the index has yet to catch up."""
        return len({each.n for each in self.lacks if each.n > self.requested_n})

    @property
    def lacking_since(self) -> Instant | None:
        """Return the time of the oldest commit that the index lacks; None if it lacks nothing."""
        return min((each.time for each in self.lacks), default=None)

    def covers(self, n: int) -> bool:
        """Return whether the index lacks no file that was published by event ``n`` or before."""
        return all(each.since > n for each in self.lacks)

    def lacking(self, intervals: Iterable[Interval], n: int, time: Instant) -> "IndexState":
        """Return the state after event ``n`` published files there without a feed."""
        new = (IndexGap(interval, n, time) for interval in intervals)
        return replace(self, lacks=_bounded((*self.lacks, *new)))

    def fed(self, n: int, feed: Feed) -> "IndexState":
        """Return the state after event ``n`` brought a feed."""
        return self if feed.empty else replace(self, feeds=(*self.feeds, (n, feed)))

    def inline_run(self, first: int) -> tuple[tuple[int, Feed], ...]:
        """Return the inline feeds from that of event ``first`` on, up to one with files."""
        later = [each for each in self.feeds if each[0] >= first]
        if not later or later[0][0] != first:
            return ()
        return tuple(takewhile(lambda each: each[1].inline, later))

    @property
    def inline_bytes(self) -> int:
        """Return the bytes of the inline feeds, which each checkpoint has, too."""
        return sum(len(feed.entries) for _, feed in self.feeds)

    def joined(self, first: int, through: int, segments: tuple[Segment, ...]) -> "IndexState":
        """Return the state with the feeds of some events as one, which has files."""
        feed = Feed(index=self.definition.id, segments=segments)
        before = (each for each in self.feeds if each[0] < first)
        after = (each for each in self.feeds if each[0] > through)
        return replace(self, feeds=(*before, (through, feed), *after))

    def built(self, interval: Interval, through: int) -> "IndexState":
        """Return the state after a time was built, as of version ``through``."""
        left = (part for each in self.lacks for part in each.without(interval, through))
        return replace(self, lacks=tuple(sorted(left)))

    def with_forwarded(self, through: int) -> "IndexState":
        """Return the state once the index's own table has everything through an event."""
        left = tuple(each for each in self.feeds if each[0] > through)
        return replace(self, feeds=left, forwarded=through)

    def with_available(self, n: int) -> "IndexState":
        """Return the state after event ``n``: available if it lacks nothing."""
        done = self.available_n is None and self.current
        return replace(self, available_n=n) if done else self


def _bounded(lacks: tuple[IndexGap, ...]) -> tuple[IndexGap, ...]:
    """Return gaps, with neighbours joined if there are many: wider, never narrower."""
    ordered = sorted(lacks)
    if len(ordered) <= MOST_LACKS:
        return tuple(ordered)
    pairs = (ordered[at : at + 2] for at in range(0, len(ordered), 2))
    return tuple(_joined(*pair) for pair in pairs)


def _joined(first: IndexGap, *rest: IndexGap) -> IndexGap:
    some = (first, *rest)
    end = max(each.interval.end for each in some)
    newest, oldest = max(each.n for each in some), min(each.since for each in some)
    time = min(each.time for each in some)
    return IndexGap(
        Interval(first.interval.start, end), newest, time, None if newest == oldest else oldest
    )


def encode_indexes(indexes: Mapping[str, IndexState]) -> list[dict[str, Any]]:
    """Return the states of indexes as JSON."""
    return [
        {
            "index": encode_index(each.definition),
            "requested": [each.requested_n, each.requested_at],
            "lacks": [_encoded_lack(lack) for lack in each.lacks],
            "feeds": [[n, encode_feeds([feed])] for n, feed in each.feeds],
            "forwarded": each.forwarded,
            "available": each.available_n,
        }
        for each in indexes.values()
    ]


def _encoded_lack(lack: IndexGap) -> list[Any]:
    several = [] if lack.oldest is None else [lack.oldest]
    return [lack.interval.name, lack.n, lack.time, *several]


def decode_indexes(body: Iterable[Mapping[str, Any]]) -> dict[str, IndexState]:
    """Parse the output of ``encode_indexes``; the states are by the names of the indexes."""
    found = map(_decoded, body)
    return {each.definition.name: each for each in found}


def _decoded(body: Mapping[str, Any]) -> IndexState:
    requested_n, requested_at = body["requested"]
    return IndexState(
        definition=decode_index(body["index"]),
        requested_n=requested_n,
        requested_at=requested_at,
        lacks=tuple(IndexGap(Interval.from_name(name), *rest) for name, *rest in body["lacks"]),
        feeds=tuple((n, feed) for n, some in body["feeds"] for feed in decode_feeds(some)),
        forwarded=body["forwarded"],
        available_n=body["available"],
    )


# The kind that a user asks for
def in_words(kind: IndexKind, table: TableDefinition) -> str:
    """Return a kind with its settings: ``bloom_filter(city, rate=0.01)``."""
    known = {column.id: column.name for column in table.schema.numbered}
    columns = [known.get(number, f"dropped column {number}") for number in kind.columns]
    settings = ((key, value) for key, value in kind.encoded().items() if key != COLUMNS)
    return f"{kind.name}({', '.join([*columns, *(f'{key}={value}' for key, value in settings)])})"


def chosen_kind(
    name: str,
    table: TableDefinition,
    *,
    columns: Sequence[str] = (),
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> IndexKind:
    """Return the kind of index that a user asks for, checked against the table.

    Args:
        name: the kind's name.
        table: the table to index.
        columns: the names of the indexed columns, for kinds that take columns.
        settings: those of the kind, as values or texts; the default of one that is None.

    Raises:
        InvalidInput: the kind is unknown, does not have a setting, or does not fit the table.
    """
    if name not in KINDS:
        raise InvalidInput(
            f"index kind {name!r} is unknown: choose one of {', '.join(sorted(KINDS))}"
        )
    kind, ids = KINDS[name], column_ids(columns, table)
    own = {each.name: each for each in settings_of(kind)}
    given = {key: value for key, value in settings.items() if value is not None}
    for key in (*([COLUMNS] if ids else ()), *given):
        if key not in (*own, *([COLUMNS] if kind.takes_columns else ())):
            raise InvalidInput(_without(name, key))
    values = {key: own[key].value(value) for key, value in given.items()}
    chosen = kind.decoded({**({COLUMNS: ids} if kind.takes_columns else {}), **values})
    bound = chosen.for_table(table)
    bound.check(table)
    return bound


def known_settings() -> Mapping[str, tuple[Setting, tuple[str, ...]]]:
    """Return each setting by its name, with the names of the kinds that have it."""
    found: dict[str, tuple[Setting, tuple[str, ...]]] = {}
    for name, kind in KINDS.items():
        for each in settings_of(kind):
            setting, others = found.get(each.name, (each, ()))
            found[each.name] = setting, (*others, name)
    return found


def _without(name: str, key: str) -> str:
    """Return the message that a kind does not have a setting."""
    having = sorted(other for other, each in KINDS.items() if each.takes_columns)
    if key != COLUMNS:
        having = sorted(known_settings()[key][1]) if key in known_settings() else []
    way_out = f", or choose a kind that has ({', '.join(having)})" if having else ""
    return f"an index of kind {name} has no {key}: leave it out{way_out}"


def unfit(indexes: Iterable[IndexState], old: TableDefinition, new: TableDefinition) -> str | None:
    """Return why an alteration does not fit the indexes, with the way out; None if it does."""
    types = {column.id: column.type for column in new.schema.numbered}
    for each in indexes:
        index = each.definition
        for column in old.schema.numbered:
            if column.id in index.kind.columns and types.get(column.id) != column.type:
                change = "widened" if column.id in types else "dropped"
                return (
                    f"column {column.name!r} cannot be {change}, because index {index.name!r} has "
                    f"it: drop the index first (segtable index drop TABLE {index.name}), and "
                    "create it again afterwards"
                )
    return None


# The table of an index
INDEXES = "_segtable/indexes"

PROPERTIES: Mapping[str, str] = {
    "compaction.target_size": str(16 << 20),
    "compaction.min_segments": "8",
    "retention.hours": "6",
    "retention.tombstone_hours": "24",
    "retention.orphan_hours": "1e9",
}
"""The properties of the table of an index."""


def folder(index: str) -> str:
    """Return the folder of an index, by its id, relative to its table's root."""
    return f"{INDEXES}/{index}"


def name_of(index: str) -> str:
    """Return the name of an index, by its id."""
    return index.rpartition("-")[0] or index


def index_table(index: IndexDefinition, table: TableDefinition) -> TableDefinition:
    """Return the definition of the table of an index."""
    wanted = index.kind
    granularity = wanted.granularity(table)
    kind, schema = PrimaryKey(
        key=wanted.key, buckets=wanted.buckets, divided_by=wanted.divided_by
    ).bound(
        Schema((*wanted.common, *wanted.entry_columns(table))),
        time_column=START,
        granularity=granularity,
    )
    return TableDefinition(
        table_id=index.id,
        name=f"{table.name}.{index.name}",
        schema=schema,
        time_column=START,
        granularity=granularity,
        properties={**PROPERTIES, **kind.properties},
        kind=kind,
    )
