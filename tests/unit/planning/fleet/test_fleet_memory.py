"""Which tables are looked at again, and why."""

from collections import Counter
from dataclasses import replace

import pytest

from airflow_provider_segtable.core.time import MINUTE_US, SECOND_US
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.planning.fleet.fleet_memory import (
    LISTED_US,
    SWEEP_US,
    FoundTables,
    Remembered,
    Why,
    globs_of,
    listed_already,
    settings_of_looks,
    swept_at,
    why_look,
)
from airflow_provider_segtable.planning.fleet.fleet_plan import TableLook

NOON = 1_767_700_800_000_000
LOOK = TableLook(name="a", table_id="id", version=7)


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


def test_looks_that_were_taken_together_are_not_repeated_together() -> None:
    """Each within half an hour, and from then on every half an hour at the same moment."""
    looks = [replace(LOOK, table_id=f"table-{n}") for n in range(600)]
    together = [remembered(look=look, at=NOON) for look in looks]
    moments = [swept_at(each) for each in together]
    assert all(NOON < at <= NOON + SWEEP_US for at in moments)
    minutes = Counter((at - NOON - 1) // MINUTE_US for at in moments)
    assert len(minutes) == 30
    assert max(minutes.values()) < 60, "a run a minute has about a thirtieth of them"
    for known, at in zip(together, moments, strict=True):
        assert why_look(known, "s", at - 1, 7) is None
        assert why_look(known, "s", at, 7) is Why.SWEEP
        assert swept_at(replace(known, at=at)) == at + SWEEP_US


def digest(fleet: Fleet, code: str) -> str:
    return settings_of_looks(fleet, ["g/t"], NOON, code)["g/t"]


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
    digests = {name: digest(each, "1.0") for name, each in fleets.items()}
    assert digests.pop("ranked") == digests["none"]
    assert len(set(digests.values())) == len(digests)
    assert digest(fleets["none"], "1.1") != digests["none"]


def test_tables_with_other_settings_have_other_digests() -> None:
    """Of one file: by their group, and by whether they are frozen now."""
    fleet = read_fleet(
        '[groups.a]\ntables = ["a/*"]\nproperties = { "compaction.min_segments" = 3 }\n'
        '[groups.b]\ntables = ["b/*"]\n'
        '[tables."b/frozen"]\nfreeze = true\n[tables."b/own"]\npriority = 3\n',
        "f.toml",
    )
    names = ("a/1", "a/2", "b/1", "b/2", "b/frozen", "b/own")
    found = settings_of_looks(fleet, names, NOON, "1.0")
    assert tuple(found) == names
    assert found["a/1"] == found["a/2"]
    assert found["b/1"] == found["b/2"]
    assert found["b/own"] == found["b/1"], "a priority ranks plans; looks do not depend on it"
    assert len(set(found.values())) == 3


def test_a_search_for_tables_lasts_while_the_globs_are_the_same() -> None:
    """For some minutes."""
    fleet = read_fleet('[groups.g]\ntables = ["g/*"]', "f.toml")
    more = read_fleet('[groups.g]\ntables = ["g/*"]\nwithout = ["g/t"]', "f.toml")
    found = FoundTables(names=("g/a",), listings=2, at=NOON, globs=globs_of(fleet))
    assert listed_already(found, globs_of(fleet), NOON + LISTED_US - 1)
    assert not listed_already(found, globs_of(fleet), NOON + LISTED_US)
    assert not listed_already(found, globs_of(more), NOON)
