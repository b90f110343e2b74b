"""A new error is a class with an exit code, and its raising place: no list names it."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import typer
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from typer.testing import CliRunner

from airflow_provider_segtable.cli.guard import GuardedGroup
from airflow_provider_segtable.core.errors import Exit, SegtableError
from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.change import SegtableDeleteOperator
from airflow_provider_segtable.operators.publish import SegtablePublishOperator
from airflow_provider_segtable.spark.driver.application import App, Outcome, parser, run
from airflow_provider_segtable.spark.driver.session import RESULT_PREFIX

from .conftest import Flights


class ToyMissing(SegtableError):
    """A toy: this machine lacks a toy."""

    exit_code = Exit.MISSING


class ToyRefused(SegtableError):
    """A toy: a value is no toy."""

    exit_code = Exit.USAGE


class ToyOwn(SegtableError):
    """A toy with an exit code that segtable itself never has."""

    exit_code = 9


TOYS = [ToyMissing, ToyRefused, ToyOwn]


@pytest.mark.parametrize("toy", TOYS)
def test_the_command_line_ends_with_the_code_of_an_error(toy: type[SegtableError]) -> None:
    """The error is one line, and the code is the class's."""
    app = typer.Typer(cls=GuardedGroup)

    @app.callback()
    def group() -> None:
        """Have commands."""

    @app.command()
    def play() -> None:
        """Raise the toy."""
        raise toy("no toy here: buy one")

    result = CliRunner().invoke(app, ["play"], catch_exceptions=False)
    assert (result.exit_code, "no toy here: buy one" in result.output) == (toy.exit_code, True)


@pytest.mark.parametrize("toy", TOYS)
def test_a_spark_application_ends_with_the_code_of_an_error(
    toy: type[SegtableError], capsys: pytest.CaptureFixture[str]
) -> None:
    """The code is that of the process, and in its result."""

    def work(_: App) -> Outcome:
        raise toy("no toy here: buy one")

    arguments = ["--table", "/nowhere", "--zookeeper", "127.0.0.1:1"]
    assert run(parser("segtable-toy", "Play."), arguments, work) == toy.exit_code
    result = json.loads(capsys.readouterr().out.rpartition(RESULT_PREFIX)[2])
    assert (result["code"], toy.__name__ in result["error"]) == (toy.exit_code, True)


@pytest.mark.parametrize("toy", TOYS)
@pytest.mark.usefixtures("flights")
def test_a_task_fails_without_a_retry_by_the_code_of_an_error(
    toy: type[SegtableError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong value fails at once; Airflow retries any other error."""

    def refuse(*_: Any, **__: Any) -> None:
        raise toy("no toy here: buy one")

    monkeypatch.setattr(SegtableHook, "place", property(refuse))
    final = toy.exit_code == Exit.USAGE
    with pytest.raises(AirflowFailException if final else toy, match="buy one"):
        SegtablePublishOperator(task_id="t", table="flights").execute({})


@pytest.mark.parametrize("toy", TOYS)
def test_a_task_fails_without_a_retry_by_the_code_of_its_application(
    toy: type[SegtableError], flights: Flights
) -> None:
    """The code in the result of a driver decides alike."""
    facts: Mapping[str, Any] = {"code": toy.exit_code, "error": "no toy here: buy one"}
    assert flights.rows()
    operator = SegtableDeleteOperator(task_id="t", table="flights", where="row < 60")
    event = {"status": "success", "message": "", "facts": facts}
    with pytest.raises(AirflowException, match="buy one") as failed:
        operator.execute_complete({}, event, result="change-0123", commit_id="c")
    assert isinstance(failed.value, AirflowFailException) == (toy.exit_code == Exit.USAGE)
