"""``Table.alter``: properties are set, removed, refused, and shown with where they come from."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.log.events import TableAltered
from airflow_provider_segtable.data.files.open_files import MemoryFiles
from airflow_provider_segtable.planning.policy import Policy
from airflow_provider_segtable.planning.settings import settings
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.log.committer import Change, commit
from airflow_provider_segtable.table.table import Table, create_table


def sources(table: Table, *keys: str) -> list[tuple[str, str]]:
    """Return the value and the source of properties."""
    known = {each.key: (each.value, each.source) for each in settings(table.state().table)}
    return [known[key] for key in keys]


def another(table: Table, properties: dict[str, str]) -> Table:
    """Create a table of the same columns elsewhere."""
    clock = table.ports.clock
    ports = replace(table.ports, storage=MemoryStorage(clock=clock), files=MemoryFiles())
    return create_table(ports, replace(table.state().table, properties=properties))


def test_the_next_plan_goes_by_a_property(table: Table) -> None:
    """Nothing is due by the default; two segments are enough as soon as the property says so."""
    assert not plan_table(table.ports, dry_run=True).launches
    n = table.alter(set={"compaction.min_segments": "2"})
    assert n == table.state().n == 5
    assert len(plan_table(table.ports, dry_run=True).launches) == 2


def test_earlier_versions_keep_their_properties(table: Table) -> None:
    """Time travel shows the properties of its time, and a checkpoint keeps all of it."""
    first = table.alter(set={"retention.hours": "1", "retention.versions": "7"})
    second = table.alter(set={"retention.hours": "2"}, unset=["retention.versions"])
    assert table.snapshot(version=first - 1).state.table.properties == {}
    assert table.snapshot(version=first).state.table.properties["retention.hours"] == "1"
    state = table.state()
    assert state.table.properties == {"retention.hours": "2"}
    assert read_checkpoint(write_checkpoint(state)) == state
    assert sources(table, "retention.hours", "retention.versions") == [
        ("2", f"event {second}"),
        ("10", "default"),
    ]


def test_a_property_of_the_creation_says_so(table: Table) -> None:
    """Until an event sets it again."""
    table = another(table, {"compaction.clustering": "name"})
    assert sources(table, "compaction.clustering") == [("name", "creation")]


@pytest.mark.parametrize(
    ("key", "value", "error", "words"),
    [
        ("compaction.clustering", "nope", SchemaMismatch, "'nope', which t does not have"),
        ("compaction.min_segments", "1", InvalidInput, "too low: at least 2"),
        ("compaction.min_segments", "two", InvalidInput, "'two' is not a whole number"),
        ("compaction.min_segment", "2", InvalidInput, "'compaction.min_segment' is not a property"),
        ("min_segments", "2", InvalidInput, "'min_segments' is not a property: known are"),
        ("retention.hours", "-1", InvalidInput, "too low"),
        ("compaction.major_granularity", "fortnight", InvalidInput, "fortnight"),
    ],
)
def test_a_wrong_property_is_refused_when_given(
    table: Table, key: str, value: str, error: type[Exception], words: str
) -> None:
    """At creation as at alteration, by the same words, and nothing is written."""
    with pytest.raises(error, match=words):
        table.alter(set={key: value})
    with pytest.raises(error, match=words):
        another(table, {key: value})
    assert table.state().n == 4


def test_what_is_not_set_cannot_be_removed(table: Table) -> None:
    """The message lists what is set."""
    table.alter(set={"retention.hours": "1"})
    with pytest.raises(InvalidInput, match=r"retention.versions' is not set.*retention.hours"):
        table.alter(unset=["retention.versions"])
    with pytest.raises(InvalidInput, match="set and removed"):
        table.alter(set={"retention.hours": "2"}, unset=["retention.hours"])


def test_an_alteration_lands_once(table: Table) -> None:
    """Equal commit ids alter once, whatever came between; what changes nothing is no event."""
    n = table.alter(set={"retention.hours": "1"}, commit_id="x")
    table.alter(set={"retention.hours": "2"})
    assert table.alter(set={"retention.hours": "1"}, commit_id="x") == n
    assert table.alter(set={"retention.hours": "2"}) == table.state().n == n + 1


def test_alterations_at_once_are_checked_against_each_other(table: Table) -> None:
    """The one that lands second was checked against an older definition, so it is refused."""
    state = table.state()
    table.alter(set={"retention.hours": "1"})
    late = Change(action=TableAltered(after=0, set={"retention.versions": "3"}), commit_id="late")
    outcome = commit(table.ports, state, late)
    assert getattr(outcome, "winner", None) == 5
    table.alter(set={"retention.versions": "3"})
    assert table.state().table.properties == {"retention.hours": "1", "retention.versions": "3"}


def test_defaults_are_listed_with_their_values(table: Table) -> None:
    """Every property of the policy and of retention is listed."""
    shown = {each.key: each for each in settings(table.state().table)}
    assert shown["compaction.min_segments"].value == str(Policy().min_segments)
    assert {each.source for each in shown.values()} == {"default"}
