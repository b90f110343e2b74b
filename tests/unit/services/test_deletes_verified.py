"""Verify and doctor look after files of deletions: planted damage is named, with a way out."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from airflow_provider_segtable.core.deletion import Deletion, PredicateDelete
from airflow_provider_segtable.core.errors import StorageError
from airflow_provider_segtable.core.log.events import encode
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import AllOf
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.data.vector_file import read_vectors, write_vectors
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import SCHEMA

ROWS = 10


@pytest.fixture
def deleted(ports: TableContext) -> TableContext:
    """A table of which two deletes took rows of several segments; one hour is sorted between."""
    for turn in range(3):
        numbers = [*range(100 + ROWS * turn, 100 + ROWS * (turn + 1))]
        Table(ports).append(pa.table({"at": numbers, "row": numbers}, SCHEMA))
    Table(ports).delete("row IN (100, 103, 111)")
    for asked in request(ports, "semi-major"):
        compact(ports, [asked.plan.id], in_process(ports.files))
    Table(ports).append(pa.table({"at": [5, 6], "row": [200, 201]}, SCHEMA))
    Table(ports).delete("row IN (101, 112, 200)")
    return ports


def found(ports: TableContext) -> tuple[Finding, ...]:
    return verify(replace(ports, optional_coordinator=None)).findings


def vectors(ports: TableContext) -> Iterator[tuple[SegmentId, Deletion]]:
    for root, some in Table(ports).state().vectors.items():
        yield from ((root, each) for each in some)


def put(ports: TableContext, path: str, rows: dict[SegmentId, BitMap]) -> None:
    """Write other vectors in a file's place, and have the log name their checksum."""
    files: Any = ports.files
    del files.store[path]
    token = path.removeprefix("deletes/").removesuffix(".arrow")
    made = write_vectors(ports.files, rows, token)
    for event in EventLog(ports.storage).events(0):
        if isinstance(event.action, RowsChanged) and event.action.vectors[0].path == path:
            (told,) = event.action.vectors
            action = replace(event.action, vectors=(replace(told, checksum=made.checksum),))
            ports.storage.replace(event_path(event.n), encode(replace(event, action=action)))


def test_a_sound_table_with_deletions_gives_no_finding(deleted: TableContext) -> None:
    """At every version, every row decoded, and nothing is wrong with its operation but age."""
    assert (
        verify(replace(deleted, optional_coordinator=None), all_versions=True, deep=True).findings
        == ()
    )
    assert not {each.code for each in examine(deleted).findings} & {
        "missing-vectors",
        "deleted-rows",
    }


def test_a_lost_file_of_deletions_is_named(deleted: TableContext) -> None:
    """By verify and by doctor: scans fail, so it is critical, and how many rows it is about."""
    (path,) = {each.path for _, each in vectors(deleted) if each.n == Table(deleted).state().n}
    files: Any = deleted.files
    del files.store[path]
    (seen,) = found(deleted)
    assert (seen.code, seen.severity, seen.where) == ("missing-vectors", Severity.CRITICAL, path)
    assert "deletion vectors of 4 rows" in seen.what
    assert f"segtable repair {deleted.uri} --deletes apply" in seen.do
    assert seen in examine(deleted).findings


def test_a_torn_file_of_deletions_is_named(deleted: TableContext) -> None:
    """Whatever its bytes are."""
    _, one = next(vectors(deleted))
    files: Any = deleted.files
    files.store[one.path] = b"torn"
    assert [each.code for each in found(deleted)] == ["bad-vectors"]


def test_counts_must_be_those_of_the_log(deleted: TableContext) -> None:
    """A root with more rows, and one that is not there at all."""
    root, one = next(vectors(deleted))
    rows = read_vectors(deleted.files, one.path)
    put(deleted, one.path, {**rows, root: BitMap([*rows[root], 7])})
    (more,) = found(deleted)
    assert (more.code, f"has {one.rows + 1} rows" in more.what) == ("wrong-vectors", True)
    put(deleted, one.path, {k: v for k, v in rows.items() if k != root})
    assert [("has 0 rows" in each.what) for each in found(deleted)] == [True]


def test_rows_that_a_root_does_not_have_are_named(deleted: TableContext) -> None:
    """Where the root's own segment is still there."""
    root, one = next(vectors(deleted))
    rows = read_vectors(deleted.files, one.path)
    put(deleted, one.path, {**rows, root: BitMap(range(500, 500 + one.rows))})
    (seen,) = found(deleted)
    assert f"has row {499 + one.rows} of {root}, which has {ROWS}" in seen.what


def test_a_row_that_is_deleted_twice_is_named(deleted: TableContext) -> None:
    """The books count rows of a root once."""
    root, one = next(vectors(deleted))
    rows = read_vectors(deleted.files, one.path)
    file = write_vectors(deleted.files, {root: rows[root]}, "again")
    state = Table(deleted).state()
    change = RowsChanged(kind="delete", vectors=(file,), seen=state.n)
    commit_or_raise(deleted, state, Change(action=change, commit_id="again"))
    codes = {each.code for each in found(deleted)}
    assert codes == {"overlapping-vectors"}


def test_storage_that_fails_is_no_damage(deleted: TableContext) -> None:
    """What could not be read is unchecked."""

    class Failing:
        def __init__(self, files: Any) -> None:
            self.files = files

        def open(self, path: str) -> Any:
            if path.startswith("deletes/"):
                raise StorageError(f"{path}: the network is down")
            return self.files.open(path)

    seen = found(replace(deleted, files=Failing(deleted.files)))  # type: ignore[arg-type]
    assert {(each.code, each.severity) for each in seen} == {("unread", Severity.UNCHECKED)}


def test_much_that_is_deleted_and_left_is_told_by_the_doctor(deleted: TableContext) -> None:
    """Where the policy switches every rewriting off; the reason is a share of rows."""
    Table(deleted).delete("row >= 105 AND row < 130")
    assert "deleted-rows" not in {each.code for each in examine(deleted).findings}
    off = {
        "compaction.semi_major": "off",
        "compaction.major": "off",
        "compaction.max_plan_bytes": "1",
    }
    state = Table(deleted).state()
    properties = {**state.table.properties, **off}
    (seen,) = _undone(deleted, replace(state, table=replace(state.table, properties=properties)))
    assert (seen.code, seen.severity) == ("deleted-rows", Severity.WARNING)
    assert "% of its rows are deleted" in seen.what
    assert "--kind major" in seen.do


def _undone(ports: TableContext, state: State) -> list[Finding]:
    from airflow_provider_segtable.planning.findings.health_findings import (
        Observed,
        undone_deletions,
    )
    from airflow_provider_segtable.planning.properties import Policy
    from airflow_provider_segtable.planning.table_plan import plan_all

    policy, now = Policy.read(state.table.properties), ports.clock.now()
    seen = Observed(
        table="t", state=state, now=now, policy=policy, planned=plan_all(state, policy, now)
    )
    return [*undone_deletions(seen)]


def test_what_the_log_must_say_of_deletions(deleted: TableContext) -> None:
    """Each rule of a state's deletions, broken one by one."""
    state = Table(deleted).state()
    assert [*violations(state)] == []
    root, some = next((r, s) for r, s in state.vectors.items())
    segment = next(s for s in state.timeline.segments() if s.path)
    future = replace(some[0], n=state.n + 1)
    early = replace(some[0], n=0)
    broken = [
        replace(state, vectors={**state.vectors, root: (future,)}),
        replace(state, vectors={**state.vectors, root: (*some, early)}),
        replace(state, vectors={**state.vectors, root: (replace(some[0], rows=0),)}),
        replace(state, predicate_deletes=(PredicateDelete(n=state.n + 1, predicate=AllOf(())),)),
    ]
    ahead = replace(segment, deletes_applied_through=state.n + 1)
    changed = state.timeline.with_changes(remove=[segment.id]).with_changes(add=[ahead])
    broken.append(replace(state, timeline=changed))
    for each in broken:
        assert any("at event" in said or "no rows" in said for said in violations(each)), each
