"""A process of one system: its writer, or its compaction. A program for ``session.py``.

    python program.py SYSTEM LAKE JARS CORES ZOOKEEPER

It runs in the Python environment of its system. A request is one line of JSON, ``{"do": NAME,
...}``, and so is its answer, with the seconds that it took. A write that lost a race is tried again
after a pause, until it lands; after three attempts and a minute it is given up.
"""

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(Path(__file__).resolve().parents[2]))

PAUSE_S = 0.2
PATIENCE_S = 60.0
ATTEMPTS = 3


def system(name: str, lake: Path, jars: Path, cores: int, zookeeper: str) -> Any:
    """Return the system, with its session."""
    if name.startswith("segtable"):
        module = importlib.import_module("peer_systems.segtable")
        if name == "segtable-python":
            return module.System(lake, zookeeper)
        return module.SparkWriter(lake, zookeeper, cores)
    return importlib.import_module(f"peer_systems.{name}").System(lake, jars, cores)


def attempted(made: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Call a method once; return its result and its seconds, or its error."""
    arguments = {name: value for name, value in request.items() if name != "do"}
    began = time.monotonic()
    try:
        found = {"result": getattr(made, request["do"])(**arguments)}
    except Exception as error:  # noqa: BLE001  # the measuring process reports it
        text = f"{type(error).__name__}: {error}"
        found = {"error": text[:2000], "conflict": made.conflict(error)}
    return {**found, "seconds": time.monotonic() - began}


def written(made: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Write until it lands; count the attempts that lost a race."""
    conflicts, began = 0, time.monotonic()
    while True:
        answer = attempted(made, request)
        conflicts += bool(answer.get("conflict"))
        waited = time.monotonic() - began
        patient = waited < PATIENCE_S or conflicts < ATTEMPTS
        if not (answer.get("conflict") and patient):
            return {**answer, "seconds": waited, "conflicts": conflicts}
        time.sleep(PAUSE_S)


def main(name: str, lake: str, jars: str, cores: str, zookeeper: str) -> None:
    """Answer requests until there are no more."""
    made = system(name, Path(lake), Path(jars), int(cores), zookeeper)
    print("ANSWER {}", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = (written if request["do"] == "write" else attempted)(made, request)
        print("ANSWER " + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
