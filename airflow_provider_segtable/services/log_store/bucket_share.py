"""One service's share of a table's buckets, kept up while services come and go.

1. The services of a table are claims of the group ``SERVICES``. Each reads them and the claims of
   the buckets, and computes the same assignment (``core.log_store.assignment``) without a leader.
2. ``step`` gives up buckets whose claims were lost, hands over those that others should have, and
   takes its own as they become free. A bucket is served before its claim shows the address.
3. To give a bucket up, the store seals it, a checkpoint commits what it has, and then it is no
   longer served and its claim ends. If the checkpoint fails, the writer still has the records, and
   sends them to the next service.
4. So it is with a lost claim, too: another service may have the bucket by now, and the table's log
   decides whose records count.
5. A bucket whose writer has a store beside it is left to that one until it ends.
6. While the coordinator is away nothing moves, and all that is served goes on.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log_store.assignment import assign
from airflow_provider_segtable.ports.claims import Claim, Claimed, LeaseState
from airflow_provider_segtable.ports.coordination import Coordinator
from airflow_provider_segtable.ports.log_store import DeployMode, LogStore
from airflow_provider_segtable.services.log_store.claimed_buckets import ClaimedBuckets
from airflow_provider_segtable.services.log_store.directory import BUCKETS, SERVICES, addresses_in

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """What one step changed."""

    taken: frozenset[int] = frozenset()
    handed_over: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()

    @property
    def any(self) -> bool:
        """Return whether anything moved."""
        return bool(self.taken or self.handed_over or self.lost)

    def __str__(self) -> str:
        """Return what moved, for people."""
        done = {"took": self.taken, "handed over": self.handed_over, "lost": self.lost}
        return ", ".join(f"{what} {named(buckets)}" for what, buckets in done.items() if buckets)


class BucketShare:
    """The buckets of one table that one of several services has.

    Args:
        coordinator: where services and buckets are claimed.
        table: the table's id.
        buckets: all buckets of the table.
        claims: the service's claims.
        store: serves the buckets; started.
        checkpoint: commits what the store has.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        table: str,
        buckets: Collection[int],
        *,
        claims: ClaimedBuckets,
        store: LogStore,
        checkpoint: Callable[[], object],
    ) -> None:
        self.serving: frozenset[int] = frozenset()
        self._coordinator = coordinator
        self._table = table
        self._buckets = buckets
        self._claims = claims
        self._store = store
        self._checkpoint = checkpoint
        self._member: Claim | None = None
        self._seen: Mapping[str, Claimed] = {}
        store.serve(())

    def step(self) -> Moves:
        """Give up what is not this service's, and take what is; return what moved.

        Raises:
            CoordinatorUnavailable: the coordinator is away; what is served is served on.
        """
        lost = self.serving - self._claims.held
        self._give_up(lost)
        wanted = self._wanted()
        handed_over = self.serving - wanted
        self._give_up(handed_over)
        taken = self._take(wanted)
        return Moves(taken=taken, handed_over=handed_over, lost=lost)

    def wait(self, wait_s: float) -> None:
        """Wait until the claims of buckets have changed since the last step."""
        self._coordinator.wait_claims(self._table, BUCKETS, seen=self._seen, wait_s=wait_s)

    def leave(self) -> None:
        """Hand everything over, and be no service of the table any more."""
        if self._member is not None:
            self._member.release()
        self._give_up(self.serving)

    def _wanted(self) -> frozenset[int]:
        """Return the buckets that this service should have, as the claims are now."""
        if self._member is None or self._member.state is LeaseState.LOST:
            me = {"address": self._store.address}
            self._member = self._coordinator.claim(self._table, SERVICES, self._claims.service, me)
        services = {self._claims.service, *self._coordinator.claims(self._table, SERVICES)}
        self._seen = self._coordinator.claims(self._table, BUCKETS)
        found = addresses_in(self._seen)
        held = {bucket: at.service for bucket, at in found.items()}
        beside = {b for b, at in found.items() if at.deploy_mode is DeployMode.EMBEDDED}
        free = [bucket for bucket in self._buckets if bucket not in beside]
        assigned = assign(self._table, free, services, held)
        return frozenset(b for b, name in assigned.items() if name == self._claims.service)

    def _take(self, wanted: frozenset[int]) -> frozenset[int]:
        before = self.serving
        self._store.serve(before | wanted)
        try:
            self._claims.take(wanted, self._store.address)
        finally:
            self.serving = self._claims.held & (before | wanted)
            self._store.serve(self.serving)
        return self.serving - before

    def _give_up(self, buckets: frozenset[int]) -> None:
        if not buckets:
            return
        self._store.seal(buckets)
        try:
            self._checkpoint()
        except SegtableError as error:
            _log.warning(
                "buckets %s of table %s are given up without a last checkpoint: %s",
                sorted(buckets),
                self._table,
                error,
            )
        self.serving -= buckets
        self._store.serve(self.serving)
        self._claims.release(buckets)


def named(buckets: Collection[int]) -> str:
    """Return the names of buckets, for people."""
    if not buckets:
        return "no bucket"
    return f"bucket{'s' * (len(buckets) > 1)} {', '.join(map(str, sorted(buckets)))}"
