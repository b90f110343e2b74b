"""Several services share the buckets of a table."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import (
    CoordinatorUnavailable,
    LogStoreUnavailable,
    StorageError,
)
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd
from airflow_provider_segtable.log_store.memory_store import MemoryLogStore, MemoryLogStoreProvider
from airflow_provider_segtable.ports.log_store import DeployMode, LogContext, LogWriter
from airflow_provider_segtable.services.log_directory import (
    BucketFinder,
    BucketShare,
    ClaimedBuckets,
    Moves,
    addresses,
)
from airflow_provider_segtable.storage.local import SystemClock

TABLE, BUCKETS = "t", range(4)
ROWS = pa.record_batch([pa.array([1, 2], pa.int64())], names=["n"])
PROVIDER = MemoryLogStoreProvider()


@dataclass
class Service:
    """A service in this process; ``committed`` has the records of its checkpoints."""

    server: MemoryService
    name: str
    committed: list[int] = field(default_factory=list)
    trouble: StorageError | None = None

    def __post_init__(self) -> None:
        self.coordinator = MemoryCoordinator(SystemClock(), self.server)
        context = LogContext(table=TABLE, schema=ROWS.schema, buckets=tuple(BUCKETS))
        self.store: MemoryLogStore = PROVIDER.create(context)
        self.store.start()
        claims = ClaimedBuckets(
            self.coordinator, TABLE, service=self.name, deploy_mode=DeployMode.EXTERNAL
        )
        self.share = BucketShare(
            self.coordinator,
            TABLE,
            BUCKETS,
            claims=claims,
            store=self.store,
            checkpoint=self.checkpoint,
        )

    def checkpoint(self) -> None:
        """Commit what the store has, or fail."""
        cut = self.store.checkpoint()
        if self.trouble:
            self.store.abandon(cut)
            raise self.trouble
        self.committed += [b for b, each in cut.buckets.items() for _ in each.batches]
        self.store.committed(cut)

    def writer(self, bucket: int, epoch: int = 1) -> LogWriter:
        """Begin to write a bucket where it is served."""
        client = BucketFinder(self.coordinator, TABLE, PROVIDER.connect)(bucket)
        assert client
        return client.writer(bucket, epoch=epoch, committed=CommittedEnd())


@pytest.fixture
def server() -> MemoryService:
    return MemoryService()


@pytest.fixture
def pair(server: MemoryService) -> Iterator[tuple[Service, Service]]:
    """Two services, the first of which has all buckets."""
    one, two = Service(server, "one"), Service(server, "two")
    assert one.share.step() == Moves(taken=frozenset(BUCKETS))
    yield one, two
    for each in (one, two):
        each.store.shutdown()


def settle(*services: Service) -> None:
    """Let services step until nothing moves."""
    for _ in range(4):
        moves = [each.share.step() for each in services]
    assert moves == [Moves()] * len(services)


def served(service: Service) -> dict[int, str]:
    return {bucket: at.service for bucket, at in addresses(service.coordinator, TABLE).items()}


def test_a_service_that_comes_gets_its_share_with_everything_committed(
    pair: tuple[Service, Service],
) -> None:
    """The first hands over two of four, after a checkpoint; other writers notice nothing."""
    one, two = pair
    writers = {bucket: one.writer(bucket) for bucket in BUCKETS}
    for writer in writers.values():
        writer.append(ROWS, wait_s=1)
    assert two.share.step() == Moves()  # the claims of the other are waited for
    settle(one, two)
    assert [len(each.share.serving) for each in (one, two)] == [2, 2]
    assert served(two) == {b: ("one" if b in one.share.serving else "two") for b in BUCKETS}
    assert sorted(one.committed) == [*BUCKETS]
    for bucket, writer in writers.items():
        if bucket in one.share.serving:
            assert writer.append(ROWS, wait_s=1) == 2
        else:
            with pytest.raises(LogStoreUnavailable, match="look up its address"):
                writer.append(ROWS, wait_s=1)
            assert two.writer(bucket).append(ROWS, wait_s=1) == 0


def test_buckets_of_a_service_that_dies_go_to_the_others(pair: tuple[Service, Service]) -> None:
    """What it had is free when its session ends; what others had stays."""
    one, two = pair
    settle(one, two)
    had = one.share.serving
    two.coordinator.close()
    settle(one)
    assert one.share.serving == set(BUCKETS) > had


def test_a_service_that_was_paused_gives_up_what_it_lost_and_joins_again(
    pair: tuple[Service, Service], server: MemoryService
) -> None:
    """Its late checkpoint is tried, for the log decides; then it serves a share again."""
    one, two = pair
    settle(one, two)
    mine = one.share.serving
    writer = one.writer(min(mine))
    writer.append(ROWS, wait_s=1)
    server.expire(one.coordinator.session)
    settle(two)
    assert two.share.serving == set(BUCKETS)
    moves = one.share.step()
    assert moves.lost == mine
    assert one.committed == [min(mine)]
    with pytest.raises(LogStoreUnavailable):
        writer.append(ROWS, wait_s=1)
    settle(two, one)
    assert [len(each.share.serving) for each in (one, two)] == [2, 2]


def test_a_failing_checkpoint_holds_no_bucket_back(pair: tuple[Service, Service]) -> None:
    """The writer has the records still, so the bucket goes to the service that should have it."""
    one, two = pair
    one.writer(0).append(ROWS, wait_s=1)
    one.trouble = StorageError("the disk is on fire")
    one.share.leave()
    settle(two)
    assert one.share.serving == frozenset()
    assert two.share.serving == set(BUCKETS)
    assert served(two) == dict.fromkeys(BUCKETS, "two")


def test_all_goes_on_while_the_coordinator_is_away(pair: tuple[Service, Service]) -> None:
    """The step fails, and what is served is served on."""
    one, _ = pair
    writer = one.writer(3)
    one.coordinator._closed = True
    with pytest.raises(CoordinatorUnavailable):
        one.share.step()
    assert one.share.serving == set(BUCKETS)
    assert writer.append(ROWS, wait_s=1) == 0
