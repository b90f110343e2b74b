"""Advice from reads: the index, clustering, compaction or layout that saves most files.

1. Each advice compares the files that a read opens now with an estimate, per read. Only files
   count: a file that is opened for its footer alone is a request, too.
2. **Column statistics** leave out the files in which no row can match by their bounds. Readers
   compare the same bounds in footers, so the estimate is the number of files with a possible row.
3. **A Bloom filter**, for tests of equality alone, leaves out the files without the values. The
   estimate is the number of files with a matching row, and ``RATE`` of the others.
4. **A clustering** puts the rows of near values into few files of a chunk, once a chunk has several
   files of the target size, and an index with bounds leaves out the others. The estimate is the
   number of files that the matching rows fill, and one more for where they begin.
5. **A coarser granularity** is that of ``granularity_advice``, which fits the table's bytes. A read
   of ``k`` chunks then reads ``1 + (k - 1) / f``, if ``f`` chunks become one.
6. **Fewer buckets** of a primary-key table: as many as a chunk fills with files of the target size.
7. **Joined files**: a chunk of small files has as many as it fills with files of the target size.
8. Facts may be older than the table's layout. So reads open now at most what their chunks have by
   now, and what the estimate of an index is that is there.
9. An advice saves at least ``LEAST_SHARE`` of the opened files, and one file a read. Of several
   for the same columns the best is given; column statistics if a Bloom filter is hardly better.
10. Tests that are neither equality nor range say nothing about indexes: their reads count for
    granularity, buckets and joined files.
11. Each estimate is of one advice alone: what two of them save together is not their sum.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from shlex import quote

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.indexes.index_kind import BloomFilter, ColumnStats
from airflow_provider_segtable.core.indexes.index_state import chosen_kind
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.read_facts import FilterKind, Filters, ReadCounts
from airflow_provider_segtable.core.schema import Order, joined_names
from airflow_provider_segtable.core.time import SECOND_US, Instant, Interval, iso
from airflow_provider_segtable.planning.granularity_advice import granularity_advice
from airflow_provider_segtable.planning.properties import Policy, share_of_reads
from airflow_provider_segtable.planning.read_summary import ReadSummary

LEAST_SHARE = 0.2
RATE = 0.01
"""The rate of the Bloom filters that are advised: their default."""
_HARDLY_BETTER = 0.9
_SORTED_SMALLER = 2
"""Sorted rows may take half the bytes, and an index is used for several files only."""

STATS, BLOOM = ColumnStats.name, BloomFilter.name
_EXACT = {FilterKind.EQUALITY, FilterKind.AMONG}
_KNOWN = {*_EXACT, FilterKind.RANGE}

Estimate = Callable[[ReadCounts], float]
"""Returns the files that a read would open, given the sums of its shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAdvice:
    """A change of a table that saves its readers files.

    Attributes:
        kind: ``column_stats``, ``bloom_filter``, ``clustering``, ``granularity``, ``buckets`` or
            ``compaction``.
        change: the change, in words.
        tests: the columns that its reads test, and how; empty if all reads count.
        reads: the number of reads that it is for.
        opened: files that such a read opens now, on average.
        estimated: files that it would open.
        commands: what applies it, in order.
    """

    kind: str
    change: str
    tests: str
    reads: float
    opened: float
    estimated: float
    commands: tuple[str, ...]

    @property
    def saved(self) -> float:
        """Return the files saved in all of its reads."""
        return self.reads * (self.opened - self.estimated)

    def facts(self) -> Facts:
        """Return the advice as plain JSON values."""
        return {
            "kind": self.kind,
            "change": self.change,
            "tests": self.tests or None,
            "reads": self.reads,
            "files_opened": round(self.opened, 3),
            "files_estimated": round(self.estimated, 3),
            "files_saved": round(self.saved, 3),
            "commands": list(self.commands),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """All advice for a table, the most saving first; ``nothing`` says why there is none."""

    advice: tuple[ReadAdvice, ...]
    nothing: str
    reads: float
    start: Instant | None
    end: Instant | None

    def facts(self) -> Facts:
        """Return the advice as plain JSON values."""
        return {
            "advice": [each.facts() for each in self.advice],
            "nothing": self.nothing or None,
            "reads": self.reads,
            "from": None if self.start is None else _to_the_second(self.start),
            "to": None if self.end is None else _to_the_second(self.end),
        }


def _to_the_second(at: Instant) -> str:
    return iso(at - at % SECOND_US)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The files, bytes and rows of a time chunk, or of a typical one."""

    files: float = 0.0
    bytes: float = 0.0
    rows: float = 0.0

    @staticmethod
    def of(summary: ChunkSummary) -> "Chunk":
        """Return those of one bucket of a time chunk."""
        return Chunk(files=summary.files, bytes=summary.size, rows=summary.rows)

    def __add__(self, other: "Chunk") -> "Chunk":
        """Return both together."""
        return Chunk(
            files=self.files + other.files,
            bytes=self.bytes + other.bytes,
            rows=self.rows + other.rows,
        )

    def times(self, weight: float) -> "Chunk":
        """Return a part of it, or several."""
        return Chunk(files=self.files * weight, bytes=self.bytes * weight, rows=self.rows * weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedTable:
    """What advice depends on, beside the reads.

    Attributes:
        uri: the table, for the commands.
        state: the newest version.
        policy: its policy of compaction.
        least_files: the least number of files for which an index is used.
    """

    uri: str
    state: State
    policy: Policy
    least_files: int

    @property
    def chunks(self) -> Mapping[Interval, "Chunk"]:
        """Return the time chunks with rows as they are now."""
        found: dict[Interval, Chunk] = {}
        for key, each in self.state.timeline.visible_summaries().items():
            if each.rows:
                found[key.interval] = found.get(key.interval, Chunk()) + Chunk.of(each)
        return found

    def command(self, *words: str) -> str:
        """Return a command over the table, whose address follows the first two words."""
        verb, *rest = words
        return " ".join(["segtable", verb, quote(self.uri), *map(quote, rest)])

    def has(self, kind: str, columns: Iterable[str]) -> bool:
        """Return whether an index of a kind covers columns."""
        ids = {column.id for column in self.state.table.schema.numbered if column.name in columns}
        kinds = [index.definition.kind for index in self.state.indexes.values()]
        return any(each.name == kind and ids <= {*each.columns} for each in kinds)

    def may_have(self, kind: str, columns: tuple[str, ...]) -> bool:
        """Return whether the table can have an index."""
        try:
            return bool(chosen_kind(kind, self.state.table, columns=columns, settings={}))
        except InvalidInput:
            return False


def advise(table: AdvisedTable, summary: ReadSummary) -> Advised:
    """Return the advice for a table from its reads."""
    basis = _Basis.of(table, summary)
    ways = (_by_filters, _coarser, _fewer_buckets, _joined_files) if basis.chunk.files else ()
    found = chain.from_iterable(way(basis) for way in ways)
    worth = sorted(filter(_worth, found), key=lambda each: (-each.saved, each.kind, each.tests))
    return Advised(
        advice=tuple(worth),
        nothing="" if worth else _why_nothing(basis),
        reads=summary.reads,
        start=summary.start,
        end=summary.end,
    )


def _worth(advice: ReadAdvice) -> bool:
    return advice.opened - advice.estimated >= max(1.0, LEAST_SHARE * advice.opened)


def _why_nothing(basis: "_Basis") -> str:
    uri, reads = basis.table.uri, basis.summary.reads
    if reads:
        shapes = basis.summary.shapes.values()
        opened = sum(each.reads * basis.opened(each.faded) for each in shapes) / reads
        return (
            f"the {reads:,.0f} recorded reads would open {opened:,.1f} files each now, and no "
            f"index, clustering, compaction or layout would save {LEAST_SHARE:.0%} of them"
        )
    if share_of_reads(basis.table.state.table.properties):
        return (
            "no read is recorded yet: a process leaves its facts when it ends, or after ten minutes"
        )
    switch = f"segtable table set {quote(uri)} statistics.reads=sampled"
    return f"reads are not recorded: {switch} records one in ten from now on"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Basis:
    """The basis of all advice: the table, its reads, and a typical chunk of these reads."""

    table: AdvisedTable
    summary: ReadSummary
    chunk: Chunk

    @staticmethod
    def of(table: AdvisedTable, summary: ReadSummary) -> "_Basis":
        known = table.chunks
        weights = {at: each.reads for at, each in summary.chunks.items() if at in known}
        weights = weights if any(weights.values()) else dict.fromkeys(known, 1.0)
        parts = (known[at].times(weight) for at, weight in weights.items())
        whole = sum(parts, Chunk())
        return _Basis(
            table=table, summary=summary, chunk=whole.times(1 / (sum(weights.values()) or 1))
        )

    @property
    def filled(self) -> int:
        """Return the number of files of the target size that a chunk fills."""
        return max(1, math.ceil(self.chunk.bytes / self.table.policy.target_size))

    def opened(self, counts: ReadCounts) -> float:
        """Return the files that a read opens now: no more than its chunks have by now."""
        files = min(counts.opened, counts.chunks * self.chunk.files)
        return files / counts.reads if counts.reads else 0.0


# Indexes and clustering
@dataclass(frozen=True, slots=True)
class _Tested:
    """All reads that test the same columns, beside the event time."""

    filters: Filters
    reads: float
    counts: ReadCounts

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for column, _ in self.filters))

    @property
    def tests(self) -> str:
        return ", ".join(f"{column} ({kind.value})" for column, kind in self.filters)

    @property
    def exact(self) -> bool:
        return all(kind in _EXACT for _, kind in self.filters)

    def per_read(self, sum_of: float) -> float:
        return sum_of / self.counts.reads

    @property
    def estimates(self) -> Mapping[str, float]:
        """Return the files that a read opens with an index, by its kind."""
        counts = self.counts
        others = counts.opened - counts.matching
        exact = {BLOOM: self.per_read(counts.matching + RATE * others)} if self.exact else {}
        return {STATS: self.per_read(counts.possible), **exact}


def _by_filters(basis: _Basis) -> Iterator[ReadAdvice]:
    """Yield the best index, and a clustering, for each set of tested columns."""
    table = basis.table
    for tested in _tested(table, basis.summary):
        estimates = tested.estimates
        opened = basis.opened(tested.counts)
        there = [files for kind, files in estimates.items() if table.has(kind, tested.columns)]
        now = min([opened, *there])
        if opened >= table.least_files:
            yield from _index(table, tested, now)
        yield from _clustering(basis, tested, now)


def _tested(table: AdvisedTable, summary: ReadSummary) -> Iterator[_Tested]:
    time_column, known = table.state.table.time_column, {*table.state.table.schema.names}
    sums: dict[Filters, tuple[float, ReadCounts]] = {}
    for shape, reads in summary.shapes.items():
        filters = tuple(each for each in shape.filters if each[0] != time_column)
        usable = all(kind in _KNOWN and column in known for column, kind in filters)
        if shape.measured and filters and usable and reads.faded.reads:
            many, counts = sums.get(filters, (0.0, ReadCounts()))
            sums[filters] = many + reads.reads, counts + reads.faded
    yield from (_Tested(filters, many, counts) for filters, (many, counts) in sums.items())


def _index(table: AdvisedTable, tested: _Tested, now: float) -> Iterator[ReadAdvice]:
    columns = tested.columns
    found = {
        kind: files
        for kind, files in tested.estimates.items()
        if not table.has(kind, columns) and table.may_have(kind, columns)
    }
    if not found:
        return
    best = min(found, key=lambda kind: found[kind])
    if STATS in found and found[best] > _HARDLY_BETTER * found[STATS]:
        best = STATS
    names = joined_names(columns)
    name = _free_name(table, columns)
    options = [] if best == STATS else ["--kind", best]
    yield ReadAdvice(
        kind=best,
        change=f"an index {best} of {names}",
        tests=tested.tests,
        reads=tested.reads,
        opened=now,
        estimated=found[best],
        commands=(table.command("index create", name, *options, "--columns", names, "--run"),),
    )


def _free_name(table: AdvisedTable, columns: tuple[str, ...]) -> str:
    """Return a name for an index that no index has."""
    plain = "_".join("".join(c if c.isascii() and c.isalnum() else "_" for c in n) for n in columns)
    names = (f"by_{plain[:80]}{suffix}" for suffix in ("", *(f"_{n}" for n in range(2, 1000))))
    return next(name for name in names if name not in table.state.indexes)


def _clustering(basis: _Basis, tested: _Tested, now: float) -> Iterator[ReadAdvice]:
    """Yield the clustering by a single tested column, if a chunk fills several files."""
    table, counts, files = basis.table, tested.counts, basis.filled
    (first, *more), order = tested.columns, Order.given(table.policy.clustering)
    if more or first in order.columns or not counts.chunks:
        return
    chunks = tested.per_read(counts.chunks)
    too_few = files < 2 or files * chunks < _SORTED_SMALLER * table.least_files
    if too_few or not table.may_have(STATS, (first,)):
        return
    file_rows = basis.chunk.rows / files
    matching_rows = counts.rows / counts.chunks
    estimated = chunks * min(files, 1 + max(matching_rows - 1, 0) / file_rows)
    indexed = table.has(STATS, (first,))
    create = table.command("index create", _free_name(table, (first,)), "--columns", first, "--run")
    yield ReadAdvice(
        kind="clustering",
        change=f"a clustering by {first}, with an index {STATS} of it",
        tests=tested.tests,
        reads=tested.reads,
        opened=now,
        estimated=estimated,
        commands=(
            table.command("table set", f"compaction.clustering={joined_names((first,))}"),
            *(() if indexed else (create,)),
            table.command("compact", "--kind", "semi-major"),
        ),
    )


# Layout
def _coarser(basis: _Basis) -> Iterator[ReadAdvice]:
    table, now = basis.table, basis.table.state.layout.granularity
    starts = {at.start for at in table.chunks}
    size = int(sum(each.bytes for each in table.chunks.values()))
    better = granularity_advice(now, starts, size)
    if better is None:
        return
    joined = better.chunks / better.better_chunks
    files = math.ceil(size / better.better_chunks / table.policy.target_size)

    def estimate(counts: ReadCounts) -> float:
        return (1 + max(counts.chunks / counts.reads - 1, 0) / joined) * files

    command = table.command("compact", "--kind", "major", "--granularity", better.better.value)
    change = f"time chunks by {better.better}, not {now}"
    yield from _of_all(basis, estimate, "granularity", change, command)


def _fewer_buckets(basis: _Basis) -> Iterator[ReadAdvice]:
    buckets, needed = basis.table.state.layout.buckets, basis.filled
    if buckets < 2:
        return
    command = basis.table.command("compact", "--kind", "major", "--buckets", str(needed))

    def estimate(counts: ReadCounts) -> float:
        return basis.opened(counts) * min(needed / buckets, 1)

    change = f"{counted(needed, 'bucket')} in a time chunk, not {buckets}"
    yield from _of_all(basis, estimate, "buckets", change, command)


def _joined_files(basis: _Basis) -> Iterator[ReadAdvice]:
    if basis.table.state.table.kind.rules is not None:
        return
    command = basis.table.command("compact", "--kind", "minor")

    def estimate(counts: ReadCounts) -> float:
        return counts.chunks / counts.reads * basis.filled

    yield from _of_all(basis, estimate, "compaction", "small files joined", command)


def _of_all(
    basis: _Basis, estimate: Estimate, kind: str, change: str, command: str
) -> Iterator[ReadAdvice]:
    """Yield an advice for all reads together."""
    some = [each for each in basis.summary.shapes.values() if each.faded.opened]
    reads = sum(each.reads for each in some)
    if not reads:
        return
    opened = sum(each.reads * basis.opened(each.faded) for each in some) / reads
    least = (min(basis.opened(each.faded), estimate(each.faded)) for each in some)
    then = sum(each.reads * files for each, files in zip(some, least, strict=True)) / reads
    yield ReadAdvice(
        kind=kind,
        change=change,
        tests="",
        reads=reads,
        opened=opened,
        estimated=then,
        commands=(command,),
    )
