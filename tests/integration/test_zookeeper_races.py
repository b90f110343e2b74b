"""Between a decision and its transaction somebody else acts: the transaction must notice.

Each test puts one rival exactly there, so nothing is left to chance.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.coordination.zookeeper import commits
from airflow_provider_segtable.coordination.zookeeper.nodes import children
from airflow_provider_segtable.core.errors import LockRevoked, LockTimeout
from airflow_provider_segtable.core.locks import LockRequest, Mode
from airflow_provider_segtable.core.time import DAY_US, Interval
from tests.contract.worlds import (
    PATIENCE_S,
    TABLE,
    Running,
    append,
    appending,
    eventually,
    request,
    time_chunk,
)
from tests.integration.eager_rival import Interposed
from tests.support.builders import CHUNK

pytestmark = pytest.mark.zookeeper

CHUNK_BEFORE = Interval(CHUNK.interval.start - DAY_US, CHUNK.interval.start)
_chroots = (f"/races-{n}" for n in count())
Clients = tuple[Interposed, Interposed]


@pytest.fixture
def clients(zookeeper: EmbeddedZooKeeper) -> Iterator[Clients]:
    """Yield two clients of one chroot, both warm."""
    chroot = next(_chroots)
    made = (Interposed(zookeeper.hosts, chroot), Interposed(zookeeper.hosts, chroot))
    for n, each in enumerate(made):
        each.acquire(append(f"warm-{n}"), wait_s=0).release()
    yield made
    for each in made:
        each.close()


def equal_append(group: str) -> LockRequest:
    return appending(group, priority=25)


@pytest.mark.parametrize("make", [equal_append, append], ids=["append", "exclusive"])
def test_no_append_slips_past_a_time_chunk_request(
    clients: Clients, make: Callable[[str], LockRequest]
) -> None:
    """An append decided before a time chunk was locked goes round again, and finds it."""
    writer, compactor = clients
    writer.before_send = lambda: compactor.acquire(time_chunk("major"), wait_s=0)
    with pytest.raises(LockTimeout, match="group major"):
        writer.acquire(make("late"), wait_s=0)
    assert [lock.group for lock in compactor.locks(TABLE)] == ["major"]


def test_an_append_that_was_first_keeps_a_time_chunk_waiting(clients: Clients) -> None:
    """The other way round: decided without the append, the time chunk request sees it after all."""
    writer, compactor = clients
    compactor.before_send = lambda: writer.acquire(appending("early"), wait_s=0)
    with pytest.raises(LockTimeout, match="group early"):
        compactor.acquire(time_chunk("major"), wait_s=0)
    assert [lock.group for lock in writer.locks(TABLE)] == ["early"]
    assert writer.waiters(TABLE) == ()


def test_an_append_that_overtakes_is_noticed(clients: Clients) -> None:
    """A time chunk request is granted while a higher append overtakes its place: one gives way."""
    writer, compactor = clients
    present = writer.acquire(appending("present"), wait_s=0)
    major = Running(lambda: compactor.acquire(time_chunk("major"), wait_s=PATIENCE_S))
    eventually(lambda: len(writer.waiters(TABLE)) == 1)

    def major_first() -> None:
        present.release()
        major.result()

    writer.before_send = major_first
    writer.acquire(appending("overtaking"), wait_s=0).make_irrevocable()
    with pytest.raises(LockRevoked, match="group overtaking"):
        major.result().make_irrevocable()


def test_publishing_first_beats_a_revocation(clients: Clients) -> None:
    """The rival had decided to revoke; the holder published just before: the rival waits."""
    holder, rival = clients
    lease = holder.acquire(time_chunk("low"), wait_s=0)
    rival.before_send = lease.make_irrevocable
    with pytest.raises(LockTimeout, match="group low"):
        rival.acquire(appending("high", priority=75), wait_s=0)
    lease.make_irrevocable()


def test_a_release_just_before_a_revocation_leaves_no_state(clients: Clients) -> None:
    """The lock in the way is gone when the rival wants to revoke it: it is granted, no more."""
    holder, rival = clients
    lease = holder.acquire(time_chunk("low"), wait_s=0)
    rival.before_send = lease.release
    rival.acquire(appending("high", priority=75), wait_s=0).check()
    assert [(lock.group, lock.revoked) for lock in rival.locks(TABLE)] == [("high", None)]
    assert children(rival._live(), rival._nodes(TABLE).states) == []


def test_two_revokers_of_one_lock_both_find_it(clients: Clients) -> None:
    """Each takes its own part; none of the two parts is forgotten."""
    one, other = clients
    low = one.acquire(request("low", 1, 2, 3), wait_s=0)
    one.before_send = lambda: other.acquire(replace(request("b", 2), priority=50), wait_s=0)
    one.acquire(replace(request("a", 1), priority=75), wait_s=0)
    (lock,) = [each for each in one.locks(TABLE) if each.revoked]
    assert {each.partition for each in lock.excludes.segments} == {3}
    with pytest.raises(LockRevoked, match="group b"):
        low.check()


def test_versions_of_two_that_decide_at_once_differ(clients: Clients) -> None:
    """Both read the same last version; the later one goes round again, above the first."""
    one, other = clients
    far = 10**17
    got: list[int | None] = []
    shared = time_chunk("b", mode=Mode.SHARED, above=far)
    one.before_send = lambda: got.append(other.acquire(shared, wait_s=0).version)
    got.append(one.acquire(replace(shared, group="a"), wait_s=0).version)
    assert got == [far + 1, far + 2]


@pytest.mark.parametrize("beside", [None, Mode.REPLACE], ids=str)
def test_appends_and_compactions_do_not_make_each_other_try_again(
    clients: Clients, beside: Mode | None
) -> None:
    """Whichever decides first, the other's transaction goes through as it is."""
    one, other = clients
    if beside:
        other.acquire(time_chunk("major", CHUNK_BEFORE, mode=beside), wait_s=0)
    one.before_send = lambda: other.acquire(request("minor", 1, new=1), wait_s=0)
    before = one.sends
    one.acquire(appending("append"), wait_s=0)
    assert one.sends == before + 1
    one.before_send = lambda: other.acquire(appending("append-2"), wait_s=0)
    one.acquire(request("minor-2", 500), wait_s=0)
    assert one.sends == before + 2


def test_an_overtaken_event_is_not_announced(clients: Clients) -> None:
    """The author of the later event announces that: one announcement serves many commits."""
    client, other = clients
    client.announce(TABLE, 7, lambda: True)
    eventually(lambda: all(each.name != commits.LINGERS for each in threading.enumerate()))
    client.announce(TABLE, 5)
    assert client.wait_head(TABLE, beyond=4, wait_s=PATIENCE_S) == 5
    assert other.wait_head(TABLE, beyond=5, wait_s=0) is None


def test_an_event_is_settled_while_its_author_asks_whether_it_was_overtaken(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its author reads the head only once the event is announced, or known to be overtaken."""
    monkeypatch.setattr(commits, "DRAINED_S", PATIENCE_S)
    client, (asked, answer) = clients[0], (threading.Event(), threading.Event())

    def overtaken() -> bool:
        asked.set()
        return not answer.wait(PATIENCE_S)

    client.announce(TABLE, 7, overtaken)
    assert asked.wait(PATIENCE_S)
    reading = Running(lambda: client.wait_head(TABLE, beyond=6, wait_s=0))
    reading.join(0.1)  # time to end too early
    answer.set()
    assert reading.result() == 7
