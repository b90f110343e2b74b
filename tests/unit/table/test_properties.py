"""``Table.alter``: properties are set, removed, refused, and shown with where they come from."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import (
    CommitConflict,
    CommitUnknown,
    InvalidInput,
    SchemaMismatch,
)
from airflow_provider_segtable.core.log.families.table_events import TableAltered
from airflow_provider_segtable.core.tables.evolution import AddColumn, DropColumn, WidenColumn
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.planning.properties import Policy, settings
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.committer import Change, commit
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.table import Table, create_table
from tests.unit.table.test_change import beside, lost, trapped


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
        ("compaction.clustering", "nope", SchemaMismatch, "no column 'nope' for the clustering"),
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


def test_a_removal_run_again_is_not_checked_again(table: Table) -> None:
    """It landed under its commit id, so that the property is gone is no error."""
    table.alter(set={"retention.hours": "1"})
    n = table.alter(unset=["retention.hours"], commit_id="x")
    assert table.alter(unset=["retention.hours"], commit_id="x") == n


def test_columns_that_stay_as_they_are_make_no_schema(table: Table) -> None:
    """Also beside a property that changes: files of the table keep their schema's number."""
    same = WidenColumn(name="row", type="int64")
    assert table.alter(columns=[same]) == 4
    table.alter(columns=[same], set={"retention.hours": "1"})
    assert (table.state().table.schema.number, table.state().table.earlier) == (0, ())


def test_a_type_is_kept_as_arrow_prints_it(table: Table) -> None:
    """However it was written."""
    table.alter(columns=[AddColumn(name="stops", type="map<string,int64>")])
    added = table.state().table.schema.find("stops")
    assert added is not None
    assert added.type == "map<string, int64>"


def test_alterations_at_once_are_checked_against_each_other(table: Table) -> None:
    """The one that lands second was checked against an older definition, so it is refused."""
    state = table.state()
    table.alter(set={"retention.hours": "1"})
    late = Change(action=TableAltered(after=0, set={"retention.versions": "3"}), commit_id="late")
    outcome = commit(table.ports, state, late)
    assert getattr(outcome, "winner", None) == 5
    table.alter(set={"retention.versions": "3"})
    assert table.state().table.properties == {"retention.hours": "1", "retention.versions": "3"}


def test_an_alteration_that_was_overtaken_is_checked_again(table: Table, other: Table) -> None:
    """Against the definition of then: both land, or the later one is refused by it."""
    late = beside(table, lambda: other.alter(set={"retention.hours": "1"}))
    assert late.alter(set={"retention.versions": "3"}) == 6
    assert table.state().table.properties == {"retention.hours": "1", "retention.versions": "3"}
    late = beside(table, lambda: other.alter(columns=[DropColumn(name="name")]))
    with pytest.raises(SchemaMismatch, match="no column 'name' for the clustering"):
        late.alter(set={"compaction.clustering": "name"})
    late = beside(table, lambda: other.alter(set={"retention.hours": "2"}))
    assert late.alter(set={"retention.hours": "2"}) == table.state().n == 8


def test_a_run_that_another_run_overtook_alters_once(table: Table, other: Table) -> None:
    """Both have the same commit id, so the event of the first is that of both."""
    asked = {"set": {"retention.hours": "1"}, "commit_id": "x"}
    late = beside(table, lambda: (other.alter(**asked), other.alter(set={"retention.hours": "2"})))
    assert late.alter(**asked) == 5
    assert table.state().table.properties == {"retention.hours": "2"}


def test_an_alteration_gives_up_after_twenty_others(table: Table, other: Table) -> None:
    """It was never refused for what it is, and nothing was changed."""
    values = iter(range(1, 100))
    acts = [lambda: other.alter(set={"retention.hours": str(next(values))})] * 20
    with pytest.raises(CommitConflict, match=r"altered.* 20 times in a row: run it again"):
        beside(table, *acts).alter(set={"retention.versions": "3"})
    assert table.state().table.properties == {"retention.hours": "20"}
    done = beside(table, *acts[:19]).alter(set={"retention.versions": "3"})
    assert done == table.state().n == 4 + 20 + 19 + 1


def test_a_lost_reply_to_an_alteration_is_told(table: Table) -> None:
    """The same commit id ends it."""
    storage = table.ports.storage
    asked = {"set": {"retention.hours": "1"}, "commit_id": "mine"}
    with pytest.raises(CommitUnknown, match=r"event 5 .*'mine'"):
        trapped(table, *[lost(storage, landed=False)] * 1000).alter(**asked)
    assert trapped(table, lost(storage, landed=True)).alter(**asked) == 5
    assert table.alter(**asked) == table.state().n == 5


def test_a_column_of_the_clustering_is_dropped_only_with_it(table: Table) -> None:
    """The same alteration may set another clustering; a new column may be part of it at once."""
    table.alter(set={"compaction.clustering": "name,price"})
    with pytest.raises(InvalidInput, match=r"'name' is in compaction\.clustering = 'name,price'"):
        table.alter(columns=[DropColumn(name="name")])
    add, drop = AddColumn(name="stops", type="int64"), DropColumn(name="name")
    table.alter(columns=[drop, add], set={"compaction.clustering": "stops"})
    assert table.state().table.properties == {"compaction.clustering": "stops"}
    table.alter(columns=[DropColumn(name="stops")], unset=["compaction.clustering"])
    assert table.state().table.properties == {}


def test_defaults_are_listed_with_their_values(table: Table) -> None:
    """Every property of the policy and of retention is listed."""
    shown = {each.key: each for each in settings(table.state().table)}
    assert shown["compaction.min_segments"].value == str(Policy().min_segments)
    assert {each.source for each in shown.values()} == {"default"}
