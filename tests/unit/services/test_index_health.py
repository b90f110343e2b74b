"""Indexes that lag, are unreadable or disagree with the files: verify and the doctor say so."""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.indexes.index_kind import BYTES, CHECKSUM, FileList
from airflow_provider_segtable.core.indexes.index_state import folder
from airflow_provider_segtable.core.log.families.index_events import IndexBuilt
from airflow_provider_segtable.core.log.families.plan_events import PlanAborted
from airflow_provider_segtable.core.log.log_paths import checkpoint_path
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.time import ALL_TIME
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.findings import index_findings
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services import indexing
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import Ended
from airflow_provider_segtable.services.index_run import run_index
from airflow_provider_segtable.services.indexing import requested_plan
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.indexes import feeding
from airflow_provider_segtable.table.indexes.index_entries import (
    entries_in,
    index_ports,
    write_feed,
)
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import rows
from tests.unit.services.indexed import index, indexed_table
from tests.unit.services.test_cleaning import compact_all, pass_hours


@pytest.fixture
def ports() -> TableContext:
    return indexed_table(MemoryService())


def codes(findings: Iterable[Finding]) -> set[str]:
    return {each.code for each in findings}


def overwritten(ports: TableContext, column: str, value: object) -> None:
    """Give the index entries with another value in a column."""
    found = entries_in(ports, index(ports))
    at = found.schema.get_field_index(column)
    kind = found.schema.field(at)
    other = found.set_column(at, kind, pa.repeat(pa.scalar(value, kind.type), found.num_rows))
    change = Change(
        action=IndexBuilt(index=index(ports).definition.id, interval=ALL_TIME, through=0),
        commit_id=column,
        feeds=(write_feed(ports, index(ports).definition, other),),
    )
    pass_hours(ports, 0.01)
    commit_or_raise(ports, ports.log.load(), change)


def test_an_index_that_is_right_gives_no_finding(ports: TableContext) -> None:
    """Fed, compacted with its table, and cleaned."""
    assert verify(ports, deep=True).findings == ()
    compact_all(ports)
    clean(ports, retention=Retention(hours=0, versions=1))
    assert verify(ports, deep=True).findings == ()
    assert not {c for c in codes(examine(ports).findings) if "index" in c}


def test_wrong_entries_are_said(ports: TableContext) -> None:
    """If they differ from the files, only a deep look sees it; if they are of other files, any."""
    overwritten(ports, BYTES, 1)
    assert verify(ports).findings == ()
    (found,) = verify(ports, deep=True).findings
    assert (found.code, found.severity) == ("wrong-entries", Severity.CRITICAL)
    assert "segtable index rebuild memory://t files" in found.do
    overwritten(ports, CHECKSUM, "0-0")
    assert codes(verify(ports, deep=True).findings) == {"stale-entries"}


def test_entries_too_many_and_too_few_are_said(ports: TableContext) -> None:
    """Entries about files that are gone, and visible files without one: neither is damage."""
    compact_all(ports)
    gone = write_feed(
        ports,
        index(ports).definition,
        entries_in(ports, index(ports)).slice(0, 0),
        entries_in(ports, index(ports)).slice(0, 100),
    )
    built = IndexBuilt(index=index(ports).definition.id, interval=ALL_TIME, through=0)
    commit_or_raise(ports, ports.log.load(), Change(action=built, commit_id="a", feeds=(gone,)))
    found = verify(ports)
    assert codes(found.findings) == {"missing-entries"}
    assert found.sound


def test_an_index_that_cannot_be_read_is_said(ports: TableContext) -> None:
    """By both, as a warning with the way out; damage of a file of it is one, too."""
    clean(ports)
    own = folder(index(ports).definition.id)
    data = next(iter(ports.storage.list(f"{own}/data")))
    ports.storage.delete(data.path)
    found = verify(ports)
    assert {"missing-file", "unread-index"} <= codes(found.findings)
    assert {each.severity for each in found.findings} == {Severity.WARNING}
    for entry in [*ports.storage.list(own)]:
        ports.storage.delete(entry.path)
    assert codes(verify(ports).findings) == {"unread-index"}
    (said,) = (f for f in examine(ports).findings if f.code == "unreadable-index")
    assert "segtable index rebuild memory://t files" in said.do


def test_the_way_out_of_a_finding_names_the_table_that_it_is_about(ports: TableContext) -> None:
    """What is wrong with an index's own table is checked and mended there."""
    clean(ports)
    own = index_ports(ports, index(ports).definition)
    own.storage.create(checkpoint_path(1), b"torn")
    (found,) = verify(ports).findings
    assert (found.code, found.severity) == ("bad-checkpoint", Severity.WARNING)
    assert found.do.startswith(f"in {own.uri}: delete {checkpoint_path(1)}")


def test_an_index_that_nobody_builds_is_said(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its lag, once it has lasted for an hour; a lagging one is told from an unbuilt one."""
    request_index(ports, "more", FileList())
    monkeypatch.setattr(feeding, "MOST_FEED_BYTES", 0)
    Table(ports).append(rows(4))
    assert not codes(examine(ports).findings) & {"lagging-index", "unbuilt-index"}
    pass_hours(ports, 2)
    found = {f.code: f for f in examine(ports).findings}
    assert found["lagging-index"].where == "index files"
    assert "lacks 1 commit" in found["lagging-index"].what
    assert "7,2" in found["lagging-index"].what
    assert found["unbuilt-index"].where == "index more"


def test_a_build_that_was_aborted_is_said(ports: TableContext) -> None:
    """At once, with the note of the abort and the way out, and not as one that nobody plans."""
    request_index(ports, "more", FileList())
    known = requested_plan(ports, "more")
    assert known is not None
    gave_up = PlanAborted(plan_id=known.plan.id, attempt=None, reason="3 workers died")
    commit_or_raise(ports, ports.log.load(), Change(action=gave_up, commit_id="gave-up"))
    pass_hours(ports, 2)
    found = {f.code: f for f in examine(ports).findings}
    assert "unbuilt-index" not in found
    assert found["resting-index"].where == "index more"
    assert f"plan {known.plan.id}, which builds it, is aborted" in found["resting-index"].what
    assert "(3 workers died)" in found["resting-index"].what
    assert found["resting-index"].do.endswith("segtable index run memory://t more")


def test_a_paused_build_that_nobody_takes_up_is_said(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it has rested for an hour; with ZooKeeper, by the rule of abandoned plans."""
    request_index(ports, "more", FileList())
    execute = in_process(ports.files)
    monkeypatch.setattr(indexing, "EVENT_BYTES", 1)
    assert run_index(ports, "more", execute, timeout_s=0).ended is Ended.YIELDED
    blind = replace(ports, optional_coordinator=None)
    assert "resting-index" not in codes(examine(blind).findings)
    pass_hours(ports, 2)
    (found,) = (f for f in examine(blind).findings if f.code == "resting-index")
    assert "requested since" in found.what
    assert "(paused after 0 s: 2 time chunks of the index left)" in found.what
    said = codes(examine(ports).findings)
    assert ("abandoned-plan" in said, "resting-index" in said) == (True, False)


def test_feeds_that_nobody_copies_are_said(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there are more than writers let pile up."""
    assert "uncopied-feeds" not in codes(examine(ports).findings)
    monkeypatch.setattr(index_findings, "MANY", 3)
    assert "uncopied-feeds" in codes(examine(ports).findings)
