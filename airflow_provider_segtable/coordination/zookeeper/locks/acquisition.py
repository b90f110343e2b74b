"""Values that one call of ``ZooKeeperCoordinator.acquire`` passes from step to step."""

import hashlib
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_segtable.coordination.waiting import WaitLog
from airflow_provider_segtable.coordination.zookeeper.nodes import OF_TIME_CHUNK, Nodes, Seen
from airflow_provider_segtable.core.locks import (
    MAX_YIELDS,
    Generation,
    Lock,
    LockGranularity,
    LockRequest,
    contested,
)
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Instant


@dataclass(slots=True)
class Acquisition:
    """One call of ``acquire``: the nodes it may have made, and the groups that overtook it.

    ``said`` logs who blocks it.
    """

    asked: LockRequest
    nodes: Nodes
    said: WaitLog
    guid: str = field(default_factory=lambda: uuid.uuid4().hex)
    queued: bool = False
    sent: list[str] = field(default_factory=list)
    overtaken_by: set[str] = field(default_factory=set)
    overtaken: int = 0
    interrupted: int = 0

    @property
    def request(self) -> LockRequest:
        """Return the request, with its overtakers counted as yields."""
        return replace(self.asked, yields=self.asked.yields + len(self.overtaken_by))

    @property
    def firm(self) -> bool:
        """Return whether the request has yielded too often to yield again."""
        return self.request.yields >= MAX_YIELDS

    @property
    def of_time_chunk(self) -> bool:
        """Return whether the request is on intervals."""
        return self.asked.granularity is LockGranularity.TIME_CHUNK

    @property
    def group_prefix(self) -> str:
        """Return the prefix of the group's lock node names."""
        return prefix_of(self.asked.group)

    @property
    def place_prefix(self) -> str:
        """Return the prefix of the request's place in the queue."""
        return f"{self.guid}{OF_TIME_CHUNK if self.of_time_chunk else ''}-"

    def draw_lock_name(self) -> str:
        """Return a name never used before, because nodes are cached by name."""
        name = self.group_prefix + uuid.uuid4().hex
        self.sent.append(name + (OF_TIME_CHUNK if self.of_time_chunk else ""))
        return self.sent[-1]

    @property
    def contests(self) -> bool:
        """Return whether the request may conflict with other locks (an append does not)."""
        return bool(self.asked.segments) or not self.asked.allocate


def prefix_of(group: str) -> str:
    """Return the prefix of a group's lock node names."""
    return hashlib.sha256(group.encode()).hexdigest()[:16] + "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The nodes that one round read, with the versions that the multi checks.

    ``places`` are in the order of arrival; ``mine`` is the index of the request's own. ``now`` is
    the server's clock and ``last_version`` the highest one, if the request wants a version.
    """

    lockbox_version: int
    gate_version: int
    locks: tuple[Seen, ...]
    places: tuple[Seen, ...]
    mine: int | None
    own_nodes: tuple[str, ...]
    states: Mapping[str, int]
    counters: Mapping[tuple[ChunkKey, Generation], tuple[int, int]]
    last_version: tuple[Instant, int | None] = (0, None)
    now: Instant = 0

    @property
    def place(self) -> Seen | None:
        """Return the request's own place in the queue, if it has one."""
        return None if self.mine is None else self.places[self.mine]

    def meets(self, request: LockRequest) -> bool:
        """Return whether the request conflicts with a lock or place of a time chunk."""
        return any(
            seen.of_time_chunk and contested(request, seen.lock)
            for seen in self.locks + self.places
        )


@dataclass(frozen=True, slots=True)
class Blocked:
    """The blocking locks, the node to watch, and the request's own place, if it has one.

    ``state_version`` is the version of the node's state at the decision; None: it had none.
    """

    on: tuple[Lock, ...]
    by: Seen
    state_version: int | None
    place: Seen | None


class Bell:
    """Signal that a node has changed; one for each, so that watches do not accumulate."""

    def __init__(self) -> None:
        """Start without rings."""
        self._condition = threading.Condition()
        self.rung = 0

    def ring(self, _event: object) -> None:
        """Count a change; kazoo calls this."""
        with self._condition:
            self.rung += 1
            self._condition.notify_all()

    def wait(self, rung: int, timeout_s: float) -> None:
        """Wait until the count differs from ``rung``."""
        with self._condition:
            self._condition.wait_for(lambda: self.rung != rung, timeout_s)
