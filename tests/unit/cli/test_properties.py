"""Properties given for one run of the planner."""

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_segtable.cli.commands.compact_command import policy_of
from airflow_provider_segtable.core.errors import InvalidInput


def test_properties_of_a_run_count_over_the_tables() -> None:
    """Of compaction; those of retention are known, and mean nothing to a plan."""
    given = ["compaction.deleted_share=0.3", "retention.hours=1"]
    policy = policy_of({"compaction.deleted_share": "0.2", "compaction.min_segments": "5"}, given)
    assert (policy.deleted_share, policy.min_segments) == (0.3, 5)


@pytest.mark.parametrize("given", ["retention.hour=1", "compaction.deleted=0.3", "min_segment=2"])
def test_unknown_properties_of_a_run_are_refused(given: str) -> None:
    """A typo would silently mean a default."""
    with pytest.raises(InvalidInput, match=r"is not a property: .*known are"):
        policy_of({}, [given])


def test_properties_of_a_table_are_set_and_shown(
    facts: Callable[..., Any], run: Callable[..., Any], table: str
) -> None:
    """``describe`` tells the value and where it comes from; the timeline tells who changed what."""
    set_to = ["compaction.min_segments=7", "retention.hours=72"]
    version = facts("table", "set", table, *set_to)["version"]
    told = {each["key"]: each for each in facts("table", "describe", table)["settings"]}
    shown = (told["retention.hours"]["value"], told["retention.hours"]["source"])
    assert shown == ("72", f"event {version}")
    assert told["retention.versions"]["source"] == "default"
    assert "retention.hours" in run("table", "describe", table).output
    after = facts("table", "set", table, "--unset", "retention.hours")
    assert "retention.hours" not in after["properties"]
    last = facts("table", "timeline", table, "--limit", "1")["events"][0]
    assert (last["kind"], last["summary"]) == ("TableAltered", "unset retention.hours")


def test_a_table_is_described_by_its_contents_before_its_properties(
    run: Callable[..., Any], table: str
) -> None:
    """Of these only what was set is shown, unless all are asked for."""
    run("table", "set", table, "retention.hours=72")
    told = run("table", "describe", table).stdout
    assert told.index("holds") < told.index("none pending") < told.rindex("retention.hours")
    assert "retention.versions" not in told
    assert f"describe {table} --properties" in " ".join(told.split())
    every = run("table", "describe", table, "--properties").stdout
    assert "retention.versions" in every
    assert "have their defaults" not in every


def test_a_change_of_nothing_is_refused(run: Callable[..., Any], table: str) -> None:
    """The message says what to give."""
    result = run("table", "set", table)
    assert result.exit_code == 2
    assert "give KEY=VALUE or --unset KEY" in " ".join(result.stderr.split())
