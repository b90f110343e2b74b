"""Where the buckets of a table's log store are served, as the coordinator knows it.

1. A service claims each bucket that it serves, in the group ``BUCKETS``; the claim's content is its
   address. Services that share the buckets of a table are claims of the group ``SERVICES``.
   A service of its own claims the bucket's number, so that no other such service has it. A store
   beside a writer has a name of its own for its claim (``claim_name``), and the writer's epoch in
   it: whoever replaces a writer does not have to wait until that one, or its session, has ended.
   Of several claims of a bucket the one of the highest epoch counts, then the latest.
2. What is read here is a hint. A client that finds no service at an address looks again; which
   records are committed is decided by the table's log.
3. A claim of another number is another service, or another life of the same one: its clients
   connect anew.
4. While the coordinator is away, what was read last is still true for what goes on.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.errors import CoordinatorUnavailable
from airflow_provider_segtable.core.log_store.manifest import Epoch
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.ports.claims import Claimed
from airflow_provider_segtable.ports.coordination import Coordinator
from airflow_provider_segtable.ports.log_store import DeployMode, LogClient

BUCKETS = "log-buckets"
SERVICES = "log-services"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAddress:
    """Who serves a bucket, and where; ``number`` is that of its claim."""

    bucket: int
    address: str
    service: str
    deploy_mode: DeployMode
    number: int
    epoch: Epoch = 0

    @property
    def content(self) -> Mapping[str, str]:
        """Return the content of the claim."""
        return {
            "address": self.address,
            "service": self.service,
            "deploy_mode": self.deploy_mode.value,
            "epoch": str(self.epoch),
        }

    @property
    def claim_name(self) -> str:
        """Return the name of the claim."""
        if self.deploy_mode is DeployMode.EXTERNAL:
            return str(self.bucket)
        return f"{self.bucket}-{digest(self.service.encode())}"


def addresses(coordinator: Coordinator, table: str) -> Mapping[int, BucketAddress]:
    """Return where the buckets of a table, by id, are served."""
    return addresses_in(coordinator.claims(table, BUCKETS))


def wait_addresses(
    coordinator: Coordinator, table: str, *, seen: Mapping[int, BucketAddress], wait_s: float
) -> Mapping[int, BucketAddress]:
    """Wait until addresses may differ from ``seen``, and return them."""
    claims = coordinator.claims(table, BUCKETS)
    if addresses_in(claims) == seen:
        claims = coordinator.wait_claims(table, BUCKETS, seen=claims, wait_s=wait_s)
    return addresses_in(claims)


class BucketFinder:
    """Finds the client of the service that serves a bucket; one client for each address.

    Args:
        coordinator: where addresses are published.
        table: the table's id.
        connect: connects to an address.
    """

    def __init__(
        self, coordinator: Coordinator, table: str, connect: Callable[[str], LogClient]
    ) -> None:
        self._coordinator = coordinator
        self._table = table
        self._connect = connect
        self._mutex = threading.Lock()
        self._known: Mapping[int, BucketAddress] = {}
        self._clients: dict[tuple[str, str], LogClient] = {}

    def __call__(self, bucket: int) -> LogClient | None:
        """Return a client of the service that serves the bucket now; None if there is none."""
        at = self.find(bucket)
        return None if at is None else self.client(at)

    def client(self, at: BucketAddress) -> LogClient:
        """Return the client of a service."""
        key = (at.service, at.address)
        with self._mutex:
            if key not in self._clients:
                self._clients[key] = self._connect(at.address)
            return self._clients[key]

    def wait(self, seen: Mapping[int, BucketAddress], wait_s: float) -> Mapping[int, BucketAddress]:
        """Wait until addresses may differ from ``seen``, and return them."""
        return wait_addresses(self._coordinator, self._table, seen=seen, wait_s=wait_s)

    def find(self, bucket: int) -> BucketAddress | None:
        """Return who serves the bucket now; None if there is no such service."""
        try:
            found = addresses(self._coordinator, self._table)
        except CoordinatorUnavailable:
            return self._known.get(bucket)
        with self._mutex:
            changed = {
                (old.service, old.address) for old in self._known.values() if _gone(old, found)
            }
            for key in changed:
                self._clients.pop(key, None)
            self._known = found
        return found.get(bucket)


def _gone(old: BucketAddress, found: Mapping[int, BucketAddress]) -> bool:
    now = found.get(old.bucket)
    return now is None or now.number != old.number


def addresses_in(claims: Mapping[str, Claimed]) -> Mapping[int, BucketAddress]:
    """Return the addresses in claims; others than those of services are left out."""
    found: dict[int, BucketAddress] = {}
    for at in all_addresses_in(claims):
        known = found.get(at.bucket)
        if known is None or (known.epoch, known.number) < (at.epoch, at.number):
            found[at.bucket] = at
    return dict(sorted(found.items()))


def all_addresses_in(claims: Mapping[str, Claimed]) -> list[BucketAddress]:
    """Return the addresses in all claims of buckets, also of those that others have replaced."""
    found = []
    for name, claim in claims.items():
        bucket, _, _ = name.partition("-")
        mode, epoch = claim.content.get("deploy_mode", ""), claim.content.get("epoch", "0")
        known = mode in set(DeployMode) and "address" in claim.content
        if known and bucket.isdecimal() and epoch.isdecimal():
            found.append(
                BucketAddress(
                    bucket=int(bucket),
                    address=claim.content["address"],
                    service=claim.content.get("service", ""),
                    deploy_mode=DeployMode(mode),
                    number=claim.number,
                    epoch=int(epoch),
                )
            )
    return found
