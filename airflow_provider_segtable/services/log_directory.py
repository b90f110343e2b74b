"""Where the buckets of a table's log store are served: claims, readers, and shares of services.

A claim is a name in ZooKeeper that one client holds at a time:

1. A service claims each bucket that it serves, in the group ``BUCKETS``; the claim's content is its
   address. Services that share the buckets of a table also claim a name in the group ``SERVICES``.
2. A service of its own claims the bucket's number, so that no other such service has it. A store
   beside a writer claims a name of its own (``claim_name``), with the writer's epoch: the next
   writer does not have to wait for the end of the writer before, or of its session. Of several
   claims of a bucket the highest epoch counts, then the latest.
3. Claims are hints: a claim may be lost while its service goes on. The table's log decides which of
   two services commits, and which records are committed.

Readers:

4. A client that finds no service at an address reads the claims again. A claim of another number is
   another service, or a restarted one: its clients connect anew.
5. While the coordinator is away, readers keep the claims that they read last.

Shares (``step``), kept up while services start and end:

6. Each service reads the claims of both groups, and computes the same assignment
   (``core.log_store.assignment``) without a leader.
7. ``step`` gives up buckets with lost claims, hands over buckets of other shares, and takes its own
   as they become free. A bucket is served before its claim shows the address.
8. To give a bucket up, the store seals it, and a checkpoint commits its records. Then it is no
   longer served and its claim ends. If the checkpoint fails, the writer still has the records, and
   sends them to the next service. A bucket with a lost claim is given up likewise.
9. A bucket whose writer has a store beside it is left to that store until it ends.
10. While the coordinator is away no bucket moves, and all served buckets stay served.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CoordinatorUnavailable, SegtableError
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.assignment import assign
from airflow_provider_segtable.core.log_store.manifest import Epoch
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.ports.coordination import Claim, Claimed, Coordinator, LeaseState
from airflow_provider_segtable.ports.log_store import DeployMode, LogClient, LogStore

BUCKETS = "log-buckets"
SERVICES = "log-services"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAddress:
    """The address of a bucket's service; ``number`` is the number of its claim."""

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


def has_log_store(coordinator: Coordinator | None, state: State) -> bool:
    """Return whether a log store commits to a table, or a service has a bucket of it."""
    table = state.table.table_id
    return bool(state.log_store or (coordinator is not None and addresses(coordinator, table)))


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
        """Return the bucket's service; None if no service has it now."""
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
    """Return the newest address of each bucket in claims."""
    found: dict[int, BucketAddress] = {}
    for at in all_addresses_in(claims):
        known = found.get(at.bucket)
        if known is None or (known.epoch, known.number) < (at.epoch, at.number):
            found[at.bucket] = at
    return dict(sorted(found.items()))


def all_addresses_in(claims: Mapping[str, Claimed]) -> list[BucketAddress]:
    """Return the addresses in all claims of buckets, also in replaced claims."""
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
        """Claim buckets for an address, unless other services hold them; return the held ones.

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


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """The buckets that one step moved."""

    taken: frozenset[int] = frozenset()
    handed_over: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()

    @property
    def any(self) -> bool:
        """Return whether anything moved."""
        return bool(self.taken or self.handed_over or self.lost)

    def __str__(self) -> str:
        """Return the moves as text, for people."""
        done = {"took": self.taken, "handed over": self.handed_over, "lost": self.lost}
        return ", ".join(f"{verb} {named(buckets)}" for verb, buckets in done.items() if buckets)


class BucketShare:
    """The buckets of one table that one of several services has.

    Args:
        coordinator: where services and buckets are claimed.
        table: the table's id.
        buckets: all buckets of the table.
        claims: the service's claims.
        store: serves the buckets; started.
        checkpoint: commits the store's records.
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
        """Release foreign buckets, claim ours; return the moves.

        Raises:
            CoordinatorUnavailable: the coordinator is away; served buckets stay served.
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
