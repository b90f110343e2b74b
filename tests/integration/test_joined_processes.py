"""Real processes commit to one table on a disk and are killed: each change lands once."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from airflow_provider_segtable.core.log.log_paths import TIMELINE
from airflow_provider_segtable.storage import LocalStorage
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import create_table
from tests.support.builders import DEFINITION
from tests.support.processes import importable

WRITERS, COUNT, KILLS = 4, 25, 4
WRITER = """
import sys
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import open_context
from tests.support.builders import first
root, writer, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ports = open_context(root)
for turn in range(count):
    state = ports.log.load()
    name = f"{writer}-{turn}"
    if name in state.commits:
        continue
    action = Appended(segments=(first(writer * count + turn),))
    print(name, commit_or_raise(ports, state, Change(action=action, commit_id=name)).n, flush=True)
"""


def started(root: Path, writer: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(root), str(writer), str(COUNT)]
    environment = {**os.environ, "PYTHONPATH": importable()}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_writers_of_one_host_share_files_and_survive_kills(tmp_path: Path) -> None:
    """Every acknowledged number is right, every change is there once, and files were shared."""
    create_table(open_context(str(tmp_path)), DEFINITION)
    chance = random.Random(1)
    running = {writer: started(tmp_path, writer) for writer in range(WRITERS)}
    told: dict[str, int] = {}

    def end(writer: int) -> None:
        for line in running[writer].communicate()[0].splitlines():
            name, _, n = line.partition(" ")
            if n:
                told[name] = int(n)

    for kill in range(KILLS):
        writer = kill % WRITERS
        lines = [running[writer].stdout.readline() for _ in range(chance.randrange(1, 6))]  # type: ignore[union-attr]
        told |= {name: int(n) for name, n in (line.split() for line in lines if line.strip())}
        running[writer].send_signal(signal.SIGKILL)
        end(writer)
        running[writer] = started(tmp_path, writer)
    for writer, process in running.items():
        end(writer)
        assert process.returncode == 0
    events = list(EventLog(LocalStorage(tmp_path)).events(1))
    found = {event.commit: event.n for event in events}
    assert len(found) == len(events) == WRITERS * COUNT
    assert told.items() <= found.items()
    files = len([*(tmp_path / TIMELINE).glob("*.json")])
    assert files < len(events)
