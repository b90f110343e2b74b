"""One process of a fleet run, which writes to one table all the time; it may be killed at any time.

A commit that was not acknowledged is made again, by the same id. Each acknowledged one is noted in
``FOLDER/NAME.acks``, and each error in ``FOLDER/NAME.errors``: while ZooKeeper is away, there are.
"""

import os
import time
from pathlib import Path
from random import Random

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.table.context import SESSION_TIMEOUT_VARIABLE, open_context
from airflow_provider_segtable.table.table import Table
from tests.stress.fleet.lake import carry_out
from tests.stress.keyed.notes import amount_of, note
from tests.stress.keyed.worker import going

SESSION_S = 10
PAUSE_S = "pause"
"""The file in the crew's folder with the seconds between commits, on average."""


def work(form: str, name: str, uri: str, folder: Path) -> None:
    """Write one turn after another."""
    os.environ[SESSION_TIMEOUT_VARIABLE] = str(SESSION_S)
    ports = open_context(uri, zookeeper=(folder / "zookeeper").read_text(), author=name)
    pause_s, table = float((folder / PAUSE_S).read_text()), Table(ports)
    acks, random = folder / f"{name}.acks", Random(f"{name} {os.getpid()}")
    turn = amount_of(acks)
    for _ in going(folder):
        start = time.time()
        try:
            carry_out(table, form, turn, f"{name}-{turn}")
        except SegtableError as error:
            note(
                folder / f"{name}.errors",
                {"at": start, "error": f"{type(error).__name__}: {error}"},
            )
        else:
            note(acks, {"turn": turn, "at": time.time(), "took_s": time.time() - start})
            turn += 1
        time.sleep(pause_s * random.uniform(0.5, 1.5))
