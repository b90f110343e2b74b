"""The contract of ``ports.coordination``, the same for memory and for a real ZooKeeper."""

from contextlib import suppress
from itertools import pairwise
from threading import Barrier

import pytest

from airflow_provider_segtable.coordination import waiting
from airflow_provider_segtable.coordination.zookeeper import multi_read
from airflow_provider_segtable.core.errors import (
    CoordinatorUnavailable,
    LimitReached,
    LockLost,
    LockTimeout,
)
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.ports.coordination import Coordinator, Lease, LeaseState
from tests.contract.worlds import (
    LIFE_S,
    PATIENCE_S,
    TABLE,
    Running,
    World,
    append,
    eventually,
    request,
)


def partitions(ids: tuple[SegmentId, ...]) -> list[int]:
    return [each.partition for each in ids]


# ---- granting ------------------------------------------------------------------------------------


def test_a_grant_locks_inputs_and_allocates_outputs_at_once(world: World) -> None:
    """A grant holds its inputs and its new ids, and others see exactly that."""
    lease = world.client().acquire(request("g", 3, 1, 2, new=2), wait_s=0)
    (lock,) = world.client().locks(TABLE)
    assert lease.state is LeaseState.HELD
    assert partitions(lease.allocated) == [32768, 32769]
    assert {each.partition for each in lock.segments} == {1, 2, 3}
    assert lock.allocated == lease.allocated
    assert (lock.group, lock.purpose, lock.holder) == ("g", "plan-of-g", "host-a pid 1")
    assert (lock.token, lock.since) == (lease.token, lease.granted_at)
    lease.check()


def test_the_same_segment_excludes(world: World) -> None:
    """Two requests for one segment: the second is refused at its deadline."""
    world.client().acquire(request("g", 1, 2), wait_s=0)
    with pytest.raises(LockTimeout):
        world.client().acquire(request("h", 2, 3), wait_s=0)


def test_different_segments_of_a_chunk_coexist(world: World) -> None:
    """Exclusive locks on different segments of one chunk do not exclude each other."""
    one = world.client().acquire(request("g", 1, 2, new=1), wait_s=0)
    other = world.client().acquire(request("h", 3, 4, new=1), wait_s=0)
    assert one.state is other.state is LeaseState.HELD
    assert partitions(one.allocated + other.allocated) == [32768, 32769]


def test_tables_do_not_meet(world: World) -> None:
    """The same segment ids of another table are other segments."""
    client = world.client()
    client.acquire(request("g", 1, new=1), wait_s=0)
    other = client.acquire(request("g", 1, new=1, table="other"), wait_s=0)
    assert partitions(other.allocated) == [32768]


def test_new_ids_are_locked_for_their_asker(world: World) -> None:
    """Nobody can lock an id while it is being written."""
    lease = world.client().acquire(append("writer"), wait_s=0)
    (new,) = partitions(lease.allocated)
    with pytest.raises(LockTimeout, match="writer"):
        world.client().acquire(request("compaction", new), wait_s=0)


def test_a_group_holds_what_it_holds(world: World) -> None:
    """Asking again as the same group gives the same grant, not another one."""
    client = world.client()
    first = client.acquire(request("g", 1, new=2), wait_s=0)
    again = client.acquire(request("g", 1, new=2), wait_s=0)
    assert (again.token, again.allocated) == (first.token, first.allocated)
    assert len(client.locks(TABLE)) == 1


def test_a_group_in_another_session_is_not_ours(world: World) -> None:
    """A lock of our group in somebody else's session is waited for, never shared."""
    world.client().acquire(append("g"), wait_s=0)
    with pytest.raises(LockTimeout):
        world.client().acquire(append("g"), wait_s=0)


def test_a_refused_request_leaves_nothing(world: World) -> None:
    """After a time-out there is no lock, no place in the queue and no allocated id."""
    holder, other = world.client(), world.client()
    lease = holder.acquire(request("g", 1), wait_s=0)
    with pytest.raises(LockTimeout):
        other.acquire(request("h", 1, new=5), wait_s=0.05)
    assert world.queued() == 0
    assert [lock.group for lock in other.locks(TABLE)] == ["g"]
    lease.release()
    assert partitions(other.acquire(request("h", 1, new=1), wait_s=0).allocated) == [32768]


def test_ids_at_their_limit_are_refused(world: World) -> None:
    """The id space ends with an error, and nothing stays behind."""
    client = world.client()
    with pytest.raises(LimitReached, match="major compaction"):
        client.acquire(append("g", new=2, at_least=32767), wait_s=0)
    assert client.locks(TABLE) == ()


def test_concurrent_appends_get_ids_once(world: World) -> None:
    """Many writers at once: every id is handed out exactly once and none is skipped."""

    def write(writer: int) -> list[int]:
        client, got = world.client(), []
        for n in range(10):
            lease = client.acquire(append(f"{writer}-{n}", new=2), wait_s=PATIENCE_S)
            got += partitions(lease.allocated)
            lease.release()
        return got

    writers = [Running(lambda writer=writer: write(writer)) for writer in range(6)]
    got = [each for writer in writers for each in writer.result()]
    assert sorted(got) == list(range(120))


def test_concurrent_rivals_exclude_each_other(world: World) -> None:
    """Of many requests for one segment, one holds it at any time, and all get it in the end."""
    inside: list[int] = []
    most: list[int] = []

    def work(worker: int) -> None:
        client = world.client()
        for n in range(5):
            lease = client.acquire(request(f"{worker}-{n}", 7, new=1), wait_s=PATIENCE_S)
            inside.append(worker)
            most.append(len(inside))
            lease.check()
            inside.remove(worker)
            lease.release()

    for each in [Running(lambda worker=worker: work(worker)) for worker in range(5)]:
        each.result()
    assert set(most) == {1}
    assert len(most) == 25


def test_of_rivals_at_one_moment_one_wins(world: World) -> None:
    """Requests for a free segment that meet nowhere else: exactly one is granted at once."""
    clients, start = [world.client() for _ in range(4)], Barrier(4)

    def grab(me: int) -> list[bool]:
        won = []
        for segment in range(25):
            start.wait()
            try:
                clients[me].acquire(request(f"{me}-{segment}", segment), wait_s=0)
                won.append(True)
            except LockTimeout:
                won.append(False)
        return won

    won = [each.result() for each in [Running(lambda me=me: grab(me)) for me in range(4)]]
    assert [sum(of_segment) for of_segment in zip(*won, strict=True)] == [1] * 25


# ---- waiting -------------------------------------------------------------------------------------


def test_release_frees_who_waits(world: World) -> None:
    """A waiter is granted when the holder lets go."""
    lease = world.client().acquire(request("g", 1), wait_s=0)
    waiter = Running(lambda: world.client().acquire(request("h", 1), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    lease.release()
    assert waiter.result().token.number > lease.token.number
    assert world.queued() == 0


def test_first_come_first_served(world: World) -> None:
    """Who contests a segment gets it in the order of asking."""
    order: list[str] = []
    lease = world.client().acquire(request("holder", 1), wait_s=0)

    def take(group: str) -> None:
        got = world.client().acquire(request(group, 1), wait_s=PATIENCE_S)
        order.append(group)
        got.release()

    waiting = []
    for n, group in enumerate("abcde"):
        waiting.append(Running(lambda group=group: take(group)))
        eventually(lambda n=n: world.queued() == n + 1)
    lease.release()
    for each in waiting:
        each.result()
    assert order == list("abcde")


def test_a_large_request_is_not_starved_by_small_ones(world: World) -> None:
    """A newcomer for a free segment waits behind an earlier request that needs it, too."""
    client = world.client()
    lease = client.acquire(request("holder", 1), wait_s=0)
    large = Running(lambda: world.client().acquire(request("large", 1, 2, 3), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    with pytest.raises(LockTimeout, match="large"):
        client.acquire(request("small", 3), wait_s=0)
    unrelated = client.acquire(request("unrelated", 4), wait_s=0)
    lease.release()
    assert large.result().state is unrelated.state is LeaseState.HELD


def test_an_append_waits_for_nobody(world: World) -> None:
    """Appends are granted at once, whatever compactions hold or wait for."""
    client = world.client()
    holder = client.acquire(request("holder", 1, new=1), wait_s=0)
    waiter = Running(lambda: world.client().acquire(request("waiter", 1, new=1), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    lease = client.acquire(append("writer"), wait_s=0)
    assert partitions(lease.allocated) == [0]
    assert not waiter.done
    holder.release()
    assert waiter.result().state is LeaseState.HELD


def test_a_time_out_says_who_and_what_to_do(world: World) -> None:
    """The message names segment, holder, purpose, address and the way out."""
    world.client().acquire(request("g", 1, 2, holder="spark-7 pid 42"), wait_s=0)
    rival = world.client()
    with pytest.raises(LockTimeout) as refused:
        rival.acquire(request("h", 1, 2), wait_s=0.05)
    text = str(refused.value)
    for said in ("_1 and 1 more", TABLE, "spark-7 pid 42", "plan-of-g", rival.address, "stop that"):
        assert said in text


def test_a_long_wait_says_for_whom_and_how_long(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the holder, its purpose, since when, and the longest wait."""
    monkeypatch.setattr(waiting, "SAY_AFTER_S", 0.05)
    holder = world.client().acquire(request("g", 1, 2, holder="spark-7 pid 42"), wait_s=0)
    waiter = Running(lambda: world.client().acquire(request("h", 1, 2), wait_s=PATIENCE_S))
    eventually(lambda: bool(caplog.messages))
    (said,) = caplog.messages
    for part in ("_1 and 1 more", "spark-7 pid 42 for plan-of-g", "since 2", "Waits 60 s more"):
        assert part in said
    assert "its locks end with its session" in said
    holder.release()
    assert waiter.result().state is LeaseState.HELD
    assert len(caplog.messages) == 1  # a minute later again


# ---- tokens and counters -------------------------------------------------------------------------


def test_tokens_grow(world: World) -> None:
    """A later grant has a higher token of the same epoch, whoever asks."""
    tokens = []
    for n in range(4):
        lease = world.client().acquire(request(f"g{n}", 1, new=1), wait_s=0)
        tokens.append(lease.token)
        lease.release()
    assert all(one.older_than(other) for one, other in pairwise(tokens))


def test_ids_are_not_handed_out_again(world: World) -> None:
    """A released or lost allocation leaves a gap, never a second use."""
    client = world.client()
    client.acquire(append("g", new=3), wait_s=0).release()
    assert partitions(world.client().acquire(append("h"), wait_s=0).allocated) == [3]


def test_counters_start_above_the_log(world: World) -> None:
    """Ids begin at what the caller has seen in the log, and never go back below it."""
    client = world.client()
    assert partitions(client.acquire(append("g", at_least=40), wait_s=0).allocated) == [40]
    assert partitions(client.acquire(append("h", at_least=7), wait_s=0).allocated) == [41]


def test_a_wipe_begins_another_epoch_above_the_log(world: World) -> None:
    """After a wipe ids restart above ``at_least``, and tokens are of an incomparable epoch."""
    before = world.client().acquire(append("g", new=5), wait_s=0)
    world.wipe()
    after = world.client().acquire(append("h", at_least=5), wait_s=0)
    assert partitions(after.allocated) == [5]
    assert after.token.epoch != before.token.epoch
    assert not after.token.older_than(before.token)
    with pytest.raises(LockLost):
        before.check()


# ---- sessions ------------------------------------------------------------------------------------


def test_close_drops_leases(world: World) -> None:
    """Closing a coordinator ends its locks, and its leases know."""
    client, other = world.client(), world.client()
    lease = client.acquire(request("g", 1), wait_s=0)
    client.close()
    assert lease.state is LeaseState.LOST
    assert other.acquire(request("h", 1), wait_s=PATIENCE_S).token.number > lease.token.number
    with pytest.raises(CoordinatorUnavailable, match="closed"):
        client.acquire(request("i", 2), wait_s=0)


def test_no_lock_outlives_its_client(world: World) -> None:
    """Closed while it connects, asks or waits, a client leaves no lock and no place behind."""
    holder = world.client()
    holder.acquire(request("holder", 9), wait_s=0)
    for n in range(8):
        client, start = world.client(), Barrier(2)

        def take(client: Coordinator = client, start: Barrier = start, n: int = n) -> Lease:
            start.wait()
            return client.acquire(request(f"late-{n}", n), wait_s=0)

        taking, waiting = Running(take), world.client()
        start.wait()
        client.close()
        lease = outcome(taking)
        assert lease is None or lease.state is LeaseState.LOST
        if n == 0:
            late = Running(
                lambda client=waiting: client.acquire(request("late", 9), wait_s=PATIENCE_S)
            )
            eventually(lambda: world.queued() == 1)
            waiting.close()
            assert outcome(late) is None
    eventually(lambda: [lock.group for lock in holder.locks(TABLE)] == ["holder"])
    assert holder.waiters(TABLE) == ()


def test_a_client_that_is_closed_while_it_connects_holds_nothing(world: World) -> None:
    """Who opens the session notices that its client was closed meanwhile, and ends it."""
    with pytest.raises(CoordinatorUnavailable, match="was closed: open"):
        world.closing_client().acquire(request("late", 1), wait_s=0)
    assert world.client().locks(TABLE) == ()


def outcome(running: Running) -> Lease | None:
    """Return the lease, or None if the client was closed before it had one."""
    with suppress(CoordinatorUnavailable):
        lease: Lease = running.result()
        return lease
    return None


def test_an_expired_session_is_lost_for_good(world: World) -> None:
    """After expiry check raises, another gets the lock with a higher token, nothing revives."""
    client, other = world.client(), world.client()
    lease = client.acquire(request("g", 1), wait_s=0)
    world.expire(client)
    with pytest.raises(LockLost, match="do not commit"):
        lease.check()
    later = other.acquire(request("h", 1), wait_s=PATIENCE_S)
    assert lease.token.older_than(later.token)
    fresh = client.acquire(request("i", 2), wait_s=PATIENCE_S)  # a new session of the same client
    assert fresh.state is LeaseState.HELD
    assert lease.state is LeaseState.LOST
    with pytest.raises(LockLost):
        lease.check()
    lease.release()  # harmless
    later.check()
    fresh.check()


def test_expiry_frees_who_waits(world: World) -> None:
    """A dead holder does not block: its locks end with its session."""
    holder = world.client()
    holder.acquire(request("g", 1), wait_s=0)
    waiter = Running(lambda: world.client().acquire(request("h", 1), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    world.expire(holder)
    assert waiter.result().state is LeaseState.HELD


def test_a_waiter_that_dies_leaves_the_queue(world: World) -> None:
    """Who expires while waiting is overtaken, and queues up again with its next session."""
    holder, dying = world.client(), world.client()
    lease = holder.acquire(request("g", 1), wait_s=0)
    first = Running(lambda: dying.acquire(request("h", 1), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    world.expire(dying)
    second = Running(lambda: world.client().acquire(request("i", 1), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 2)
    lease.release()
    eventually(lambda: first.done or second.done)
    early, late = (first, second) if first.done else (second, first)
    early.result().release()
    assert late.result().state is LeaseState.HELD


def test_release_twice_is_harmless(world: World) -> None:
    """Releasing again does nothing, even when another holds the segment by now."""
    client = world.client()
    lease = client.acquire(request("g", 1), wait_s=0)
    lease.release()
    later = world.client().acquire(request("h", 1), wait_s=0)
    lease.release()
    later.check()
    assert lease.state is LeaseState.LOST
    with pytest.raises(LockLost):
        lease.check()


# ---- news ----------------------------------------------------------------------------------------


def test_progress_is_seen_while_the_holder_lives(world: World) -> None:
    """What a holder reports is seen by group, the newest only, and goes with the lock."""
    watcher = world.client()
    lease = world.client().acquire(request("g", 1), wait_s=0)
    assert watcher.progress(TABLE) == {}
    lease.report({"rows": "10"})
    lease.report({"rows": "20", "of": "30"})
    assert watcher.progress(TABLE) == {"g": {"rows": "20", "of": "30"}}
    lease.release()
    assert watcher.progress(TABLE) == {}


def test_the_head_is_monotone(world: World) -> None:
    """An announcement that comes late does not take the head back."""
    client = world.client()
    client.announce(TABLE, 5)
    client.announce(TABLE, 3)
    assert client.wait_head(TABLE, beyond=-1, wait_s=PATIENCE_S) == 5
    assert client.wait_head(TABLE, beyond=5, wait_s=0.02) is None


def test_the_heads_of_many_tables_are_read_together(world: World) -> None:
    """By any client; a table of which nothing was announced has none."""
    client = world.client()
    for n in range(40):
        client.announce(f"{TABLE}-{n}", n)
    client.announce(f"{TABLE}-7", 5)
    every = [f"{TABLE}-{n}" for n in range(41)]
    assert client.heads(every) == {f"{TABLE}-{n}": n for n in range(40)}
    assert world.client().heads([f"{TABLE}-7", "never-seen"]) == {f"{TABLE}-7": 7}
    assert client.heads([]) == {}


@pytest.mark.parametrize("number", [multi_read.MultiRead.type, 999])
def test_heads_are_read_from_any_server(
    world: World, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By several requests if there are many, or one by one if the server knows no such request."""
    monkeypatch.setattr(multi_read, "TOGETHER", 3)
    monkeypatch.setattr(multi_read.MultiRead, "type", number)
    client = world.client()
    for n in range(8):
        client.announce(f"{TABLE}-{n}", n)
    every = [f"{TABLE}-{n}" for n in (8, 3, 0, 7, 9, 1, 2)]
    for _ in range(2):
        assert client.heads(every) == {f"{TABLE}-{n}": n for n in (3, 0, 7, 1, 2)}


def test_an_announcement_wakes_who_waits(world: World) -> None:
    """Waiting for the head ends with the announcement of an event beyond."""
    client = world.client()
    client.announce(TABLE, 1)
    waiter = Running(lambda: world.client().wait_head(TABLE, beyond=2, wait_s=PATIENCE_S))
    client.announce(TABLE, 2)
    client.announce(TABLE, 3)
    assert waiter.result() == 3


def test_announcements_of_many_tables_are_waited_for_together(world: World) -> None:
    """Those that differ from what was seen are told, once; a forgotten table has none."""
    client, other = world.client(), world.client()
    other.announce("a", 4)
    assert other.wait_head("a", beyond=3, wait_s=PATIENCE_S) == 4
    seen = dict(client.wait_heads(["a", "b"], seen={}, wait_s=PATIENCE_S))
    assert seen == {"a": 4, "b": -1}
    assert client.wait_heads(["a", "b"], seen=seen, wait_s=0.02) == {}
    waiter = Running(lambda: client.wait_heads(["a", "b"], seen=seen, wait_s=PATIENCE_S))
    other.announce("b", 0)
    assert waiter.result() == {"b": 0}
    for n in (5, 6):  # a watch fires once, and is set again
        other.announce("a", n)
        assert client.wait_heads(["a"], seen={"a": n - 1}, wait_s=PATIENCE_S) == {"a": n}
    other.forget("b")
    seen = {"a": 6, "b": 0}
    assert client.wait_heads(["a", "b"], seen=seen, wait_s=PATIENCE_S) == {"b": -1}


def test_an_event_that_no_other_follows_is_announced(world: World) -> None:
    """Although it might have been overtaken; its author knows it at once."""
    client = world.client()
    client.announce(TABLE, 5, lambda: False)
    client.announce(TABLE, 4, lambda: True)
    assert world.client().wait_head(TABLE, beyond=4, wait_s=PATIENCE_S) == 5
    client.announce(TABLE, 6, lambda: False)
    assert client.wait_head(TABLE, beyond=5, wait_s=PATIENCE_S) == 6


def test_committers_take_turns_in_the_order_in_which_they_came(world: World) -> None:
    """A second committer has its turn when the first has left the queue."""
    clients = world.client(), world.client()
    order: list[str] = []

    def second() -> None:
        with clients[1].commit_turn(TABLE, wait_s=PATIENCE_S):
            order.append("second")

    with clients[0].commit_turn(TABLE, wait_s=PATIENCE_S):
        waiter = Running(second)
        eventually(lambda: world.turns() == 2)
        order.append("first")
    waiter.result()
    assert order == ["first", "second"]
    eventually(lambda: world.turns() == 0)


def test_a_turn_ends_with_its_session(world: World) -> None:
    """A committer that died in its turn keeps nobody waiting."""
    dead, other = world.client(), world.client()
    with dead.commit_turn(TABLE, wait_s=0):
        waiter = Running(lambda: other.commit_turn(TABLE, wait_s=LIFE_S).__enter__())
        eventually(lambda: world.turns() == 2)
        world.expire(dead)
        waiter.result()


def test_a_committer_does_not_wait_for_its_turn_beyond_its_patience(world: World) -> None:
    """A turn that does not end is waited for no longer than asked."""
    with world.client().commit_turn(TABLE, wait_s=0), world.client().commit_turn(TABLE, wait_s=0.1):
        assert world.turns() == 2


def test_a_turn_never_raises(world: World) -> None:
    """Not even on a closed coordinator: the log decides."""
    client = world.client()
    client.close()
    with client.commit_turn(TABLE, wait_s=0):
        pass


def test_nothing_is_known_of_a_table_never_seen(world: World) -> None:
    """Asking about an unknown table is no error."""
    client = world.client()
    assert client.locks("never-seen") == ()
    assert client.progress("never-seen") == {}
    assert client.wait_head("never-seen", beyond=-1, wait_s=0) is None


def test_announcing_never_raises(world: World) -> None:
    """Not even on a closed coordinator."""
    client = world.client()
    client.close()
    client.announce(TABLE, 1)


# ---- tables that were dropped --------------------------------------------------------------------


def test_nothing_is_known_of_a_forgotten_table(world: World) -> None:
    """Locks, ids, queues, progress and the head are gone; leases are lost, other tables stay."""
    client, holder = world.client(), world.client()
    lease = holder.acquire(request("g", 1, new=2), wait_s=0)
    lease.report({"stage": "1"})
    world.client().acquire(request("h", 1, table="other"), wait_s=0)
    with client.commit_turn(TABLE, wait_s=0):
        client.announce(TABLE, 7)
    client.forget(TABLE)
    assert not world.knows()
    with pytest.raises(LockLost):
        lease.check()
    lease.release()
    client.forget(TABLE)
    assert not world.knows()
    assert len(client.locks("other")) == 1


def test_a_late_request_is_granted_and_can_be_forgotten(world: World) -> None:
    """Whoever waits when a table is forgotten gets the lock of a table that nobody knows."""
    client, waiting = world.client(), world.client()
    client.acquire(request("g", 1), wait_s=0)
    running = Running(lambda: waiting.acquire(request("h", 1), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    client.forget(TABLE)
    running.result().release()
    waiting.forget(TABLE)
    assert not world.knows()


def test_a_request_beside_a_forgetting_is_granted(world: World) -> None:
    """Nodes that vanish while it makes or reads them send it round again; it does not fail."""
    client, writer = world.client(), world.client()
    for n in range(40):
        forgetting = Running(lambda: client.forget(TABLE))
        writer.acquire(append(f"g{n}"), wait_s=PATIENCE_S).release()
        forgetting.result()
