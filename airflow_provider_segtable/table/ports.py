"""The ports one table is operated through, in one value that is passed down."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_segtable.coordination.address import SESSION_TIMEOUT_S, connect
from airflow_provider_segtable.core.errors import CoordinatorUnavailable, InvalidInput
from airflow_provider_segtable.core.secret import SecretOptions
from airflow_provider_segtable.data.files import open_files
from airflow_provider_segtable.ports.clock import Chance, Clock
from airflow_provider_segtable.ports.coordination import Coordinator
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.storage.system import SystemChance, SystemClock

SESSION_TIMEOUT_VARIABLE = "SEGTABLE_SESSION_TIMEOUT_S"
"""How long ZooKeeper keeps the locks of a worker that fell silent; seconds, 30 by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePorts:
    """Everything a table needs of the world.

    ``uri`` and ``storage_options`` let kernels rebuild ``files`` inside Spark tasks; ``author``
    names this process in events and locks.
    """

    uri: str
    storage: Storage
    files: DataFiles
    clock: Clock
    chance: Chance
    author: str
    storage_options: Mapping[str, str] = field(default_factory=SecretOptions)
    coordinator_: Coordinator | None = None

    @property
    def coordinator(self) -> Coordinator:
        """Return the coordinator, or raise ``CoordinatorUnavailable`` if none was given."""
        if self.coordinator_ is None:
            raise CoordinatorUnavailable(
                f"writing to {self.uri} needs ZooKeeper and no address was given: pass "
                "zookeeper='host:port' (--zookeeper on the command line), or start one with "
                "`segtable zookeeper start`"
            )
        return self.coordinator_

    def at(self, uri: str) -> "TablePorts":
        """Return the same ports for another table."""
        return replace(
            self,
            uri=uri,
            storage=open_storage(uri, self.storage_options),
            files=open_files(uri, self.storage_options),
        )


def _coordinator(address: str) -> Coordinator:
    timeout = os.environ.get(SESSION_TIMEOUT_VARIABLE)
    try:
        return connect(address, session_timeout_s=float(timeout or SESSION_TIMEOUT_S))
    except ValueError:
        raise InvalidInput(
            f"{SESSION_TIMEOUT_VARIABLE}={timeout!r} is no number of seconds: write e.g. 30"
        ) from None


def open_ports(
    uri: str,
    *,
    zookeeper: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    author: str | None = None,
) -> TablePorts:
    """Open the real ports of a table.

    Args:
        uri: the table's root: a path, ``file://``, ``s3://``, ``gs://``, ``az://``.
        zookeeper: ``host:port[,host:port][/chroot]``; may be left out for reading.
        storage_options: keys of the object store, as obstore names them.
        author: who is shown in events and locks; the default names host and process.
    """
    options = SecretOptions(storage_options)
    return TablePorts(
        uri=uri,
        storage=open_storage(uri, options),
        files=open_files(uri, options),
        clock=SystemClock(),
        chance=SystemChance(),
        author=author or f"{socket.gethostname()}:{os.getpid()}",
        storage_options=options,
        coordinator_=_coordinator(zookeeper) if zookeeper else None,
    )
