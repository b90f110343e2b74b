"""Retention settings: defaults, bounds, and how they are read from a table's properties."""

import math
from dataclasses import dataclass, make_dataclass

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.planning.properties import RETENTION_PROPERTIES, Retention, values_of


def test_defaults_are_those_of_the_field() -> None:
    """Versions of a day, at least ten; unnamed files for three days."""
    assert Retention.read({}) == Retention(hours=24, versions=10, orphan_hours=72)


def test_every_setting_is_read() -> None:
    """Hours may be broken, versions are whole; properties of others are left alone."""
    given = {
        "compaction.hours": "x",
        "hours": "x",
        "retention.hours": "0.5",
        "retention.versions": "3",
        "retention.orphan_hours": "1",
        "retention.consumer_hours": "2",
        "retention.tombstone_hours": "4",
    }
    found = Retention.read(given)
    assert (found.hours, found.versions, found.orphan_hours) == (0.5, 3, 1)
    assert (found.consumer_hours, found.tombstone_hours) == (2, 4)
    assert isinstance(found.versions, int)
    assert set(RETENTION_PROPERTIES) <= set(given)


def test_the_least_values_are_allowed() -> None:
    """Nothing old needs to be kept, but the newest version always is."""
    least = Retention(hours=0, versions=1, orphan_hours=0)
    assert (least.hours, least.versions, least.orphan_hours) == (0, 1, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hours", "-0.001"),
        ("hours", "nan"),
        ("versions", "0"),
        ("orphan_hours", "-1"),
    ],
)
def test_values_that_are_too_low_are_refused_by_name(name: str, value: str) -> None:
    """A negative time, no time and no version at all are mistakes."""
    with pytest.raises(InvalidInput, match=f"retention {name} = {float(value):g}"):
        Retention.read({f"retention.{name}": value})


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        (
            "retention.days",
            "2",
            r"'retention\.days' is not a property: .*known are retention\.hours, ",
        ),
        ("retention.versions", "2.5", r"retention\.versions = '2\.5' is not a whole number"),
        ("retention.hours", "1h", r"retention\.hours = '1h' is not a number"),
    ],
)
def test_unknown_and_malformed_properties_are_refused(key: str, text: str, why: str) -> None:
    """A typo would silently select a default."""
    with pytest.raises(InvalidInput, match=why):
        Retention.read({key: text})


def test_no_limit_may_be_said() -> None:
    """Infinite hours keep everything."""
    assert Retention.read({"retention.hours": "inf"}).hours == math.inf


@dataclass(frozen=True)
class Sizes:
    """Settings whose types are objects: their module does not postpone annotations."""

    parts: int = 1
    share: float = 0.5
    order: str = ""


def test_values_have_the_types_of_their_fields() -> None:
    """Whether annotations are types or their names; other families' properties are left alone."""
    later = make_dataclass("Later", [("parts", "int", 1), ("share", "float", 0.5)])
    given = {"sizes.parts": "3", "sizes.share": "2", "other.parts": "x"}
    for settings in (Sizes, later):
        found = values_of(settings, "sizes", given)
        assert [type(value) for value in found.values()] == [int, float]
    assert values_of(Sizes, "sizes", {"sizes.order": " a "}) == {"order": "a"}
    with pytest.raises(InvalidInput, match=r"sizes.parts = '1.5' is not a whole number"):
        values_of(later, "sizes", {"sizes.parts": "1.5"})
    with pytest.raises(InvalidInput, match=r"'sizes.part' is not .*: did you mean 'sizes.parts'"):
        values_of(Sizes, "sizes", {"sizes.part": "1"})
