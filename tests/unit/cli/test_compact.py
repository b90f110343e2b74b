"""``segtable compact --kind``: each of the three from the command line, and what is refused."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Facts, Run
from tests.unit.cli.test_bad_input import nothing_written, refused


@pytest.fixture
def filled(facts: Facts, table: str) -> str:
    """Give a table of two days with six small segments each."""
    facts("ingest", table, "trips.parquet", "--rows-per-append", "4")
    return table


def test_minor_now_in_one_day(facts: Facts, filled: str) -> None:
    """A person asks, and whatever the policy says it is done, in the days that were named."""
    day = "2013-01-01/2013-01-02"
    done = facts("compact", filled, "--kind", "minor", "--interval", day)
    assert [(p["ended"], p["segments_in"], p["segments_out"]) for p in done["plans"]] == [
        ("completed", 6, 1)
    ]
    assert facts("table", "describe", filled)["counts"]["segments"] == 7


def test_chosen_segments(facts: Facts, run: Run, filled: str) -> None:
    """Their ids are those that `table segments` prints; what cannot be joined is refused."""
    ids = [each["id"] for each in facts("table", "segments", filled)["segments"]]
    done = facts("compact", filled, "--kind", "minor", "--segment", ids[1], "--segment", ids[2])
    assert [(p["segments_in"], p["segments_out"]) for p in done["plans"]] == [(2, 1)]
    apart = run(
        "compact", filled, "--kind", "minor", "--segment", ids[0], "--segment", ids[4], "--json"
    )
    refused(apart, 2, "SegmentsRefused", "not neighbours")
    alone = run("compact", filled, "--segment", ids[0], "--json")
    refused(alone, 2, "InvalidInput", "without --kind")


def test_semi_major_sorts_and_says_so(facts: Facts, run: Run, filled: str) -> None:
    """The order is a fact of each segment, for scripts and for people."""
    before = facts("table", "scan", filled, "--checksum")
    done = facts("compact", filled, "--kind", "semi-major", "--clustering", " who , amount")
    assert {p["ended"] for p in done["plans"]} == {"completed"}
    segments = facts("table", "segments", filled)["segments"]
    assert [s["clustering"] for s in segments] == ["who,amount"] * 2
    shown = run("table", "segments", filled).stdout
    assert "sorted by" in shown
    assert "who,amount" in shown
    after = facts("table", "scan", filled, "--checksum")
    assert {**after, "version": 0} == {**before, "version": 0}


def test_major_cuts_time_anew(facts: Facts, run: Run, filled: str) -> None:
    """Days become a month; zones, versions, tombstones and events tell of it."""
    before = facts("table", "scan", filled, "--checksum")
    version = before["version"]
    done = facts("compact", filled, "--kind", "major", "--granularity", "month")
    assert [(p["ended"], p["segments_in"]) for p in done["plans"]] == [("completed", 12)]
    described = facts("table", "describe", filled)
    override = {"interval": "2013-01-01T00:00:00Z/2013-02-01T00:00:00Z", "granularity": "month"}
    assert described["zones"] == [override]
    assert described["counts"]["segments"] == 1
    assert "by month" in run("table", "describe", filled).stdout
    assert "a new version of" in run("table", "segments", filled).stdout
    kinds = run("table", "timeline", filled).stdout
    assert "-> version" in " ".join(kinds.split())
    after = facts("table", "scan", filled, "--checksum")
    assert {**after, "version": 0} == {**before, "version": 0}
    assert facts("table", "scan", filled, "--version", str(version), "--checksum") == before
    done = facts("compact", filled, "--kind", "major", "--granularity", "day")
    assert facts("table", "describe", filled)["zones"] == []
    assert facts("table", "describe", filled)["counts"]["tombstones"] == 1
    assert "tombstone" in run("table", "segments", filled, "--all").stdout


def test_pending_plans_of_all_kinds_are_carried_out_in_turn(facts: Facts, filled: str) -> None:
    """Smaller kinds go first, so that no plan waits for another of the same command."""
    facts("plan", filled, "--request", "--property", "compaction.min_segments=2")
    done = facts("compact", filled, "--kind", "major")
    assert [p["ended"] for p in done["plans"]] == ["completed"] * 2
    done = facts("compact", filled)
    assert [p["ended"] for p in done["plans"]] == ["overtaken"] * 2


def test_all_goes_on_until_nothing_is_left(facts: Facts, filled: str) -> None:
    """A budget of one plan a run makes several runs, and one command takes them all."""
    wish = ("--property", "compaction.max_plans=1", "--property", "compaction.min_segments=4")
    done = facts("compact", filled, "--all", *wish)
    assert [(p["ended"], p["segments_in"]) for p in done["plans"]] == [("completed", 6)] * 2
    assert done["left"] == []
    assert facts("plan", filled, *wish)["chosen"] == []


def test_all_says_what_is_left(run: Run, filled: str, tmp_path: Path) -> None:
    """A plan that fails is tried once; the other chunk is compacted, and one plan is left."""
    victim = min((tmp_path / filled / "data").rglob("*.parquet"))
    victim.write_bytes(victim.read_bytes()[:-1] + b"?")
    result = run("compact", filled, "--all", "--property", "compaction.min_segments=4")
    assert result.exit_code == 1
    assert "plans left: 1" in result.stdout
    done = json.loads(run("compact", filled, "--json").stdout)
    assert [p["ended"] for p in done["plans"]] == ["failed"]
    assert done["left"] == [p["plan"] for p in done["plans"]]


def test_the_plan_shows_every_kind(facts: Facts, run: Run, filled: str) -> None:
    """What is chosen and what is left alone say which compaction they are about."""
    wish = ("--property", "compaction.clustering=who", "--property", "compaction.min_segments=6")
    chosen = facts("plan", filled, *wish)["chosen"]
    assert {launch["kind"] for launch in chosen} == {"semi-major"}
    few = facts("plan", filled, "--property", "compaction.clustering=who")["skipped"]
    assert {entry["kind"] for entry in few} >= {"minor", "semi-major"}
    assert "too little to sort" in " ".join(run("plan", filled, *wish[:2]).stdout.split())


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (["--kind", "full"], "InvalidInput", ["'full'", "minor, semi-major, major"]),
        (
            ["--kind", "major", "--all"],
            "InvalidInput",
            ["--kind major", "--all exclude each other"],
        ),
        (["minor-x", "--kind", "minor"], "InvalidInput", ["plan ids exclude"]),
        (["--granularity", "day"], "InvalidInput", ["--granularity 'day'", "without --kind"]),
        (["--clustering", "who"], "InvalidInput", ["--clustering 'who'", "without --kind"]),
        (["--kind", "minor", "--granularity", "day"], "InvalidInput", ["use a major"]),
        (["--kind", "major", "--granularity", "eon"], "InvalidInput", ["'eon'", "hour, day"]),
        (["--kind", "minor", "--clustering", "who"], "InvalidInput", ["semi-major or major"]),
        (["--kind", "major", "--clustering", "wo"], "SchemaMismatch", ["'wo'", "at, who"]),
        (["--kind", "major", "--clustering", "zorder(who"], "InvalidInput", ["not an order"]),
        (["--kind", "major", "--rollup", "perfect"], "InvalidInput", ["not a rollup table"]),
        (["--kind", "major", "--interval", "2013"], "InvalidInput", ["'2013' is not an interval"]),
        (["--kind", "minor", "--interval", "1999-01-01/2000-01-01"], "InvalidInput", ["no rows"]),
        (["--all", "--property", "compaction.clustering=wo"], "SchemaMismatch", ["'wo'"]),
        (["--all", "--property", "compaction.major=yes"], "InvalidInput", ["'yes'", "auto, off"]),
        (
            ["--all", "--property", "compaction.semi_major_unclustered=2"],
            "InvalidInput",
            ["at most 1"],
        ),
        (
            ["--all", "--property", "compaction.major_granularity=eon"],
            "InvalidInput",
            ["'eon'", "nothing, hour"],
        ),
        (
            ["--all", "--property", "compaction.major_after_minutes=nan"],
            "InvalidInput",
            ["nan is too low"],
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    run: Run, filled: str, tmp_path: Path, arguments: list[str], error: str, words: list[str]
) -> None:
    """One line with the value and the way out, exit code 2, and nothing written."""
    with nothing_written(tmp_path):
        result = run("compact", filled, *arguments, "--json")
    refused(result, 2, error, *words)
