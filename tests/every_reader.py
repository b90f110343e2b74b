"""One plain model, and every way to read a table: they must agree.

``Shown`` says which rows versions have, in plain Python. Each reader compares one way of reading
with it: the newest version and those kept, by number, time and tag; whole, counted, in part, and
filtered with and without the indexes; base files alone; with the log store's tail; as windows and
as changes; and what is published in other formats. ``disagreements`` asks all of them, or some.

A reader to add is one function in ``READERS``.
"""

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, TypeAlias
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted, PlanRequested
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.group_plans import SemiMajorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import MergeEngine
from airflow_provider_segtable.core.tables.table_kind import DeletionForm
from airflow_provider_segtable.data.keyed.keyed_rows import buckets_of
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table import chosen_files
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.tail import Finder
from airflow_provider_segtable.table.log_store.union_scan import UnionScan, union_scan
from tests.simulation.publishing.decoders import Decoder, DeltaDecoder, IcebergDecoder

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Counter[Row]
READ_AGAIN = 2
"""Versions that one look reads again; the next look takes others."""
MANY = 1_000_000
_WAYS: Sequence[tuple[str, Callable[[Any, Any], bool]]] = (
    ("=", operator.eq),
    (">=", operator.ge),
    ("<=", operator.le),
    ("<>", operator.ne),
)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What each version shows.

    Attributes:
        names: the columns that are compared, which all versions have; an integer first.
        rows: the rows by version; versions that are not there are not read.
        key: the name of the column that tells rows of a primary-key table apart.
    """

    names: tuple[str, ...]
    rows: Mapping[int, Rows]
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Live:
    """The log stores of a table: by ``find``; and what a read of it with their tail is to show."""

    find: Finder
    shown: Callable[[UnionScan], Rows]


@dataclass(frozen=True, kw_only=True)
class Look:
    """A table at its newest version, and what is expected of it.

    ``settled`` says that base files have all rows, because nothing was written since a compaction.
    ``live`` is None where no log store runs. ``again`` is about how many earlier versions are read.
    """

    ports: TableContext
    state: State
    shown: Shown
    settled: bool = False
    live: Live | None = None
    again: int = READ_AGAIN

    @cached_property
    def table(self) -> Table:
        """Return the table."""
        return Table(self.ports)

    @property
    def newest(self) -> Rows:
        """Return the newest rows."""
        return self.shown.rows[self.state.n]

    @property
    def kind(self) -> DeletionForm:
        """Return how rows are deleted, by which the three kinds of tables differ."""
        return self.state.table.kind.deletion

    @property
    def time(self) -> str:
        """Return the name of the column of event times."""
        return self.state.table.time_column

    @cached_property
    def versions(self) -> tuple[int, ...]:
        """Return some of the versions before the newest that are kept and known, by turns."""
        kept = [n for n in sorted(self.shown.rows) if n < self.state.n and self.state.keeps(n)]
        step = max(1, len(kept) // self.again)
        return tuple(kept[self.state.n % step :: step][: self.again])

    @property
    def starts(self) -> tuple[int, ...]:
        """Return those of the versions since which no event has expired."""
        return tuple(n for n in self.versions if n >= self.state.retained_from)

    def read(self, **given: Any) -> Rows:
        """Read rows; a rollup table's groups as wholes."""
        rolls = self.kind is DeletionForm.PREDICATE and "since_version" not in given
        request = read_request(columns=self.shown.names, rolled_up=rolls, **given)
        return rows_of(self.table.read(request).to_arrow())


Reader: TypeAlias = Callable[[Look], Iterator[str]]


def tuples_of(table: pa.Table) -> Iterator[Row]:
    """Yield rows in their order, with times and dates as microseconds."""
    dated = (c.cast(pa.timestamp("us")) if pa.types.is_date(c.type) else c for c in table.columns)
    columns = (c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in dated)
    return zip(*(column.to_pylist() for column in columns), strict=True)


def rows_of(table: pa.Table) -> Rows:
    """Return rows, however often each is there."""
    return Counter(tuples_of(table))


def differences(label: str, found: Rows, right: Rows) -> Iterator[str]:
    """Yield in what rows that were found differ from the right ones."""
    if found != right:
        lost, extra = (sorted(map(str, some.elements())) for some in (right - found, found - right))
        yield f"{label}: lost {lost[:8]}, extra {extra[:8]}"


def whole(look: Look) -> Iterator[str]:
    """Compare a scan."""
    yield from differences("scan", look.read(), look.newest)


def snapshot(look: Look) -> Iterator[str]:
    """Compare a snapshot, which reads files by another way; and its count."""
    if look.kind is DeletionForm.PREDICATE:
        return
    found = look.table.snapshot()
    yield from differences(
        "snapshot", rows_of(found.to_arrow(columns=look.shown.names)), look.newest
    )
    if found.count() != look.newest.total():
        yield f"snapshot: counts {found.count()} rows, not {look.newest.total()}"


def counted(look: Look) -> Iterator[str]:
    """Compare the number of rows."""
    request = read_request(rolled_up=look.kind is DeletionForm.PREDICATE)
    found = look.table.read(request).count()
    if found != look.newest.total():
        yield f"count: {found} rows, not {look.newest.total()}"


def least_and_greatest(look: Look) -> Iterator[str]:
    """Compare the least and the greatest value of each column, in two versions."""
    rolls = look.kind is DeletionForm.PREDICATE
    for n in (look.state.n, *look.versions[:1]):
        for at, name in enumerate(look.shown.names):
            found = look.table.read(read_request(version=n, rolled_up=rolls)).min_max(name)
            values = [row[at] for row in look.shown.rows[n] if row[at] is not None]
            right = (min(values), max(values)) if values else (None, None)
            if tuple(map(_as_number, found)) != right:
                yield f"min and max of {name} in version {n}: {found}, not {right}"


def _as_number(value: Any) -> Any:
    """Return a value as ``tuples_of`` has it."""
    if not isinstance(value, date):
        return value
    return pa.scalar(value).cast(pa.timestamp("us")).value


def projected(look: Look) -> Iterator[str]:
    """Compare each column by itself."""
    rolls = look.kind is DeletionForm.PREDICATE
    name = look.shown.names[look.state.n % len(look.shown.names)]
    request = read_request(columns=[name], rolled_up=rolls)
    at = look.shown.names.index(name)
    right = Counter((row[at],) for row in look.newest.elements())
    yield from differences(f"column {name}", rows_of(look.table.read(request).to_arrow()), right)


def filtered(look: Look) -> Iterator[str]:
    """Compare conditions, with the indexes and without them."""
    at = look.state.n % len(look.shown.names)
    name = look.shown.names[at]
    known = sorted({row[at] for row in look.newest if isinstance(row[at], int)})
    if name == look.time or not known:
        at, name = 0, look.shown.names[0]
        known = sorted({row[0] for row in look.newest}) or [0]
    sign, compare = _WAYS[look.state.n // 3 % len(_WAYS)]
    value = known[look.state.n * 7 % len(known)]
    right = Counter(
        row for row in look.newest.elements() if row[at] is not None and compare(row[at], value)
    )
    where = f"`{name}` {sign} {value}"
    for least, how in ((1, "with indexes"), (MANY, "without indexes")):
        if how == "with indexes" and not look.state.indexes:
            continue
        with patch.object(chosen_files, "LEAST_FILES", least):
            yield from differences(f"where {where} {how}", look.read(where=where), right)


def with_log(look: Look) -> Iterator[str]:
    """Compare a read with the log store's tail; where no store runs, it is the newest version."""
    if look.kind is DeletionForm.PREDICATE:
        return
    request = read_request(columns=look.shown.names, include_log=True)
    scan = union_scan(look.ports, look.live.find if look.live else lambda _: None, request)
    right = look.live.shown(scan) if look.live else look.newest
    yield from differences("include_log", rows_of(scan.to_arrow()), right)
    if look.live and scan.count() != right.total():
        yield f"include_log: counts {scan.count()} rows, not {right.total()}"


def earlier(look: Look) -> Iterator[str]:
    """Compare versions that are kept, by number and by time."""
    for n in look.versions:
        yield from differences(f"version {n}", look.read(version=n), look.shown.rows[n])
    for n in look.versions[-1:]:
        event = look.ports.log.event(n)
        if event is not None:
            found = look.read(as_of=as_datetime(event.time))
            yield from differences(f"as of version {n}", found, look.shown.rows[n])


def as_datetime(instant: int) -> Any:
    """Return a time as users give it."""
    return pa.scalar(instant, pa.timestamp("us", "UTC")).as_py()


def tagged(look: Look) -> Iterator[str]:
    """Compare tags."""
    for tag, n in look.state.tags.items():
        if n in look.shown.rows:
            yield from differences(f"tag {tag}", look.read(tag=tag), look.shown.rows[n])


def changes(look: Look) -> Iterator[str]:
    """Add the changes since a version to its rows: they are the newest rows."""
    if look.kind is DeletionForm.PREDICATE:
        return
    names = (*look.shown.names, "_segtable_change")
    for n in look.starts:
        request = read_request(columns=names, since_version=n, changes=True)
        rows = Counter(look.shown.rows[n])
        for *row, effect in rows_of(look.table.read(request).to_arrow()).elements():
            rows[tuple(row)] += 1 if effect in ("insert", "update_after") else -1
        if any(count < 0 for count in rows.values()):
            yield f"changes since {n}: rows go that were not there: {-rows}"
        yield from differences(f"changes since {n}", +rows, look.newest)


def windows(look: Look) -> Iterator[str]:
    """Rows added since a version are newest rows, and those that it lacks are among them.

    Rows that a restore brought back were added before. By partial updates, a row also changes when
    a delete takes some of its parts.
    """
    rules = look.state.table.kind.rules
    parts = rules is not None and rules.engine is MergeEngine.PARTIAL_UPDATE
    if look.kind is DeletionForm.PREDICATE:
        return
    for n in look.starts:
        found = look.read(since_version=n)
        if strange := found - look.newest:
            yield f"added since {n}: {strange} is not there"
        back = any(isinstance(e.action, VersionRestored) for e in look.ports.log.events(n + 1))
        if not (back or parts) and (lost := look.newest - look.shown.rows[n] - found):
            yield f"added since {n}: {lost} is not told"


def base_files(look: Look) -> Iterator[str]:
    """Base files show each bucket as of a version, not older than its last base compaction."""
    if look.kind is not DeletionForm.TOMBSTONES or not look.shown.key:
        return
    found = look.read(base_only=True)
    for place, least in promised(look).items():
        here = _of_place(look, found, place)
        if not here and not least and not look.settled:
            continue  # it was never compacted
        first = look.state.n if look.settled else least
        mine = [n for n in sorted(look.shown.rows) if n >= first]
        if not look.shown.rows.keys() >= {*range(first, look.state.n + 1)}:
            continue  # it may be as of a version that is not compared
        if not any(_of_place(look, look.shown.rows[n], place) == here for n in mine):
            newest = _of_place(look, look.newest, place)
            told = [*differences("against the newest rows", here, newest)]
            yield f"base_only: {place} is as of no version from {least} on; {told}"


@dataclass(slots=True)
class BasePromises:
    """The least version that base files show, by chunk, as events are followed.

    It is that of the request of the last completed semi-major or major compaction over the chunk,
    as far as events are known; 0 without one. A semi-major one has the inputs that its request
    names: what landed after its author looked, and before the request, is above. A restored chunk
    has the base that it had in its version.
    """

    made: dict[Any, list[tuple[int, int]]] = field(default_factory=dict)
    """By chunk: from which event on, and the least."""
    asked: dict[str, int] = field(default_factory=dict)
    landed: list[tuple[int, Segment]] = field(default_factory=list)

    def follow(self, event: Event) -> None:
        """Follow the next event."""
        new: tuple[Segment, ...] = getattr(event.action, "segments", ())
        match event.action:
            case PlanRequested(plan=SemiMajorPlan() as plan):
                mine = ((n, s.shard) for n, s in self.landed if s.id.chunk == plan.chunk)
                above = (n - 1 for n, shard in mine if shard.root_start >= plan.root_end)
                self.asked[plan.id] = min(above, default=event.n)
            case PlanRequested(plan=MajorPlan() as plan):
                self.asked[plan.id] = event.n
            case PlanCompleted(plan_id=name) if name in self.asked:
                for chunk in {s.id.chunk for s in new}:
                    self.made.setdefault(chunk, []).append((event.n, self.asked[name]))
            case VersionRestored(version=version):
                was = {s.path: s.id.chunk for n, s in self.landed if n <= version and s.path}
                for s in new:
                    since = [p for n, p in self.made.get(was.get(s.path), ()) if n <= version]
                    if since:
                        self.made.setdefault(s.id.chunk, []).append((event.n, since[-1]))
        self.landed += [(event.n, segment) for segment in new]

    def least(self, state: State) -> dict[Any, int]:
        """Return the least version that the base of each visible chunk shows."""
        here = state.timeline.visible_chunks()
        return {chunk: self.made[chunk][-1][1] if chunk in self.made else 0 for chunk in here}


def promised(look: Look) -> dict[Any, int]:
    """Return the least version that base files show, by chunk, as far as the log is kept.

    What landed before, nobody knows when, so bases beside it may show any version.
    """
    log = look.ports.log
    first, promises = log.first(), BasePromises()
    if first:
        oldest = log.version(max(first, look.state.retained_from), look.state)
        promises.landed = [(0, segment) for segment in oldest.timeline.visible_segments()]
    for event in log.events(first):
        promises.follow(event)
    return promises.least(look.state)


def _of_place(look: Look, rows: Rows, chunk: Any) -> Rows:
    return rows_of_place(look.state, look.shown.names, look.shown.key, rows, chunk)


def rows_of_place(
    state: State, names: Sequence[str], shown_key: str, rows: Rows, chunk: Any
) -> Rows:
    """Return the rows of a bucket of a time chunk."""
    time, key = names.index(state.table.time_column), names.index(shown_key)
    here = [row for row in rows.elements() if chunk.interval.holds(row[time])]
    beside = state.timeline.visible_segments(chunk.interval)
    number = {s.buckets for s in beside if s.id.chunk.version == chunk.version}
    count = max(number, default=0) or state.table.kind.buckets  # type: ignore[attr-defined]
    keys = pa.table({shown_key: pa.array([row[key] for row in here], pa.int64())})
    found = buckets_of(keys, [shown_key], count)
    return Counter(row for row, bucket in zip(here, found, strict=True) if bucket == chunk.bucket)


def published(look: Look) -> Iterator[str]:
    """Compare what is published, decoded from the bytes as readers of the formats do."""
    for name, found in decoded(look.ports).items():
        if isinstance(found, str):
            yield f"{name}: {found}"
            continue
        event, rows = found
        if event not in look.shown.rows or not look.state.keeps(event):
            continue
        right = look.shown.rows[event]
        if look.kind is DeletionForm.TOMBSTONES:
            right = look.read(version=event, base_only=True)
        common = [each for each in look.shown.names if all(each in row for row in rows)]
        at = [look.shown.names.index(each) for each in common]
        right = Counter(tuple(row[i] for i in at) for row in right.elements())
        mine = Counter(tuple(row[each] for each in common) for row in rows)
        yield from differences(f"{name} of event {event}", mine, right)


def decoded(ports: TableContext) -> dict[str, tuple[int, list[dict[str, Any]]] | str]:
    """Return the event and rows that each format's readers find, or why they find none."""
    found: dict[str, tuple[int, list[dict[str, Any]]] | str] = {}
    decoders: dict[str, Decoder] = {"delta": DeltaDecoder(), "iceberg": IcebergDecoder()}
    paths = [entry.path for entry in ports.storage.list("")]
    for name, decoder in decoders.items():
        if not any(map(decoder.concerns, paths)):
            continue
        try:
            version = decoder.newest(ports.storage)
            assert version is not None
            found[name] = version.event, [*_visible(ports, version.files)]
        except Exception as error:  # noqa: BLE001 - whatever a reader would fail with
            found[name] = f"cannot be read: {error!r}"
    return found


def _visible(ports: TableContext, files: Mapping[str, frozenset[int]]) -> Iterator[dict[str, Any]]:
    for path, hidden in files.items():
        table = pq.read_table(pa.BufferReader(ports.storage.read(path)))
        columns = [
            c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns
        ]
        rows = pa.table(columns, names=table.column_names).to_pylist()
        yield from (row for at, row in enumerate(rows) if at not in hidden)


READERS: tuple[Reader, ...] = (
    whole,
    snapshot,
    counted,
    least_and_greatest,
    projected,
    filtered,
    with_log,
    earlier,
    tagged,
    changes,
    windows,
    base_files,
    published,
)


def by_turns(turn: int) -> tuple[Reader, ...]:
    """Return a scan and a sixth of the other readers: in six turns all of them."""
    return (whole, *READERS[1 + turn % 6 :: 6])


def filled(noted: Mapping[int, Rows]) -> dict[int, Rows]:
    """Return the rows of every event, if those of which nothing is noted changed none."""
    made: dict[int, Rows] = {}
    for n in range(min(noted), max(noted) + 1):
        made[n] = noted[n] if n in noted else made[n - 1]
    return made


def disagreements(
    ports: TableContext,
    shown: Shown,
    readers: Sequence[Reader] = READERS,
    *,
    settled: bool = False,
    state: State | None = None,
    live: Live | None = None,
    again: int = READ_AGAIN,
) -> Iterator[str]:
    """Yield in what readers of the newest version differ from the plain model."""
    state = state or ports.log.load()
    look = Look(ports=ports, state=state, shown=shown, settled=settled, live=live, again=again)
    if state.n not in shown.rows or state.dropped:
        return
    for reader in readers:
        try:
            yield from reader(look)
        except SegtableError as error:
            yield f"{reader.__name__}: {type(error).__name__}: {error}"
