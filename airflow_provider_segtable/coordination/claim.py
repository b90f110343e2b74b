"""The values that one call of ``ZooKeeperCoordinator.acquire`` passes from step to step."""

import hashlib
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_segtable.coordination.nodes import Nodes, Seen
from airflow_provider_segtable.core.lockbox import Generation, Lock, LockRequest
from airflow_provider_segtable.core.segment import ChunkKey


@dataclass(slots=True)
class Claim:
    """One call of ``acquire``: what it may have made in ZooKeeper."""

    request: LockRequest
    nodes: Nodes
    guid: str = field(default_factory=lambda: uuid.uuid4().hex)
    queued: bool = False
    sent: list[str] = field(default_factory=list)
    overtaken: int = 0
    interrupted: int = 0

    @property
    def group_prefix(self) -> str:
        """Return how the names of all lock nodes of the group begin."""
        return hashlib.sha256(self.request.group.encode()).hexdigest()[:16] + "-"

    def draw_lock_name(self) -> str:
        """Return a name never used: what is known by a name must stay true."""
        self.sent.append(self.group_prefix + uuid.uuid4().hex)
        return self.sent[-1]

    @property
    def contests(self) -> bool:
        """Tell whether the request locks what others may hold (an append does not)."""
        return bool(self.request.segments) or not self.request.allocate


@dataclass(frozen=True, slots=True)
class View:
    """What one round read."""

    lockbox_version: int
    locks: tuple[Seen, ...]
    waiters: tuple[Seen, ...]
    own_waiters: tuple[str, ...]
    counters: Mapping[tuple[ChunkKey, Generation], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Blocked:
    """What is in the way, and the node to watch."""

    on: tuple[Lock, ...]
    path: str


class Bell:
    """Rings when a head changes; one a table, so that watches do not pile up."""

    def __init__(self) -> None:
        """Start silent."""
        self._condition = threading.Condition()
        self.rung = 0

    def ring(self, _event: object) -> None:
        """Note a change; kazoo calls it."""
        with self._condition:
            self.rung += 1
            self._condition.notify_all()

    def wait(self, rung: int, timeout_s: float) -> None:
        """Wait until it has rung more often than ``rung``."""
        with self._condition:
            self._condition.wait_for(lambda: self.rung != rung, timeout_s)
