"""Rows of a primary-key table in its files, and the bucket and part that each row belongs to.

Rows of log files:

1. A log file's rows are sorted by key and merged among themselves, where a later row is higher. So
   a file has one row for a key (with ``partial_update`` up to two: a tombstone and an upsert).
2. The rows of a log file have the root ``OWN``. A reader puts in the root that the commit gave to
   the file (``with_root``).
3. A tombstone keeps the key, the ordering columns and the fixed columns. An upsert lacks a group if
   the group's ordering column is null. All else is null, so every column is nullable in a file
   except the key and the first two hidden ones.

Buckets: a hash of the key, modulo the number of buckets.

4. The hash is Spark's own ``hash(key columns)``: Murmur3_x86_32 with seed 42; the hash of each
   column is the seed of the next. The bucket is ``pmod(hash, n)``. So Spark computes buckets
   natively, and an executor without Spark computes the same ones here.
5. The hashed bytes depend on the type of the column:

   ===================================  ==========================================================
   int8, int16, int32, bool, date       the value as 4 bytes (false 0, true 1, days since 1970)
   int64, timestamp, decimal(p <= 18)   8 bytes: low half, then high half (µs since 1970; a
                                        decimal's unscaled value)
   text, bytes                          the bytes: whole words of 4, little-endian; then *each*
                                        further byte as a signed word of its own
   decimal(p > 18)                      the unscaled value's shortest two's complement, big-endian,
                                        as bytes
   ===================================  ==========================================================

   The rule for further bytes is Spark's, and differs from the standard Murmur3 tail.
6. Null keys are refused. Floating numbers, unsigned integers and nanoseconds cannot be keys.

Parts: the rows of one place, taken from files that were divided in another way.

7. A row belongs to the time chunk of its event time, and to the bucket of its key among the number
   of buckets of that chunk.
8. Rows of bucket ``b`` of ``m`` can be in bucket ``c`` of ``n`` only if ``b`` and ``c`` are equal
   modulo the greatest common divisor of ``m`` and ``n``. So twice the buckets read each file twice.

Source of the hash: ``org.apache.spark.unsafe.hash.Murmur3_x86_32``; ``docs/FORMAT.md`` has test
vectors.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from math import gcd

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.counted import counted, numbered_row
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.segment import Place, Segment
from airflow_provider_segtable.core.tables.merge_rules import (
    DELETE,
    KEY_TYPES,
    OP,
    OWN,
    ROOT_OF,
    ROOT_PARTITION,
    UPSERT,
    MergeRules,
)
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.arrow_schema import from_arrow, of_any_length, to_arrow
from airflow_provider_segtable.data.keyed.key_groups import Flags, Places, Root, RootOrders
from airflow_provider_segtable.data.keyed.merging import merged, merged_apart
from airflow_provider_segtable.data.rows import US_PER_UNIT, instants, with_columns
from airflow_provider_segtable.data.sort_keys import whole
from airflow_provider_segtable.data.value_bytes import ByteStrings, Unscaled


# Rows of log files
@cache
def _own() -> RootOrders:
    """Return the order of the root ``OWN`` alone."""
    own = Root(partition=OWN, instant=0, log_version=0, write_token="", completed=0)
    return RootOrders.of([own])


def file_schema(schema: pa.Schema, rules: MergeRules) -> pa.Schema:
    """Return the schema of a table's files, given its columns; fields keep their metadata."""
    shown = [field.with_nullable(field.name not in rules.key) for field in schema]
    hidden = rules.hidden(from_arrow(schema))
    return pa.schema([*shown, *to_arrow(Schema(hidden))])


def log_rows(rows: pa.Table, rules: MergeRules, deleted: Flags | None = None) -> pa.Table:
    """Return the rows of a log file.

    Args:
        rows: records in order, with the table's columns.
        rules: the table's rules.
        deleted: which of them are tombstones; none if left out.

    Raises:
        InvalidInput: a key is null.
    """
    return merged([_as_stored(rows, rules, deleted)], rules, _own())


def log_parts(
    rows: pa.Table, rules: MergeRules, places: Places, deleted: Flags | None = None
) -> Iterator[tuple[int, pa.Table]]:
    """Yield each place, ascending, and the rows of its log file; otherwise as ``log_rows``.

    ``places`` has the place of each row.
    """
    return merged_apart(_as_stored(rows, rules, deleted), places, rules, _own())


def _as_stored(rows: pa.Table, rules: MergeRules, deleted: Flags | None) -> pa.Table:
    """Return records in the columns of a file, in their order."""
    check_keys(rows, rules.key)
    schema = file_schema(rows.schema, rules)
    flags = np.zeros(rows.num_rows, bool) if deleted is None else deleted
    given = {
        OP: pa.array(np.where(flags, DELETE, UPSERT).astype(np.int8)),
        ROOT_PARTITION: pa.array(np.full(rows.num_rows, OWN)),
    }
    given |= {name: rows.column(name) for name in rows.column_names if name not in given}
    columns = (
        given[field.name] if field.name in given else pa.nulls(rows.num_rows, field.type)
        for field in schema
    )
    return _bare(pa.table(list(columns), schema=schema), rules, flags)


def _bare(rows: pa.Table, rules: MergeRules, deleted: Flags) -> pa.Table:
    """Return rows with null in columns that a record does not set."""
    keep = {*rules.key, rules.ordering, *(g.ordering for g in rules.groups), *rules.fixed}
    gone = pa.array(deleted)
    unset = dict.fromkeys(rows.column_names, gone) if deleted.any() else {}
    for group in rules.groups:
        of_group = pc.or_(gone, rows.column(group.ordering).is_null())
        if pc.any(of_group).as_py():
            unset.update(dict.fromkeys(group.columns, of_group))
    bare = {
        field.name: pc.if_else(unset[field.name], pa.scalar(None, field.type), rows.column(at))
        for at, field in enumerate(rows.schema)
        if field.name in unset and field.name not in keep and field.nullable
    }
    return with_columns(rows, bare)


def check_keys(rows: pa.Table, key: Sequence[str]) -> None:
    """Refuse null keys.

    Raises:
        InvalidInput: with the column and the first row.
    """
    for name in key:
        column = rows.column(name)
        if column.null_count:
            first = pc.index(column.is_null(), True).as_py()
            rows_without = counted(column.null_count, "row")
            raise InvalidInput(
                f"{rows_without} without a key: column {name!r} is null, first in "
                f"{numbered_row(first)}; leave null keys out, or choose another key"
            )


def with_root(rows: pa.Table, root: int) -> pa.Table:
    """Return rows of a log file with the root that its commit gave to it."""
    known = pa.scalar(root, pa.int64())
    own = {
        name: pc.if_else(pc.equal(rows.column(at), OWN), known, rows.column(at))
        for at, name in enumerate(rows.column_names)
        if name == ROOT_PARTITION or name.startswith(ROOT_OF)
    }
    return with_columns(rows, own)


# Buckets
Hashes = npt.NDArray[np.uint32]
Buckets = npt.NDArray[np.int32]

SEED = 42
LONG_DIGITS = 18
"""The digits of a decimal that 64 bits hold."""


def buckets_of(rows: pa.Table | pa.RecordBatch, key: Sequence[str], count: int) -> Buckets:
    """Return the bucket of each row, from 0 to ``count - 1``.

    Raises:
        InvalidInput: a key is null or of a type that is no key; there is no bucket.
    """
    if count < 1:
        raise InvalidInput(f"a table of {count} buckets holds no row: give it at least 1")
    return np.mod(key_hashes(rows, key), np.int32(count))


def key_hashes(rows: pa.Table | pa.RecordBatch, key: Sequence[str]) -> Buckets:
    """Return the hash of each row's key, a signed 32-bit number.

    Raises:
        InvalidInput: a key is null or of a type that is no key.
    """
    check_keys(rows, key)
    hashes = np.full(rows.num_rows, SEED, np.uint32)
    for name in key:
        hashes = _hashed(name, whole(rows.column(name)), hashes)
    return hashes.view(np.int32)


def _hashed(name: str, column: pa.Array, seeds: Hashes) -> Hashes:
    kind = column.type
    is_ = pa.types
    if is_.is_dictionary(kind):
        return _hashed(name, column.dictionary_decode(), seeds)
    if of_any_length(kind):
        return _bytes(column, seeds)
    if is_.is_date32(kind) or is_.is_boolean(kind):
        return _words([_halves(column.cast(pa.int32()))[0]], seeds)
    if is_.is_signed_integer(kind):
        halves = _halves(column)
        return _words(halves if is_.is_int64(kind) else halves[:1], seeds)
    if is_.is_timestamp(kind) and kind.unit in US_PER_UNIT:
        micros = pc.multiply_checked(column.cast(pa.int64()), US_PER_UNIT[kind.unit])
        return _words(_halves(micros), seeds)
    if is_.is_decimal128(kind):
        return _decimals(column, seeds)
    raise InvalidInput(f"column {name!r} is {kind}, which is not a key type: use {KEY_TYPES}")


def _halves(column: pa.Array) -> list[Hashes]:
    """Return the low and the high half of each integer."""
    values = np.asarray(column.cast(pa.int64())).view(np.uint64)
    return [(values & np.uint64(0xFFFFFFFF)).astype(np.uint32), (values >> 32).astype(np.uint32)]


def _words(words: Sequence[Hashes], seeds: Hashes) -> Hashes:
    for word in words:
        seeds = _mixed(seeds, word)
    return _finished(seeds, np.uint32(4 * len(words)))


def _decimals(column: pa.Array, seeds: Hashes) -> Hashes:
    unscaled = Unscaled.of(column)
    if column.type.precision <= LONG_DIGITS:
        return _words(_halves(pa.array(unscaled.low)), seeds)
    return _bytes(unscaled.fewest_bytes(), seeds)


def _bytes(column: pa.Array, seeds: Hashes) -> Hashes:
    strings = ByteStrings.of(column)
    hashes = seeds.copy()
    lengths = strings.lengths
    rows = np.arange(len(lengths))
    at = 0
    while len(rows := rows[lengths[rows] >= at + 4]):
        word = (strings.words(at, rows) >> np.uint64(32)).astype(np.uint32).byteswap()
        hashes[rows] = _mixed(hashes[rows], word)
        at += 4
    whole_words = lengths // 4 * 4
    for extra in range(3):
        rows = np.flatnonzero(lengths - whole_words > extra)
        byte = strings.bytes_at(whole_words[rows] + extra, rows).view(np.int8)
        hashes[rows] = _mixed(hashes[rows], byte.astype(np.int32).view(np.uint32))
    return _finished(hashes, lengths.astype(np.uint32))


def _rotated(values: Hashes, bits: int) -> Hashes:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))


def _mixed(hashes: Hashes, words: Hashes) -> Hashes:
    mixed = _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(hashes ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(hashes: Hashes, lengths: Hashes | np.uint32) -> Hashes:
    hashes = hashes ^ lengths
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))


# Parts, among rows of another division
@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The rows of a place.

    Attributes:
        place: the time chunk and the bucket.
        buckets: the number of buckets of the chunk.
        standard: the table's number of buckets, by which most files were divided.
        key: the columns that decide the bucket.
    """

    place: Place
    buckets: int
    standard: int
    key: tuple[str, ...]

    @property
    def own_buckets(self) -> int:
        """Return the number of buckets as a segment names it: 0 for the table's."""
        return 0 if self.buckets == self.standard else self.buckets

    def reaches(self, segment: Segment) -> bool:
        """Return whether a file may have rows of the part."""
        interval, shared = self.place.interval, gcd(self.buckets, self._divided_by(segment))
        near = segment.time_min < interval.end and interval.start <= segment.time_max
        return near and (segment.id.bucket - self.place.bucket) % shared == 0

    def encloses(self, segment: Segment) -> bool:
        """Return whether all rows of a file that the part reaches are in the part."""
        interval = self.place.interval
        inside = interval.holds(segment.time_min) and interval.holds(segment.time_max)
        return inside and self._divided_by(segment) % self.buckets == 0

    def of(self, rows: pa.Table | pa.RecordBatch, time_column: str) -> npt.NDArray[np.bool_]:
        """Return which rows are in the part."""
        times = np.asarray(instants(rows.column(time_column)))
        interval = self.place.interval
        inside = (times >= interval.start) & (times < interval.end)
        same: npt.NDArray[np.bool_] = buckets_of(rows, self.key, self.buckets) == self.place.bucket
        return inside & same

    def _divided_by(self, segment: Segment) -> int:
        return segment.buckets or self.standard


def rows_in_parts(
    parts: Sequence[Part], rows: pa.Table | pa.RecordBatch, time_column: str
) -> npt.NDArray[np.int64]:
    """Return the number of rows in each part, with one look at each row.

    Args:
        parts: parts of one layout, with one key: their time chunks are equal or apart.
        rows: rows with the key and the event time.
        time_column: the event time.
    """
    times = np.asarray(instants(rows.column(time_column)))
    chunks = sorted({part.place.interval for part in parts})
    starts = np.array([chunk.start for chunk in chunks], np.int64)
    ends = np.array([chunk.end for chunk in chunks], np.int64)
    at = np.searchsorted(starts, times, side="right") - 1
    inside = (at >= 0) & (times < ends[at])
    found: dict[tuple[int, Interval, int], int] = {}
    for number in {part.buckets for part in parts}:
        buckets = buckets_of(rows, parts[0].key, number)
        pairs = np.stack([at[inside], buckets[inside].astype(np.int64)])
        places, counts = np.unique(pairs, axis=1, return_counts=True)
        for (chunk, bucket), count in zip(places.T.tolist(), counts.tolist(), strict=True):
            found[number, chunks[chunk], bucket] = count
    keys = ((part.buckets, part.place.interval, part.place.bucket) for part in parts)
    return np.array([found.get(key, 0) for key in keys], np.int64)
