"""The containers' files agree with each other, and keep what they promise about safety."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
STORES: dict[str, dict[str, Any]] = {
    name: yaml.safe_load((DOCKER / f"{name}.yaml").read_text()) for name in ("volume", "s3")
}
OWN_OF_S3 = STORES["s3"]["services"]["s3"]
SERVICES: dict[str, dict[str, Any]] = {**COMPOSE["services"], "s3": OWN_OF_S3}
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
STAGES = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)
PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
)
ENDS = {"init"}
"""Services that do something once."""
CLIENTS = {"writer", "follower"}
"""Services that serve nobody, so there is nothing to ask them."""
PROFILES = {"full", "minimal"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_more_rights_than_it_needs(name: str) -> None:
    """No capability, no writable image, no more memory than stated, no port beyond loopback."""
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "mem_limit" in service
    assert not {"privileged", "cap_add", "network_mode", "pid", "ipc", "user"} & service.keys()
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_watched_and_started_again(name: str) -> None:
    """All but those that end, or that serve nobody, say whether they are healthy."""
    service = SERVICES[name]
    assert set(service["profiles"]) <= PROFILES
    assert service["restart"] == ("no" if name in ENDS else "unless-stopped")
    if name not in ENDS | CLIENTS:
        assert service["healthcheck"]["test"][:2] == ["CMD", "healthy"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_for_health_and_not_for_time(name: str) -> None:
    """What it depends on is of its profile, and healthy, or has ended well."""
    for other, need in SERVICES[name].get("depends_on", {}).items():
        assert set(SERVICES[name]["profiles"]) <= set(SERVICES[other]["profiles"])
        right = "service_completed_successfully" if other in ENDS else "service_healthy"
        assert need["condition"] == right


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_runs_an_image_that_is_built_here(name: str) -> None:
    """Its image is a stage of the Dockerfile, and the stage's last user is not root."""
    service = SERVICES[name]
    stage = service["build"]["target"]
    assert service["image"] == f"segtable/{stage}:${{TAG:-latest}}"
    assert stage in STAGES
    lines = re.split(r"^FROM \S+ AS (\S+)$", DOCKERFILE, flags=re.MULTILINE)
    users = re.findall(r"^USER (\S+)$", lines[lines.index(stage) + 1], re.MULTILINE)
    assert users[-1] == "segtable"


def test_secrets_are_files_and_nothing_else() -> None:
    """Each secret is used, made by a tool, and its value is in no setting of a service."""
    made = (DOCKER / "bin" / "make-secrets").read_text()
    for of, services in ((COMPOSE, COMPOSE["services"]), (STORES["s3"], STORES["s3"]["services"])):
        used = {secret for service in services.values() for secret in service.get("secrets", ())}
        assert used == set(of["secrets"])
    for name, where in {**COMPOSE["secrets"], **STORES["s3"]["secrets"]}.items():
        assert where == {"file": f"secrets/{name}"}
        assert f'"{name}"' in made
    for service in SERVICES.values():
        for setting, value in service.get("environment", {}).items():
            secret = re.search(r"(?i)(password|secret|token|key|conn)", setting)
            assert not secret or str(value).startswith(("cat /run/secrets/", "{")), setting
    assert "docker/secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_versions_come_from_the_constraints() -> None:
    """The Dockerfile states none; what the image has beyond the package's extras is pinned."""
    assert "==" not in DOCKERFILE
    assert not re.search(r"@v?[0-9]|@latest", DOCKERFILE), "Go's versions are in docker/s3/go.mod"
    installs = re.findall(r"pip install (.*)", DOCKERFILE)
    assert installs
    assert all("-c /build/constraints.txt" in line or "--no-deps" in line for line in installs)
    for line in (DOCKER / "requirements.txt").read_text().splitlines():
        if name := re.match(r"[a-z0-9-]+", line):
            assert name[0] in PINS, f"{name[0]}: make constraints"


def test_packages_of_debian_leave_nothing_behind() -> None:
    """Each layer with apt takes no recommended packages, and removes the lists it loaded."""
    runs = [run for run in re.split(r"^RUN ", DOCKERFILE, flags=re.MULTILINE) if "apt-get" in run]
    assert runs
    assert all("--no-install-recommends" in run for run in runs)
    kept = [run for run in runs if "rm -rf /var/lib/apt/lists/*" not in run]
    assert len(kept) == 1, "only the stage of uv, which is in no image"


def test_the_dockerfile_has_no_known_smell() -> None:
    """Commands are lists, stages have names, nothing is added by URL, no secret is an argument."""
    for line in instructions():
        word, _, rest = line.partition(" ")
        assert word.isupper(), line
        if word == "FROM":
            assert re.fullmatch(r"\S+ AS [a-z0-9-]+", rest), line
            assert ":latest" not in rest, line
        if word in ("ENTRYPOINT", "CMD"):
            assert rest.startswith("["), line
        if word == "WORKDIR":
            assert rest.startswith("/"), line
        if word in ("ARG", "ENV"):
            assert not re.search(r"(?i)password|secret|token", rest), line
        assert word not in ("ADD", "MAINTAINER"), line
        assert not re.search(r"\bsudo\b|curl|wget|chmod 777|apt-get upgrade|\bapt \b", rest), line
        if "apt-get update" in rest:
            assert "apt-get install -y" in rest, line


def instructions() -> list[str]:
    """Return the Dockerfile's instructions, each on one line."""
    lines = [line for line in DOCKERFILE.splitlines() if not line.lstrip().startswith("#")]
    return [line for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]


def test_what_changes_often_is_built_last() -> None:
    """The wheel, and the scripts of a stage, come after the libraries: they rebuild in seconds."""
    for stage in ("provider", "service"):
        begin = next(at for at, line in enumerate(instructions()) if line.endswith(f" AS {stage}"))
        words = instructions()[begin + 1]
        assert words.startswith("RUN")
        assert words.rstrip().endswith("pip install --no-deps /dist/*.whl")


@pytest.mark.parametrize("store", STORES)
def test_a_store_changes_only_where_tables_are(store: str) -> None:
    """Its file adds volumes, keys and addresses to services, and takes no right."""
    added = {"volumes", "environment", "secrets", "command", "depends_on"}
    for name, service in STORES[store]["services"].items():
        if name not in STORES[store]["volumes"]:
            assert name in COMPOSE["services"]
            assert service.keys() <= added, name
    tables = {name for name, service in STORES["volume"]["services"].items()}
    assert tables - set(STORES["s3"]["services"]) == {
        "airflow-triggerer",  # these have the keys from the connection
        "airflow-worker",
        "spark-worker-1",  # and these with their tasks
        "spark-worker-2",
    }


def test_nothing_shares_a_volume_of_tables_beside_an_object_store() -> None:
    """Only the server of the store has its volume."""
    mounted = [
        (name, volume)
        for name, service in {**COMPOSE["services"], **STORES["s3"]["services"]}.items()
        for volume in service.get("volumes", ())
        if not volume.startswith("./dags:")
    ]
    folders = [volume.partition(":")[0] for _, volume in mounted]
    assert len(folders) - len(set(folders)) == 1, "zookeeper-1, of which each profile has one"
    assert ("s3", "s3:/data") in mounted


def test_a_store_says_what_its_table_service_says() -> None:
    """Commands that name a table differ between stores in the table's place alone."""
    for name in ("log-store", "follower"):
        here = COMPOSE["services"][name]["command"]
        there = STORES["s3"]["services"][name]["command"]
        assert [word.replace("s3://lake/tables/", "/lake/") for word in there] == here


@pytest.mark.parametrize("store", STORES)
@pytest.mark.skipif(not shutil.which("docker-compose"), reason="docker-compose is not here")
def test_compose_reads_its_files(store: str) -> None:
    """The file of each store, with those of the tests."""
    files = ("compose.yaml", f"{store}.yaml", "../tests/docker/small.yaml")
    words = [word for file in files for word in ("-f", file)]
    read = subprocess.run(
        ["docker-compose", *words, "--profile", "full", "config", "-q"],
        cwd=DOCKER,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert read.returncode == 0, read.stderr


def test_the_guide_explains_every_service() -> None:
    """And the variables that `docker/up` takes."""
    guide = (ROOT / "docs" / "guides" / "containers.md").read_text()
    for name in SERVICES:
        assert f"`{name}`" in guide, name
    for variable in re.findall(
        r"\b([A-Z][A-Z_]{4,})\b", (DOCKER / "up").read_text().partition("set -eu")[0]
    ):
        assert variable in guide, variable
