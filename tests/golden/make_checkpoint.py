"""Writes the golden checkpoint of this format; run it only with an ADR that changes the format.

It is the newest state of the golden table with checksums, folded from its events alone. Those of
older formats stay as they were written.
"""

from pathlib import Path

from airflow_provider_segtable.core.log.fold import fold
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.storage import LocalStorage
from airflow_provider_segtable.table.log.checkpoint import write_checkpoint
from airflow_provider_segtable.table.log.event_log import EventLog
from tests.golden import make_checksums

FOLDER = Path(__file__).parent
NEWEST = "8-sizes"
PLACES = {name: FOLDER / f"checkpoint-{name}.parquet" for name in ("6", "7", "8", NEWEST)}
"""The golden checkpoints, by format; the newest knows more of each chunk than others of it."""


def golden_state() -> State:
    """Return the state after all events of the golden table."""
    state = fold(None, EventLog(LocalStorage(make_checksums.PLACE)).events(0))
    assert state is not None
    return state


def main() -> None:
    """Write the checkpoint."""
    PLACES[NEWEST].write_bytes(write_checkpoint(golden_state()))


if __name__ == "__main__":
    main()
