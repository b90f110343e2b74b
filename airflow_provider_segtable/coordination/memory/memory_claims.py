"""Claims inside one process; each lives as long as its session."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from airflow_provider_segtable.coordination.memory.memory_service import (
    HeldClaim,
    MemoryService,
    Session,
)
from airflow_provider_segtable.core.errors import LockLost
from airflow_provider_segtable.ports.claims import Claimed, LeaseState


class MemoryClaim:
    """A claim of a session."""

    def __init__(
        self, service: MemoryService, session: Session, at: tuple[str, str], claimed: Claimed
    ) -> None:
        """Wrap a claim; ``at`` is its table and group."""
        self._service = service
        self._session = session
        self._table, self._group = at
        self._name = claimed.name
        self._gone = False
        self.number = claimed.number

    @property
    def state(self) -> LeaseState:
        """Return the client's view of the claim."""
        if self._gone or self._session.known_lost:
            return LeaseState.LOST
        return LeaseState.DOUBTFUL if self._session.suspended else LeaseState.HELD

    def update(self, content: Mapping[str, str]) -> None:
        """Replace the content; raise ``LockLost`` unless the claim is held."""
        with self._service.box(self._table) as box:
            held = None
            if self.state is LeaseState.HELD:
                held = self._held(box.claims.get(self._group, {}))
                self._gone = held is None
            if held is None:
                raise LockLost(
                    f"the claim of {self._group}/{self._name} on table {self._table} is "
                    f"{self.state}: claim it again"
                )
            held.claimed = replace(held.claimed, content=dict(content))

    def release(self) -> None:
        """End the claim."""
        self._gone = True
        with self._service.box(self._table) as box, suppress(KeyError):
            if self._held(box.claims[self._group]):
                del box.claims[self._group][self._name]

    def _held(self, group: Mapping[str, HeldClaim]) -> HeldClaim | None:
        held = group.get(self._name)
        return held if held and held.claimed.number == self.number else None
