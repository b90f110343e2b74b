"""Turn what a table's log knows of its log store into facts and words."""

from collections.abc import Sequence

from airflow_provider_segtable.cli.display.output import Facts
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.log.state import State


def log_store_facts(state: State) -> list[Facts]:
    """Return the buckets of the log store: epoch, owner, and number of committed records."""
    return [
        {
            "bucket": bucket,
            "epoch": known.epoch,
            "owner": known.owner or None,
            "committed": known.end,
        }
        for bucket, known in sorted(state.log_store.items())
    ]


def log_store_line(buckets: Sequence[Facts]) -> str:
    """Return the buckets in a line."""
    records = sum(each["committed"] for each in buckets)
    newest = max(buckets, key=lambda each: each["epoch"])
    owner = f" of {newest['owner']}" if newest["owner"] else ", begun by a restore"
    return (
        f"{counted(len(buckets), 'bucket')}, {counted(records, 'committed record')}; "
        f"newest epoch {newest['epoch']}{owner}"
    )
