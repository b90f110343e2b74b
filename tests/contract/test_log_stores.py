"""Every log store under one suite: what writers, readers and checkpoints may rely on."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import (
    CheckpointPending,
    Fenced,
    InvalidInput,
    LogStoreFull,
    LogStoreUnavailable,
    SchemaMismatch,
    SegtableError,
)
from airflow_provider_segtable.core.log_store.manifest import BEGINNING, Position
from airflow_provider_segtable.core.log_store.reading import Behind, BucketStatus, Reset, Whence
from tests.contract.log_worlds import (
    PATIENCE_S,
    ROW,
    SOON_S,
    LogWorld,
    flight_world,
    memory_world,
    rows,
)
from tests.contract.worlds import Running

WORLDS = {"memory": memory_world, "flight": flight_world}
NO_STATUS = BucketStatus(
    bucket=0,
    epoch=0,
    start=0,
    end=BEGINNING,
    committed=BEGINNING,
    uncommitted_bytes=0,
    uncommitted_since=None,
)


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest) -> Iterator[LogWorld]:
    """A started store."""
    made = WORLDS[request.param]()
    made.start()
    yield made
    made.end()


def at(epoch: int, offset: int) -> Position:
    return Position(epoch=epoch, offset=offset)


def test_records_are_read_in_order_from_any_position(world: LogWorld) -> None:
    """Offsets are dense; earliest, latest and positions within a batch begin where they say."""
    writer = world.writer()
    first = [writer.append(rows(*batch), wait_s=1) for batch in ([10, 11, 12], [], [13, 14])]
    assert first == [0, 3, 3]
    assert writer.end == writer.flush(wait_s=1) == 5
    latest, within = world.reader(start=Whence.LATEST), world.reader(start=at(1, 2))
    assert writer.append(rows(15), wait_s=1) == 5
    assert world.reader().until(6) == [10, 11, 12, 13, 14, 15]
    assert within.until(6) == [12, 13, 14, 15]
    assert latest.until(6) == [15]
    assert latest.reader.position == at(1, 6)
    assert latest.step(SOON_S) is None


def test_a_reader_waits_for_the_first_writer(world: LogWorld) -> None:
    """Readers may come first; earliest and latest then are the first record."""
    readers = [world.reader(start=whence) for whence in Whence]
    assert [each.step(SOON_S) for each in readers] == [None, None]
    assert [each.reader.position for each in readers] == [None, None]
    world.writer().append(rows(1, 2), wait_s=1)
    assert [each.until(2) for each in readers] == [[1, 2], [1, 2]]


def test_a_waiting_reader_is_woken(world: LogWorld) -> None:
    """A batch reaches readers that wait for it, long before their deadline."""
    writer = world.writer()
    readers = [world.reader() for _ in range(3)]
    waiting = [Running(each.step) for each in readers]
    begin = time.monotonic()
    writer.append(rows(7), wait_s=1)
    for each in waiting:
        each.result()
    assert time.monotonic() - begin < PATIENCE_S / 2
    assert [each.seen for each in readers] == [{0: 7}] * 3


def test_a_pipeline_keeps_its_order(world: LogWorld) -> None:
    """Sent batches arrive once, in order, whichever answers are awaited."""
    writer = world.writer()
    sent = [writer.send(rows(n, n), wait_s=PATIENCE_S) for n in range(40)]
    assert sent == [2 * n for n in range(40)]
    assert writer.append(rows(99), wait_s=PATIENCE_S) == 80
    writer.send(rows(100), wait_s=PATIENCE_S)
    assert writer.flush(wait_s=PATIENCE_S) == 82
    assert world.reader().until(82) == [*(n for n in range(40) for _ in range(2)), 99, 100]


def test_a_lost_answer_stores_nothing_twice(world: LogWorld) -> None:
    """Appends whose answers were lost are repeated, and keep their offsets."""
    writer, reader = world.writer(), world.reader()
    for n in range(6):
        if n % 2:
            world.lose_answers()
        assert writer.append(rows(n), wait_s=PATIENCE_S) == n
    world.lose_answers()
    for n in range(6, 12):
        writer.send(rows(n), wait_s=PATIENCE_S)
    assert writer.flush(wait_s=PATIENCE_S) == 12
    assert reader.until(12) == [*range(12)]
    assert reader.events == []
    assert not world.proxy or world.proxy.cuts >= 4


def test_a_writer_restarts_while_readers_tail(world: LogWorld) -> None:
    """Readers that had read discarded records are reset to the commit; the others go on."""
    writer = world.writer()
    tails = [world.reader() for _ in range(3)]
    writer.append(rows(0, 1), wait_s=1)
    world.checkpoint()
    writer.append(rows(2, 3), wait_s=1)
    assert [each.until(4) for each in tails] == [[0, 1, 2, 3]] * 3
    waiting = [Running(each.step) for each in tails]
    again = world.writer()
    reader_at_commit = world.reader(start=at(1, 2))
    again.append(rows(20, 21, 22), wait_s=1)
    for each in waiting:
        each.result()
    assert [each.events for each in tails] == [[Reset(epoch=2, offset=2)]] * 3
    assert [each.until(5) for each in tails] == [[0, 1, 20, 21, 22]] * 3
    assert reader_at_commit.until(5) == [20, 21, 22]
    assert reader_at_commit.events == []


def test_resets_come_before_anything_else(world: LogWorld) -> None:
    """A reader that slept through two writers and a commit gets one reset, to the earliest loss."""
    world.writer().append(rows(0), wait_s=1)
    world.checkpoint()
    reader = world.reader()
    first = world.writer()
    first.append(rows(1, 2, 3), wait_s=1)
    assert reader.until(4) == [0, 1, 2, 3]
    position = reader.reader.position
    reader.reader.close()
    assert position == at(2, 4)
    second = world.writer()
    second.append(rows(10, 11, 12), wait_s=1)
    world.checkpoint()
    world.writer().append(rows(30), wait_s=1)
    sleeper = world.reader(start=position)
    assert sleeper.step() == Reset(epoch=4, offset=1)
    assert sleeper.until(5) == [10, 11, 12, 30]


def test_a_fenced_writer_stays_fenced(world: LogWorld) -> None:
    """A writer that wakes up after its successor began can neither append, nor begin again."""
    old = world.writer()
    old.append(rows(0), wait_s=1)
    new = world.writer()
    for call in (
        lambda: old.append(rows(66), wait_s=1),
        lambda: old.append(rows(66), wait_s=1),
        lambda: (old.send(rows(66), wait_s=1), old.flush(wait_s=1)),
        lambda: world.writer(epoch=1),
        lambda: world.writer(epoch=2),
    ):
        with pytest.raises(Fenced, match=r"epoch 2 has begun"):
            call()
    assert new.append(rows(5), wait_s=1) == 0
    assert world.reader().until(1) == [5]


def test_a_writer_that_waits_for_room_is_fenced(world: LogWorld) -> None:
    """Back-pressure does not outlast the epoch: the waiting append is refused at once."""
    old = world.writer()
    old.append(rows(*range(100)), wait_s=1)
    waiting = Running(lambda: old.append(rows(1), wait_s=PATIENCE_S))
    new = world.writer()
    with pytest.raises(Fenced):
        waiting.result()
    assert new.append(rows(1), wait_s=1) == 0


def test_a_full_bucket_holds_its_writer_up(world: LogWorld) -> None:
    """An append waits for a commit; at its deadline nothing is stored, and it may try again."""
    writer, other = world.writer(), world.writer(bucket=1)
    writer.append(rows(*range(100)), wait_s=1)
    with pytest.raises(
        LogStoreFull, match=r"no room for 1 record \(8 B\) in time, because 800 B wait"
    ):
        writer.append(rows(100), wait_s=SOON_S)
    other.append(rows(1), wait_s=1)
    assert writer.end == 100
    waiting = Running(lambda: writer.append(rows(100), wait_s=PATIENCE_S))
    world.checkpoint()
    assert waiting.result() == 100
    assert world.reader(start=at(1, 90)).step() == Behind(first_available=100)


def test_a_full_pipeline_loses_nothing(world: LogWorld) -> None:
    """Batches that found no room stay with the writer, and are stored by a later flush."""
    writer = world.writer()

    def send_too_much() -> None:
        for n in range(100):
            writer.send(rows(*[n] * 10), wait_s=SOON_S)

    with pytest.raises(LogStoreFull):
        send_too_much()
    end = writer.end
    assert end >= 100
    while len(world.tables[0]) < end:
        with suppress(LogStoreFull):
            assert writer.flush(wait_s=SOON_S) == end
        world.checkpoint()
    assert world.tables[0] == [n // 10 for n in range(end)]


def test_eviction_tells_slow_readers(world: LogWorld) -> None:
    """A reader of evicted records is behind, reads the table, and goes on in the log."""
    writer = world.writer()
    quick = world.reader()
    for n in range(5):
        writer.append(rows(2 * n, 2 * n + 1), wait_s=1)
        world.checkpoint()
        assert quick.until(2 * n + 2)
    late = world.reader(start=at(1, 0))
    assert [late.step(), late.step()] == [Behind(first_available=6)] * 2
    late.reader.seek(world.ends[0].position)
    writer.append(rows(10), wait_s=1)
    assert late.until(11) == [10]
    assert quick.until(11) == [*range(11)]


def test_a_slow_reader_holds_nobody_up(world: LogWorld) -> None:
    """Writers and other readers go on while one reader does not read at all."""
    writer = world.writer()
    world.reader()
    quick = world.reader()
    for n in range(30):
        writer.append(rows(*[n] * 50), wait_s=PATIENCE_S)
        assert len(quick.until(50 * n + 50)) == 50 * n + 50
        world.checkpoint()


def test_a_checkpoint_has_what_no_commit_has(world: LogWorld) -> None:
    """Cuts hold each record once, in order; an abandoned cut's records are in the next one."""
    first, second = world.writer(), world.writer(bucket=1)
    first.append(rows(0, 1), wait_s=1)
    abandoned = world.store.checkpoint()
    assert [(n, cut.start, cut.end) for n, cut in abandoned.buckets.items()] == [(0, 0, 2)]
    first.append(rows(2), wait_s=1)
    second.append(rows(7), wait_s=1)
    with pytest.raises(CheckpointPending, match="up to offset 2"):
        world.store.checkpoint()
    world.store.abandon(abandoned)
    world.checkpoint()
    assert world.tables == {0: [0, 1, 2], 1: [7]}
    assert world.store.checkpoint().buckets == {}


def test_a_late_commit_of_a_fenced_writer_is_refused(world: LogWorld) -> None:
    """News of a cut that was discarded raises ``Fenced``; the other buckets hear theirs."""
    world.writer().append(rows(0), wait_s=1)
    world.writer(bucket=1).append(rows(1), wait_s=1)
    cut = world.store.checkpoint()
    world.writer()
    with pytest.raises(Fenced):
        world.store.committed(cut)
    world.store.committed(type(cut)(buckets={1: cut.buckets[1]}))
    assert world.store.checkpoint().buckets == {}


def test_the_status_says_what_waits_for_a_checkpoint(world: LogWorld) -> None:
    """The status has each bucket's end, committed end and uncommitted records, and since when."""
    client = world.provider.connect(world.address)
    before = {n: replace(NO_STATUS, bucket=n) for n in (0, 1)}
    assert client.status() == world.store.status() == before
    first = world.writer()
    begin = time.time_ns() // 1000
    first.append(rows(0, 1, 2), wait_s=1)
    after = time.time_ns() // 1000
    first.append(rows(3), wait_s=1)
    found = client.status()[0]
    since = found.uncommitted_since
    assert since is not None
    assert begin <= since <= after
    waiting = replace(NO_STATUS, epoch=1, end=at(1, 4), uncommitted_bytes=4 * ROW)
    assert found == replace(waiting, uncommitted_since=since)
    assert found.uncommitted_records == 4
    world.checkpoint()
    assert client.status()[0] == replace(NO_STATUS, epoch=1, end=at(1, 4), committed=at(1, 4))
    assert client.status() == world.store.status()


def test_answers_say_what_is_committed(world: LogWorld) -> None:
    """A writer hears with each answer which of its records it may forget."""
    writer = world.writer()
    for expected in (0, 1):
        writer.append(rows(1), wait_s=1)
        assert writer.committed == expected
        world.checkpoint()
    assert world.writer().committed == 2


def test_a_client_asks_for_a_checkpoint(world: LogWorld) -> None:
    """A request is carried out by what serves the store, or refused with the reason."""
    client = world.provider.connect(world.address)
    with pytest.raises(LogStoreUnavailable, match="no service commits"):
        client.checkpoint(wait_s=1)

    def serve(wait_s: float) -> int | None:
        if wait_s < 1:
            raise CheckpointPending("not within 0.5 s")
        world.checkpoint()
        return 7

    world.store.serve_checkpoints(serve)
    world.writer().append(rows(0, 1), wait_s=1)
    with pytest.raises(CheckpointPending, match="not within"):
        client.checkpoint(wait_s=0.5)
    assert client.checkpoint(wait_s=PATIENCE_S) == 7
    assert world.tables[0] == [0, 1]
    world.store.serve_checkpoints(lambda _: None)
    assert client.checkpoint(wait_s=1) is None


def test_a_bucket_that_was_given_away_refuses_its_clients(world: LogWorld) -> None:
    """Waiting readers and the writer get ``Fenced`` at once; the other bucket goes on."""
    writer, other, reader = world.writer(), world.writer(bucket=1), world.reader()
    writer.append(rows(1), wait_s=1)
    assert reader.until(1) == [1]
    waiting = Running(reader.step)
    world.store.fence(0, 1)
    for call in (waiting.result, lambda: writer.append(rows(2), wait_s=1)):
        with pytest.raises(Fenced, match="look up the bucket's address"):
            call()
    assert other.append(rows(3), wait_s=1) == 0
    assert [*world.store.checkpoint().buckets] == [1]
    assert world.writer().append(rows(4), wait_s=1) == 0


def test_a_store_has_a_client_in_its_process(world: LogWorld) -> None:
    """It is a client as any other, whatever the network is."""
    local = world.store.client()
    writer = local.writer(0, epoch=1, committed=world.ends[0])
    assert writer.append(rows(1, 2), wait_s=1) == 0
    assert world.reader().until(2) == [1, 2]
    assert local.status() == world.provider.connect(world.address).status()


def test_a_new_store_goes_on_from_the_table(world: LogWorld) -> None:
    """After the store's end, the next one knows from the commit what its readers have to forget."""
    world.writer().append(rows(0), wait_s=1)
    world.checkpoint()
    reader = world.reader()
    writer = world.writer()
    writer.append(rows(1, 2), wait_s=1)
    assert reader.until(3) == [0, 1, 2]
    position = reader.reader.position
    waiting = Running(reader.step)
    world.store.shutdown()
    for call in (
        waiting.result,
        reader.step,
        lambda: writer.append(rows(3), wait_s=1),
        lambda: world.provider.connect(world.address).reader(0, start=Whence.LATEST),
    ):
        with pytest.raises(LogStoreUnavailable):
            call()
    world.start()
    world.writer().append(rows(9), wait_s=1)
    assert position
    later = world.reader(start=position)
    assert later.step() == Reset(epoch=3, offset=1)
    assert later.until(2) == [9]


def test_wrong_values_are_refused_with_the_way_out(world: LogWorld) -> None:
    """A foreign bucket, schema, size or position is refused, and nothing is stored."""
    writer = world.writer()
    foreign = rows(1).rename_columns(["m"])
    cases: list[tuple[type[SegtableError], str, object]] = [
        (InvalidInput, "bucket 9 is not served here", lambda: world.reader(bucket=9)),
        (InvalidInput, "begin at a position", lambda: world.reader(start=at(2, 5)).step()),
    ]
    world.epoch = 1
    world.writer()
    for kind, text, call in cases:
        assert callable(call)
        with pytest.raises(kind, match=text):
            call()
    writer = world.writer()
    with pytest.raises(SchemaMismatch, match=r"columns n int64, not m int64"):
        writer.append(foreign, wait_s=1)
    with pytest.raises(InvalidInput, match="append smaller batches"):
        writer.append(rows(*range(800 // ROW + 1)), wait_s=1)
    assert writer.append(rows(1), wait_s=1) == 0


def test_a_bucket_moves_away_and_comes_back(world: LogWorld) -> None:
    """Sealed: no append, but reads and a commit. Not served: nobody. Back: it begins anew."""
    writer, other = world.writer(), world.writer(1)
    writer.append(rows(1, 2), wait_s=1)
    other.append(rows(7), wait_s=1)
    reader = world.reader()
    assert reader.until(2) == [1, 2]
    waiting = Running(reader.step)
    world.store.seal([0])
    with pytest.raises(LogStoreUnavailable, match="moves to another service"):
        writer.append(rows(3), wait_s=PATIENCE_S)
    with pytest.raises(LogStoreUnavailable, match="moves to another service"):
        world.writer()
    late = world.store.checkpoint()
    world.commit(late)
    world.store.serve([1])
    with pytest.raises(LogStoreUnavailable, match="connect to its successor"):
        waiting.result()
    world.store.committed(late)
    assert world.tables[0] == [1, 2]
    assert world.store.status().keys() == {1}
    for use in (world.writer, lambda: world.reader().step()):
        with pytest.raises(LogStoreUnavailable, match="bucket 0 of table t is not served here now"):
            use()
    assert other.append(rows(8), wait_s=1) == 1
    world.store.serve([0, 1])
    assert world.writer().append(rows(3), wait_s=1) == 2
    assert world.reader(start=at(1, 2)).until(3) == [3]


def test_a_writer_that_waits_for_room_hears_that_its_bucket_moves(world: LogWorld) -> None:
    """It does not wait for its deadline."""
    writer = world.writer()
    writer.append(rows(*range(100)), wait_s=1)
    waiting = Running(lambda: writer.append(rows(1), wait_s=PATIENCE_S))
    world.store.seal([0])
    with pytest.raises(LogStoreUnavailable, match="moves to another service"):
        waiting.result()


def test_a_store_answers_only_while_the_tables_log_was_read_not_long_ago(world: LogWorld) -> None:
    """An append waits for the next reading; one that fails confirms nothing."""
    writer = world.writer()
    writer.append(rows(1), wait_s=1)
    with world.store.confirming(0):
        pass
    with suppress(OSError), world.store.confirming(PATIENCE_S):
        raise OSError("away")
    with pytest.raises(LogStoreUnavailable, match="has not read the table's log for too long"):
        writer.append(rows(2), wait_s=SOON_S)
    writer = world.writer()
    waiting = Running(lambda: writer.append(rows(2), wait_s=PATIENCE_S))
    with world.store.confirming(PATIENCE_S):
        pass
    assert waiting.result() == 0
    with world.store.confirming(0):
        world.store.fence(0, world.epoch)
    with pytest.raises(Fenced):
        writer.append(rows(3), wait_s=PATIENCE_S)


def test_a_writer_can_ask_whether_its_epoch_is_over(world: LogWorld) -> None:
    """The question stores nothing; what was sent before it is readable."""
    first = world.writer()
    first.send(rows(1), wait_s=1)
    first.check(wait_s=PATIENCE_S)
    assert first.end == 1
    assert world.reader().until(1) == [1]
    world.writer()
    with pytest.raises(Fenced):
        first.check(wait_s=PATIENCE_S)
