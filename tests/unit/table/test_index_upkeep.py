"""A table's life with indexes: alterations, restores, tags, and feeds that pile up."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.catch_up import next_piece
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import ColumnStats, FileList
from airflow_provider_segtable.core.indexes.index_state import unfit
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.index_events import IndexForwarded
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.tables.evolution import DropColumn, RenameColumn
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.table import committer
from airflow_provider_segtable.table.alteration import Alteration
from airflow_provider_segtable.table.committer import forward_feeds
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import new_table, numbers, rows
from tests.unit.table.test_indexes import found, listed, paths

INDEXED = ColumnStats(columns=(2,))


def test_an_indexed_column_keeps_its_type(service: MemoryService) -> None:
    """To drop it is refused before anything is written, and at the commit; so is to widen it."""
    table = new_table(service)
    drop = DropColumn(name="row")
    action = Alteration(columns=(drop,)).action(table.state().table)
    request_index(table.ports, "files", INDEXED)
    state = table.state()
    with pytest.raises(InvalidInput, match="segtable index drop TABLE files"):
        table.alter(columns=[drop])
    assert table.state().n == state.n
    late = admit(action, state)
    assert isinstance(late, Conflict)
    assert "index 'files'" in late.reason
    columns = (
        replace(c, type="int32") if c.name == "row" else c for c in state.table.schema.columns
    )
    narrow = replace(state.table, schema=replace(state.table.schema, columns=tuple(columns)))
    assert "widened" in str(unfit(state.indexes.values(), narrow, state.table))


def test_other_alterations_do_not_mind_an_index(service: MemoryService) -> None:
    """Renaming an indexed column, dropping another one, and properties."""
    table = new_table(service)
    request_index(table.ports, "files", INDEXED)
    changes = [RenameColumn(name="row", new="number"), DropColumn(name="name")]
    table.alter(columns=changes, set={"compaction.min_segments": "4"})
    assert table.state().table.schema.names == ("at", "number", "price")


def test_a_restored_version_lacks_what_it_brought_back(table: Table) -> None:
    """Its files may have been hidden when the index was built, so they are built again."""
    request_index(table.ports, "files", FileList())
    before = table.state()
    table.delete("row >= 20")
    table.append(rows(range(40, 60)))
    table.restore(version=before.n)
    index = found(table)
    hours = {segment.id.interval for segment in table.snapshot().segments()}
    lacking = {lack.interval for lack in index.lacks if lack.n == table.state().n}
    assert lacking == {Interval(min(h.start for h in hours), max(h.end for h in hours))}
    piece = next_piece(index, table.state())
    assert piece is not None
    assert {s.path for s in piece.segments} <= set(paths(table))
    assert not [*violations(table.state())]


def test_earlier_and_tagged_versions_stay_readable(table: Table) -> None:
    """A version from before the index has none; one from after has it, whatever came since."""
    old = table.state().n
    table.tag("before", version=old)
    request_index(table.ports, "files", FileList())
    table.append(rows(range(40, 60)))
    newer = table.state().n
    forward_feeds(table.ports, table.state())
    state = table.state()
    assert not table.ports.log.version(old, state).indexes
    assert table.ports.log.version(newer, state).indexes["files"].feeds
    assert numbers(table, version=old) == [*range(40)]
    assert numbers(table, version=newer) == [*range(60)]


def test_feeds_do_not_pile_up(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer of the last one that the state should carry copies all of them."""
    monkeypatch.setattr(committer, "MANY", 4)
    request_index(table.ports, "files", FileList())
    unfed = set(paths(table))
    for turn in range(4, 14):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
        assert len(found(table).feeds) < 4
    assert set(paths(table)) - set(listed(table)) == unfed
    forwarded = [e for e in table.ports.log.events(0) if isinstance(e.action, IndexForwarded)]
    assert len(forwarded) == 2
