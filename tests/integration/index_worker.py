"""A process to be killed: ``python -m tests.integration.index_worker MODE TABLE ZOOKEEPER FOLDER``.

``append`` appends one numbered batch, ``index`` builds the index. Right before the event that says
so is created, the process makes ``FOLDER/MODE.there`` and waits for its end.
"""

import signal
import sys
from pathlib import Path

import pyarrow as pa

from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.index_run import run_index
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.table import Table
from tests.unit.table.interleaving import before_event

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.int64())])
NAME = "rows"
HOUR_US = 3_600_000_000


def batch(turn: int) -> pa.Table:
    """Return the rows of a turn, in two time chunks."""
    numbers = range(turn * 10, turn * 10 + 10)
    times = [(number % 2) * HOUR_US + number for number in numbers]
    return pa.table({"at": pa.array(times, SCHEMA.field("at").type), "row": [*numbers]}, SCHEMA)


def main(mode: str, uri: str, zookeeper: str, folder: Path) -> None:
    """Work until right before the event, then wait."""

    def stop() -> None:
        (folder / f"{mode}.there").touch()
        signal.pause()

    ports = open_context(uri, zookeeper=zookeeper, author=mode)
    if mode == "append":
        Table(before_event(ports, stop, word="Appended")).append(batch(90), commit_id="dies")
    else:
        run_index(before_event(ports, stop, word="IndexBuilt"), NAME, in_process(ports.files))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
