"""Which tables are looked at again, and why."""

import pytest

from airflow_provider_segtable.core.time import MINUTE_US, SECOND_US
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.planning.fleet.fleet_memory import (
    LISTED_US,
    SWEEP_US,
    FoundTables,
    Remembered,
    Why,
    globs_of,
    listed_already,
    settings_of_look,
    why_look,
)
from airflow_provider_segtable.planning.fleet.fleet_plan import TableLook

NOON = 1_767_700_800_000_000
LOOK = TableLook(name="a", version=7)


def remembered(**more: object) -> Remembered:
    """Return a look of one minute ago, at version 7."""
    given = {"look": LOOK, "at": NOON - MINUTE_US, "settings": "s", **more}
    return Remembered(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "announced", "why"),
    [
        (remembered(), 7, None),
        (remembered(), 6, None),
        (remembered(due=NOON + 1), 7, None),
        (None, 7, Why.UNKNOWN),
        (remembered(), 8, Why.NEWER),
        (remembered(), None, Why.UNANNOUNCED),
        (remembered(due=NOON), 7, Why.DUE),
        (remembered(unsettled=True), 7, Why.UNSETTLED),
        (remembered(settings="t"), 7, Why.SETTINGS),
        (remembered(at=NOON - SWEEP_US), 7, Why.SWEEP),
        (remembered(at=NOON + SECOND_US), 7, Why.SWEEP),
    ],
)
def test_a_table_is_looked_at_where_a_look_may_find_something_new(
    known: Remembered | None, announced: int | None, why: Why | None
) -> None:
    """And where the memory cannot be trusted: it is old, or the clock was set back."""
    assert why_look(known, "s", NOON, announced) is why


def test_the_settings_of_a_look_are_those_that_plans_depend_on() -> None:
    """Not those that only rank or limit them; enforcing and freezes count."""
    group = '[groups.g]\ntables = ["g/*"]\n'
    properties = "[properties]\ncompaction.min_segments = 3\n"
    texts = {
        "none": group,
        "ranked": f'[budget]\nplans = 3\n[windows]\nmajor = ["01:00-02:00"]\n{group}priority = 2\n',
        "planned": f"{properties}{group}",
        "enforced": f"enforce = true\n{properties}{group}",
        "aims": f"[objective]\noverlap = 3\n{group}",
        "frozen": f"freeze = true\n{group}",
    }
    fleets = {name: read_fleet(text, "f.toml") for name, text in texts.items()}
    digests = {name: settings_of_look(each, "g/t", NOON, "1.0") for name, each in fleets.items()}
    assert digests.pop("ranked") == digests["none"]
    assert len(set(digests.values())) == len(digests)
    assert settings_of_look(fleets["none"], "g/t", NOON, "1.1") != digests["none"]


def test_a_search_for_tables_lasts_while_the_globs_are_the_same() -> None:
    """For some minutes."""
    fleet = read_fleet('[groups.g]\ntables = ["g/*"]', "f.toml")
    more = read_fleet('[groups.g]\ntables = ["g/*"]\nwithout = ["g/t"]', "f.toml")
    found = FoundTables(names=("g/a",), listings=2, at=NOON, globs=globs_of(fleet))
    assert listed_already(found, globs_of(fleet), NOON + LISTED_US - 1)
    assert not listed_already(found, globs_of(fleet), NOON + LISTED_US)
    assert not listed_already(found, globs_of(more), NOON)
