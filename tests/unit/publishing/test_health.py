"""Verify and the doctor say what is wrong with what is published, and are silent else."""

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import StorageError
from airflow_provider_segtable.core.publishing import ShownFile
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.tables.evolution import AddColumn, DropColumn
from airflow_provider_segtable.formats.format import NewFile, Revision
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.table.table import Table
from tests.support.clock import FakeClock
from tests.unit.publishing.plain_format import FOLDER, PlainTarget
from tests.unit.table.conftest import rows

DAY_S = 86_400.0
CODES = {
    "abandoned-published",
    "damaged-published",
    "foreign-table",
    "lagging-published",
    "missing-published-files",
    "unfinished-published",
    "unpublishable",
}


def examined(table: Table) -> list[Finding]:
    """Return the doctor's findings about what is published."""
    return [each for each in examine(table.ports).findings if each.code in CODES]


def verified(table: Table) -> list[Finding]:
    """Return what a verification finds about what is published."""
    return [each for each in verify(table.ports).findings if each.code in CODES]


def pass_a_day(table: Table) -> None:
    assert isinstance(table.ports.clock, FakeClock)
    table.ports.clock.advance(DAY_S)


def test_what_is_published_well_is_no_finding(published: Table, table: Table) -> None:
    """A head that shows the newest rows is sound, however old; so is a table without one."""
    published.append(rows(range(4)))
    for each in (published, table):
        pass_a_day(each)
        assert examined(each) == verified(each) == []


def test_lag_is_named_after_an_hour(published: Table) -> None:
    """Rows that are not published for long are a warning; switched off, a remark."""
    published.append(rows(range(4)))
    published.alter(set={"publish.on_commit": "off"})
    published.append(rows(range(4, 8)))
    assert examined(published) == []
    pass_a_day(published)
    (found,) = examined(published)
    assert (found.code, found.severity) == ("lagging-published", Severity.WARNING)
    assert "24.0 hours" in found.what
    assert "1 later event " in found.what
    assert published.ports.uri in found.do
    published.alter(set={"publish.delta": "off"})
    (found,) = examined(published)
    assert (found.code, found.severity) == ("abandoned-published", Severity.INFO)
    assert verified(published) == []


def test_a_refused_version_says_why(table: Table) -> None:
    """The doctor repeats the reason of the format: here files of an older schema."""
    table.alter(columns=[AddColumn(name="person", type="string")])
    table.append(rows(range(4)))
    table.alter(columns=[DropColumn(name="person")], set={"publish.delta": "on"})
    (found,) = examined(table)
    assert found.code == "unpublishable"
    assert "drop it" in found.what


@pytest.mark.parametrize(
    ("said", "code", "severity"),
    [
        (b"{}", "foreign-table", Severity.WARNING),
        (b"rubbish", "damaged-published", Severity.CRITICAL),
    ],
)
def test_a_target_that_is_not_ours(table: Table, said: bytes, code: str, severity: str) -> None:
    """Another tool's table and rubbish are told apart, with the folder to move or delete."""
    table.ports.storage.create(f"{FOLDER}/{0:020d}.json", said)
    for (found,) in (examined(table), verified(table)):
        assert (found.code, found.severity, found.where) == (code, severity, FOLDER)


def test_files_of_a_head_that_are_gone(published: Table) -> None:
    """A file that only the head shows, and that is gone, fails its readers."""
    published.append(rows(range(4)))
    state, target = published.state(), PlainTarget(published.ports.storage)
    lost = replace(state.timeline.visible_segments()[0], path="data/x/00000-lost.parquet")
    shown = {lost.path: NewFile(shown=ShownFile(segment=lost))}
    commit = published.ports.log.event(state.n)
    assert commit
    revision = Revision(
        event=state.n, time=state.time, commit=commit.commit, table=state.table, shown=shown
    )
    assert target.put(target.load(), revision)
    for (found,) in (examined(published), verified(published)):
        assert (found.code, found.where) == ("missing-published-files", lost.path)
    published.publish(full=True)
    assert examined(published) == verified(published) == []


def test_an_unreadable_storage_proves_no_damage(
    published: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be read is unchecked."""
    published.append(rows(range(4)))

    def fails(*_: Any) -> None:
        raise StorageError("no answer")

    monkeypatch.setattr(PlainTarget, "version", fails)
    found = [each for each in verify(published.ports).findings if each.where == FOLDER]
    assert [each.severity for each in found] == [Severity.UNCHECKED]
