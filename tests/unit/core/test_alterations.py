"""What an alteration makes of a definition, and which one the log refuses."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import PlanAborted, PlanRequested
from airflow_provider_segtable.core.log.families.table_events import (
    TableAltered,
    altered,
    decode_table,
    encode_table,
    lost_columns,
)
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.tables.evolution import DropColumn, RenameColumn, evolved
from tests.support.builders import (
    DEFINITION,
    after,
    created,
    first,
    major_plan,
)

DROPPED = evolved(DEFINITION.schema, (), [DropColumn(name="carrier")], "time_hour")
TWO = (first(0), first(1))


def test_properties_are_set_and_removed_with_their_events() -> None:
    """A removed property leaves no trace; those of the creation have no event."""
    first_time = altered(DEFINITION, TableAltered(after=0, set={"a": "1", "b": "1"}), 4)
    assert first_time.properties == {**DEFINITION.properties, "a": "1", "b": "1"}
    assert first_time.property_events == {"a": 4, "b": 4}
    second = altered(first_time, TableAltered(after=4, set={"a": "2"}, unset=("b",)), 7)
    assert second.properties == {**DEFINITION.properties, "a": "2"}
    assert second.property_events == {"a": 7}
    assert (first_time.altered, second.altered) == (4, 7)
    assert second.schema == DEFINITION.schema
    assert second.earlier == ()


def test_the_number_of_an_alteration_counts_up() -> None:
    """Also where a repair began the log anew, and event numbers are lower."""
    late = replace(DEFINITION, altered=20)
    assert altered(late, TableAltered(after=20), 5).altered == 21
    assert altered(late, TableAltered(after=20), 21).altered == 21
    assert altered(late, TableAltered(after=20), 22).altered == 22


def test_earlier_schemas_are_kept_in_order() -> None:
    """A file names its schema by number."""
    again = evolved(
        DROPPED, (DEFINITION.schema,), [RenameColumn(name="time_hour", new="hour")], "none"
    )
    once = altered(DEFINITION, TableAltered(after=0, schema=DROPPED), 1)
    twice = altered(once, TableAltered(after=1, schema=again), 2)
    assert twice.earlier == (DEFINITION.schema, DROPPED)
    assert [twice.schema_of(n) for n in (0, 1, 2)] == [DEFINITION.schema, DROPPED, again]
    assert decode_table(encode_table(twice)) == twice


def test_a_table_is_created_once() -> None:
    """A table that has a state exists already."""
    conflict = admit(DEFINITION, created())
    assert isinstance(conflict, Conflict)
    assert (conflict.winner, conflict.reason) == (0, "the table exists already")


@pytest.mark.parametrize("known", [0, 4, 6])
def test_an_alteration_names_the_newest_one(known: int) -> None:
    """If it names another, older or newer, its author checks it again."""
    state = replace(created(), table=replace(DEFINITION, altered=5))
    late = admit(TableAltered(after=known, set={"a": "1"}), state)
    assert isinstance(late, Conflict)
    assert (late.winner, late.reason) == (5, "the table was altered meanwhile")
    good = TableAltered(after=5, set={"a": "1"})
    assert admit(good, state) == good


def test_pending_plans_keep_the_columns_that_they_sort_by() -> None:
    """The first of these is named, also if another column gets the name; others do not matter."""
    plain = major_plan(TWO)
    by_carrier = major_plan(TWO, clustering="carrier")
    state = after(created(), Appended(segments=TWO))
    drop = TableAltered(after=0, schema=DROPPED)
    properties = TableAltered(after=0, set={"a": "1"})
    pending = after(state, PlanRequested(plan=plain), PlanRequested(plan=by_carrier))
    refused = admit(drop, pending)
    assert isinstance(refused, Conflict)
    assert f"plan {by_carrier.id} sorts by carrier, which the table would lose" in refused.reason
    assert refused.winner is None
    assert admit(properties, pending) == properties
    keeps = TableAltered(after=0, schema=replace(DEFINITION.schema, number=1))
    assert admit(keeps, pending) == keeps
    done = after(pending, PlanAborted(plan_id=by_carrier.id, attempt=None, reason="no more"))
    assert admit(drop, done) == drop
    assert lost_columns(plain, DROPPED, DEFINITION.schema) == []
    assert lost_columns(by_carrier, DROPPED, DEFINITION.schema) == ["carrier"]
    columns = DEFINITION.schema.numbered
    other = tuple(replace(c, id=99) if c.name == "carrier" else c for c in columns)
    moved = replace(DEFINITION.schema, columns=other)
    assert lost_columns(by_carrier, moved, DEFINITION.schema) == ["carrier"]
