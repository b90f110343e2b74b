"""Carrying plans out as a task: done once, whatever came before."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import FileList
from airflow_provider_segtable.core.locks import LockRequest
from airflow_provider_segtable.hooks.submission import Submission
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.operators.fields import asked_plans
from airflow_provider_segtable.operators.plans_operator import outstanding
from airflow_provider_segtable.ports.coordination import Lease
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cancelling import cancel
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.index_lifecycle import forward_all, request_index
from airflow_provider_segtable.table.indexes.index_entries import index_ports
from airflow_provider_segtable.table.table import Table

from .conftest import Flights, InThisProcess


def compactor(launcher: InThisProcess, **overrides: object) -> SegtableCompactOperator:
    arguments = {"table": "flights", "launcher": launcher, "engine": "spark", "wait_s": 0.0}
    arguments |= overrides
    return SegtableCompactOperator(task_id="compact", **arguments)


@pytest.fixture
def plan_id(flights: Flights) -> str:
    """Give the id of the plan that is pending."""
    (launch,) = plan_table(flights.table.ports).launches
    return launch.plan_id


@contextmanager
def held(flights: Flights, plan_id: str) -> Iterator[Lease]:
    """Hold a plan's lock, as a live worker does."""
    ports = open_context(str(flights.root / "flights"), zookeeper=flights.zookeeper)
    request = LockRequest(
        table=flights.table.state().table.table_id,
        group="other",
        purpose=plan_id,
        holder="an orphan",
    )
    lease = ports.coordinator.acquire(request, wait_s=0)
    try:
        yield lease
    finally:
        lease.release()
        ports.coordinator.close()


def test_a_plan_is_carried_out_and_reported(flights: Flights, plan_id: str) -> None:
    """Sixteen segments become one, no row is lost, and XCom says so."""
    rows = flights.rows()
    told = compactor(InThisProcess(), plans=[plan_id]).execute({})
    assert (told["completed"], told["segments_in"], told["segments_out"]) == (1, 16, 1)
    assert told["plans"][0]["ended"] == "completed"
    assert flights.segments() == 1
    assert flights.rows() == rows


def test_a_small_plan_is_carried_out_in_the_task_itself(
    flights: Flights, plan_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``auto`` starts no Spark; the log has one line for the plan, and one for the run."""
    launcher, rows = InThisProcess(), flights.rows()
    told = compactor(launcher, plans=[plan_id], engine="auto").execute({})
    assert (told["completed"], told["segments_out"], launcher.launched) == (1, 1, [])
    assert flights.rows() == rows
    logged = capsys.readouterr().out
    assert "1 plan in this process:" in logged
    assert logged.count(f"{plan_id}: completed:") == 1
    assert "plans: 1 completed: 16 segments -> 1 (800 rows, " in logged


def test_with_a_policy_the_task_plans_first(flights: Flights) -> None:
    """As `segtable compact --all --property` does; deleted rows are left out for good."""
    flights.table.delete(where="row = 3")
    told = compactor(InThisProcess(), engine="local", policy={"deleted_share": 0}).execute({})
    assert (told["completed"], told["rows"]) == (1, 799)
    with pytest.raises(AirflowFailException, match=r"compaction\.share"):
        compactor(InThisProcess(), policy={"share": 0}).execute({})


def chosen(flights: Flights, *partitions: int) -> list[str]:
    """Return segment ids as `segtable table segments` prints them."""
    segments = flights.table.state().timeline.visible_segments()
    return [str(each.id) for each in segments if each.id.partition in partitions]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_chosen_segments_are_compacted(flights: Flights, engine: str) -> None:
    """Minor joins exactly these, as on the command line; a retry finds its plan done."""
    rows, some = flights.rows(), chosen(flights, 2, 3, 4)
    task = compactor(InThisProcess(), engine=engine, kind="minor", segments=json.dumps(some))
    told = task.execute({})
    assert (told["completed"], told["segments_in"], told["segments_out"]) == (1, 3, 1)
    assert flights.segments() == 14
    version = flights.table.state().n
    assert [plan["ended"] for plan in task.execute({})["plans"]] == ["done already"]
    assert (flights.table.state().n, flights.rows()) == (version, rows)


def test_the_policy_says_how_chosen_segments_are_compacted(flights: Flights) -> None:
    """Of the whole chunk, sorted by the given columns; no other plan is made."""
    some, policy = chosen(flights, 7), {"clustering": "row"}
    task = compactor(
        InThisProcess(), engine="local", kind="semi-major", segments=some, policy=policy
    )
    assert task.execute({})["segments_in"] == 16
    (segment,) = flights.table.state().timeline.visible_segments()
    assert segment.clustering == "row"


def test_the_tables_of_indexes_are_compacted_with_a_table_that_is_planned_first(
    flights: Flights,
) -> None:
    """By their own policies, in the task; a run of named plans leaves them alone."""
    ports = flights.table.ports
    request_index(ports, "files", FileList())
    own = index_ports(ports, ports.log.load().indexes["files"].definition)
    Table(own).alter(set={"compaction.min_segments": "2"})
    for _ in range(2):
        flights.append(1)
        forward_all(ports, ports.log.load())
    files = len(own.log.load().timeline.visible_segments())
    assert files > 1
    compactor(InThisProcess(), engine="local").execute({})
    assert len(own.log.load().timeline.visible_segments()) == files
    compactor(InThisProcess(), engine="local", policy={}).execute({})
    assert len(own.log.load().timeline.visible_segments()) < files


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"kind": "minor"}, "no segment is chosen"),
        ({"kind": "minor", "segments": "[]"}, "no segment is chosen"),
        ({"kind": "tiny", "segments": ["x"]}, "'tiny' is not a kind of compaction"),
        ({"kind": "minor", "segments": ["x"]}, "'x' is not a segment id: copy one"),
        ({"kind": "minor", "segments": "x"}, "is not a JSON list of segment ids"),
        ({"segments": ["x"]}, "without a kind"),
        ({"kind": "minor", "plans": ["minor-1"], "segments": ["x"]}, "exclude each other"),
    ],
    ids=str,
)
def test_a_choice_that_cannot_be_is_refused_at_once(
    flights: Flights, fields: dict[str, object], told: str
) -> None:
    """The task fails without a retry, and nothing is requested."""
    version = flights.table.state().n
    with pytest.raises(AirflowFailException, match=told):
        compactor(InThisProcess(), **fields).execute({})
    assert flights.table.state().n == version


def test_a_plan_above_the_limit_goes_to_spark(plan_id: str) -> None:
    """``local_bytes`` is the limit of ``auto``; ``local`` has none."""
    launcher = InThisProcess()
    compactor(launcher, plans=[plan_id], engine="auto", local_bytes=1000).execute({})
    assert launcher.launched == [[plan_id]]


@pytest.mark.usefixtures("flights")
def test_no_plans_means_every_pending_one(plan_id: str) -> None:
    """A run by hand, without conf, takes up what waits."""
    launcher = InThisProcess()
    assert compactor(launcher, plans="[]").execute({})["completed"] == 1
    assert launcher.launched == [[plan_id]]


def test_a_second_run_finds_it_done_and_launches_nothing(flights: Flights, plan_id: str) -> None:
    """Done already is success, and costs no Spark."""
    compactor(InThisProcess(), plans=[plan_id]).execute({})
    version = flights.table.state().n
    again = InThisProcess()
    told = compactor(again, plans=[plan_id]).execute({})
    assert told["plans"][0]["ended"] == "done already"
    assert again.launched == []
    assert flights.table.state().n == version


def test_a_plan_that_an_orphan_holds_is_not_launched(flights: Flights, plan_id: str) -> None:
    """Running elsewhere is success, and the holder is named."""
    launcher = InThisProcess()
    with held(flights, plan_id):
        told = compactor(launcher, plans=[plan_id]).execute({})
    assert told["plans"][0]["ended"] == "running elsewhere"
    assert "an orphan" in told["plans"][0]["message"]
    assert launcher.launched == []


def test_a_plan_whose_orphan_dies_is_taken_over(flights: Flights, plan_id: str) -> None:
    """Whoever waits for a lock that goes away has the plan to do."""
    ports = flights.table.ports
    with held(flights, plan_id) as lease:
        found = outstanding(ports, [plan_id], wait_s=120.0, report=lambda _: lease.release())
    assert found.todo == (plan_id,)


def test_a_plan_that_its_orphan_finishes_is_left_alone(flights: Flights, plan_id: str) -> None:
    """Whoever waits for a plan that is then completed has nothing to do."""
    ports = flights.table.ports

    def finish(_: str) -> None:
        compact(ports, [plan_id], in_process())

    with held(flights, plan_id):
        found = outstanding(ports, [plan_id], wait_s=120.0, report=finish)
    assert found.todo == ()
    assert [result.ended for result in found.settled] == [Ended.DONE_ALREADY]


@pytest.mark.usefixtures("flights")
def test_an_application_that_dies_after_its_commit_is_no_failure(plan_id: str) -> None:
    """Without a report the log is asked, and it says completed."""
    launcher = InThisProcess(fault="killed", report=False)
    told = compactor(launcher, plans=[plan_id]).execute({})
    assert told["plans"][0]["ended"] == "done already"


def test_failed_plans_fail_the_task_by_name(flights: Flights, plan_id: str) -> None:
    """The exception names each failed plan, with its message."""
    for path in (flights.root / "flights" / "data").rglob("00003-*.parquet"):
        path.unlink()
    with pytest.raises(AirflowException, match=rf"1 of 1 plan(.|\n)*{plan_id}: .*NotFound"):
        compactor(InThisProcess(), plans=[plan_id]).execute({})


@pytest.mark.usefixtures("flights")
def test_an_unknown_plan_fails_the_task() -> None:
    """A plan nobody requested is somebody's mistake."""
    with pytest.raises(AirflowException, match=r"no plan minor-unknown"):
        compactor(InThisProcess(), plans=["minor-unknown"]).execute({})


def test_killing_the_task_kills_the_application() -> None:
    """``on_kill`` reaches the launcher."""
    launcher = InThisProcess()
    compactor(launcher).on_kill()
    assert launcher.killed


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, None),
        ("", None),
        ("[]", None),
        ("null", None),
        ('["a", "b"]', ["a", "b"]),
        (["a"], ["a"]),
    ],
)
def test_plans_may_come_as_a_list_or_as_json(given: object, wanted: object) -> None:
    """What a template renders to is read, and nothing means every pending plan."""
    assert asked_plans(given) == wanted


@pytest.mark.parametrize("given", ["minor-1", "{", '{"a": 1}', "[1]"])
def test_plans_in_another_form_are_refused(given: str) -> None:
    """The message shows the value and the form."""
    with pytest.raises(InvalidInput, match="not a JSON list of plan ids"):
        asked_plans(given)


def test_retries_are_the_default_and_can_be_overridden() -> None:
    """A killed worker is expected, so a plain operator retries; ``default_args`` still count."""
    from airflow.sdk import DAG

    assert compactor(InThisProcess()).retries == 2
    with DAG("d", schedule=None, default_args={"retries": 7}):
        assert compactor(InThisProcess()).retries == 7


class EndedTask(InThisProcess):
    """A launcher whose task is ended from outside before its application begins."""

    def launch(self, submission: Submission, say: Callable[[str], None]) -> None:
        """End the task, and go on until the process is killed."""
        self.task.on_kill()
        super().launch(submission, say)

    task: SegtableCompactOperator


def of_try(number: int) -> Any:
    """Return the context of a try of one task."""
    ids = {"dag_id": "minor", "run_id": "r", "task_id": "compact"}
    return {"ti": SimpleNamespace(**ids, try_number=number, map_index=-1)}


def test_a_task_that_is_ended_cancels_its_plans_and_another_try_takes_them_up(
    flights: Flights, plan_id: str
) -> None:
    """The plan is aborted with the reason, rests, and commits nothing; a retry carries it out."""
    launcher = EndedTask()
    launcher.task = compactor(launcher, plans=[plan_id])
    with pytest.raises(AirflowException, match=f"another try takes up its plans: {plan_id}"):
        launcher.task.execute(of_try(1))
    assert launcher.killed
    (known,) = flights.table.state().plans.values()
    assert (known.status.value, flights.segments()) == ("aborted", 16)
    assert known.note == "cancelled: the task minor/r/compact was ended"
    assert plan_table(flights.table.ports).launches == ()
    elsewhere = {"ti": SimpleNamespace(**{**vars(of_try(2)["ti"]), "run_id": "another"})}
    assert compactor(InThisProcess(), plans=[plan_id]).execute(elsewhere)["completed"] == 0
    told = compactor(InThisProcess(), plans=[plan_id]).execute(of_try(2))
    assert (told["completed"], flights.segments()) == (1, 1)


def test_a_plan_of_another_worker_is_not_cancelled(flights: Flights, plan_id: str) -> None:
    """Nor one that has ended."""
    ports = open_context(str(flights.root / "flights"), zookeeper=flights.zookeeper, author="other")
    compact(ports, [plan_id], lambda _: iter(()))
    ports.coordinator.close()
    assert cancel(flights.table.ports, [plan_id], lambda author: author == "me", "why") == []
    assert flights.table.state().plans[plan_id].status.pending
    compact(flights.table.ports, [plan_id], in_process())
    assert cancel(flights.table.ports, [plan_id], lambda _: True, "why") == []
