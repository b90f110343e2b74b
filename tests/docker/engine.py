"""The containers of `make compose`, as the plays of `make compose-test` see and touch them."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECRETS = ROOT / "docker" / "secrets"
DOCKER = os.environ.get("DOCKER", "docker")
STORE = os.environ.get("STORE") or "volume"
PORT = os.environ.get("AIRFLOW_PORT") or "8080"
LAKE = "s3://lake/tables" if STORE == "s3" else "/lake"
PROJECT = "segtable"
PATIENCE_S = float(os.environ.get("PATIENCE_S") or 300)


def docker(*words: str, check: bool = True) -> str:
    """Run a command of docker; return what it prints."""
    done = subprocess.run([DOCKER, *words], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"{DOCKER} {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip() + (done.stderr.strip() if not check else "")


def shell(command: str, folder: Path = ROOT, **settings: str) -> str:
    """Run a command of `docker/engine`, such as compose or build; return what it prints."""
    words = ["bash", "-ec", f". docker/engine; need_engine; {command}"]
    environment = {**os.environ, "STORE": STORE, **settings}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command}: {done.stdout.strip()} {done.stderr.strip()}")
    return done.stdout.strip()


def containers() -> dict[str, str]:
    """Return the containers of the project by service, without those that have ended."""
    format_ = '{{.ID}} {{.Label "com.docker.compose.service"}}'
    listed = docker(
        "ps", "--filter", f"label=com.docker.compose.project={PROJECT}", "--format", format_
    )
    found = {service: number for number, service in map(str.split, listed.splitlines())}
    return {name: found[name] for name in sorted(found) if name != "holder"}


def inspected(container: str) -> dict[str, Any]:
    """Return all that the engine knows of a container."""
    known: dict[str, Any] = json.loads(docker("inspect", container))[0]
    return known


def state(container: str) -> str:
    """Return running, healthy, unhealthy, starting, exited, ..."""
    known = inspected(container)["State"]
    return str(known.get("Health", {}).get("Status") or known["Status"])


def ill(found: dict[str, str]) -> list[str]:
    """Return the services that are not well."""
    return [name for name, one in found.items() if state(one) not in ("healthy", "running")]


def waited(what: str, over: Callable[[], bool], pause_s: float = 0.5) -> float:
    """Wait until something is over; return how many seconds that took."""
    begun = time.monotonic()
    while not over():
        if time.monotonic() - begun > PATIENCE_S:
            raise SystemExit(f"{what}: not after {PATIENCE_S:.0f} s")
        time.sleep(pause_s)
    return time.monotonic() - begun


def well(found: dict[str, str]) -> float:
    """Wait until all are well; return how many seconds that took."""
    begun = time.monotonic()
    while waiting := ill(found):
        if time.monotonic() - begun > PATIENCE_S:
            raise SystemExit(f"not well after {PATIENCE_S:.0f} s: {', '.join(waiting)}")
        time.sleep(0.5)
    return time.monotonic() - begun


def segtable(found: dict[str, str], *words: str) -> str:
    """Run a command of segtable in the writer's container; return what it prints."""
    return docker("exec", found["writer"], "segtable", *words, check=False)


class Airflow:
    """The pages' API, with a token that is asked for again when the server was away."""

    def __init__(self) -> None:
        self._token = ""

    def __call__(self, path: str, body: object = None, *, method: str = "") -> Any:
        """Call the API until it answers; return the answer.

        A DAG whose file was not read for a while is unknown (404) until the DAG processor is back.
        """
        answer: list[Any] = []

        def answered() -> bool:
            try:
                answer.append(self._ask(path, body, method))
            except urllib.error.HTTPError as error:
                if error.code < 500 and error.code not in (401, 404):
                    said = error.read().decode(errors="replace")[:300]
                    raise SystemExit(f"Airflow: {path}: {error.code} {said}") from None
                self._token = ""
            except (OSError, ValueError):
                self._token = ""
            return bool(answer)

        waited(f"Airflow's answer to {path}", answered, 1)
        return answer[0]

    def _ask(self, path: str, body: object, method: str) -> Any:
        if not self._token:
            password = json.loads((SECRETS / "airflow_passwords").read_text())["admin"]
            login = {"username": "admin", "password": password}
            self._token = self._send("/auth/token", login, "POST")["access_token"]
        return self._send(f"/api/v2{path}", body, method or ("POST" if body is not None else "GET"))

    def _send(self, path: str, body: object, method: str) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{PORT}{path}"
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return json.loads(answer.read() or b"null")

    def run(self, dag: str, **conf: object) -> str:
        """Trigger a run of a DAG; return its id."""
        made = self(f"/dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})
        return str(made["dag_run_id"])

    def outcome(self, dag: str, run: str) -> str:
        """Return the state of a run: queued, running, success, failed."""
        return str(self(f"/dags/{dag}/dagRuns/{run}")["state"])

    def ended(self, dag: str, run: str) -> tuple[str, float]:
        """Wait for the end of a run; return its state, and how many seconds that took."""
        last = ["queued"]

        def over() -> bool:
            last[0] = self.outcome(dag, run)
            return last[0] in ("success", "failed")

        took = waited(f"{dag} {run} is {last[0]}", over, 1)
        return last[0], took
