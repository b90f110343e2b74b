"""Time chunk locks, modes, revocation and publishing: the same for memory and a real ZooKeeper."""

from dataclasses import replace
from threading import Barrier

import pytest

from airflow_provider_segtable.core.errors import (
    InvalidInput,
    LockLost,
    LockRevoked,
    LockTimeout,
)
from airflow_provider_segtable.core.locks import MAX_YIELDS, Mode
from airflow_provider_segtable.core.time import DAY_US, Interval
from airflow_provider_segtable.ports.coordination import LeaseState
from tests.contract.worlds import (
    PATIENCE_S,
    TABLE,
    Running,
    World,
    append,
    appending,
    eventually,
    request,
    time_chunk,
)
from tests.support.builders import CHUNK

SPAN = CHUNK.interval
NEXT = Interval(SPAN.end, SPAN.end + DAY_US)
FAR_FUTURE = 10**17


# ---- granularities and modes ---------------------------------------------------------------------


def test_a_time_chunk_lock_is_seen_as_it_was_granted(world: World) -> None:
    """Others see its intervals, mode, version and who holds it."""
    lease = world.client().acquire(time_chunk("g", SPAN, NEXT, above=5), wait_s=0)
    (lock,) = world.client().locks(TABLE)
    assert (lock.intervals, lock.mode, lock.granularity) == (
        (SPAN, NEXT),
        Mode.EXCLUSIVE,
        "time_chunk",
    )
    assert lock.version == lease.version
    assert (lock.token, lease.allocated) == (lease.token, ())
    assert world.client().waiters(TABLE) == ()
    lease.check()


def test_overlapping_time_chunks_exclude_each_other(world: World) -> None:
    """Intervals that share an instant exclude; neighbours coexist."""
    client = world.client()
    client.acquire(time_chunk("g", SPAN), wait_s=0)
    across = Interval(SPAN.end - 1, NEXT.end)
    with pytest.raises(LockTimeout, match="is held by host-a"):
        client.acquire(time_chunk("h", across), wait_s=0)
    assert client.acquire(time_chunk("i", NEXT), wait_s=0).state is LeaseState.HELD


@pytest.mark.parametrize("mode", [Mode.EXCLUSIVE, Mode.REPLACE])
def test_time_chunk_and_segment_exclude_each_other(world: World, mode: Mode) -> None:
    """A running minor or semi-major compaction keeps a major one out, and the other way round."""
    client = world.client()
    minor = client.acquire(request("minor", 1, 2, new=1), wait_s=0)
    with pytest.raises(LockTimeout, match=r"segment .*_1 and 2 more"):
        client.acquire(time_chunk("major", mode=mode), wait_s=0)
    minor.release()
    client.acquire(time_chunk("major", mode=mode), wait_s=0)
    with pytest.raises(LockTimeout, match=r"^\d{4}-.*/.* is held by"):
        client.acquire(request("minor-2", 1), wait_s=0)


def test_shared_locks_coexist(world: World) -> None:
    """Readers share segments and intervals; an exclusive request waits for all of them."""
    client = world.client()
    client.acquire(replace(request("a", 1), mode=Mode.SHARED), wait_s=0)
    client.acquire(replace(request("b", 1), mode=Mode.SHARED), wait_s=0)
    client.acquire(time_chunk("c", mode=Mode.SHARED), wait_s=0)
    with pytest.raises(LockTimeout, match="2 more block it"):
        client.acquire(time_chunk("d"), wait_s=0)


def test_appends_go_on_beside_a_replace(world: World) -> None:
    """An enclosing REPLACE and appends of any priority coexist, whoever came first."""
    client = world.client()
    client.acquire(appending("before", priority=0), wait_s=0)
    replacing = client.acquire(time_chunk("major", mode=Mode.REPLACE, above=0), wait_s=0)
    after = client.acquire(appending("after", priority=0), wait_s=0)
    replacing.check()
    after.make_irrevocable()
    replacing.make_irrevocable()


def test_a_replace_that_does_not_enclose_waits_for_appends(world: World) -> None:
    """A finer REPLACE cannot carry a coarser append over, so they exclude each other."""
    client = world.client()
    half = Interval(SPAN.start, (SPAN.start + SPAN.end) // 2)
    lease = client.acquire(appending("append"), wait_s=0)
    with pytest.raises(LockTimeout):
        client.acquire(time_chunk("finer", half, mode=Mode.REPLACE), wait_s=0)
    lease.release()
    client.acquire(time_chunk("finer", half, mode=Mode.REPLACE), wait_s=0)
    with pytest.raises(LockTimeout):
        client.acquire(appending("late", priority=25), wait_s=0)


def test_an_append_waits_for_no_segment_lock(world: World) -> None:
    """Minor and semi-major compactions, held or waiting, never delay an append."""
    client = world.client()
    holder = client.acquire(request("holder", 1, 2, new=1), wait_s=0)
    waiter = Running(lambda: world.client().acquire(request("waiter", 2, new=1), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    assert client.acquire(appending("append", priority=0), wait_s=0).state is LeaseState.HELD
    assert not waiter.done
    holder.release()
    assert waiter.result().state is LeaseState.HELD


@pytest.mark.parametrize("priority", [0, 25])
def test_an_append_waits_for_an_exclusive_time_chunk(world: World, priority: int) -> None:
    """Of equal or lower priority it waits, and goes on when the chunk is free."""
    lease = world.client().acquire(time_chunk("major"), wait_s=0)
    late = Running(
        lambda: world.client().acquire(appending("a", priority=priority), wait_s=PATIENCE_S)
    )
    eventually(lambda: [each.group for each in world.client().waiters(TABLE)] == ["a"])
    lease.check()
    lease.release()
    assert late.result().state is LeaseState.HELD
    assert world.queued() == 0


def test_a_group_cannot_ask_for_something_else(world: World) -> None:
    """The same again is the same grant; something else under its name is refused, and says why."""
    client = world.client()
    first = client.acquire(time_chunk("g", above=0), wait_s=0)
    assert client.acquire(time_chunk("g", above=7), wait_s=0).token == first.token
    for other in (time_chunk("g", NEXT, above=0), request("g", 1), time_chunk("g")):
        with pytest.raises(InvalidInput, match="group g holds another lock already"):
            client.acquire(other, wait_s=0)
    assert client.waiters(TABLE) == ()


# ---- versions ------------------------------------------------------------------------------------


def test_versions_are_strictly_higher(world: World) -> None:
    """Above what the log has, above the coordinator's clock, above every one before."""
    client, versions = world.client(), []
    for n, above in enumerate((0, FAR_FUTURE, 5)):
        lease = client.acquire(time_chunk(f"g{n}", above=above), wait_s=0)
        assert lease.version is not None
        assert lease.version > above
        versions.append(lease.version)
        lease.release()
    assert versions[0] > 1_700_000_000_000_000  # the wall clock, in microseconds
    assert versions[1:] == [FAR_FUTURE + 1, FAR_FUTURE + 2]
    assert client.acquire(time_chunk("none"), wait_s=0).version is None


def test_a_wipe_does_not_take_versions_back_below_the_log(world: World) -> None:
    """After a wipe versions restart above what the caller takes from the log."""
    before = world.client().acquire(time_chunk("g", above=FAR_FUTURE), wait_s=0)
    world.wipe()
    after = world.client().acquire(time_chunk("h", above=FAR_FUTURE + 1), wait_s=0)
    assert after.version == FAR_FUTURE + 2
    with pytest.raises(LockLost):
        before.make_irrevocable()


# ---- revocation and publishing -------------------------------------------------------------------


def test_a_higher_priority_revokes(world: World) -> None:
    """An append of batch priority takes the chunk from a major compaction, which learns who."""
    major = world.client().acquire(time_chunk("major"), wait_s=0)
    append_lease = world.client().acquire(appending("batch"), wait_s=0)
    assert append_lease.state is LeaseState.HELD
    (revoked,) = [lock for lock in world.client().locks(TABLE) if lock.revoked]
    assert revoked.group == "major"
    for forbidden in (major.check, major.make_irrevocable):
        with pytest.raises(LockRevoked, match=r"group batch, priority 50 over 25"):
            forbidden()
    assert major.state is LeaseState.LOST
    major.release()
    assert [lock.group for lock in world.client().locks(TABLE)] == ["batch"]


def test_a_revoked_lock_stays_revoked_until_let_go(world: World) -> None:
    """Also when the revoker is gone, with its session, and when its own group asks again."""
    holder, rival = world.client(), world.client()
    major = holder.acquire(time_chunk("major"), wait_s=0)
    rival.acquire(appending("batch"), wait_s=0)
    rival.close()
    eventually(lambda: [lock.group for lock in holder.locks(TABLE)] == ["major"])
    again = holder.acquire(time_chunk("major"), wait_s=0)
    assert again.state is LeaseState.LOST  # at once, not at its first check
    for lease in (major, again):
        with pytest.raises(LockRevoked):
            lease.make_irrevocable()
    major.release()
    holder.acquire(time_chunk("major"), wait_s=0).make_irrevocable()


def test_only_what_is_contested_is_yielded(world: World) -> None:
    """From its other segments a revoked lock keeps others out until it lets go."""
    client = world.client()
    low = client.acquire(request("low", 1, 2, 3), wait_s=0)
    high = client.acquire(replace(request("high", 2), priority=75), wait_s=0)
    with pytest.raises(LockTimeout, match="for plan-of-low"):
        client.acquire(request("third", 3), wait_s=0)
    high.release()
    assert client.acquire(request("second", 2), wait_s=0).state is LeaseState.HELD
    client.acquire(replace(request("fourth", 1), priority=75), wait_s=0)  # a second revocation
    with pytest.raises(LockRevoked, match="group high"):
        low.check()
    low.release()
    assert client.acquire(request("fifth", 3), wait_s=0).state is LeaseState.HELD


def test_who_publishes_is_not_revoked(world: World) -> None:
    """A publishing lock is waited for, whatever the priority; publishing again is a check."""
    major = world.client().acquire(time_chunk("major"), wait_s=0)
    major.make_irrevocable()
    with pytest.raises(LockTimeout, match="major"):
        world.client().acquire(appending("batch", priority=75), wait_s=0)
    assert [lock.irrevocable for lock in world.client().locks(TABLE)] == [True]
    major.make_irrevocable()
    major.release()
    assert world.client().acquire(appending("next"), wait_s=0).state is LeaseState.HELD
    with pytest.raises(LockLost):
        major.make_irrevocable()


@pytest.mark.parametrize("hard_first", [True, False], ids=["hard first", "soft first"])
def test_all_or_none_are_revoked(world: World, *, hard_first: bool) -> None:
    """If one lock in the way cannot be revoked, none is, and the request goes on when it ends."""
    client = world.client()
    soft, hard = (client.acquire(request(group, n), wait_s=0) for n, group in enumerate("ab"))
    if hard_first:
        soft, hard = hard, soft
    hard.make_irrevocable()
    high = Running(
        lambda: world.client().acquire(
            replace(request("high", 0, 1), priority=75), wait_s=PATIENCE_S
        )
    )
    eventually(lambda: world.queued() == 1)
    soft.check()
    hard.release()
    high.result().check()
    with pytest.raises(LockRevoked):
        soft.check()


def test_who_gave_way_often_does_so_no_more(world: World) -> None:
    """A plan revoked ``MAX_YIELDS`` times is waited for."""
    client = world.client()
    major = client.acquire(time_chunk("major", yields=MAX_YIELDS), wait_s=0)
    with pytest.raises(LockTimeout):
        client.acquire(appending("batch", priority=75), wait_s=0)
    major.make_irrevocable()


def test_publish_and_revoke_never_both_win(world: World) -> None:
    """Holder and rival at one moment: exactly one of publishing and revoking takes place."""
    holder, rival, start = world.client(), world.client(), Barrier(2)
    outcomes: list[tuple[bool, bool]] = []
    for n in range(15):
        low = holder.acquire(time_chunk(f"low-{n}"), wait_s=PATIENCE_S)

        def publish(low: object = low) -> bool:
            start.wait()
            try:
                low.make_irrevocable()  # type: ignore[attr-defined]
            except LockRevoked:
                return False
            return True

        def revoke(n: int = n) -> bool:
            start.wait()
            try:
                rival.acquire(time_chunk(f"high-{n}", priority=75), wait_s=0).release()
            except LockTimeout:
                return False
            return True

        published, revoked = Running(publish), Running(revoke)
        outcomes.append((published.result(), revoked.result()))
        low.release()
    assert all(published != revoked for published, revoked in outcomes)


def test_many_rivals_of_both_granularities_never_meet(world: World) -> None:
    """Appends and exclusive time chunks at once: nobody publishes beside a rival."""
    inside: set[str] = set()
    met: list[frozenset[str]] = []
    done: list[str] = []

    def work(name: str, turns: int) -> None:
        client = world.client()
        for n in range(turns):
            group = f"{name}-{n}"
            ask = time_chunk(group, yields=3) if name < "c" else appending(group, priority=25)
            lease = client.acquire(ask, wait_s=PATIENCE_S)
            lease.make_irrevocable()
            inside.add(group)
            met.append(frozenset(inside))
            inside.discard(group)
            lease.release()
            done.append(group)

    for each in [Running(lambda name=name: work(name, 6)) for name in "abcde"]:
        each.result()
    assert len(done) == 30
    assert not [m for m in met if len(m) > 1 and any(group < "c" for group in m)]


def test_a_waiter_wakes_when_what_it_wants_is_yielded(world: World) -> None:
    """A lock yields the contested part and lives on: who waits for that part is granted it."""
    client = world.client()
    low = client.acquire(request("low", 1, 2), wait_s=0)
    waiter = Running(lambda: world.client().acquire(request("waiter", 1), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    client.acquire(replace(request("high", 1), priority=75), wait_s=0).release()
    assert waiter.result().state is LeaseState.HELD
    with pytest.raises(LockTimeout):
        client.acquire(request("other", 2), wait_s=0)  # the rest is still low's
    with pytest.raises(LockRevoked):
        low.check()


# ---- order ---------------------------------------------------------------------------------------


def test_a_time_chunk_request_is_not_starved_by_appends(world: World) -> None:
    """Appends of a higher priority overtake it ``MAX_YIELDS`` times; then they wait for it."""
    client = world.client()
    present = client.acquire(appending("append"), wait_s=0)
    major = Running(lambda: world.client().acquire(time_chunk("major"), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    for n in range(100_000):
        try:
            following = client.acquire(appending(f"append-{n}"), wait_s=0)
        except LockTimeout:
            break
        present.release()
        present = following
    assert MAX_YIELDS <= n < 99_999
    assert [each.group for each in client.waiters(TABLE)] == ["major"]
    present.release()
    lease = major.result()
    with pytest.raises(LockTimeout):  # nor is it revoked as soon as it is granted
        client.acquire(appending("too-late"), wait_s=0)
    lease.make_irrevocable()


def test_appends_queue_behind_a_time_chunk_of_their_priority(world: World) -> None:
    """At equal priority an append that comes later waits for the time chunk request before it."""
    early = world.client().acquire(appending("early", priority=25), wait_s=0)
    major = Running(lambda: world.client().acquire(time_chunk("major"), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    late = Running(
        lambda: world.client().acquire(appending("late", priority=25), wait_s=PATIENCE_S)
    )
    eventually(lambda: world.queued() == 2)
    assert [each.group for each in world.client().waiters(TABLE)] == ["major", "late"]
    early.release()
    lease = major.result()
    assert not late.done
    lease.release()
    assert late.result().state is LeaseState.HELD


def test_a_higher_priority_does_not_wait_behind_a_lower_place(world: World) -> None:
    """It overtakes who only waits, and whoever waits is shown in the order of service."""
    holder = world.client().acquire(request("holder", 1), wait_s=0)
    holder.make_irrevocable()
    low = Running(lambda: world.client().acquire(request("low", 1, 2), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    other = world.client().acquire(replace(request("other", 2), priority=50), wait_s=0)
    high = Running(
        lambda: world.client().acquire(replace(request("high", 1), priority=50), wait_s=PATIENCE_S)
    )
    eventually(lambda: world.queued() == 2)
    assert [each.group for each in world.client().waiters(TABLE)] == ["high", "low"]
    holder.release()
    high.result().release()
    other.release()
    low.result().check()


# ---- the operator, sessions ----------------------------------------------------------------------


def test_an_operator_breaks_a_lock(world: World) -> None:
    """The stuck holder's lease is lost, who waits goes on; an unknown group is no error."""
    stuck, client = world.client().acquire(request("stuck", 1), wait_s=0), world.client()
    stuck.make_irrevocable()
    waiter = Running(lambda: world.client().acquire(request("waiter", 1), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    assert client.break_lock(TABLE, "stuck")
    assert waiter.result().state is LeaseState.HELD
    with pytest.raises(LockLost):
        stuck.check()
    with pytest.raises(LockLost):
        stuck.make_irrevocable()
    stuck.release()
    waiter.result().check()
    assert not client.break_lock(TABLE, "stuck")
    assert not client.break_lock("never-seen", "stuck")
    assert client.waiters("never-seen") == ()


def test_expiry_while_publishing_frees_the_chunk(world: World) -> None:
    """A holder that dies in its publishing section does not block for ever."""
    holder = world.client()
    lease = holder.acquire(time_chunk("g"), wait_s=0)
    lease.make_irrevocable()
    world.expire(holder)
    got = world.client().acquire(appending("a", priority=0), wait_s=PATIENCE_S)
    assert got.state is LeaseState.HELD
    with pytest.raises(LockLost):
        lease.make_irrevocable()


def test_who_expires_while_waiting_for_a_time_chunk_waits_on(world: World) -> None:
    """A waiting time chunk request takes a new place with its next session, and is granted."""
    holder, dying = world.client(), world.client()
    lease = holder.acquire(append("a"), wait_s=0)
    waiting = Running(lambda: dying.acquire(time_chunk("g", above=0), wait_s=PATIENCE_S))
    eventually(lambda: world.queued() == 1)
    world.expire(dying)
    lease.release()
    assert waiting.result().version


def test_nothing_stays_behind(world: World) -> None:
    """After revocations, time-outs and releases there is no lock, place or state left."""
    client = world.client()
    low = client.acquire(time_chunk("low"), wait_s=0)
    high = client.acquire(time_chunk("high", priority=50), wait_s=0)
    with pytest.raises(LockTimeout):
        client.acquire(time_chunk("late"), wait_s=0.02)
    high.make_irrevocable()
    for lease in (low, high):
        lease.release()
    assert (client.locks(TABLE), client.waiters(TABLE), world.queued()) == ((), (), 0)
    assert world.states() == 0


def test_states_of_the_dead_are_cleaned_away(world: World) -> None:
    """A revoked holder that dies leaves nothing that the next request would not remove."""
    holder, client = world.client(), world.client()
    holder.acquire(time_chunk("low"), wait_s=0)
    client.acquire(time_chunk("high", priority=50), wait_s=0).release()
    holder.close()
    eventually(lambda: client.locks(TABLE) == ())
    client.acquire(time_chunk("next"), wait_s=PATIENCE_S)
    eventually(lambda: world.states() == 0)
