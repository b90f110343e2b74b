"""A real Airflow below a sub-path, with users, and the DAGs of a fleet for ``tests.page.lake``.

``admin`` administrates, ``operator`` may trigger DAGs, ``viewer`` may only look. Tokens that
Airflow would not make, such as one that has expired, are signed with its own secret.
"""

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import jwt

from tests.page.lake import FLEET
from tests.support.airflow_api import poll
from tests.support.airflow_stack import AirflowStack

USERS = {"admin": "admin", "operator": "op", "viewer": "viewer"}
BELOW = "/team/a"
DAGS = """
from pathlib import Path
from airflow_provider_segtable.dag_factory import fleet_dags

fleet_dags(
    Path(__file__).with_name("fleet.toml"),
    name="lake",
    schedule=None,
    upkeep=None,
    wake=False,
)
"""
PLANNER = "segtable_planner__lake"
TIMEOUT_S = 240.0


class LookedAt(AirflowStack):
    """Airflow, whose page is looked at."""

    def __init__(self, folder: Path, lake: Path, zookeeper: str) -> None:
        """Write DAGs, passwords and settings."""
        dags = folder / "dags"
        dags.mkdir(parents=True)
        (dags / "fleet.toml").write_text(FLEET)
        (dags / "fleet.py").write_text(DAGS)
        passwords = folder / "passwords.json"
        passwords.write_text(json.dumps({name: name for name in USERS}))
        connection = {
            "conn_type": "segtable",
            "host": str(lake),
            "extra": {"zookeeper": zookeeper},
        }
        users = ",".join(f"{name}:{role}" for name, role in USERS.items())
        env = {
            "AIRFLOW_CONN_SEGTABLE_DEFAULT": json.dumps(connection),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": users,
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__SEGTABLE__PAGE_FLEET": str(dags / "fleet.toml"),
        }
        super().__init__(folder / "home", dags, env)
        self.lake = lake
        self.env["AIRFLOW__API__BASE_URL"] = self.base
        self.env["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] = f"{self.base}/execution/"

    @property
    def base(self) -> str:
        """Return its address, which has a path."""
        return f"http://localhost:{self.port}{BELOW}"

    @property
    def lake_page(self) -> str:
        """Return the address of the page in its frame."""
        return f"{self.base}/segtable/"

    def prepare(self) -> None:
        """Wait until the DAGs are there."""
        self.token = self.token_of("admin")
        self.wait_dag(PLANNER, timeout_s=TIMEOUT_S)

    def token_of(self, user: str) -> str:
        """Log a user in."""
        request = urllib.request.Request(  # noqa: S310  # a loopback server
            f"{self.base}/auth/token",
            data=json.dumps({"username": user, "password": user}).encode(),
            headers={"Content-Type": "application/json"},
        )

        def tried() -> str | None:
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                    return str(json.loads(answer.read())["access_token"])
            except OSError:
                return None

        found = poll(tried, TIMEOUT_S)
        assert found is not None
        return found

    def signed(self, user: str, *, lasts_s: float = 3600, **claims: Any) -> str:
        """Return a token of Airflow's with other claims: ``role=None`` has no right."""
        real = jwt.decode(self.token_of(user), options={"verify_signature": False})
        now = int(time.time())
        body = {**real, **claims, "iat": now - 7200, "nbf": now - 7200, "exp": now + int(lasts_s)}
        return jwt.encode(body, self.env["AIRFLOW__API_AUTH__JWT_SECRET"], algorithm="HS512")

    def cookies(self, token: str) -> list[dict[str, str]]:
        """Return a user's cookies."""
        return [{"name": "_token", "value": token, "url": f"http://localhost:{self.port}/"}]
