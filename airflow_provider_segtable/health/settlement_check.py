"""Check settlements: their vector files, and with ``deep`` the fate of every row.

1. A vector file that is missing or damaged is a warning: reads merge instead.
2. The counts of an event and its vector file have to agree.
3. A deep check merges the files of each settlement that the version uses anew, from nothing, and
   compares the fates of all rows.
"""

from collections.abc import Iterator, Mapping

from airflow_provider_segtable.core.errors import CorruptTable, NotFound, StorageError
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import (
    Finding,
    unread,
    unread_settlement,
    wrong_settlement,
)
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.settlement import Settlement, usable
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.row_fates import RowFates
from airflow_provider_segtable.data.keyed.settled_file import fates_in, read_settled
from airflow_provider_segtable.data.keyed.settled_rows import settled_fates
from airflow_provider_segtable.table.context import TableContext


def check_settlements(ports: TableContext, state: State, *, deep: bool) -> Iterator[Finding]:
    """Yield findings about the settlements of a version."""
    by_path: dict[str, list[Settlement]] = {}
    for each in state.settled.values():
        by_path.setdefault(each.path, []).append(each)
    for path, some in sorted(by_path.items()):
        try:
            table = read_settled(ports.files, path, some[0].checksum)
            for each in some:
                yield from _compared(ports, state, each, fates_in(table, each.group.chunk), deep)
        except NotFound:
            yield unread_settlement(path, "missing-settled-rows", "the file is missing")
        except CorruptTable as error:
            yield unread_settlement(path, "bad-settled-rows", str(error))
        except StorageError as error:
            yield unread(path, f"settled rows could not be read: {error}", code="unread")


def _compared(
    ports: TableContext,
    state: State,
    settlement: Settlement,
    fates: Mapping[int, RowFates],
    deep: bool,  # noqa: FBT001 - passed on
) -> Iterator[Finding]:
    """Yield where a settlement differs from its vectors, or these from the rows."""
    group = settlement.group
    hidden = sum(each.hidden for each in fates.values())
    opened = sum(len(each.open) for each in fates.values())
    if (tuple(sorted(fates)), hidden, opened) != (group.files, group.hidden, group.open):
        what = f"{group.chunk} has {hidden} hidden rows there, {group.hidden} in the log"
        yield wrong_settlement(settlement.path, what)
        return
    visible = [s for g in state.timeline.visible_groups(group.chunk) for s in g.segments]
    rules = state.table.kind.rules
    if deep and rules is not None and usable(group, visible):
        files = [segment for segment in visible if segment.id.partition in fates]
        found = settled_fates(GroupReader(ports.files, state.table), files, rules)
        for partition in group.files:
            if found[partition] != fates[partition]:
                what = f"the rows of {_path(files, partition)} have other fates"
                yield wrong_settlement(settlement.path, what)


def _path(files: list[Segment], partition: int) -> str:
    return next(each.path for each in files if each.id.partition == partition)
