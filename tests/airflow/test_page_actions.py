"""The actions of the page in Airflow: events and DAG runs in the user's name, by its rights."""

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.api_fastapi.core_api import security
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_segtable.operators.emission import Located, emissions
from airflow_provider_segtable.operators.plan import PLANS_PER_RUN
from airflow_provider_segtable.services.planner import launch_of
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table
from airflow_provider_segtable.ui import lake_page
from tests.support.action_contract import TAGGED, USER, ActionContract, World
from tests.support.shown_lake import SCHEMA, Browser

from .conftest import CONNECTION, known_dags

pytestmark = [pytest.mark.airflow, pytest.mark.filterwarnings("ignore")]
FLEET = "[properties]\ncompaction.min_segments = 3\n[groups.all]\ntables = ['*', 'raw/*']\n"
DAGS = """
from pathlib import Path
from airflow_provider_segtable.dag_factory import compaction_dags, fleet_dags

fleet_dags(Path(__file__).with_name("fleet.toml"), name="page", schedule=None, upkeep=None)
compaction_dags(table="alone", schedule=None)
"""


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory, airflow_db: None) -> Mapping[str, DAG]:  # noqa: ARG001
    """Return the DAGs of a fleet of all tables, and of a table alone, known to Airflow."""
    folder = tmp_path_factory.mktemp("dags")
    (folder / "fleet.toml").write_text(FLEET)
    return known_dags(folder, DAGS)


@pytest.fixture(scope="module")
def _users(airflow_db: None) -> Iterator[None]:  # noqa: ARG001
    """Let Airflow have users with roles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "0" * 64)
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
        create_app(apps="core")
        yield


class InAirflow(World):
    """A table on disk; a DAG run is carried out by ``DAG.test``, with the conf that Airflow has."""

    def __init__(self, root: Path, dags: Mapping[str, DAG], zookeeper: str) -> None:
        self.root, self.dags, self.zookeeper = root, dags, zookeeper
        self.create(self.name)
        self.app = lake_page.made()
        self.browser = self.of_user("OP")
        self.append(4)

    def create(self, name: str) -> None:
        """Create a table."""
        place, zookeeper = str(self.root / name), self.zookeeper
        Table.create(
            place, schema=SCHEMA, time_column="at", granularity="hour", zookeeper=zookeeper
        )

    def of_user(self, role: str | None) -> Browser:
        """Return the browser of a user with a role."""
        token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=USER, role=role))
        return Browser(self.app, cookies={"_token": token})

    @property
    def ports(self) -> TableContext:
        """Return the table's ports."""
        return Table.open(str(self.root / self.name), zookeeper=self.zookeeper).ports

    def finish(self, outcome: Mapping[str, Any]) -> None:
        """Carry out the DAG run."""
        if outcome["run_id"] is not None:
            run = run_of(outcome)
            self.dags[run.dag_id].test(run_conf=run.conf)


def run_of(outcome: Mapping[str, Any]) -> DagRun:
    """Return the DAG run of an outcome."""
    with create_session() as session:
        wanted = (DagRun.dag_id == outcome["dag_id"], DagRun.run_id == outcome["run_id"])
        found = session.scalar(select(DagRun).where(*wanted))
        assert found is not None
        session.expunge(found)
        return found


@pytest.fixture
def world(
    tmp_path: Path,
    dags: Mapping[str, DAG],
    _users: None,
    monkeypatch: pytest.MonkeyPatch,
) -> InAirflow:
    """A table of four files, and a user who may trigger DAGs."""
    zookeeper = f"memory://{uuid.uuid4().hex}"
    given = {"conn_type": "segtable", "host": str(tmp_path), "extra": {"zookeeper": zookeeper}}
    monkeypatch.setenv(CONNECTION, json.dumps(given))
    monkeypatch.delenv("SEGTABLE_FLEET", raising=False)
    return InAirflow(tmp_path, dags, zookeeper)


class TestInAirflow(ActionContract):
    """The contract."""


def test_a_user_who_may_not_trigger_the_dag_changes_nothing(world: InAirflow) -> None:
    """A viewer sees the page, and each refusal names the DAG."""
    world.browser = world.of_user("VIEWER")
    for path in ("preview", "run"):
        found = world.post(path, "tag", "1.1." + "0" * 32, **TAGGED)
        assert (found.status_code, found.json()["error"]) == (403, "Refused")
        assert "segtable_planner__page" in found.json()["message"]
    wished = {"kind": "minor", "interval": "2026-01-05/2026-01-06"}
    assert "segtable_minor__page" in world.post("preview", "compact", **wished).json()["message"]
    found = world.browser.get("/api/actions", table=world.name).json()["data"]["actions"]
    assert [each["name"] for each in found if each["allowed"]] == []
    assert world.state.n == 4


def test_a_user_without_a_role_sees_nothing(world: InAirflow) -> None:
    """The page's own right comes first."""
    world.browser = world.of_user(None)
    assert world.post("preview", "tag", **TAGGED).status_code == 403
    world.browser.cookies.clear()
    assert world.post("run", "tag", "", **TAGGED).status_code == 401


def test_a_right_that_cannot_be_checked_is_denied(
    world: InAirflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Airflow's check is not where it was, nobody may do anything."""
    monkeypatch.delattr(security, "requires_access_dag")
    found = world.post("preview", "tag", **TAGGED)
    assert (found.status_code, "cannot be checked" in found.json()["message"]) == (403, True)


def test_a_table_without_dags_cannot_be_changed(world: InAirflow) -> None:
    """No DAG serves it: the fleet does not have it."""
    world.create("deep/below/it")
    found = world.browser.get("/api/actions", table="deep/below/it").json()["data"]["actions"]
    assert {each["allowed"] for each in found} == {False}
    assert "no DAG of this Airflow serves deep/below/it" in found[0]["refusal"]


def test_a_table_of_its_own_dags_is_planned_and_published_by_its_planner(world: InAirflow) -> None:
    """No DAG cleans it, and that is said."""
    world.create("alone")
    found = world.browser.get("/api/actions", table="alone").json()["data"]["actions"]
    refused = {each["name"]: each["refusal"] for each in found if not each["allowed"]}
    assert [*refused] == ["clean"]
    assert "`segtable clean`" in refused["clean"]
    world.name = "alone"
    effects = world.preview("publish", formats=["delta"])["effects"]
    assert "A run of DAG segtable_planner__alone does it, in your name." in effects


def test_a_plan_is_a_run_of_the_planner_in_the_users_name(world: InAirflow) -> None:
    """The same confirmation twice is one run; a paused DAG is said."""
    shown = world.preview("plan")
    assert "A run of DAG segtable_planner__page does it, in your name." in shown["effects"]
    assert any("is paused" in each for each in shown["effects"])
    first = world.post("run", "plan", shown["seal"]).json()
    again = world.post("run", "plan", shown["seal"]).json()
    assert first["run_id"] == again["run_id"]
    assert "does it already" in again["sentence"]
    run = run_of(first)
    assert (run.triggering_user_name, run.dag_id) == (USER, "segtable_planner__page")
    assert first["href"] == f"/dags/{run.dag_id}/runs/{run.run_id}"


def test_a_cleaning_is_a_run_of_the_upkeep_for_this_table_alone(world: InAirflow) -> None:
    """It deletes what the preview says, with the retention that was asked for."""
    world.create("other")
    ids = [str(each.id) for each in world.state.timeline.visible_segments()]
    world.run("compact", kind="minor", segments=ids)
    wished = {"hours": 0, "versions": 1}
    shown = world.preview("clean", **wished)
    assert "4 data files deleted" in shown["effects"]
    done = world.run("clean", **wished)
    run = run_of(done)
    assert (run.dag_id, run.conf["table"]) == ("segtable_upkeep__page", world.name)
    assert not [*world.state.timeline.hidden_segments()]
    assert len(list((world.root / world.name / "data").rglob("*.parquet"))) == 1


def test_a_publication_is_a_run_of_the_upkeep(world: InAirflow) -> None:
    """In the formats that were asked for."""
    world.run("publish", formats=["delta"])
    assert (world.root / world.name / "_delta_log").is_dir()


def test_a_compaction_has_the_run_that_the_planner_would_give_it(world: InAirflow) -> None:
    """So the planner, which sees a pending plan, makes no second one."""
    shown = world.preview("compact", kind="minor", interval="2026-01-05/2026-01-06")
    wished = {"kind": "minor", "interval": "2026-01-05/2026-01-06"}
    done = world.post("run", "compact", shown["seal"], **wished).json()
    (known,) = world.state.pending_plans()
    (planned,) = emissions(
        [Located(table=world.name, launch=launch_of(known))],
        trigger_dag_ids={"minor": "segtable_minor__page"},
        plans_per_run=PLANS_PER_RUN,
    )
    assert (done["dag_id"], done["run_id"]) == (planned.dag_id, planned.run_id)
    assert run_of(done).conf["plans"] == [known.plan.id]
