"""Changing rows as a task: once, however often it is tried, and never more than was asked."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_segtable.core.errors import ExecutionFailed, InvalidInput, SegtableError
from airflow_provider_segtable.core.requests.change_request import arguments_of
from airflow_provider_segtable.hooks.submission import Submission
from airflow_provider_segtable.operators.change import (
    SegtableChangeOperator,
    SegtableDeleteOperator,
    SegtableMergeOperator,
    SegtableUpdateOperator,
)
from airflow_provider_segtable.operators.spark_operator import commit_id_of
from airflow_provider_segtable.table.remote_results import leave
from airflow_provider_segtable.table.table import Table

from .conftest import Flights

RUN = {"ti": SimpleNamespace(dag_id="forget", run_id="manual__1", task_id="delete", map_index=-1)}


@dataclass
class InThisProcess:
    """A launcher that deletes as ``spark_apps/change.py`` does, without Spark; it may break.

    ``code`` is that of an application that refused, ``fault`` what comes after its commit.
    """

    fault: str | None = None
    refuses: SegtableError | None = None
    report: bool = True
    attached: bool = True
    launched: list[tuple[str, ...]] = field(default_factory=list)

    def launch(self, submission: Submission, say: Callable[[str], None]) -> None:
        """Delete what ``--where`` names."""
        self.launched.append(submission.arguments)
        kind, *rest = submission.arguments
        given = options(rest)
        facts: dict[str, Any] = {"code": 2, "error": str(self.refuses)}
        if self.refuses is None:
            table = Table.open(given["table"], zookeeper=given["zookeeper"])
            done = table.delete(where=given["where"], commit_id=given.get("commit-id"))
            table.ports.coordinator.close()
            facts = {
                "code": 0,
                "kind": kind,
                "event": done.n,
                "matched": done.matched,
                "deleted": done.deleted,
                "inserted": done.inserted,
                "seconds": 0.5,
            }
        say("done")
        if self.report and self.attached:
            Path(given["result-file"]).write_text(json.dumps(facts))
        elif not self.attached and facts.get("event") is None:
            ports = Table.open(given["table"]).ports
            leave(ports.storage, given["leave-result"], facts, now=ports.clock.now())
        if self.fault or self.refuses:
            raise ExecutionFailed(self.fault or "exit code 2")

    def kill(self) -> None:
        """Do nothing: it ends with this process."""


def options(arguments: list[str]) -> dict[str, str]:
    """Return ``--name=value`` and ``--name value`` as one mapping."""
    found, name = {}, ""
    for part in arguments:
        if part.startswith("--"):
            name, _, found[name] = part[2:].partition("=")
            found[name] = part[2:].partition("=")[2]
        else:
            found[name] = part
    return found


def deleter(launcher: InThisProcess, **overrides: Any) -> SegtableDeleteOperator:
    arguments = {"table": "flights", "where": "row < 60", "engine": "spark", "launcher": launcher}
    arguments |= overrides
    return SegtableDeleteOperator(task_id="delete", **arguments)


def test_rows_are_deleted_and_reported(flights: Flights) -> None:
    """What matched is gone, the rest is there, and XCom says so."""
    told = deleter(InThisProcess()).execute(RUN)
    assert flights.rows() == list(range(60, 800))
    assert told == {
        "kind": "delete",
        "event": flights.table.state().n,
        "matched": 60,
        "deleted": 60,
        "inserted": 0,
        "seconds": 0.5,
        "dry_run": False,
        "changed_before": False,
    }


def test_a_second_try_finds_it_done_and_launches_nothing(flights: Flights) -> None:
    """The change is named after the task instance, so it lands once, and costs Spark once."""
    first = deleter(InThisProcess()).execute(RUN)
    again = InThisProcess()
    told = deleter(again).execute(RUN)
    assert again.launched == []
    assert told == {**first, "seconds": None, "changed_before": True}
    assert flights.table.state().n == first["event"]


@pytest.mark.parametrize("launcher", [{"fault": "killed", "report": False}, {"attached": False}])
def test_without_a_report_the_log_is_asked(flights: Flights, launcher: dict[str, Any]) -> None:
    """A driver that dies after its commit, or runs on a cluster, is no failure."""
    told = deleter(InThisProcess(**launcher)).execute(RUN)
    assert (told["matched"], told["deleted"], told["changed_before"]) == (60, 60, False)
    assert flights.rows() == list(range(60, 800))


def test_small_tables_are_changed_in_the_task_and_large_ones_on_spark(
    flights: Flights, capsys: pytest.CaptureFixture[str]
) -> None:
    """The limit counts the table; SQL beyond the simple goes to Spark at any size."""
    launcher = InThisProcess()
    told = deleter(launcher, engine="auto", where="row < 3").execute(RUN)
    assert (told["matched"], told["changed_before"], launcher.launched) == (3, False, [])
    assert deleter(launcher, where="row < 3").execute(RUN)["changed_before"]
    large = {"engine": "auto", "local_bytes": 1000, "commit_id": "large"}
    assert deleter(launcher, **large).execute(RUN)["matched"] == 57
    assert len(launcher.launched) == 1
    beyond = "row < 100 and row in (select 70)"
    refusing = InThisProcess(refuses=InvalidInput("not by this fake"))
    with pytest.raises(AirflowFailException, match="not by this fake"):
        deleter(refusing, engine="auto", where=beyond, commit_id="beyond").execute(RUN)
    with pytest.raises(AirflowFailException, match="delete in flights"):
        deleter(refusing, engine="local", where=beyond, commit_id="beyond").execute(RUN)
    assert "delete in flights on Spark: " in capsys.readouterr().out
    assert flights.rows() == list(range(60, 800))


def test_nothing_that_matches_is_success(flights: Flights) -> None:
    """No event is written, with a report and without."""
    version = flights.table.state().n
    for attached in (True, False):
        told = deleter(InThisProcess(attached=attached), where="row < 0").execute(RUN)
        assert (told["event"], told["matched"]) == (None, 0)
    assert flights.table.state().n == version


def test_a_dry_run_asks_the_application_to_count(flights: Flights) -> None:
    """Its counts come back, without an event."""
    version = flights.table.state().n

    class Counting(InThisProcess):
        def launch(self, submission: Submission, say: Callable[[str], None]) -> None:
            given = options([*submission.arguments[1:]])
            table = Table.open(given["table"], zookeeper=given["zookeeper"])
            done = table.delete(where=given["where"], dry_run="dry-run" in given)
            say(str(done))
            table.ports.coordinator.close()
            counts = {name: getattr(done, name) for name in ("matched", "deleted", "inserted")}
            facts = {"kind": "delete", "event": done.n, **counts, "seconds": 0.5}
            Path(given["result-file"]).write_text(json.dumps(facts))

    told = deleter(Counting(), dry_run=True).execute(RUN)
    assert (told["matched"], told["deleted"], told["event"]) == (60, 60, None)
    assert told["dry_run"] is True
    assert flights.table.state().n == version


@pytest.mark.usefixtures("flights")
def test_what_no_retry_can_mend_fails_at_once() -> None:
    """An application that refused its arguments is not started again."""
    launcher = InThisProcess(refuses=SegtableError("there is no column 'rwo'"))
    with pytest.raises(AirflowFailException, match="no column 'rwo'"):
        deleter(launcher).execute(RUN)


@pytest.mark.usefixtures("flights")
def test_a_driver_that_dies_before_its_commit_is_tried_again() -> None:
    """The task fails, with the application's last words, and may be retried."""
    launcher = InThisProcess(fault="killed", report=False)
    with pytest.raises(AirflowException, match=r"changed nothing(.|\n)*killed") as raised:
        deleter(launcher, where="row < 0").execute(RUN)
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize(
    "given",
    [{"where": ""}, {"where": "  "}, {"where": None}, {"where": "row < 3", "all_rows": True}],
)
def test_a_condition_that_renders_to_nothing_never_means_all(given: dict[str, Any]) -> None:
    """The task fails at once, and nothing is launched."""
    launcher = InThisProcess()
    with pytest.raises(AirflowFailException, match="all_rows"):
        deleter(launcher, **given).execute(RUN)
    assert launcher.launched == []


def test_all_rows_is_said_in_words(flights: Flights) -> None:
    """``all_rows`` deletes every row."""
    assert deleter(InThisProcess(), where=None, all_rows=True).execute(RUN)["deleted"] == 800
    assert flights.rows() == []


@pytest.mark.parametrize(
    ("operator", "wanted"),
    [
        (
            SegtableDeleteOperator(
                task_id="t", table="a", matches="ids.csv", on=["a", "b"], options={"sep": ";"}
            ),
            ["--matches=ids.csv", "--on=a,b", "--option=sep=;"],
        ),
        (
            SegtableUpdateOperator(
                task_id="t", table="a", set={"a": "b + 1", "c": "'='"}, where="-a > 3"
            ),
            ["--set=a=b + 1", "--set=c='='", "--where=-a > 3"],
        ),
        (
            SegtableMergeOperator(
                task_id="t",
                table="a",
                source="s3://b/*",
                on="k",
                set={"n": "target.n + 1"},
                format="csv",
            ),
            [
                "--source=s3://b/*",
                "--on=k",
                "--matched=update",
                "--unmatched=insert",
                "--set=n=target.n + 1",
                "--format=csv",
            ],
        ),
    ],
)
def test_the_application_is_told_what_was_asked(
    operator: SegtableChangeOperator, wanted: list[str]
) -> None:
    """A value may begin with a dash or hold an equals sign."""
    assert list(arguments_of(operator.request(None))[1:]) == wanted


@pytest.mark.usefixtures("flights")
def test_a_merge_with_an_unknown_word_is_refused() -> None:
    """Before anything is launched; the message has the words there are."""
    merge = SegtableMergeOperator(
        task_id="t", table="flights", source="s.csv", on="k", matched="upsert"
    )
    with pytest.raises(AirflowFailException, match="'upsert': choose one of update, delete"):
        merge.execute(RUN)


def test_an_update_that_sets_nothing_is_refused(flights: Flights) -> None:
    """The message shows the form."""
    update = SegtableUpdateOperator(task_id="t", table=flights.name, set={}, where="true")
    with pytest.raises(AirflowFailException, match="set is empty"):
        update.execute(RUN)


def test_mapped_task_instances_have_names_of_their_own() -> None:
    """Each of them commits once."""
    names = {
        commit_id_of({"ti": SimpleNamespace(**{**vars(RUN["ti"]), "map_index": index})})
        for index in (-1, 0, 1)
    }
    assert names == {
        "forget/manual__1/delete",
        "forget/manual__1/delete[0]",
        "forget/manual__1/delete[1]",
    }


@pytest.mark.parametrize(
    "kind", [SegtableDeleteOperator, SegtableUpdateOperator, SegtableMergeOperator]
)
def test_every_template_field_is_a_field(kind: type[SegtableChangeOperator]) -> None:
    """Airflow finds each template field on the operator."""
    given = {"set": {"a": "1"}, "source": "s", "on": "k"}
    wanted = {name: given[name] for name in given if name in kind.template_fields}
    made = kind(task_id="t", table="a", **wanted)
    assert all(hasattr(made, name) for name in kind.template_fields)
