"""The ZooKeeper of this machine: by the environment, or the running embedded server."""

import os

from airflow_provider_segtable.coordination.embedded_zookeeper.embedded_server import discover

ADDRESS_VARIABLE = "SEGTABLE_ZOOKEEPER"


def find_zookeeper(given: str | None) -> str | None:
    """Return ``given``, or ``$SEGTABLE_ZOOKEEPER``, or the embedded server's address, or None."""
    return given or os.environ.get(ADDRESS_VARIABLE) or discover()
