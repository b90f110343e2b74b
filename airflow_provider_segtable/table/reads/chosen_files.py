"""Which files a read opens: what the log decides first, then what indexes do.

Reads in this process and in Spark, changes, and plans of reads all choose their files here.
"""

from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.reads.effects import added
from airflow_provider_segtable.core.reads.selection import (
    MayHold,
    PrunedBy,
    RecordTests,
    Selection,
    record_tests,
)
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.keyed.file_groups import FileGroup
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.pruning import pruned
from airflow_provider_segtable.table.reads.merged_scan import groups_to_read
from airflow_provider_segtable.table.reads.parts import Clipped, Wanted


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
    timed = found.pruned(
        PrunedBy.EVENT_TIMES,
        lambda group: all(group.may_hold(each, wanted.time_column) for each in wanted.conditions),
    )
    return pruned(ports, state, timed, _WantedGroups(record_tests(wanted.tests, rules)))


@dataclass(frozen=True, slots=True)
class _WantedGroups:
    """What a read wants of a table with a primary key."""

    records: RecordTests

    @property
    def tests(self) -> tuple[Predicate, ...]:
        """Return the conditions that files are judged by."""
        return self.records.all

    def narrow(self, group: FileGroup, may_hold: MayHold) -> FileGroup | None:
        """Return the group with the files that matching rows may depend on; None without any."""
        return group.narrowed(self.records, may_hold)
