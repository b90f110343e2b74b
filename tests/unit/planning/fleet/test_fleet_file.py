"""Fleet files: what they say, and how their faults are named."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.time import DAY_US, MINUTE_US, parse_instant
from airflow_provider_segtable.planning.fleet import fleet_file
from airflow_provider_segtable.planning.fleet.fleet import (
    Budget,
    Fleet,
    effective,
    freeze_of,
    objective_of,
    priority_of,
    properties_of,
    windows_of,
)
from airflow_provider_segtable.planning.fleet.fleet_file import InvalidFleet, read_fleet
from airflow_provider_segtable.planning.fleet.toml_lines import TomlLines


def fleet(text: str) -> Fleet:
    """Read a file without faults."""
    return read_fleet(dedent(text), "fleet.toml")


def faults(text: str) -> list[str]:
    """Return the faults of a file, each as it is shown."""
    with pytest.raises(InvalidFleet) as caught:
        fleet(text)
    return [*map(str, caught.value.faults)]


def test_the_example_of_the_module_is_a_fleet() -> None:
    """Each of its lines arrives."""
    example = dedent((fleet_file.__doc__ or "").split("::\n")[1].split("\n1. ")[0])
    found = read_fleet(example, "fleet.toml")
    assert (found.name, found.budget) == ("lake", Budget(bytes_per_hour=200 * 1024**3, plans=8))
    orders = "events/orders"
    assert properties_of(found, orders, {}) == {"compaction.min_segments": "8"}
    assert priority_of(found, orders) == 2
    objective = objective_of(found, orders)
    assert (objective.files_read, objective.stale_index) == (200, 15 * MINUTE_US)
    night, day = parse_instant("2026-01-01T22:30:00Z"), parse_instant("2026-01-01T12:00:00Z")
    windows = windows_of(found, orders, "major")
    assert (windows.open_at(night), windows.open_at(day)) == (True, False)
    assert windows_of(found, orders, "minor").open_at(day)
    freeze = freeze_of(found, orders)
    assert freeze is not None
    assert freeze.holds(parse_instant("2027-01-02")) > freeze.holds(parse_instant("2027-01-03"))
    assert freeze_of(found, "events/clicks") is None


def test_every_fault_is_named_with_its_line() -> None:
    """All at once, in the order of lines, each with the value and the way out."""
    told = faults(
        """\
        [fleet]
        nam = "x"
        [budget]
        bytes_per_hour = "lots"
        plans = 0
        [properties]
        compaction.min_segment = 8
        "retention.hours" = "x"
        log_store.buckets = 2
        [windows]
        zone = "Mars"
        major = ["25:00-3:00"]
        [groups.a]
        quota = {plans = "x"}
        freeze = {until = "2020"}
        objective.deleted = 3
        [groups.b]
        tables = ["../up"]
        windows.zone = "UTC"
        enforce = "yes"
        """
    )
    expected = [
        (2, "'nam' is unknown here: did you mean 'name'?"),
        (4, "'lots' is not a size: write e.g. 200 GiB"),
        (5, "plans: 0 is not a whole number of at least 1"),
        (7, "did you mean 'compaction.min_segments'?"),
        (8, "property retention.hours = 'x' is not a number"),
        (9, "Set it on the table"),
        (11, "'Mars' is not a time zone"),
        (12, "25:00 is not a time of day"),
        (13, "group a has no tables"),
        (14, "plans: 'x' is not a number"),
        (15, "'2020' is not a date"),
        (16, "deleted: 3 is not a share: 0 to 1"),
        (18, "'../up' is not a glob of tables"),
        (19, "give it in [windows] of the file"),
        (20, "enforce = 'yes' is neither true nor false"),
    ]
    assert len(told) == len(expected)
    for line, (number, reason) in zip(told, expected, strict=True):
        assert line.startswith(f"fleet.toml:{number}: ")
        assert reason in line


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a\nb = 1", "fleet.toml:1: not TOML: expected ']'"),
        ('[fleet]\nname = "a', "fleet.toml:2: not TOML: "),
        ("fleet = 3", "fleet.toml:1: fleet = 3 is not a table of TOML"),
        ('[fleet]\nname = "a b"', "fleet.toml:2: 'a b' is not a name for a fleet"),
        ('[properties]\npublish.iceberg_table = "a.b"', "names one table"),
        ("[properties]\nindex.x = 'what(a)'", "property index.x = 'what(a)' is not an index"),
        ("[groups.a]\ntables = 'x'", "'x' is not a list"),
        ("freeze = {from = 2027-01-02, until = 2027-01-01}", "ends before it begins"),
        ("priority = true", "priority: True is not a number"),
        ("[objective]\nstale_index = 'soon'", "'soon' is not a duration: write e.g. 90s"),
    ],
)
def test_a_fault_has_a_way_out(text: str, told: str) -> None:
    """Whatever is wrong, one line says what and where."""
    (line,) = faults(text)
    assert told in line


LAYERS = """\
    [properties]
    compaction.min_segments = 2
    [groups.g]
    tables = ["g/*"]
    without = ["g/not"]
    properties = {"compaction.min_segments" = 3, "retention.hours" = 30}
    [tables."g/a"]
    properties."compaction.min_segments" = 4
    """


def test_the_most_special_value_counts() -> None:
    """Default, file, group, table in the file, the table's own; the others are shown, too."""
    found = fleet(LAYERS)
    default = {"compaction.min_segments": ("12", "default"), "retention.hours": ("24", "default")}
    (segments, hours) = effective(found, "g/a", {}, default)
    assert (segments.value, segments.source) == ("4", "fleet.toml:8 table g/a")
    assert [value for _, value in segments.over] == ["3", "2", "12"]
    assert (hours.value, hours.source) == ("30", "fleet.toml:6 group g")
    own = {"compaction.min_segments": ("9", "the table, event 3")}
    assert effective(found, "g/a", own, default)[0].value == "9"
    assert effective(found, "g/not", {}, default)[0].value == "2"
    assert effective(found, "other", {}, default)[1].value == "24"


@pytest.mark.parametrize(("scope", "wins"), [("g", "3"), ('tables."g/a"', "4"), ("", "2")])
def test_a_scope_may_enforce_its_values(scope: str, wins: str) -> None:
    """Then they win over the table's own; without it, the own ones win."""
    line = "enforce = true\n"
    text = dedent(LAYERS)
    if scope == "g":
        text = text.replace("[groups.g]\n", f"[groups.g]\n{line}")
    elif scope:
        text += line
    else:
        text = line + text
    own = {"compaction.min_segments": "9"}
    assert properties_of(fleet(LAYERS), "g/a", own)["compaction.min_segments"] == "9"
    assert properties_of(fleet(text), "g/a", own)["compaction.min_segments"] == wins


@pytest.mark.parametrize(
    ("glob", "inside", "outside"),
    [
        ("events/*", ["events/a"], ["events", "events/a/b", "other/a"]),
        ("events/**", ["events/a", "events/a/b"], ["other"]),
        ("**/orders", ["orders", "eu/orders", "eu/de/orders"], ["eu/orders/x", "reorders"]),
        ("day_?", ["day_1"], ["day_10", "day_/"]),
        ("a+b", ["a+b"], ["aab"]),
        ("s3://lake/x/*", ["s3://lake/x/t"], ["lake/x/t"]),
    ],
)
def test_globs_match_whole_names(glob: str, inside: list[str], outside: list[str]) -> None:
    """A star stays within one part of a path."""
    found = fleet(f'[groups.g]\ntables = ["{glob}"]')
    assert all(map(found.holds, inside))
    assert not any(map(found.holds, outside))


def test_the_first_group_in_the_file_counts() -> None:
    """As in lists of rules elsewhere; what a group leaves out may be in a later one."""
    found = fleet(
        """\
        [groups.z]
        tables = ["t/*"]
        without = ["t/b"]
        [groups.a]
        tables = ["t/*"]
        """
    )
    names = {name: group.name for name in ("t/a", "t/b") if (group := found.group_of(name))}
    assert names == {"t/a": "z", "t/b": "a"}


@given(
    st.lists(st.sampled_from(["a", "b", "*", "?", "a*", "**"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4),
)
def test_a_search_leaves_out_no_table(parts: list[str], names: list[str]) -> None:
    """Each folder above a table of the fleet is one that may have tables below it."""
    found = fleet(f'[groups.g]\ntables = ["{"/".join(parts)}"]')
    table = "/".join(names)
    if found.holds(table):
        prefixes = found.prefixes()
        assert any(not each or table == each or table.startswith(f"{each}/") for each in prefixes)
        above = ("/".join(names[:end]) for end in range(len(names)))
        assert all(map(found.may_hold_below, above))


def test_each_place_is_searched_once() -> None:
    """However many globs lead there, and none that is below another one."""
    found = fleet('[groups.g]\ntables = ["a/x*", "a/y*", "a/b/*", "s3://l/t*", "s3://l/u*"]')
    assert found.prefixes() == ("a", "s3://l")


def test_lines_of_keys_are_found() -> None:
    """Whatever form a key has; of a missing one, the nearest that holds it."""
    lines = TomlLines(
        dedent(
            """\
            # a = 1
            [groups."a b".x]
            y."q=r" = {z = 1}

            [[list]]
            t = '''
            y = 3
            '''
            """
        )
    )
    assert lines.of(("groups", "a b", "x", "y", "q=r")) == 3
    assert lines.of(("groups", "a b", "x", "y", "q=r", "z")) == 3
    assert lines.of(("groups", "a b")) == 2
    assert lines.of(("list", "t")) == 6
    assert lines.of(("missing",)) == 1


def test_a_freeze_may_have_open_sides() -> None:
    """``true`` is always, ``false`` never."""
    always = freeze_of(fleet("freeze = true"), "t")
    assert always is not None
    assert always.holds(0)
    assert str(always) == "frozen until the file says otherwise"
    assert freeze_of(fleet("freeze = false"), "t") is None
    since = freeze_of(fleet('freeze = {from = 2027-01-01T02:00:00+02:00, reason = "audit"}'), "t")
    assert since is not None
    midnight = parse_instant("2027-01-01")
    assert (since.holds(midnight - 1), since.holds(midnight + 9 * DAY_US)) == (False, True)
    assert str(since) == "frozen from 2027-01-01T00:00:00Z until the file says otherwise: audit"
