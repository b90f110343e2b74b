"""Choose the files of a read: by the log first, then by the indexes of its version.

1. All reads choose their files here: those of this process and of Spark, changes, and plans of
   reads.
2. The log's steps come first (``core.reads.selection``). Each index is one further step; kinds with
   small entries come before others.
3. An index is used if it can judge the condition, and at least ``LEAST_FILES`` are left. The
   footers of fewer files are cheaper to read than its entries.
4. Its entries are read as of the version, with the columns that the condition needs, and are kept
   in memory (``table.entry_cache``). Entries of the index's own table are kept by the time chunks
   of the files that are left, and apart from those of waiting feeds. So after a new feed only the
   waiting entries are read again.
5. A file is left out only by entries about itself. A file without entries is opened.
6. No read depends on an index. If an index cannot be read, it is not used; the plan of the read
   and one warning say so.
"""

import logging
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_state import KINDS, IndexState, index_table
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.reads.effects import added
from airflow_provider_segtable.core.reads.selection import (
    MayHold,
    Narrowing,
    PrunedBy,
    RecordTests,
    Segments,
    Selection,
    record_tests,
)
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Interval, aligned
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.conditions import by_predicate
from airflow_provider_segtable.data.indexes.entries import (
    IndexView,
    LayeredView,
    entry_columns_for,
    view_of,
)
from airflow_provider_segtable.data.keyed.file_groups import FileGroup
from airflow_provider_segtable.data.keyed.wanted_keys import WantedKeys, one_of
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_entries import table_entries, waiting_entries
from airflow_provider_segtable.table.parts import Clipped, Wanted, groups_to_read

LEAST_FILES = 16
"""Least number of files for which the entries of an index are read.

With fewer files, the first read of a table is slower with an index. Measured with one wanted row,
files of 5,000 rows on a local disk, and both kinds that judge conditions; the time with an index as
a share of the time without it, of a first read, and with the entries in memory:

=====  ============  ============
files  first read    later reads
=====  ============  ============
    8  0.98 to 1.88  0.57 to 0.63
   12  1.09 to 1.15  0.40 to 0.46
   16  0.94 to 1.02  0.38 to 0.41
   24  0.52 to 0.80  0.23 to 0.32
=====  ============  ============
"""

_UNUSABLE = (SegtableError, OSError, pa.ArrowException, ValueError, LookupError)
_LOG = logging.getLogger(__name__)

Item = TypeVar("Item", bound=Segments)


def pruned(
    ports: TableContext, state: State, found: Selection[Item], wanted: Narrowing[Item]
) -> Selection[Item]:
    """Return the selection after one more step for each index that is used.

    Args:
        ports: the table's ports.
        state: the version that is read.
        found: the selection after all other steps.
        wanted: the conditions of the read.
    """
    for index in _by_cost(state.indexes):
        try:
            found = _step(ports, state, index, found, wanted)
        except _UNUSABLE as error:
            name = index.definition.name
            if ports.entries.warns(index.definition.id):
                _LOG.warning("%s: index %s is not used: %s", ports.uri, name, error)
            found = found.noted(name, f"not used, because it cannot be read: {error}")
    return found


def _by_cost(indexes: Mapping[str, IndexState]) -> list[IndexState]:
    kinds = [*KINDS]
    return sorted(indexes.values(), key=lambda each: kinds.index(each.definition.kind.name))


def _step(
    ports: TableContext,
    state: State,
    index: IndexState,
    found: Selection[Item],
    wanted: Narrowing[Item],
) -> Selection[Item]:
    name = index.definition.name
    columns = _columns(state, index, wanted.tests)
    if not columns:
        return found.noted(name, "not used, because it cannot judge the condition")
    files = found.files.values()
    if not files:
        return found
    if len(files) < LEAST_FILES:
        left = counted(len(files), "file")
        return found.noted(name, f"not used for {left}: it pays from {LEAST_FILES}")
    view = _view(ports, state, index, _interval(state, index, files), columns)
    unknown = sum(not view.knows(each) for each in files)
    by = PrunedBy(index.definition.kind.name)
    left_over = found.narrowed(by, lambda item: wanted.narrow(item, view.may_hold), index=name)
    if unknown:
        return left_over.noted(name, f"it does not know {counted(unknown, 'file')}")
    return left_over


def _columns(state: State, index: IndexState, tests: Iterable[Predicate]) -> tuple[str, ...]:
    needed = (entry_columns_for(index.definition, state.table, test) for test in tests)
    return tuple(dict.fromkeys(name for some in needed for name in some))


def _interval(state: State, index: IndexState, files: Iterable[Segment]) -> Interval:
    """Return the time of the index's own chunks that have the entries about these files.

    A file that was carried over may be known under the time chunk that it was written for.
    """
    starts = [each.interval.start for file in files for each in (file.id, file.file_id)]
    own = index_table(index.definition, state.table)
    return aligned(Interval(min(starts), max(starts) + 1), own.granularity)


def _view(
    ports: TableContext,
    state: State,
    index: IndexState,
    interval: Interval,
    columns: Sequence[str],
) -> IndexView:
    def made(entries: pa.Table) -> tuple[IndexView, int]:
        return view_of(index.definition, state.table, entries), entries.nbytes

    common: Hashable = (index.definition.id, columns, state.table.schema)
    fed = tuple(n for n, _ in index.feeds)
    waiting = ports.entries.view(
        (common, fed), lambda: made(waiting_entries(ports, index, columns))
    )
    in_table = ports.entries.view(
        (common, index.forwarded, interval),
        lambda: made(table_entries(ports, index, interval, columns)),
    )
    return LayeredView((waiting, in_table))


def chosen_segments(
    ports: TableContext,
    state: State,
    wanted: Wanted,
    *,
    roots: Collection[SegmentId] | None = None,
    start: State | None = None,
) -> Selection[Clipped]:
    """Return the segments to read.

    Args:
        ports: the table's ports.
        state: the version.
        wanted: the rows that are wanted.
        roots: only segments that may hold rows of these.
        start: only segments with rows added after this version.
    """
    found = wanted.among(state, roots)
    if start is not None:
        found = found.pruned(PrunedBy.WINDOW, lambda each: bool(added(each.segment, start).roots))
    return pruned(ports, state, found, wanted) if wanted.conditions else found


def chosen_groups(
    ports: TableContext,
    state: State,
    rules: MergeRules,
    wanted: Wanted,
    *,
    start: State | None = None,
    base_only: bool = False,
) -> Selection[FileGroup]:
    """Return the file groups to read, of a table with a primary key.

    Args:
        ports: the table's ports.
        state: the version.
        rules: how the records of a key become its row.
        wanted: the rows that are wanted.
        start: only file groups with records that completed after this version.
        base_only: of each, only the base.
    """
    found = groups_to_read(state, wanted.interval, start, base_only=base_only)
    if not wanted.conditions:
        return found
    tests = record_tests(wanted.tests, rules)
    keys = pinned_keys(tests, rules, state)
    if keys is not None:
        found = found.pruned(PrunedBy.BUCKETS, lambda group: _has(keys, group, state))
    timed = found.pruned(
        PrunedBy.EVENT_TIMES,
        lambda group: all(group.may_hold(each, wanted.time_column) for each in wanted.conditions),
    )
    return pruned(ports, state, timed, _WantedGroups(tests))


def groups_of_keys(
    ports: TableContext,
    state: State,
    rules: MergeRules,
    keys: WantedKeys,
    interval: Interval | None,
) -> tuple[FileGroup, ...]:
    """Return the file groups that may have records of some keys.

    Args:
        ports: the table's ports.
        state: the version.
        rules: how the records of a key become its row.
        keys: the keys, of which indexes are asked if they are few.
        interval: only rows with event times in it.
    """
    found = groups_to_read(state, interval)
    found = found.pruned(PrunedBy.BUCKETS, lambda group: _has(keys, group, state))
    test = one_of(keys.rows, rules.key) if keys.rows.num_rows <= FEW_KEYS else None
    if test is not None:
        time = state.table.time_column
        judged = by_predicate(test, time)
        found = found.pruned(PrunedBy.EVENT_TIMES, lambda group: group.may_hold(judged, time))
        found = pruned(ports, state, found, _WantedGroups(record_tests([test], rules)))
    return found.left


FEW_KEYS = 256
"""The most keys of which an index is asked, each for each file."""


def pinned_keys(tests: RecordTests, rules: MergeRules, state: State) -> WantedKeys | None:
    """Return the keys that conditions on the key alone ask for; None if they pin none."""
    if tests.by_key is None:
        return None
    return WantedKeys.pinned([tests.by_key], rules, to_arrow(state.table.schema))


def _has(keys: WantedKeys, group: FileGroup, state: State) -> bool:
    return any(keys.may_be_in(segment, state.layout.buckets) for segment in group.segments)


@dataclass(frozen=True, slots=True)
class _WantedGroups:
    """The conditions of a read of a primary-key table."""

    records: RecordTests

    @property
    def tests(self) -> tuple[Predicate, ...]:
        """Return the conditions on files."""
        return self.records.all

    def narrow(self, group: FileGroup, may_hold: MayHold) -> FileGroup | None:
        """Return the group with the files that matching rows may need; None without any."""
        return group.narrowed(self.records, may_hold)
