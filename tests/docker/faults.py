"""What `make compose-test` does to the containers, one fault after the other.

Each fault returns after it has ended; then the play waits until everything is healthy, and until a
run of Airflow that needs the mended part succeeds.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.docker.engine import (
    DOCKER,
    PROJECT,
    ROOT,
    STORE,
    containers,
    docker,
    inspected,
    shell,
    waited,
    well,
)

NETWORK = "segtable_lake"
NEXT = "next"
"""The tag of the images with a newer wheel."""
FILL = """
with open('/full/filled', 'wb', buffering=0) as file:
    try:
        while True:
            file.write(bytes(1 << 16))
    except OSError as error:
        print(file.tell() >> 20, 'MiB:', error.strerror)
"""


def crash(container: str) -> None:
    """Kill the first process of a container; wait until it runs again."""
    known = inspected(container)["State"]
    try:
        os.kill(known["Pid"], signal.SIGKILL)
    except (PermissionError, ProcessLookupError):
        docker("kill", container)
        docker("start", container)
    waited(
        f"a new start of {container}",
        lambda: inspected(container)["State"]["StartedAt"] != known["StartedAt"],
        0.2,
    )


def restart_all(found: dict[str, str]) -> None:
    """Kill all containers at once, and start them at once."""
    docker("kill", *found.values())
    docker("start", *found.values())


@contextmanager
def cut(container: str, others: Sequence[str]) -> Iterator[None]:
    """Drop all packets between a container and others, both ways, without an answer."""
    addresses = [
        inspected(other)["NetworkSettings"]["Networks"][NETWORK]["IPAddress"] for other in others
    ]
    rules = [f"OUTPUT -d {each} -j DROP" for each in addresses]
    rules += [f"INPUT -s {each} -j DROP" for each in addresses]
    iptables(container, [f"-I {rule}" for rule in rules])
    try:
        yield
    finally:
        iptables(container, [f"-D {rule}" for rule in rules])


def iptables(container: str, rules: Sequence[str]) -> None:
    """Change the rules of a container's own network, from a container that has the right to."""
    commands = " && ".join(f"/usr/sbin/iptables -w {rule}" for rule in rules)
    docker(
        "run", "--rm", "--network", f"container:{container}", "--user", "0",
        "--cap-drop", "ALL", "--cap-add", "NET_ADMIN", "--cap-add", "NET_RAW",
        "segtable/tools", "bash", "-c", commands,
    )  # fmt: skip


@contextmanager
def full() -> Iterator[str]:
    """Fill the volume of the tables to its last byte; yield how much that took.

    A container of its own does it: the volume is memory, which counts as that of its writer.
    """
    volume = f"{PROJECT}_{'s3' if STORE == 's3' else 'lake'}:/full"
    run = ("run", "--rm", "--network", "none", "--user", "50000", "-v", volume, "segtable/tools")
    try:
        yield docker(*run, "python3", "-c", FILL)
    finally:
        docker(*run, "rm", "-f", "/full/filled")


def upgrade(found: dict[str, str]) -> Iterator[tuple[str, float]]:
    """Replace the containers that have our package by a newer version's, one after the other.

    Yields:
        Each service, and the seconds until it was healthy.
    """
    with tempfile.TemporaryDirectory() as folder:
        newer = newer_tree(Path(folder))
        for image in ("provider", "service"):
            shell(f"build {image} segtable/{image}:{NEXT}", newer)
    for name, container in found.items():
        image = inspected(container)["Config"]["Image"]
        if not image.startswith(("segtable/provider", "segtable/service")):
            continue
        begun = time.monotonic()
        shell(f"compose --profile full up -d --no-deps --no-build {name}", TAG=NEXT)
        well(containers())
        yield name, time.monotonic() - begun


def newer_tree(folder: Path) -> Path:
    """Copy what git knows of this tree, with a higher version of the package."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, listed):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    file = folder / "airflow_provider_segtable" / "__init__.py"
    text = file.read_text()
    line = next(each for each in text.splitlines() if each.startswith("__version__"))
    file.write_text(text.replace(line, f'__version__ = "{newer(line)}"'))
    return folder


def newer(line: str) -> str:
    """Return the version after the one that a line of Python states."""
    first, *rest = line.split('"')[1].split(".")
    return ".".join([first, str(int(rest[0]) + 1), "0"])


def versions(found: dict[str, str]) -> dict[str, str]:
    """Return the package's version in each container that has it."""
    program = "import airflow_provider_segtable as p; print(p.__version__)"
    return {
        name: docker("exec", container, "python", "-c", program)
        for name, container in found.items()
        if inspected(container)["Config"]["Image"].startswith(
            ("segtable/provider", "segtable/service")
        )
    }


def used_memory() -> str:
    """Return the memory that all containers use together."""
    listed = docker("stats", "--no-stream", "--format", "{{json .}}")
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    total = 0.0
    for line in listed.splitlines():
        text = json.loads(line)["MemUsage"].split(" / ")[0]
        unit = next(each for each in ("KiB", "MiB", "GiB", "B") if text.endswith(each))
        total += float(text.removesuffix(unit)) * units[unit]
    return f"{total / 2**30:.1f} GiB"


def stopped(container: str) -> str:
    """Ask a container to end, and wait for it; return what it said."""
    subprocess.run([DOCKER, "stop", "--time", "180", container], capture_output=True, check=True)
    return docker("logs", container, check=False)
