"""Check that the entries of indexes agree with the files that they are about.

1. The table of an index is verified like any table. Damage there is a warning, because reads open
   the files instead.
2. An entry is *stale* if its checksum is not that of the file's footer: readers do not use it.
   With ``deep``, an entry is *wrong* if it differs from the one that is computed of the file now:
   readers may leave out rows.
3. Entries about files that the table does not have are *superfluous*: the next cleaning that
   deletes files deletes them. They are compared with the newest state, read after the entries.
4. Facts about records are compared with the records (``record_check``), with ``deep``.
5. A visible file of a time that the index does not lack should have an entry. Without one it is
   *left out*: reads open it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_kind import CHECKSUM, FILE
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.families.index_events import index_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.data.indexes.entry_kind import footer_checksum
from airflow_provider_segtable.health.record_check import check_records
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_entries import entries_in
from airflow_provider_segtable.table.indexes.lifecycle import inner_tables

FILES = 256
"""Number of files whose entries are computed at once."""
SHOWN = 3

Verify = Callable[[TableContext], Iterable[Finding]]
"""Verifies the table of an index."""


def check_indexes(
    ports: TableContext, state: State, verify: Verify, *, deep: bool
) -> Iterator[Finding]:
    """Yield what is wrong with the indexes of a table.

    Args:
        ports: the table's ports.
        state: the version to verify.
        verify: verifies the table of an index.
        deep: compute the entries of all visible files again.
    """
    for index, own in inner_tables(ports, state):
        try:
            for each in verify(own):
                yield _of_index(index, own.uri, each)
            found = entries_in(ports, index)
        except (SegtableError, OSError) as error:
            if index_of(index.definition.id, ports.log.refresh(state)) is None:
                continue  # dropped or rebuilt meanwhile
            yield _warn("unread-index", index, f"its entries cannot be read: {error}")
            continue
        if not index.definition.kind.about_files:
            yield from _of_records(ports, state, index, found) if deep else ()
            continue
        by_file = _by_file(found)
        visible = [s for s in state.timeline.each_visible() if s.path]
        stale = {*_other_files(by_file, visible)}
        if stale:
            what = f"entries of other files by the names of {counted(len(stale), 'file')}: "
            yield _warn("stale-entries", index, f"{what}{_some(stale)}")
        if deep:
            trusted = [s for s in visible if s.path in by_file and s.path not in stale]
            yield from _wrong(index, {*_differing(ports, state, index, found, trusted)})
        yield from _superfluous(ports, state, index, by_file)
        yield from _left_out(index, by_file, visible)


def _of_records(
    ports: TableContext, state: State, index: IndexState, found: pa.Table
) -> Iterator[Finding]:
    """Yield what is wrong with facts about records; they may be newer than the version is."""
    wrong = [*check_records(ports, state, index, found)]
    newest = ports.log.refresh(state) if wrong else state
    if newest.n == state.n:
        yield from wrong
    elif later := index_of(index.definition.id, newest):
        yield from check_records(ports, newest, later, entries_in(ports, later))


def _of_index(index: IndexState, uri: str, finding: Finding) -> Finding:
    """Return a finding about the table of an index: its damage makes no read wrong."""
    where = f"index {index.definition.name}: {finding.where}"
    if finding.severity is not Severity.CRITICAL:
        return replace(finding, where=where, do=f"in {uri}: {finding.do}")
    return replace(
        finding,
        severity=Severity.WARNING,
        where=where,
        why="entries that cannot be read are not used: reads open the files",
        do=_rebuild(index),
    )


def _by_file(found: pa.Table) -> dict[str, set[str | None]]:
    by_file: dict[str, set[str | None]] = {}
    names, sums = found.column(FILE).to_pylist(), found.column(CHECKSUM).to_pylist()
    for name, checksum in zip(names, sums, strict=True):
        by_file.setdefault(name, set()).add(checksum)
    return by_file


def _other_files(
    by_file: Mapping[str, set[str | None]], visible: Iterable[Segment]
) -> Iterator[str]:
    """Yield the files whose entries were made of another file."""
    for segment in visible:
        if by_file.get(segment.path, {footer_checksum(segment)}) != {footer_checksum(segment)}:
            yield segment.path


def _differing(
    ports: TableContext,
    state: State,
    index: IndexState,
    found: pa.Table,
    segments: Sequence[Segment],
) -> Iterator[str]:
    """Yield the files of which other entries are computed now."""
    definition = index.definition
    there = _rows(index, found)
    for start in range(0, len(segments), FILES):
        some = segments[start : start + FILES]
        try:
            now = _rows(index, entries(definition, state.table, some, ports.files))
        except (SegtableError, OSError):
            continue  # the check of the files says so
        yield from (s.path for s in some if there.get(s.path) != now.get(s.path))


def _rows(index: IndexState, found: pa.Table) -> dict[str, list[dict[str, object]]]:
    """Return entries by file, in the order of their keys."""
    by_file: dict[str, list[dict[str, object]]] = {}
    order = [(name, "ascending") for name in index.definition.kind.key]
    for row in found.sort_by(order).to_pylist():
        by_file.setdefault(row[FILE], []).append(row)
    return by_file


def _wrong(index: IndexState, wrong: Collection[str]) -> Iterator[Finding]:
    if wrong:
        yield Finding(
            code="wrong-entries",
            severity=Severity.CRITICAL,
            where=f"index {index.definition.name}",
            what=f"the entries about {counted(len(wrong), 'file')} differ from what is in the "
            f"files: {_some(wrong)}",
            why="reads with a condition may leave out rows",
            do=f"{_rebuild(index)}, and report this as a bug of segtable",
        )


def _superfluous(
    ports: TableContext, state: State, index: IndexState, by_file: Mapping[str, object]
) -> Iterator[Finding]:
    newest = ports.log.refresh(state)
    gone = {*by_file}.difference(state.timeline.paths(), newest.timeline.paths())
    if gone:
        yield Finding(
            code="superfluous-entries",
            severity=Severity.INFO,
            where=f"index {index.definition.name}",
            what=f"entries about {counted(len(gone), 'file')} that the table does not have: "
            f"{_some(gone)}",
            why="they use space, and are never read",
            do="segtable clean TABLE deletes them with the next files that it deletes",
        )


def _left_out(
    index: IndexState, by_file: Mapping[str, object], visible: Iterable[Segment]
) -> Iterator[Finding]:
    lacks = [each.interval for each in index.lacks]
    missing = {
        segment.path
        for segment in visible
        if segment.path not in by_file
        and not any(lack.overlaps(segment.id.interval) for lack in lacks)
    }
    if missing:
        yield Finding(
            code="missing-entries",
            severity=Severity.INFO,
            where=f"index {index.definition.name}",
            what=f"no entries about {counted(len(missing), 'visible file')}: {_some(missing)}",
            why="reads open these files",
            do=_rebuild(index),
        )


def _warn(code: str, index: IndexState, what: str) -> Finding:
    return Finding(
        code=code,
        severity=Severity.WARNING,
        where=f"index {index.definition.name}",
        what=what,
        why="these entries are not used: reads open the files",
        do=_rebuild(index),
    )


def _rebuild(index: IndexState) -> str:
    return f"segtable index rebuild TABLE {index.definition.name}"


def _some(paths: Iterable[str]) -> str:
    found = sorted(paths)
    return ", ".join(found[:SHOWN]) + (" ..." if len(found) > SHOWN else "")
