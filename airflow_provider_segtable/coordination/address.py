"""Make a coordinator from an address.

::

    zk://host:port,host:port/chroot     ZooKeeper; the chroot may be left out (/segtable)
    host:port/chroot                    the same
    memory://name                       inside this process only; equal names share one service
"""

import importlib.util
import re
import threading
import time

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.coordination.zookeeper.access import Access, access_of
from airflow_provider_segtable.core.errors import DependencyMissing, InvalidInput
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.clock import Clock
from airflow_provider_segtable.ports.coordination import Coordinator

DEFAULT_CHROOT = "/segtable"
SESSION_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0

_HOST = r"(?:\[[0-9A-Fa-f:]+\]|[\w.-]+):\d{1,5}"
_ZOOKEEPER = re.compile(rf"(?:zk://)?({_HOST}(?:,{_HOST})*)((?:/[\w.-]+)*)/?")
_memory: dict[str, MemoryService] = {}
_memory_lock = threading.Lock()


class _ProcessClock:
    """The machine's clock, for ``memory://``."""

    def now(self) -> Instant:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def connect(
    address: str,
    *,
    clock: Clock | None = None,
    session_timeout_s: float = SESSION_TIMEOUT_S,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    access: Access | None = None,
) -> Coordinator:
    """Return a coordinator; it contacts ZooKeeper at its first use, not here.

    Args:
        address: see the module.
        clock: clock of a memory coordinator.
        session_timeout_s: how long ZooKeeper keeps the locks of a silent holder.
        connect_timeout_s: how long to wait for ZooKeeper before it counts as unavailable.
        access: the client's identity; by default from the environment
            (``coordination.zookeeper.link``).

    Raises:
        InvalidInput: if the address has another form, or the environment's options are wrong.
        DependencyMissing: if kazoo is not installed, or SASL is requested without pure-sasl.
    """
    if address.startswith("memory://"):
        name = address.removeprefix("memory://")
        with _memory_lock:
            service = _memory.setdefault(name, MemoryService())
        return MemoryCoordinator(clock or _ProcessClock(), service, name=name)
    match = _ZOOKEEPER.fullmatch(address)
    if not match:
        raise InvalidInput(
            f"{redacted(address)!r} is not a coordinator address: write zk://host:2181/segtable, "
            "several hosts with commas, or memory://name"
        )
    try:
        from airflow_provider_segtable.coordination.zookeeper.zookeeper_coordinator import (
            ZooKeeperCoordinator,
        )
    except ModuleNotFoundError as error:
        raise DependencyMissing(
            f"package kazoo, which {address} needs, is not installed: pip install kazoo"
        ) from error
    return ZooKeeperCoordinator(
        match[1],
        match[2] or DEFAULT_CHROOT,
        session_timeout_s=session_timeout_s,
        connect_timeout_s=connect_timeout_s,
        access=_usable(access or access_of(None)),
    )


def _usable(access: Access) -> Access:
    if access.user and access.scheme == "sasl" and importlib.util.find_spec("puresasl") is None:
        raise DependencyMissing(
            "package pure-sasl, which scheme sasl of the ZooKeeper options needs, is not "
            "installed: pip install 'airflow-provider-segtable[sasl]'"
        )
    return access
