"""A plain model of a primary-key table: all records of each key, replayed in record order.

1. A ``Model`` whose rows are numbered by their key. It keeps every record that was ever written;
   nothing is compacted, bucketed or forgotten, and no tombstone ever goes.
2. Record order: the ordering value (null lowest), then instant, log version and write token, then
   the place in the batch. The log is asked for instant, version and token of a commit alone, as the
   names of its files say them.
3. A change by a condition writes what it saw: the ledger reads these records from the new files,
   and asks that some version, not older than the author's beginning, shows rows that explain all of
   them; and that each comes after the record that it saw in record order.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from airflow_provider_segtable.core.log.events import Appended
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.data.merge.bucketing import buckets_of
from tests.simulation.model import COUNT, Landing, Model, Row
from tests.simulation.world import HOUR_US

SEQ, TEXT, NOTE = COUNT, COUNT + 1, COUNT + 2
"""The ids of the ordering column, and of two columns with values."""
BUCKETS, CHUNKS = 2, 2
_NAME = re.compile(r".*/\d+_(\d+)\.log\.(\d+)_(\w+)\.parquet")


@dataclass(frozen=True, slots=True)
class Record:
    """One written record of a key."""

    key: int
    seq: int | None
    text: int | None
    note: int | None
    deletes: bool


@dataclass(frozen=True, slots=True)
class Placed:
    """A record, and its place in record order."""

    order: tuple[Any, ...]
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedModel(Model):
    """What a version shows, and all records that it is made of, in record order."""

    records: Mapping[int, tuple[Placed, ...]] = field(default_factory=dict)
    ordered: bool = True
    partial: bool = False
    chunks: int = 1

    def with_records(self, placed: Sequence[Placed]) -> "KeyedModel":
        """Return the model with more records."""
        records, shown = dict(self.records), dict(self.rows)
        for one in placed:
            some = (*records.get(one.record.key, ()), one)
            records[one.record.key] = tuple(sorted(some, key=lambda each: each.order))
        for key in {one.record.key for one in placed}:
            row = self._row(records[key])
            if row is None:
                shown.pop(key, None)
            else:
                shown[key] = row
        return KeyedModel(
            rows=shown,
            schemas=self.schemas,
            properties=self.properties,
            records=records,
            ordered=self.ordered,
            partial=self.partial,
            chunks=self.chunks,
        )

    def _row(self, placed: Sequence[Placed]) -> Row | None:
        *_, last = (one.record for one in placed)
        if last.deletes:
            return None
        values = {SEQ: last.seq, TEXT: last.text, NOTE: last.note}
        if self.partial:
            records = [one.record for one in placed]
            values[TEXT] = _newest((each.deletes, each.text) for each in records)
            values[NOTE] = _newest((each.deletes, each.note) for each in records)
            if not self.ordered:
                values[SEQ] = _newest((each.deletes, each.seq) for each in records)
        return Row(time_of(last.key, self.chunks), values)

    def placed(self, records: Sequence[Record], segments: Sequence[Segment]) -> list[Placed]:
        """Return the records of a commit in record order, as its files' names say."""
        names = {_file_group(segment): _NAME.fullmatch(segment.path) for segment in segments}
        buckets = buckets_of(batch(records, self.chunks), ["row"], BUCKETS).tolist()
        made = []
        for number, (record, bucket) in enumerate(zip(records, buckets, strict=True)):
            found = names.get((time_of(record.key, self.chunks) // HOUR_US, bucket))
            assert found, f"key {record.key} is in none of {sorted(names)}"
            value = record.seq if self.ordered else None
            author = (int(found[1]), int(found[2]), found[3])
            made.append(Placed((value is not None, value or 0, *author, number), record))
        return made


def _newest(values: Iterable[tuple[bool, int | None]]) -> int | None:
    """Return the newest value since the last tombstone that is not null."""
    for deletes, value in reversed([*values]):
        if deletes or value is not None:
            return None if deletes else value
    return None


def _file_group(segment: Segment) -> tuple[int, int]:
    return segment.id.interval.start // HOUR_US, segment.id.bucket


def time_of(key: int, chunks: int) -> int:
    """Return the event time of a key, which never changes."""
    return key % chunks * HOUR_US + key


SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        pa.field("row", pa.int64(), nullable=False),
        ("count", pa.int32()),
        ("text", pa.int64()),
        ("note", pa.int64()),
    ]
)
GONE = "gone"


def batch(records: Sequence[Record], chunks: int) -> pa.Table:
    """Return records as rows to upsert; ``GONE`` says which delete their key."""
    columns = [
        pa.array([time_of(one.key, chunks) for one in records], SCHEMA.field("at").type),
        pa.array([one.key for one in records], pa.int64()),
        pa.array([one.seq for one in records], pa.int32()),
        pa.array([one.text for one in records], pa.int64()),
        pa.array([one.note for one in records], pa.int64()),
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
        return model.with_records(model.placed(self.records, landing.action.segments))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """The rows of some keys are deleted, or get a text; ``begun`` is a version not after its look.

    ``written`` reads the records of a log file.
    """

    keys: tuple[int, ...]
    text: int | None
    begun: int
    written: Callable[[Segment], Sequence[Record]]
    kind: ClassVar[str] = "key change"

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        assert isinstance(model, KeyedModel)
        assert isinstance(landing.action, Appended)
        segments = landing.action.segments
        records = sorted(
            (record for segment in segments for record in self.written(segment)),
            key=lambda record: record.key,
        )
        placed = model.placed(records, segments)
        seen = [*self._seen(records, landing)]
        assert seen, f"rows are wrong: no version from {self.begun} explains {records}"
        wins = any(
            all(then.records[one.record.key][-1].order < one.order for one in placed)
            for then in seen
        )
        assert wins, f"rows are wrong: {placed} loses against the rows that it saw"
        return model.with_records(placed)

    def _seen(self, records: Sequence[Record], landing: Landing) -> Iterator[KeyedModel]:
        for n in range(landing.n - 1, self.begun - 1, -1):
            model = landing.before(n)
            assert isinstance(model, KeyedModel)
            if [*self._expected(model)] == [*records]:
                yield model

    def _expected(self, model: KeyedModel) -> Iterator[Record]:
        for key in sorted(self.keys):
            row = model.rows.get(key)
            if row is not None and self.text is None:
                yield Record(key, row.values[SEQ] if model.ordered else None, None, None, True)
            elif row is not None:
                yield Record(key, row.values[SEQ], self.text, row.values[NOTE], False)
