"""The containers' files agree with each other, and keep what they promise about safety."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
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
    assert set(service["profiles"]) < PROFILES
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
    assert service["image"] == f"segtable/{stage}"
    assert stage in STAGES
    lines = re.split(r"^FROM \S+ AS (\S+)$", DOCKERFILE, flags=re.MULTILINE)
    users = re.findall(r"^USER (\S+)$", lines[lines.index(stage) + 1], re.MULTILINE)
    assert users[-1] == "segtable"


def test_secrets_are_files_and_nothing_else() -> None:
    """Each secret is used, made by a tool, and its value is in no setting of a service."""
    made = (DOCKER / "bin" / "make-secrets").read_text()
    used = {secret for service in SERVICES.values() for secret in service.get("secrets", ())}
    assert used == set(COMPOSE["secrets"])
    for name, where in COMPOSE["secrets"].items():
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


def test_the_guide_explains_every_service() -> None:
    """And the variables that `docker/up` takes."""
    guide = (ROOT / "docs" / "guides" / "containers.md").read_text()
    for name in SERVICES:
        assert f"`{name}`" in guide, name
    for variable in re.findall(r"^#   ([A-Z_]+)=", (DOCKER / "up").read_text(), re.MULTILINE):
        assert variable in guide, variable
