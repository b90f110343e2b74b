"""The upkeep of many tables: each step by itself, each table by itself."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, StorageError
from airflow_provider_segtable.core.time import DAY_US, HOUR_US
from airflow_provider_segtable.health.fleet_upkeep import Upkeep, Wished, keep_up, keep_up_one
from airflow_provider_segtable.library.table import Table as KeyedTable
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.planning.fleet.rota import WEEK_US
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock
from tests.support.in_memory import context_in_memory, defined_by
from tests.unit.services.conftest import SCHEMA, rows

NOW = FakeClock().now()


def lake() -> dict[str, TableContext]:
    """Return two tables with rows."""
    made = {}
    for name in ("good", "bad"):
        made[name] = context_in_memory(uri=f"memory://{name}", rooted=True)
        create_table(made[name], defined_by(SCHEMA))
        Table(made[name]).append(rows(0))
    return made


def kept_up(
    text: str, tables: dict[str, TableContext], *, since_us: int = WEEK_US, broken: str = ""
) -> dict[str, Upkeep]:
    """Look after all tables."""
    fleet = read_fleet(f'{text}\n[groups.all]\ntables = ["**"]', "fleet.toml")

    def ports_of(name: str) -> AbstractContextManager[TableContext]:
        if name == broken:
            raise StorageError(f"{name} cannot be reached")
        return nullcontext(tables[name])

    return {
        each.table: each for each in keep_up(fleet, tables, ports_of, lambda _: NOW - since_us, NOW)
    }


def steps(report: Upkeep) -> list[str]:
    """Return the names of the steps that were taken."""
    return [line.partition(":")[0] for line in report.done]


def test_a_table_is_cleaned_published_and_verified() -> None:
    """By its properties and the file's; verified once a week alone."""
    tables = lake()
    found = kept_up("[properties]\npublish.delta = true", tables)
    assert {name: steps(each) for name, each in found.items()} == {
        name: ["cleaned", "published", "verified"] for name in tables
    }
    weekly = sum("verified" in steps(each) for n in range(7) for each in [*_days(tables, n)])
    assert weekly == len(tables)


def _days(tables: dict[str, TableContext], day: int) -> list[Upkeep]:
    fleet = read_fleet('[groups.all]\ntables = ["**"]', "fleet.toml")
    since = NOW + day * DAY_US
    found = keep_up(
        fleet, tables, lambda name: nullcontext(tables[name]), lambda _: since, since + DAY_US
    )
    return [*found]


def test_a_table_that_cannot_be_reached_stops_no_other() -> None:
    """It is said."""
    found = kept_up("", lake(), broken="bad")
    assert found["bad"].failed == ("StorageError: bad cannot be reached",)
    assert steps(found["good"]) == ["cleaned", "verified"]


def test_a_table_with_a_primary_key_is_settled(tmp_path: Path) -> None:
    """After it was cleaned: what is recorded is of files that stay."""
    keyed = KeyedTable.create(
        str(tmp_path), schema=SCHEMA, time_column="at", primary_key="row", buckets=1
    )
    keyed.upsert(rows(0))
    keyed.upsert(rows(0).slice(0, 1))
    found = kept_up("", {"keyed": keyed.ports})["keyed"]
    assert steps(found)[:2] == ["cleaned", "settled"]
    assert found.done[1] == "settled: 1 file group settled, 0 before; 1 row not shown"


def test_formats_are_switched_on_by_the_file_too() -> None:
    """For one table alone, if it says so."""
    found = kept_up("[tables.bad.properties]\npublish.delta = true", lake())
    assert steps(found["bad"]) == ["cleaned", "published", "verified"]
    assert steps(found["good"]) == ["cleaned", "verified"]


def test_frozen_tables_and_closed_windows_are_left() -> None:
    """With the reason."""
    found = kept_up('[tables.bad]\nfreeze = {reason = "audit"}', lake())
    assert found["bad"].left == "frozen until the file says otherwise: audit"
    assert not found["bad"].done
    found = kept_up('[windows]\nupkeep = ["23:58-23:59"]', lake())
    assert found["good"].left.startswith("outside of its window until ")


def kept_up_one(conf: dict[str, object], tables: dict[str, TableContext]) -> Upkeep:
    """Take the steps that a user asks for."""
    fleet = read_fleet('[groups.all]\ntables = ["*"]', "fleet.toml")
    wished = Wished.of(conf)
    assert wished is not None
    return keep_up_one(fleet, wished, lambda name: nullcontext(tables[name]))


def test_a_user_asks_for_one_step_of_one_table() -> None:
    """The others are left alone, and nothing is verified."""
    found = kept_up_one({"table": "good", "steps": ["clean"]}, lake())
    assert (found.table, steps(found), found.failed) == ("good", ["cleaned"], ())


def test_a_user_names_formats_and_a_retention() -> None:
    """They count instead of the table's own."""
    tables = lake()
    conf = {"table": "good", "formats": ["delta"], "retention": {"hours": 0, "versions": 1}}
    assert steps(kept_up_one(conf, tables)) == ["cleaned", "published"]
    assert tables["good"].log.load().retained_from == tables["good"].log.load().n - 1


def test_a_retention_is_as_of_when_it_was_asked_for() -> None:
    """What happened since does not let more go."""
    ports = context_in_memory(clock=FakeClock(NOW + HOUR_US))
    create_table(ports, defined_by(SCHEMA))
    for _ in range(5):
        Table(ports).append(rows(0))
    asked = {"retention": {"hours": 2, "versions": 3}, "as_of": {"version": 1, "time": NOW}}
    wished = Wished.of({"table": "good", **asked})
    assert wished is not None
    kept = wished.kept(Retention(), ports)
    assert (kept.hours, kept.versions, kept.orphan_hours) == (3, 3 + 4, 73)


@pytest.mark.parametrize(
    ("conf", "named"),
    [
        ({"table": "good", "steps": ["burn"]}, "'burn'"),
        ({"table": "good", "retention": {"years": 1}}, "years"),
        ({"table": "good", "retention": {"hours": -1}}, "hours = -1"),
        ({"table": "good", "as_of": {"version": "new"}}, "new"),
        ({"table": 3}, "table = 3"),
        ({"table": "un/known"}, "'un/known' is not in the fleet"),
    ],
)
def test_a_wish_that_does_not_fit_is_refused(conf: dict[str, object], named: str) -> None:
    """The message has the value."""
    with pytest.raises(InvalidInput, match=named):
        kept_up_one(conf, lake())


def test_a_run_without_a_table_asks_for_nothing() -> None:
    """So all tables are looked after."""
    assert Wished.of({}) is None
    assert Wished.of({"table": None, "steps": ["clean"]}) is None
