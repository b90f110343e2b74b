"""The buckets that one service has claimed, with its address.

A claim says where a bucket is served. It may be lost while the service goes on: which of two
services commits is decided by the table's log.
"""

import threading
import time
from collections.abc import Iterable

from airflow_provider_segtable.core.log_store.manifest import Epoch
from airflow_provider_segtable.ports.claims import Claim, LeaseState
from airflow_provider_segtable.ports.coordination import Coordinator
from airflow_provider_segtable.ports.log_store import DeployMode
from airflow_provider_segtable.services.log_store.directory import (
    BUCKETS,
    BucketAddress,
    all_addresses_in,
)


class ClaimedBuckets:
    """Claims of buckets of one table, by one service.

    Args:
        coordinator: where the claims are.
        table: the table's id.
        service: the service's name, for people and for the assignment.
        deploy_mode: beside its writer, or a process of its own.
    """

    def __init__(
        self, coordinator: Coordinator, table: str, *, service: str, deploy_mode: DeployMode
    ) -> None:
        self.service = service
        self._coordinator = coordinator
        self._table = table
        self._deploy_mode = deploy_mode
        self._mutex = threading.Lock()
        self._claims: dict[int, Claim] = {}

    @property
    def held(self) -> frozenset[int]:
        """Return the buckets whose claims are not lost; they may be doubtful."""
        with self._mutex:
            claims = dict(self._claims)
        return frozenset(b for b, claim in claims.items() if claim.state is not LeaseState.LOST)

    def take(self, buckets: Iterable[int], address: str, *, epoch: Epoch = 0) -> frozenset[int]:
        """Claim buckets for an address, unless other services hold them; return what is held.

        Args:
            buckets: the numbers of the buckets.
            address: where they are served.
            epoch: that of the writer beside the service.
        """
        held = self.held
        for bucket in sorted(set(buckets) - held):
            at = self._at(bucket, address, epoch)
            claim = self._coordinator.claim(self._table, BUCKETS, at.claim_name, at.content)
            if claim is not None:
                with self._mutex:
                    self._claims[bucket] = claim
        return self.held

    def release(self, buckets: Iterable[int]) -> None:
        """Release the claims of buckets; no error if they are gone."""
        for bucket in buckets:
            with self._mutex:
                claim = self._claims.pop(bucket, None)
            if claim is not None:
                claim.release()

    def wait_until_alone(self, buckets: Iterable[int], *, wait_s: float) -> bool:
        """Wait until no other claim of buckets is left; return whether this is so."""
        mine = set(buckets)
        deadline = time.monotonic() + wait_s
        seen = self._coordinator.claims(self._table, BUCKETS)
        while (
            others := {at.bucket for at in all_addresses_in(seen) if at.service != self.service}
            & mine
        ):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            seen = self._coordinator.wait_claims(self._table, BUCKETS, seen=seen, wait_s=left_s)
        return not others

    def _at(self, bucket: int, address: str, epoch: Epoch) -> BucketAddress:
        return BucketAddress(
            bucket=bucket,
            address=address,
            service=self.service,
            deploy_mode=self._deploy_mode,
            number=0,
            epoch=epoch,
        )
