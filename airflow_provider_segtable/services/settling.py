"""Settle a primary-key table: find out which rows of its files readers show, and record that.

1. A file group is due if it has several sorted runs, and files beyond those of its settlement.
2. Its files are read in bounded memory: keys, ordering columns, operations
   (``data.keyed.settled_rows``). If a settlement of the version, or else its largest run, covers
   most of its rows, only rows with keys of the other files are compared again.
3. The fates of the rows are written to one vector file for some groups, then ``GroupsSettled``
   names it. After a crash in between, the file is an orphan, which cleaning deletes.
4. Writers and compactions go on meanwhile, without a lock: a group whose files were replaced is
   left out at the commit, and the next run settles it. So any number of processes may do this.
"""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CommitUnknown, CorruptTable, NotFound
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.settle_events import GroupsSettled
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.settlement import SettledGroup, identity_of, usable
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import sorted_run
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.row_fates import RowFates
from airflow_provider_segtable.data.keyed.settled_file import (
    fates_in,
    read_settled,
    write_settled,
)
from airflow_provider_segtable.data.keyed.settled_rows import largest_run, run_fates, settled_fates
from airflow_provider_segtable.table.committer import Change, Committed, Unknown, commit, way_out
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.upsert import merge_rules

GROUPS_AN_EVENT = 256
"""Most file groups that one event settles."""
MOST_TAIL = 4_000_000
"""Most rows whose keys are held in memory; more are merged with all others, window by window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleRun:
    """The outcome of a settling.

    Attributes:
        version: the newest version read or made.
        groups: the number of file groups that were settled.
        settled_before: the number of file groups that were settled, or had nothing to merge.
        lost: the number of file groups whose files were replaced meanwhile.
        hidden: rows of the settled groups that no reader shows.
        open: rows of the settled groups that are merged at read.
        rows: all rows of their files.
        dry_run: whether nothing was written.
    """

    version: int
    groups: int = 0
    settled_before: int = 0
    lost: int = 0
    hidden: int = 0
    open: int = 0
    rows: int = 0
    dry_run: bool = False

    def __str__(self) -> str:
        """Return the outcome in a line."""
        groups = counted(self.groups, "file group")
        hidden = counted(self.hidden, "row")
        return f"{groups} settled, {self.settled_before:,} before; {hidden} not shown"

    def facts(self) -> Facts:
        """Return the outcome as plain JSON values."""
        return {
            "version": self.version,
            "dry_run": self.dry_run,
            "groups": self.groups,
            "settled_before": self.settled_before,
            "lost": self.lost,
            "rows": self.rows,
            "hidden": self.hidden,
            "open": self.open,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DueGroup:
    """A file group to settle: its visible files with rows."""

    chunk: ChunkKey
    segments: tuple[Segment, ...]

    @property
    def rows(self) -> int:
        """Return the number of rows in its files."""
        return sum(segment.rows for segment in self.segments)

    @property
    def runs(self) -> int:
        """Return the number of its sorted runs."""
        return len({sorted_run(segment) for segment in self.segments})

    def settled(self, fates: Mapping[int, RowFates]) -> SettledGroup:
        """Return the group as an event records it."""
        return SettledGroup(
            chunk=self.chunk,
            files=tuple(sorted(segment.id.partition for segment in self.segments)),
            identity=identity_of(self.segments),
            hidden=sum(each.hidden for each in fates.values()),
            open=sum(len(each.open) for each in fates.values()),
        )


@dataclass(frozen=True, slots=True)
class _Settled:
    """A group with the fates of its rows."""

    due: DueGroup
    fates: Mapping[int, RowFates]


def file_groups_with_rows(state: State, interval: Interval | None = None) -> Iterator[DueGroup]:
    """Yield the visible file groups of a primary-key table that have rows."""
    for chunk in state.timeline.visible_chunks(interval):
        groups = state.timeline.visible_groups(chunk)
        filled = tuple(s for group in groups for s in group.segments if s.rows)
        if filled:
            yield DueGroup(chunk=chunk, segments=filled)


def is_due(state: State, group: DueGroup, damaged: Container[str] = ()) -> bool:
    """Return whether files are merged at read that no settlement covers.

    Settlements whose vectors are in a damaged file do not count.
    """
    if group.runs == 1:
        return False
    known = state.settled.get(group.chunk)
    if known is None or known.path in damaged or not usable(known.group, group.segments):
        return True
    return len(known.group.files) < len(group.segments)


def settle(
    ports: TableContext, *, interval: Interval | None = None, dry_run: bool = False
) -> SettleRun:
    """Settle the file groups that are due.

    Args:
        ports: the table's ports; no coordinator is needed.
        interval: only time chunks that overlap it.
        dry_run: only count the groups.

    Raises:
        InvalidInput: the table has no primary key.
        CorruptTable, ChecksumMismatch: a file is damaged.
        CommitUnknown: the reply to a commit was lost; run it again.
    """
    settling = _Settling.begun(ports)
    due, done = [], 0
    for group in file_groups_with_rows(settling.state, interval):
        if is_due(settling.state, group, settling.damaged):
            due.append(group)
        else:
            done += 1
    run = SettleRun(version=settling.state.n, settled_before=done, dry_run=dry_run)
    if dry_run:
        return replace(run, groups=len(due), rows=sum(group.rows for group in due))
    for start in range(0, len(due), GROUPS_AN_EVENT):
        found = [settling.settled(group) for group in due[start : start + GROUPS_AN_EVENT]]
        kept = [each for each in found if each is not None]
        run = replace(run, lost=run.lost + len(found) - len(kept))
        run = settling.recorded(run, kept) if kept else run
    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settling:
    """The settling of one version; ``damaged`` are vector files that cannot be read."""

    ports: TableContext
    state: State
    rules: MergeRules
    vectors: Mapping[str, pa.Table]
    damaged: tuple[str, ...]

    @staticmethod
    def begun(ports: TableContext) -> "_Settling":
        """Read the newest version, and the vectors of its settlements."""
        state = ports.log.load()
        rules = merge_rules(state, ports.uri)
        sums = {each.path: each.checksum for each in state.settled.values()}
        vectors: dict[str, pa.Table] = {}
        for path, checksum in sums.items():
            with suppress(NotFound, CorruptTable):
                vectors[path] = read_settled(ports.files, path, checksum)
        damaged = tuple(sorted(sums.keys() - vectors))
        return _Settling(ports=ports, state=state, rules=rules, vectors=vectors, damaged=damaged)

    def settled(self, group: DueGroup) -> _Settled | None:
        """Return the fates of a group's rows; None if its files were cleaned meanwhile."""
        reader = GroupReader(self.ports.files, self.state.table)
        try:
            with reader.ahead(group.segments) as ahead:
                known = self._known(ahead, group)
                fates = settled_fates(ahead, group.segments, self.rules, known)
        except NotFound:
            newest = self.ports.log.refresh(self.state)
            groups = newest.timeline.visible_groups(group.chunk)
            visible = [segment for each in groups for segment in each.segments]
            if usable(group.settled({}), visible):
                raise
            return None
        return _Settled(group, fates)

    def _known(self, reader: GroupReader, group: DueGroup) -> Mapping[int, RowFates] | None:
        """Return fates that most rows have already; None if all rows are to be merged."""
        before = self.state.settled.get(group.chunk)
        if before and before.path in self.vectors and usable(before.group, group.segments):
            known = fates_in(self.vectors[before.path], group.chunk)
            if _pays(known.keys(), group):
                return known
        largest = largest_run(group.segments)
        if _pays({segment.id.partition for segment in largest}, group):
            return run_fates(reader, largest, self.rules)
        return None

    def recorded(self, run: SettleRun, found: Sequence[_Settled]) -> SettleRun:
        """Write the vectors of groups, and commit them."""
        ports = self.ports
        file = write_settled(
            ports.files,
            {each.due.chunk: each.fates for each in found},
            ports.randomness.token(),
        )
        action = GroupsSettled(
            path=file.path,
            size=file.size,
            checksum=file.checksum,
            groups=tuple(each.due.settled(each.fates) for each in found),
            damaged=self.damaged,
        )
        change = Change(action=action, commit_id=ports.randomness.token())
        match commit(ports, self.state, change):
            case Conflict():
                ports.files.delete(file.path)
                return replace(run, lost=run.lost + len(found))
            case Committed(n=n, state=state):
                made = [s.group for s in state.settled.values() if s.path == file.path]
            case Unknown(n=n):
                raise CommitUnknown(way_out(ports, change, n))
        chunks = {group.chunk for group in made}
        return replace(
            run,
            version=n,
            groups=run.groups + len(made),
            lost=run.lost + len(found) - len(made),
            hidden=run.hidden + sum(group.hidden for group in made),
            open=run.open + sum(group.open for group in made),
            rows=run.rows + sum(each.due.rows for each in found if each.due.chunk in chunks),
        )


def _pays(partitions: Collection[int], group: DueGroup) -> bool:
    """Return whether fates of these files save a merge of all of them."""
    tail = sum(s.rows for s in group.segments if s.id.partition not in partitions)
    return tail <= min(group.rows / 2, MOST_TAIL)
