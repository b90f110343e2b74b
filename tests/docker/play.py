"""`make compose-test`: kill what runs in containers, one after the other, while rows are written.

    python -m tests.docker.play [--only SERVICE ...]

The containers of `make compose` run already. A witness writes by three ways, and then compares.
A process is killed as a crash kills it, where we may send signals to containers' processes;
otherwise by `docker kill` and `docker start`. Then each table is verified.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKER = os.environ.get("DOCKER", "docker")
PROJECT = "segtable"
PATIENCE_S = 180
BETWEEN_S = 3
TABLES = ("events", "accounts", "clicks", "witness_appends", "witness_upserts")
CLIENTS = ("SEGTABLE_ZOOKEEPER", "SEGTABLE_ZOOKEEPER_OPTIONS", "SEGTABLE_LOG_STORE_OPTIONS")


def docker(*words: str, check: bool = True) -> str:
    """Run a command of docker; return what it prints."""
    done = subprocess.run([DOCKER, *words], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"{DOCKER} {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip() + (done.stderr.strip() if not check else "")


def containers() -> dict[str, str]:
    """Return the containers of the project by service, without those that have ended."""
    format_ = '{{.ID}} {{.Label "com.docker.compose.service"}}'
    listed = docker(
        "ps", "--filter", f"label=com.docker.compose.project={PROJECT}", "--format", format_
    )
    return {service: number for number, service in map(str.split, listed.splitlines())}


def state(container: str) -> str:
    """Return running, healthy, unhealthy, starting, exited, ..."""
    known = json.loads(docker("inspect", container))[0]["State"]
    return known.get("Health", {}).get("Status") or known["Status"]


def ill(found: dict[str, str]) -> list[str]:
    """Return the services that are not well."""
    return [name for name, one in found.items() if state(one) not in ("healthy", "running")]


def well(found: dict[str, str]) -> float:
    """Wait until all are well; return how many seconds that took."""
    begun = time.monotonic()
    while waiting := ill(found):
        if time.monotonic() - begun > PATIENCE_S:
            raise SystemExit(f"not well after {PATIENCE_S} s: {', '.join(waiting)}")
        time.sleep(0.5)
    return time.monotonic() - begun


def crash(container: str) -> None:
    """Kill the first process of a container; wait until it runs again."""
    known = json.loads(docker("inspect", container))[0]["State"]
    try:
        os.kill(known["Pid"], signal.SIGKILL)
    except (PermissionError, ProcessLookupError):
        docker("kill", container)
        docker("start", container)
    begun = time.monotonic()
    while json.loads(docker("inspect", container))[0]["State"]["StartedAt"] == known["StartedAt"]:
        if time.monotonic() - begun > PATIENCE_S:
            raise SystemExit(f"{container} does not start again")
        time.sleep(0.2)


def witness(found: dict[str, str]) -> str:
    """Start the witness with the volume, the network and the secrets of the writer."""
    model = json.loads(docker("inspect", found["writer"]))[0]
    mounts = [
        f"{each['Source']}:{each['Destination']}:ro"
        for each in model["Mounts"]
        if each["Type"] == "bind"
    ]
    volumes = [
        f"{each['Name']}:{each['Destination']}"
        for each in model["Mounts"]
        if each["Type"] == "volume"
    ]
    settings = [each for each in model["Config"]["Env"] if each.startswith(CLIENTS)]
    mounts.append(f"{ROOT}/tests/docker/witness.py:/witness.py:ro")
    words = [word for each in mounts + volumes for word in ("-v", each)]
    words += [word for each in settings for word in ("-e", each)]
    network = next(iter(model["NetworkSettings"]["Networks"]))
    docker("rm", "-f", "segtable-witness", check=False)
    return docker(
        "run", "-d", "--name", "segtable-witness", "--network", network, *words,
        model["Config"]["Image"], "python", "/witness.py",
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Play; print a table of times; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], help="kill these services alone")
    given = parser.parse_args(argv)
    found = containers()
    if "writer" not in found:
        raise SystemExit("the containers do not run: make compose")
    well(found)
    watching = witness(found)
    time.sleep(BETWEEN_S)
    print("| killed | all healthy again after |\n|---|---|", flush=True)
    for name in sorted(given.only or found):
        crash(found[name])
        time.sleep(0.5)
        print(f"| `{name}` | {well(found):.0f} s |", flush=True)
        time.sleep(BETWEEN_S)
    docker("stop", "--time", "120", watching)
    said = docker("logs", watching, check=False)
    print("\n".join(said.splitlines()[-6:]))
    sound = "sound: " in said and "WRONG" not in said
    for name in TABLES:
        verified = docker(
            "exec", found["writer"], "segtable", "verify", "--deep", f"/lake/{name}", check=False
        )
        print(f"{name}: {verified.splitlines()[-1]}", flush=True)
        sound = sound and verified.splitlines()[-1].startswith("sound")
    print("passed" if sound else "FAILED")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
