"""The buckets that one service has claimed, with its address.

A claim says where a bucket is served. It may be lost while the service goes on: which of two
services commits is decided by the table's log.
"""

import threading
from collections.abc import Iterable

from airflow_provider_segtable.ports.claims import Claim, LeaseState
from airflow_provider_segtable.ports.coordination import Coordinator
from airflow_provider_segtable.ports.log_store import DeployMode
from airflow_provider_segtable.services.log_store.directory import BUCKETS, BucketAddress


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

    def take(self, buckets: Iterable[int], address: str) -> frozenset[int]:
        """Claim buckets for an address, unless other services hold them; return what is held."""
        held = self.held
        for bucket in sorted(set(buckets) - held):
            claim = self._coordinator.claim(
                self._table, BUCKETS, str(bucket), self._at(bucket, address).content
            )
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

    def _at(self, bucket: int, address: str) -> BucketAddress:
        return BucketAddress(
            bucket=bucket,
            address=address,
            service=self.service,
            deploy_mode=self._deploy_mode,
            number=0,
        )
