"""The selection of files to read, step by step, and the plan of a read as a value.

1. A selection begins with everything that may be read. Each step is one test, by one name, and
   leaves the items that pass it.
2. Every step is recorded, so the code that plans a read also explains it (``ReadPlan``). An index
   is one more step (``table.chosen_files``), or a note why it left nothing out.
3. The order of steps is that of their cost: the steps that the log alone decides come first.
4. A plan shows the opened and read parts, and the parts that each step left out. The steps that
   choose files are the steps of the read's own selection. The other steps follow from the footers
   of the chosen files, which the read opens, too: row groups by their statistics, row groups
   without a shown row, columns.
5. A file counts once, whatever number of pieces it is read in. Its bytes are the bytes that the
   read needs: footer and page indexes, and of each row group the columns that are read. Readers may
   load a little more: gaps of some KiB between columns, and whole blocks to compare their
   checksums.
6. Row groups are counted in the chosen files alone: the footers of other files are not read.
7. A plan names the parts that it did not look into, and the indexes that were not used.
8. A condition is on merged rows. A file of a file group that holds no matching record may hold one
   that hides another file's record. So it is left out only where that cannot change a row, given
   the records that each file may hold (rules 9 to 11).
9. The records of a key all satisfy a condition on the key alone, or none does (``by_key``). So a
   file without such records is left out by itself.
10. Engine ``latest``: a row is one record, so a group no file of which may hold a matching record
    has no matching row (``by_row``). Fixed columns may be another record's: each is judged alone.
11. Engine ``partial_update``: the columns of a row are several records', or no record's, so only
    the key counts.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.predicate import AllOf, Predicate, columns_of, conjuncts
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import MergeRules


# Selections: steps that leave files out
class PrunedBy(StrEnum):
    """The criterion of a step of a read's plan; the values are stable.

    The criterion of a step by an index is the name of the index's kind.
    """

    HIDDEN = "hidden"
    """Segments that the version does not show."""
    TIME_CHUNKS = "time_chunks"
    """Time chunks outside of the interval."""
    ROOTS = "roots"
    """Segments without rows of the wanted roots."""
    BUCKETS = "buckets"
    """File groups of other buckets than those of the keys that a condition names."""
    EVENT_TIMES = "event_times"
    """Segments whose first and last event time exclude all wanted rows."""
    BASE_ONLY = "base_only"
    """Log files, if base files alone are read."""
    FATES = "fates"
    """Files of a primary-key table whose records all lost, as is known of them."""
    WINDOW = "window"
    """Segments, or file groups, without rows of the window."""
    COLUMN_STATS = "column_stats"
    """Files in which no row can match, by an index of this kind."""
    BLOOM_FILTER = "bloom_filter"
    """Files without the wanted values, by an index of this kind."""
    STATISTICS = "row_group_statistics"
    """Row groups in which no row can match, by the statistics in the footer."""
    DELETES = "deleted_rows"
    """Row groups without a row that is shown: all are deleted, or not of the window."""
    COLUMNS = "columns"
    """Columns that are not needed."""

    @classmethod
    def _missing_(cls, value: object) -> "PrunedBy":
        """Return a member for a kind of index that is not listed."""
        found = str.__new__(cls, value)
        found._name_, found._value_ = str(value).upper(), str(value)
        return found


class Segments(Protocol):
    """One segment, or several that are read together."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Return the segments."""
        ...


Item = TypeVar("Item", bound=Segments)
Other = TypeVar("Other", bound=Segments)


MayHold = Callable[[Segment, Predicate], bool]
"""Returns whether a file may hold a row for which a predicate holds."""


class Narrowing(Protocol[Item]):
    """The conditions of a read by which files can be left out."""

    @property
    def tests(self) -> Collection[Predicate]:
        """Return the conditions that files are judged by; none if there are none to judge by."""
        ...

    def narrow(self, item: Item, may_hold: MayHold) -> Item | None:
        """Return the rest of an item, with fewer segments perhaps; None for nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Layer:
    """The items that a step left; ``index`` is the name of its index, if any."""

    by: PrunedBy
    items: tuple[Segments, ...]
    index: str = ""

    @property
    def files(self) -> dict[str, Segment]:
        """Return the segments with a file, by its path."""
        return {s.path: s for each in self.items for s in each.segments if s.path}


@dataclass(frozen=True, slots=True)
class IndexNote:
    """Why an index was not used, or for which files."""

    index: str
    text: str


@dataclass(frozen=True, slots=True)
class Selection(Generic[Item]):
    """The items left to read.

    Attributes:
        left: the items.
        layers: the items that each step left, in the order of the steps.
        notes: indexes that were not used, and why.
    """

    left: tuple[Item, ...]
    layers: tuple[Layer, ...]
    notes: tuple[IndexNote, ...] = ()

    @property
    def files(self) -> dict[str, Segment]:
        """Return the segments with a file that are left, by its path."""
        return self.layers[-1].files

    @staticmethod
    def begun(by: PrunedBy, found: Iterable[Other]) -> "Selection[Other]":
        """Return a selection of all items that a first step found."""
        left = tuple(found)
        return Selection(left, (Layer(by, left),))

    def pruned(self, by: PrunedBy, keeps: Callable[[Item], bool]) -> "Selection[Item]":
        """Return the selection after one more step, which leaves the items that pass a test."""
        return self.narrowed(by, lambda item: item if keeps(item) else None)

    def narrowed(
        self, by: PrunedBy, narrow: Callable[[Item], Item | None], *, index: str = ""
    ) -> "Selection[Item]":
        """Return the selection after one more step.

        Args:
            by: the criterion of the step.
            narrow: returns the rest of an item, with fewer segments perhaps; None for nothing.
            index: the name of the index that it goes by.
        """
        left = tuple(item for item in map(narrow, self.left) if item is not None)
        return replace(self, left=left, layers=(*self.layers, Layer(by, left, index)))

    def noted(self, index: str, text: str) -> "Selection[Item]":
        """Return the selection with a note on an index."""
        return replace(self, notes=(*self.notes, IndexNote(index, text)))

    def grouped(self, items: Iterable[Other]) -> "Selection[Other]":
        """Return the selection with its segments in other items."""
        return Selection(tuple(items), self.layers, self.notes)


# Plans of reads
@dataclass(frozen=True, slots=True)
class Extent:
    """An amount of data; ``row_groups`` is None where footers were not read."""

    files: int
    bytes: int
    row_groups: int | None = None


@dataclass(frozen=True, slots=True)
class PruneStep:
    """One step of a plan: the counts to read before it and after it.

    ``index`` is the name of its index, if any.
    """

    by: PrunedBy
    before: Extent
    after: Extent
    index: str = ""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the step as JSON values."""
        return {
            "by": self.by.value,
            "index": self.index or None,
            "files_before": self.before.files,
            "files_after": self.after.files,
            "row_groups_before": self.before.row_groups,
            "row_groups_after": self.after.row_groups,
            "bytes_before": self.before.bytes,
            "bytes_after": self.after.bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """One row group of a file.

    Attributes:
        rows: the number of rows.
        bytes: the bytes of all columns.
        column_bytes: the bytes of the columns that are read.
        matching: whether a row may match, by the statistics.
        read: whether it is read: a row may match, and one may be shown.
    """

    rows: int
    bytes: int
    column_bytes: int
    matching: bool
    read: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """One file that is opened.

    Attributes:
        path: its path, relative to the table's root.
        bytes: its size.
        columns: the columns that are read, hidden ones among them.
        groups: its row groups.
        compared: whether statistics were compared with the condition.
    """

    path: str
    bytes: int
    columns: tuple[str, ...]
    groups: tuple[GroupPlan, ...]
    compared: bool

    @property
    def footer_bytes(self) -> int:
        """Return the bytes beside the row groups: footer and page indexes."""
        return self.bytes - sum(group.bytes for group in self.groups)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the file as JSON values."""
        read = [group for group in self.groups if group.read]
        return {
            "path": self.path,
            "bytes": self.bytes,
            "bytes_read": self.footer_bytes + sum(group.column_bytes for group in read),
            "row_groups": len(self.groups),
            "row_groups_read": len(read),
            "rows_read": sum(group.rows for group in read),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesApplied:
    """The deletes that the read applies.

    Attributes:
        files: the number of files with deletes to apply.
        rows: their deleted rows, where the log says which rows a file has.
        uncounted_files: the number of files whose deleted rows are only found when they are read.
        vector_files: the number of files of deletion vectors, which are read first.
        predicates: the number of predicate deletes of a rollup table.
    """

    files: int = 0
    rows: int = 0
    uncounted_files: int = 0
    vector_files: int = 0
    predicates: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """Counts of the merges that a read of a primary-key table makes.

    Attributes:
        file_groups: the number of buckets of time chunks that are read.
        merged: the number of these in which files are merged.
        base_files: base files among the files that are opened.
        log_files: log files among them.
        most_runs: the most sorted runs of a file group.
    """

    file_groups: int
    merged: int
    base_files: int
    log_files: int
    most_runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """How a read is carried out; ``str`` is the plan for people, ``facts`` for programs.

    Attributes:
        table: the table's URI.
        version: the version that is read.
        since_version: the version before the window, if only rows added since are read.
        where: the condition, as text.
        interval: the interval of event times that the read asks for, as text.
        chunks: the number of time chunks with rows in the version.
        hidden_segments: the number of segments that the version does not show.
        steps: the counts that each step left, from all files of the table to the bytes that are
            read.
        files: the files that are opened.
        known_columns: the columns that can be read.
        deletes: the deletes that are applied.
        merging: counts of merges, in a primary-key table.
        index_notes: which indexes were not used, or not for all files, and why.
        log_notes: of a read with the log store, a note on each bucket.
        layers: the segments that each step by segments left.
    """

    table: str
    version: int
    since_version: int | None
    where: str | None
    interval: str | None
    chunks: int
    hidden_segments: int
    steps: tuple[PruneStep, ...]
    files: tuple[FilePlan, ...]
    known_columns: tuple[str, ...]
    deletes: DeletesApplied
    merging: Merging | None = None
    index_notes: tuple[IndexNote, ...] = ()
    log_notes: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = field(default=(), repr=False, compare=False)

    @property
    def shown(self) -> Extent:
        """Return the extent of the version."""
        return self.steps[0].after

    @property
    def read(self) -> Extent:
        """Return the extent that is read; a file may be opened for its footer alone."""
        return self.steps[-1].after

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the table that are read."""
        read = {name for file in self.files for name in file.columns}
        return tuple(name for name in self.known_columns if name in read)

    @property
    def not_looked_into(self) -> tuple[str, ...]:
        """Return the unknown parts of the plan, and why."""
        skipped = self.steps[0].before.files - len(self.files)
        uncounted = self.deletes.uncounted_files
        uncompared = sum(not file.compared for file in self.files) if self.where else 0
        notes = {
            f"row groups of {counted(skipped, 'file')} that were left out": skipped,
            f"statistics of {counted(uncompared, 'file')}: they cannot decide the condition "
            "before the rows are read": uncompared,
            f"how many rows are deleted in {counted(uncounted, 'file')}: hidden columns record it, "
            "and are only read with the rows": uncounted,
        }
        return tuple(note for note, count in notes.items() if count)

    def __str__(self) -> str:
        """Return the plan as lines of text."""
        return "\n".join(_lines(self))

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the plan as JSON values under stable keys."""
        columns = self.columns
        return {
            "table": self.table,
            "version": self.version,
            "since_version": self.since_version,
            "where": self.where,
            "interval": self.interval,
            "chunks": self.chunks,
            "segments": self.shown.files,
            "hidden_segments": self.hidden_segments,
            "bytes": self.shown.bytes,
            "bytes_read": self.read.bytes,
            "files_opened": len(self.files),
            "row_groups_read": self.read.row_groups,
            "columns": list(columns),
            "columns_left_out": [name for name in self.known_columns if name not in columns],
            "steps": [step.facts for step in self.steps],
            "files": [file.facts for file in self.files],
            "deletes": asdict(self.deletes),
            "merging": None if self.merging is None else asdict(self.merging),
            "index_notes": [asdict(note) for note in self.index_notes],
            "log_notes": list(self.log_notes),
            "not_looked_into": list(self.not_looked_into),
        }


def footer_steps(files: Iterable[FilePlan]) -> tuple[PruneStep, ...]:
    """Return the steps that the footers of the chosen files decide."""
    some = tuple(files)
    size = sum(file.bytes for file in some)
    every = Extent(len(some), size, sum(len(file.groups) for file in some))
    tests: tuple[tuple[PrunedBy, Callable[[GroupPlan], bool]], ...] = (
        (PrunedBy.STATISTICS, lambda group: group.matching),
        (PrunedBy.DELETES, lambda group: group.read),
    )
    steps: list[PruneStep] = []
    before = every
    for by, passes in tests:
        left = [[group for group in file.groups if passes(group)] for file in some]
        dropped = sum(group.bytes for file in some for group in file.groups if not passes(group))
        after = Extent(sum(map(bool, left)), size - dropped, sum(map(len, left)))
        steps.append(PruneStep(by, before, after))
        before = after
    spared = sum(g.bytes - g.column_bytes for file in some for g in file.groups if g.read)
    after = Extent(before.files, before.bytes - spared, before.row_groups)
    return (*steps, PruneStep(PrunedBy.COLUMNS, before, after))


def _lines(plan: ReadPlan) -> Iterator[str]:
    since = "" if plan.since_version is None else f", rows added after version {plan.since_version}"
    hidden = f"; {counted(plan.hidden_segments, 'segment')} hidden" if plan.hidden_segments else ""
    shown, read = plan.shown, plan.read
    yield f"{plan.table} at version {plan.version}{since}"
    yield (
        f"{counted(plan.chunks, 'time chunk')}, {counted(shown.files, 'segment')}, "
        f"{describe_size(shown.bytes)}{hidden}"
    )
    for name, asked in (("interval", plan.interval), ("where", plan.where)):
        if asked is not None:
            yield f"{name}: {asked}"
    if plan.files:
        yield f"columns: {len(plan.columns)} of {len(plan.known_columns)}"
    yield ""
    yield from _aligned([*_rows(plan.steps)])
    yield ""
    opened = len(plan.files)
    footers = f", {opened - read.files} for the footer alone" if opened > read.files else ""
    yield (
        f"opens {counted(opened, 'file')}{footers}; "
        f"reads {counted(read.row_groups or 0, 'row group')}, "
        f"{describe_size(read.bytes)} of {describe_size(shown.bytes)}"
    )
    yield from _applied(plan.deletes)
    if plan.merging is not None:
        yield from _merged(plan.merging)
    for each in plan.index_notes:
        yield f"index {each.index}: {each.text}"
    for found in plan.log_notes:
        yield f"log store: {found}"
    for note in plan.not_looked_into:
        yield f"not looked into: {note}"


def _rows(steps: Sequence[PruneStep]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of the table of steps: the counts left by each one, and the saved share."""
    yield "left after", "files", "row groups", "bytes", "saved"
    yield "all files", *_cells(steps[0].before), ""
    for step in steps:
        saved = step.before.bytes - step.after.bytes
        index = f" ({step.index})" if step.index else ""
        name = step.by.value.replace("_", " ") + index
        yield name, *_cells(step.after), describe_size(saved) if saved else ""


def _cells(extent: Extent) -> tuple[str, str, str]:
    groups = "" if extent.row_groups is None else f"{extent.row_groups:,}"
    return f"{extent.files:,}", groups, describe_size(extent.bytes)


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows with their cells below each other: the first to the left, numbers to the right."""
    first, *widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        yield "  ".join([name.ljust(first), *numbers]).rstrip()


def _applied(deletes: DeletesApplied) -> Iterator[str]:
    if deletes.files:
        by = {"predicate": deletes.predicates, "vector file": deletes.vector_files}
        named = ", ".join(counted(count, noun) for noun, count in by.items() if count)
        rows = "" if deletes.uncounted_files else f": {counted(deletes.rows, 'row')} left out"
        yield f"applies the deletes of {named} to {counted(deletes.files, 'file')}{rows}"


def _merged(merging: Merging) -> Iterator[str]:
    yield (
        f"merges {merging.merged} of {counted(merging.file_groups, 'file group')}: "
        f"{counted(merging.base_files, 'base file')}, {counted(merging.log_files, 'log file')}, "
        f"at most {counted(merging.most_runs, 'sorted run')} in a group"
    )


# Tests of records that follow from a condition on merged rows
@dataclass(frozen=True, slots=True)
class RecordTests:
    """Necessary conditions on records for a row that matches.

    Attributes:
        by_key: every record of a matching row; None if the condition is not on the key.
        by_row: each holds for some record of a matching row.
    """

    by_key: Predicate | None
    by_row: tuple[Predicate, ...]

    @property
    def all(self) -> tuple[Predicate, ...]:
        """Return all tests."""
        return (*([] if self.by_key is None else [self.by_key]), *self.by_row)

    def left(self, segments: Sequence[Segment], may_hold: MayHold) -> tuple[Segment, ...]:
        """Return the files of a file group that a matching row may depend on."""
        key = self.by_key
        found = tuple(each for each in segments if key is None or may_hold(each, key))
        possible = all(any(may_hold(each, test) for each in found) for test in self.by_row)
        return found if possible else ()


def record_tests(tests: Iterable[Predicate], rules: MergeRules) -> RecordTests:
    """Return the tests of records that follow from conditions on rows, all of which hold."""
    parts = [(part, {*columns_of(part)}) for test in tests for part in conjuncts(test)]
    by_key = tuple(part for part, columns in parts if columns <= {*rules.key})
    if rules.partial:
        return RecordTests(_all(by_key), ())
    fixed = {*rules.fixed}
    together = _all(tuple(part for part, columns in parts if not columns & fixed))
    alone = (part for part, columns in parts if columns & fixed and len(columns) == 1)
    by_row = (*([] if together is None or together == _all(by_key) else [together]), *alone)
    return RecordTests(_all(by_key), by_row)


def _all(parts: tuple[Predicate, ...]) -> Predicate | None:
    return AllOf(parts) if parts else None
