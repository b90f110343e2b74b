"""``segtable repair`` from the command line, on a real disk."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_provider_segtable.cli.app import app
from airflow_provider_segtable.table.table import Table
from tests.unit.services.repairing import World

runner = CliRunner()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A table with a history, whose log is gone."""
    return World.begin(tmp_path / "flights", 4).live(6)


def test_nothing_is_written_before_yes(world: World) -> None:
    """The plan is shown, dry or not; --yes does it; then nothing is left to do."""
    before, rows = world.contents(), len(world.rows)
    world.lose_log()
    shown = runner.invoke(app, ["repair", world.ports.uri, "--dry-run", "--json"])
    assert shown.exit_code == 0
    plan = json.loads(shown.stdout)
    assert (plan["needed"], plan["new_log"], plan["rows"], plan["done"]) == (
        True,
        True,
        rows,
        False,
    )
    asked = runner.invoke(app, ["repair", world.ports.uri])
    assert asked.exit_code == 1
    assert not (world.folder / "_segtable").exists()
    done = runner.invoke(app, ["repair", world.ports.uri, "--yes"])
    assert done.exit_code == 0, done.output
    assert world.contents() == before
    again = runner.invoke(app, ["repair", world.ports.uri])
    assert (again.exit_code, "needs no repair" in again.stdout) == (0, True)


def test_a_file_that_is_none_is_refused(world: World) -> None:
    """A decision about a file that is not there is a mistake: exit code 2, nothing written."""
    world.lose_log()
    result = runner.invoke(app, ["repair", world.ports.uri, "--without", "data/x", "--yes"])
    assert result.exit_code != 0
    assert not (world.folder / "_segtable").exists()


def test_deletes_are_for_a_person_to_decide(world: World) -> None:
    """They are listed with what they delete, in red; a word that is none is refused."""
    row = min(world.rows)
    Table(world.ports).delete(f"row = {row}")
    before = world.contents()
    world.lose_log()
    asked = runner.invoke(app, ["repair", world.ports.uri, "--yes"])
    assert (asked.exit_code, "deletes in doubt" in asked.stdout) == (1, True)
    wrong = runner.invoke(app, ["repair", world.ports.uri, "--deletes", "perhaps"])
    assert wrong.exit_code != 0
    done = runner.invoke(app, ["repair", world.ports.uri, "--deletes", "apply", "--yes", "--json"])
    facts = json.loads(done.stdout)
    assert [(each["rows"], each["rows_there"]) for each in facts["deletes"]] == [(1, 1)]
    assert facts["deleted_again"] == 1
    assert world.contents() == before
