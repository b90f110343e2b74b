"""A plain model of a primary-key table: all records of each key, replayed in record order.

1. A ``Model`` whose rows are numbered by their key. It keeps every record that was ever written;
   nothing is compacted, bucketed or forgotten, and no tombstone ever goes.
2. Record order: the ordering value (null lowest), then instant, log version and write token, then
   the place in the batch. The log is asked for instant, version and token of a commit alone, as the
   names of its files say them.
3. With ``partial_update`` a row consists of registers: its own, one for each column, and a group,
   which is ordered by a column of its own (``core.tables.merge_rules``).
4. A restore brings back the records of its version. Those of later commits come on top, in record
   order.
5. A change by a condition writes what it saw: the ledger reads these records from the new files,
   and asks that some version, not older than the author's beginning, shows rows that explain all of
   them; and that each comes after the record that it saw in record order.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias

import pyarrow as pa

from airflow_provider_segtable.core.indexes.record_index import (
    DELETED,
    INSTANT,
    LOG_VERSION,
    ORDERING,
    TOKEN,
    key_column,
)
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.keyed.keyed_rows import buckets_of
from tests.simulation.model import COUNT, Column, Landing, Model, Row, given_value
from tests.simulation.world import HOUR_US

KEY = 2
"""The id of the key column."""
SEQ, TEXT, NOTE, SEEN, SPOT = range(COUNT, COUNT + 5)
"""The ids of the ordering column, of two columns with values, and of a group: its order first."""
BUCKETS, CHUNKS = 2, 2
_NAME = re.compile(r".*/\d+_(\d+)\.log\.(\d+)_([0-9a-f]{16})\.parquet")
"""A log file of a writer; corrections have longer write tokens."""


@dataclass(frozen=True, slots=True)
class Record:
    """One written record of a key; ``hour`` is its time, None if that of its key.

    ``more`` has the ids and values of columns that were added to the first ones.
    """

    key: int
    seq: int | None = None
    text: int | None = None
    note: int | None = None
    deletes: bool = False
    seen: int | None = None
    spot: int | None = None
    hour: int | None = None
    more: tuple[tuple[int, int], ...] = ()

    @property
    def number(self) -> int:
        """Return a number that few other records have."""
        return next((n for n in (self.text, self.note, self.spot) if n is not None), self.key)

    @property
    def values(self) -> dict[int, int | None]:
        """Return the values by the ids of columns."""
        return {
            SEQ: self.seq,
            TEXT: self.text,
            NOTE: self.note,
            SEEN: self.seen,
            SPOT: self.spot,
            **dict(self.more),
        }


Order: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A record, and its place in record order; ``author`` is that without the ordering value."""

    order: Order
    author: Order
    record: Record

    @property
    def group_order(self) -> Order:
        """Return the place in the order of the group."""
        return _valued(self.record.seen, self.author)


def _valued(value: int | None, author: Order) -> Order:
    return (value is not None, value or 0, *author)


def highest(placed: Sequence[Placed], column: int | None = None) -> Placed | None:
    """Return the record that sets a register; None if none does, or a tombstone is higher.

    Args:
        placed: the records of a key, in record order.
        column: the register's column; None for the row's own register.
    """
    group = column == SEEN
    those = [
        one
        for one in placed
        if column is None
        or (one.record.deletes and not group)
        or one.record.values.get(column) is not None
    ]
    if not those:
        return None
    top = max(those, key=lambda one: one.group_order) if group else those[-1]
    return None if top.record.deletes else top


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedModel(Model):
    """What a version shows, and all records that it is made of, in record order."""

    records: Mapping[int, tuple[Placed, ...]] = field(default_factory=dict)
    ordered: bool = True
    partial: bool = False
    chunks: int = 1
    settled: bool = True

    def with_records(self, placed: Sequence[Placed]) -> Self:
        """Return the model with more records."""
        records, shown = dict(self.records), dict(self.rows)
        for one in placed:
            some = (*records.get(one.record.key, ()), one)
            records[one.record.key] = tuple(sorted(some, key=lambda each: each.order))
        for key in {one.record.key for one in placed}:
            row = self._row(records[key])
            shown.pop(key, None)
            if row is not None:
                shown[key] = row
        return replace(self, rows=shown, records=records)

    def restored(self, then: Self, n: int) -> Self:
        """Return the model with the records of an earlier version."""
        del n
        return replace(self, rows=then.rows, records=then.records)

    def lost_facts(self, facts: Sequence[Mapping[str, object]]) -> Iterator[str]:
        """Yield keys with a row, of whose record there is no fact."""
        known = {tuple(fact[name] for name in self._fact_columns()) for fact in facts}
        for key in self.rows:
            top = highest(self.records[key])
            assert top is not None
            order = (top.record.seq,) if self.ordered else ()
            if (key, *order, *top.author[:3], False) not in known:
                yield f"it has no fact about {top} of key {key}, but {known}"

    def _fact_columns(self) -> tuple[str, ...]:
        order = (ORDERING,) if self.ordered else ()
        return (key_column(KEY), *order, INSTANT, LOG_VERSION, TOKEN, DELETED)

    def _row(self, placed: Sequence[Placed]) -> Row | None:
        at = time_of(placed[-1].record, self.chunks)
        own = highest(placed)
        if not self.partial:
            return Row(at, own.record.values) if own else None
        group = highest(placed, SEEN)
        if not own and not group:
            return None
        values = {column: _value(highest(placed, column), column) for column in (SEQ, TEXT, NOTE)}
        if self.ordered:
            values[SEQ] = _value(own, SEQ)
        values |= {column: _value(group, column) for column in (SEEN, SPOT)}
        added = {column for one in placed for column, _ in one.record.more}
        set_to = {column: highest(placed, column) for column in added}
        return Row(at, values | {c: one.record.values[c] for c, one in set_to.items() if one})

    def placed(self, records: Sequence[Record], segments: Sequence[Segment]) -> list[Placed]:
        """Return the records of a commit in record order, as its files' names say."""
        rows = batch(records, self.chunks)
        numbers = {segment.buckets or BUCKETS for segment in segments}
        buckets = {number: buckets_of(rows, ["row"], number).tolist() for number in numbers}
        made = []
        for at, record in enumerate(records):
            time = time_of(record, self.chunks)
            (found,) = (
                name
                for segment in segments
                if segment.id.interval.holds(time)
                and segment.id.bucket == buckets[segment.buckets or BUCKETS][at]
                and (name := _NAME.fullmatch(segment.path))
            )
            author = (int(found[1]), int(found[2]), found[3], at)
            order = _valued(record.seq if self.ordered else None, author)
            made.append(Placed(order, author, record))
        return made


def _value(one: Placed | None, column: int) -> int | None:
    return one.record.values[column] if one else None


def time_of(record: Record, chunks: int) -> int:
    """Return the event time of a record."""
    hour = record.key % chunks if record.hour is None else record.hour
    return hour * HOUR_US + record.key


def own_files(segments: Sequence[Segment]) -> list[Segment]:
    """Return the log files of a commit without its corrections of other records."""
    return [segment for segment in segments if _NAME.fullmatch(segment.path)]


SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        pa.field("row", pa.int64(), nullable=False),
        ("count", pa.int32()),
        ("text", pa.int64()),
        ("note", pa.int64()),
        ("seen", pa.int32()),
        ("spot", pa.int64()),
    ]
)
GONE = "gone"


def batch(records: Sequence[Record], chunks: int) -> pa.Table:
    """Return records as rows to upsert; ``GONE`` says which delete their key."""
    columns = [
        pa.array([time_of(one, chunks) for one in records], SCHEMA.field("at").type),
        pa.array([one.key for one in records], pa.int64()),
        pa.array([one.seq for one in records], pa.int32()),
        pa.array([one.text for one in records], pa.int64()),
        pa.array([one.note for one in records], pa.int64()),
        pa.array([one.seen for one in records], pa.int32()),
        pa.array([one.spot for one in records], pa.int64()),
        pa.array([one.deletes for one in records], pa.bool_()),
    ]
    return pa.table(columns, SCHEMA.append(pa.field(GONE, pa.bool_())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Records of some keys, some of them deletes."""

    kind: ClassVar[str] = "upsert"
    records: tuple[Record, ...]

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        assert isinstance(model, KeyedModel)
        assert isinstance(landing.action, Appended)
        given = landing.values_given(model)
        records = [
            replace(one, more=tuple((i, given_value(one.number, n)) for i, n in given.items()))
            for one in self.records
        ]
        return model.with_records(model.placed(records, landing.action.segments))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """The rows of some keys are deleted, or get a text; ``begun`` is a version not after its look.

    ``written`` reads the records of a log file. If it is a merge, keys without a row get one.
    """

    keys: tuple[int, ...]
    text: int | None
    begun: int
    written: Callable[[Segment, Sequence[Column]], Sequence[Record]]
    merges: bool = False
    kind: ClassVar[str] = "key change"

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        assert isinstance(model, KeyedModel)
        assert isinstance(landing.action, Appended)
        segments = own_files(landing.action.segments)
        added = [column for column in landing.written(model) if column.id > SPOT]
        records = sorted(
            (record for segment in segments for record in self.written(segment, added)),
            key=lambda record: record.key,
        )
        placed = model.placed(records, segments)
        seen = [*self._seen(records, added, landing)]
        assert seen, f"rows are wrong: no version from {self.begun} explains {records}"
        wins = any(not then.settled or all(_wins(one, then) for one in placed) for then in seen)
        assert wins, f"rows are wrong: {placed} loses against the rows that it saw"
        return model.with_records(placed)

    def _seen(
        self, records: Sequence[Record], added: Sequence[Column], landing: Landing
    ) -> Iterator[KeyedModel]:
        for n in range(landing.n - 1, self.begun - 1, -1):
            model = landing.before(n)
            assert isinstance(model, KeyedModel)
            if not model.settled or [*self._expected(model, added)] == [*records]:
                yield model  # while no index keeps keys unique, a key may have several rows

    def _expected(self, model: KeyedModel, added: Sequence[Column]) -> Iterator[Record]:
        for key in sorted(self.keys):
            row = model.rows.get(key)
            if row is None:
                if self.merges:
                    hour = time_of(Record(key=key), model.chunks) // HOUR_US
                    more = () if model.partial else _more(added)  # there, a null sets nothing
                    yield Record(key=key, hour=hour, text=self.text, more=more)
                continue
            seq, note, seen, spot = (row.values[column] for column in (SEQ, NOTE, SEEN, SPOT))
            at, more = {"key": key, "hour": row.at // HOUR_US}, _more(added, row.values)
            if self.text is None:
                kept = {
                    "seq": seq if model.ordered else None,
                    "seen": seen if model.partial else None,
                }
                yield Record(**at, **kept, deletes=True)
            elif model.partial:  # a null sets nothing: the row keeps what the change does not set
                yield Record(**at, seq=seq if model.ordered else None, text=self.text)
            else:
                yield Record(
                    **at, seq=seq, text=self.text, note=note, seen=seen, spot=spot, more=more
                )


def _more(
    added: Sequence[Column], values: Mapping[int, int | None] = MappingProxyType({})
) -> tuple[tuple[int, int], ...]:
    """Return values of added columns, or their defaults, where they are not null."""
    shown = ((c.id, values.get(c.id, c.default and int(c.default))) for c in added)
    return tuple((i, value) for i, value in shown if value is not None)


def _wins(one: Placed, then: KeyedModel) -> bool:
    """Return whether a record is above those that its author saw, in each register."""
    placed = then.records.get(one.record.key, ())
    row, group = highest(placed), highest(placed, SEEN) if then.partial else None
    sets_group = one.record.deletes or one.record.seen is not None
    return (row is None or row.order < one.order) and (
        group is None or not sets_group or group.group_order < one.group_order
    )
