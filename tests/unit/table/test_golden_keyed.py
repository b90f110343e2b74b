"""A primary-key table of an older version stays readable: rows, log, checkpoint and footers."""

import json
from typing import Any

import pytest

from airflow_provider_segtable.core.log.events import encode
from airflow_provider_segtable.core.log.families.consumer_events import ConsumerAdvanced
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.log_paths import checkpoint_path, event_path
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.data.keyed.group_reader import described_roots, own_root
from airflow_provider_segtable.data.parquet.descriptor import (
    KEY,
    TABLE_KEY,
    encode_definition,
    encode_descriptor,
    read_descriptor,
)
from airflow_provider_segtable.data.parquet.footer import read_footer
from airflow_provider_segtable.table.dropping import list_files
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint
from airflow_provider_segtable.table.table import Table
from tests.golden.make_keyed import KIND, PLACE

ROWS = [
    # key, seq, text, seen, gate
    (0, 8, "last", 3, "g3"),
    (1, 3, "first", 3, "g3"),
    (2, 6, "late", 5, "g5"),
    (3, 6, "late", 5, "g5"),
    (4, 6, "late", 5, "g5"),
    (5, 4, "fourth", 1, "g1"),
    (7, 4, "fourth", 1, "g1"),
]


@pytest.fixture
def table() -> Table:
    """The golden table."""
    return Table.open(str(PLACE))


def test_rows_are_read(table: Table) -> None:
    """Each column has its newest value, whatever was merged, divided and written since."""
    rows = table.scan(columns=["key", "seq", "text", "seen", "gate"]).to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == ROWS


def test_events_and_checkpoint_agree(table: Table) -> None:
    """Events are read and written again but for bases, and add up to what the checkpoint has."""
    log, state = table.ports.log, table.state()
    assert state == log.at(state.n)
    assert list(violations(state)) == []
    (n,) = log.checkpoints()
    found = read_checkpoint(table.ports.storage.read(checkpoint_path(n)))
    assert found == log.at(n)
    assert {chunk.bucket for chunk in found.timeline.chunk_keys()} == {0, 1, 2}
    events = [*log.events(0)]
    for event in events:
        assert older(encode(event)) == older(table.ports.storage.read(event_path(event.n)))
    actions = [event.action for event in events]
    assert [a.name for a in actions if isinstance(a, ConsumerAdvanced)] == ["billing"]
    assert [len(a.late) for a in actions if isinstance(a, PlanCompleted) and a.late] == [2, 2]


def older(data: bytes) -> dict[str, Any]:
    """Return an event or a descriptor as a segtable wrote it that did not record bases."""
    body: dict[str, Any] = json.loads(data)
    for one in (body, *body.get("action", {}).get("segments", ())):
        one.pop("base", None)
    body.pop("checksum", None)
    return body


def test_bases_are_read_alone(table: Table) -> None:
    """What was merged by the major compaction is known, although its event does not say so."""
    rows = table.scan(columns=["key", "seq", "text"], base_only=True).to_arrow().to_pylist()
    merged = [(0, 3, "first"), (1, 3, "first"), (2, 1, "first"), (3, 1, "first"), (4, 4, "fourth")]
    more = [(5, 4, "fourth"), (6, 4, "fourth"), (7, 4, "fourth")]
    assert sorted(tuple(row.values()) for row in rows) == [*merged, *more]


def test_the_layout_has_the_regions_of_the_log(table: Table) -> None:
    """The hours that were divided anew have three buckets, others the table's two."""
    layout = table.state().layout
    numbers = [layout.buckets_at(hour * 3_600_000_000 + 1_356_998_400_000_000) for hour in range(3)]
    assert numbers == [3, 3, KIND.buckets]


def test_footers_describe_files_and_records(table: Table) -> None:
    """Descriptor and definition are read and written again; roots name log files."""
    files, state = table.ports.files, table.state()
    logs = {s.file_id.partition for s in state.timeline.segments() if s.file_id.provisional}
    merged = 0
    for segment in (s for s in state.timeline.segments() if s.path):
        with files.open(segment.path) as source:
            entries = read_footer(source).metadata
        described = encode_descriptor(read_descriptor(files, segment.path))
        assert older(entries[KEY]) == older(described)
        assert entries[TABLE_KEY] == encode_definition(first_state(table).table, state.base_version)
        roots = described_roots(files, segment)
        if roots is None:
            assert own_root(segment).instant == segment.created
        else:
            merged += 1
            assert {*roots.column("partition").to_pylist()} <= logs
    assert merged == 12


def first_state(table: Table) -> State:
    """Return the table as it was created."""
    return table.ports.log.at(0)


def test_windows_are_read(table: Table) -> None:
    """The consumer's window has the rows that changed since its position."""
    changes = table.scan(consumer="billing", changes=True).to_arrow()
    assert {*changes.column("_segtable_change").to_pylist()} == {
        "update_before",
        "update_after",
        "delete",
    }
    assert {*changes.column("key").to_pylist()} == {0, 2, 3, 4, 6}


def test_a_drop_knows_its_files(table: Table) -> None:
    """Every name is one that segtable gives, so a drop leaves none of them."""
    files = {each.path: is_own for each, is_own in list_files(table.ports)}
    assert all(files.values())
    assert any(".log." in path for path in files)
