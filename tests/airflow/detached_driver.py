"""The driver of an application on a cluster, without Spark: carries out plans, leaves a result."""

import itertools
import sys
from dataclasses import asdict

from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compact_table import carry_out
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.remote_results import leave


def main(arguments: list[str]) -> None:
    """Do what ``spark_apps/compact.py`` does with these arguments."""
    given = dict(part.split("=", 1) for part in arguments if "=" in part)
    given |= dict(itertools.pairwise(arguments))
    plans = [part.removeprefix("--plan=") for part in arguments if part.startswith("--plan=")]
    author = f"driver:1 {given['--task']}"
    ports = open_context(given["--table"], zookeeper=given["--zookeeper"], author=author)
    limit = float(given["--timeout-s"]) if "--timeout-s" in given else None
    told = carry_out(ports, plans, in_process(ports.files), timeout_s=limit)
    facts = {"plans": [asdict(result) for result in told], "code": 0}
    leave(ports.storage, given["--leave-result"], facts, now=ports.clock.now())
    ports.coordinator.close()


if __name__ == "__main__":
    from airflow_provider_segtable.core import catch_up

    catch_up.next_piece.__defaults__ = (1,)  # a chunk is a piece
    main(sys.argv[1:])
