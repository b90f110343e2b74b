"""``segtable verify`` and ``segtable doctor``: answers, exit codes, and what people see."""

import json
from pathlib import Path

import pytest

from airflow_provider_segtable.cli.commands.health_commands import EXITS
from airflow_provider_segtable.cli.display.output import Exit
from airflow_provider_segtable.core.recovery.diagnosis import Severity
from tests.unit.cli.conftest import Facts, Run


@pytest.fixture
def filled(run: Run, table: str) -> str:
    """A table of two days, in four appends."""
    assert run("ingest", table, "trips.parquet", "--rows-per-append", "12").exit_code == 0
    return table


def files(table: str) -> list[Path]:
    return sorted(Path(table, "data").rglob("*.parquet"))


@pytest.mark.parametrize("options", [(), ("--deep",), ("--all-versions", "--threads", "2")])
def test_a_sound_table_ends_with_0(facts: Facts, filled: str, options: tuple[str, ...]) -> None:
    """The answer says what was looked at."""
    found = facts("verify", filled, *options)
    assert found["findings"] == []
    assert (found["version"], found["first_event"], found["checked"]["files"]) == (4, 0, 4)
    assert found["checked"]["rows"] == (48 if found["deep"] else 0)


def test_people_read_one_line(run: Run, filled: str) -> None:
    """Nothing is wrong, and that is all."""
    result = run("verify", filled, "--deep")
    assert result.stdout.strip() == "sound: events 0 to 4, 0 checkpoints, 4 files, 48 rows"


def test_damage_ends_with_5_and_is_told(run: Run, filled: str) -> None:
    """What, where, why, and the way out, for scripts and for people."""
    lost = files(filled)[0]
    lost.unlink()
    result = run("verify", filled, "--json")
    assert result.exit_code == Exit.WRONG
    (finding,) = json.loads(result.stdout)["findings"]
    assert (finding["code"], finding["severity"]) == ("missing-file", "critical")
    assert filled + "/" + finding["where"] == str(lost)
    said = run("verify", filled).stdout
    for part in ("critical missing-file", finding["where"], "why: ", "do:  restore"):
        assert part in said


def test_what_is_no_table_ends_with_6(run: Run, tmp_path: Path) -> None:
    """It could not be checked, which is neither sound nor damaged."""
    result = run("verify", str(tmp_path / "nowhere"), "--json")
    assert result.exit_code == Exit.UNCHECKED
    assert json.loads(result.stdout)["error"] == "NotATable"


def test_an_unreadable_file_ends_with_6(run: Run, filled: str) -> None:
    """Storage that refuses is no proof of damage."""
    victim = files(filled)[0]
    victim.unlink()
    victim.mkdir()
    assert run("verify", filled).exit_code == Exit.UNCHECKED


def test_a_wrong_option_ends_with_2(run: Run, filled: str) -> None:
    """A bad storage option is the caller's mistake, not the table's."""
    assert run("verify", filled, "--storage-option", "nonsense").exit_code == Exit.USAGE
    assert run("verify", filled, "--threads", "0").exit_code == Exit.USAGE


def test_a_table_that_is_looked_after_ends_with_0(facts: Facts, run: Run, filled: str) -> None:
    """Nothing to say, to scripts and to people."""
    found = facts("doctor", filled)
    assert (found["findings"], found["worst"]) == ([], None)
    assert "healthy as of version 4" in run("doctor", filled).stdout


def test_a_warning_ends_with_7(run: Run, filled: str) -> None:
    """With the command that helps, ready to be copied."""
    asked = run("plan", filled, "--request", "--property", "compaction.min_segments=2")
    assert asked.exit_code == 0
    result = run("doctor", filled, "--pending-minutes", "0", "--json")
    assert result.exit_code == Exit.WARNED
    found = json.loads(result.stdout)
    assert found["worst"] == "warning"
    first = next(f for f in found["findings"] if f["code"] == "abandoned-plan")
    program, *command = first["do"].split()
    assert program == "segtable"
    assert run(*command).exit_code == 0
    assert first["where"] not in run("doctor", filled, "--pending-minutes", "0").stdout


def test_the_worst_severity_gives_the_exit_code() -> None:
    """Every severity has one, and only info is as good as nothing."""
    assert set(EXITS) == {None, *Severity}
    assert EXITS[None] == EXITS[Severity.INFO] == Exit.DONE
    assert len({EXITS[each] for each in Severity}) == len(Severity)


@pytest.mark.parametrize("command", ["verify", "doctor"])
def test_help_teaches_by_examples(run: Run, command: str) -> None:
    """What it looks at, how it ends, and lines to copy."""
    said = run(command, "--help").stdout
    assert said.count(f"segtable {command} ./flights") >= 3
    assert "Ends" in said
