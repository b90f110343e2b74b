"""The actions of the page in Airflow: events and DAG runs in the user's name, by Airflow's rights."""

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table
from airflow_provider_segtable.ui import lake_page, triggering
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
        Table.create(str(root / self.name), schema=SCHEMA, time_column="at", zookeeper=zookeeper)
        self.app = lake_page.made()
        self.browser = self.of_user("OP")
        self.append(4)

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
