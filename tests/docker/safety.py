"""What the running containers promise about rights and secrets, asked of the engine itself."""

import json
from collections.abc import Iterator

from tests.docker.engine import SECRETS, docker, inspected

PUBLIC = {"ca.pem", "log_store.pem"}
"""Certificates are for all to see."""


def problems(found: dict[str, str]) -> Iterator[str]:
    """Yield what is not as promised."""
    values = dict(secret_values())
    images = {inspected(container)["Config"]["Image"] for container in found.values()}
    for name, container in found.items():
        known = inspected(container)
        yield from (f"{name}: {problem}" for problem in rights(known))
        shown = {
            "the description": json.dumps(known),
            "the environment": docker("exec", container, "env", check=False),
            "a command line": docker("top", container, "-o", "pid,args", check=False),
            "the log": docker("logs", container, check=False),
        }
        yield from (f"{name}: {problem}" for problem in leaks(values, shown))
        users = docker("top", container, "-o", "pid,uid").splitlines()[1:]
        if any(line.split()[1] == "0" for line in users):
            yield f"{name}: a process of root"
    for image in sorted(images):
        shown = {
            "the history": docker("history", "--no-trunc", image),
            "the description": docker("image", "inspect", image),
        }
        yield from (f"{image}: {problem}" for problem in leaks(values, shown))


def rights(known: dict) -> Iterator[str]:
    """Yield the rights that a container has and should not."""
    host, config = known["HostConfig"], known["Config"]
    checks = {
        "the image's files can be written": host["ReadonlyRootfs"],
        "capabilities are left": host["CapDrop"] == ["ALL"] and not host["CapAdd"],
        "it is privileged": not host["Privileged"],
        "processes may gain rights": "no-new-privileges:true" in host["SecurityOpt"],
        "it runs as root": config["User"] not in ("", "0", "root"),
        "memory has no limit": host["Memory"] > 0,
    }
    yield from (problem for problem, good in checks.items() if not good)
    for bindings in (host["PortBindings"] or {}).values():
        if any(each["HostIp"] != "127.0.0.1" for each in bindings):
            yield "a port is open beyond loopback"


def leaks(values: dict[str, str], shown: dict[str, str]) -> Iterator[str]:
    """Yield where a secret's value is shown; the value is not repeated."""
    for place, text in shown.items():
        for value, name in values.items():
            if value in text:
                yield f"{place} shows {name}"


def secret_values() -> Iterator[tuple[str, str]]:
    """Yield each secret text with the name of its file."""
    for file in sorted(SECRETS.iterdir()):
        if file.name in PUBLIC:
            continue
        text = file.read_text().strip()
        if file.name == "log_store.key":
            yield text.splitlines()[1], file.name
        elif file.name == "storage_options":
            options = json.loads(text)
            yield options["aws_access_key_id"], file.name
            yield options["aws_secret_access_key"], file.name
        elif text.startswith("{"):
            yield from ((value, file.name) for value in json.loads(text).values())
        else:
            yield text, file.name
