"""ZooKeeper dies, forgets, loses replies; holders stop, fork and die: what leases say then."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.errors import (
    CoordinatorUnavailable,
    LimitReached,
    LockLost,
    LockRevoked,
    LockTimeout,
)
from airflow_provider_segtable.core.locks import LockRequest
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.ports.coordination import LeaseState
from tests.contract.worlds import (
    LIFE_S,
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
from tests.integration.lossy_proxy import LossyProxy
from tests.support.builders import BASE, CHUNK

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

SHORT_S = 5.0  # a session that ends soon, but not while its holder is only slow
_chroots = (f"/faults-{n}" for n in count())


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """Yield a server that the test may kill."""
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        yield server


def client_of(
    hosts: str, chroot: str = "/segtable", *, patience_s: float = PATIENCE_S
) -> Interposed:
    """Return a connected client; ``patience_s`` is how long it waits to be connected again."""
    made = Interposed(hosts, chroot, session_timeout_s=LIFE_S, connect_timeout_s=PATIENCE_S)
    made.locks(TABLE)
    made._connect_timeout_s = patience_s
    return made


# ---- the server ----------------------------------------------------------------------------------


def test_a_lease_survives_a_killed_and_restarted_server(mortal: EmbeddedZooKeeper) -> None:
    """While ZooKeeper is dead the lease is doubtful; back again, it is the same lease."""
    client = client_of(mortal.hosts)
    lease = client.acquire(request("g", 1), wait_s=0)
    mortal.kill()
    eventually(lambda: lease.state is LeaseState.DOUBTFUL)
    with pytest.raises(LockLost, match="doubtful"):
        lease.check()
    mortal.start()
    eventually(lambda: lease.state is LeaseState.HELD)
    lease.check()
    assert client.locks(TABLE)[0].token == lease.token
    client.close()


def test_a_waiter_survives_a_killed_and_restarted_server(mortal: EmbeddedZooKeeper) -> None:
    """Who waits goes on waiting through the outage, and gets the lock after it."""
    holder, other = client_of(mortal.hosts), client_of(mortal.hosts)
    lease = holder.acquire(request("g", 1), wait_s=0)
    waiter = Running(lambda: other.acquire(request("h", 1), wait_s=PATIENCE_S))
    eventually(lambda: len(holder.waiters(TABLE)) == 1)
    mortal.kill()
    eventually(lambda: lease.state is LeaseState.DOUBTFUL)
    mortal.start()
    eventually(lambda: lease.state is LeaseState.HELD)
    lease.release()
    assert waiter.result().token.number > lease.token.number
    holder.close()
    other.close()


def test_an_outage_is_reported_with_address_and_way_out(mortal: EmbeddedZooKeeper) -> None:
    """A client whose server does not come back says so, and works when it does."""
    client = client_of(mortal.hosts, patience_s=0.5)
    client.acquire(append("g"), wait_s=0)
    mortal.kill()
    with pytest.raises(CoordinatorUnavailable, match=f"{mortal.hosts}.*zookeeper start"):
        client.acquire(append("h"), wait_s=0)
    client.announce(TABLE, 1)  # never raises
    mortal.start()
    eventually(lambda: client._link and client._link.connected)
    assert client.acquire(append("i"), wait_s=0).allocated[0].partition == 1
    client.close()


def test_a_wiped_server_is_a_new_epoch(mortal: EmbeddedZooKeeper) -> None:
    """A wiped ZooKeeper refuses old clients for ever; ours notices and begins anew."""
    client = client_of(mortal.hosts, patience_s=1.0)
    lease = client.acquire(append("g", new=3), wait_s=0)
    mortal.kill()
    shutil.rmtree(mortal.data_dir / "data")
    mortal.start()
    later = client.acquire(append("h", at_least=3), wait_s=0)
    assert [each.partition for each in later.allocated] == [3]
    assert later.token.epoch != lease.token.epoch
    assert lease.state is LeaseState.LOST
    with pytest.raises(LockLost):
        lease.check()
    client.close()


def test_a_wipe_frees_a_time_chunk_and_its_holder_knows(mortal: EmbeddedZooKeeper) -> None:
    """Wiped while a major compaction publishes: appends go on, and it cannot commit any more."""
    client = client_of(mortal.hosts, patience_s=1.0)
    lease = client.acquire(time_chunk("major", above=10**17), wait_s=0)
    lease.make_irrevocable()
    mortal.kill()
    shutil.rmtree(mortal.data_dir / "data")
    mortal.start()
    following = client.acquire(appending("a", priority=0), wait_s=0)
    following.make_irrevocable()
    with pytest.raises(LockLost):
        lease.make_irrevocable()
    following.release()
    again = client.acquire(time_chunk("again", above=10**17 + 1, priority=75), wait_s=PATIENCE_S)
    assert again.version == 10**17 + 2
    client.close()


# ---- the wire ------------------------------------------------------------------------------------


@contextmanager
def lossy(
    zookeeper: EmbeddedZooKeeper, patience_s: float = PATIENCE_S
) -> Iterator[tuple[Interposed, LossyProxy, Interposed]]:
    """Yield a client by way of a proxy that loses messages, the proxy, and a client beside it."""
    chroot = next(_chroots)
    beside = client_of(zookeeper.hosts, chroot)
    with LossyProxy(int(zookeeper.hosts.rpartition(":")[2])) as proxy:
        client = client_of(proxy.hosts, chroot, patience_s=patience_s)
        yield client, proxy, beside
        client.close()
    beside.close()


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("what", [append("g"), request("g", 1, new=1)], ids=["append", "compact"])
def test_a_lost_transaction_is_granted_once(
    zookeeper: EmbeddedZooKeeper, lost: str, what: LockRequest
) -> None:
    """Whether the grant or only its reply was lost: one lock, one allocation, no gap."""
    with lossy(zookeeper) as (client, proxy, watcher):
        client.acquire(append("warm", new=1), wait_s=0).release()
        proxy.lose(lost)
        lease = client.acquire(what, wait_s=PATIENCE_S)
        lease.check()
        assert proxy.losses == 1
        (lock,) = watcher.locks(TABLE)
        assert (lock.group, lock.token, lock.allocated) == ("g", lease.token, lease.allocated)
        after = client.acquire(append("next"), wait_s=0)
        expected = 2 if what.allocate[0].generation == "first" else 1
        assert after.allocated[0].partition == expected


def test_who_gives_up_leaves_no_lock_behind(zookeeper: EmbeddedZooKeeper) -> None:
    """The reply is lost, the connection stays away, the caller gave up: the lock goes after all."""
    with lossy(zookeeper, 0.5) as (client, proxy, watcher):
        client.acquire(append("warm"), wait_s=0).release()
        proxy.lose("reply", stay_shut=True)
        with pytest.raises(CoordinatorUnavailable):
            client.acquire(request("g", 1, new=1), wait_s=PATIENCE_S)
        assert [lock.group for lock in watcher.locks(TABLE)] == ["g"]
        proxy.open = True
        eventually(lambda: watcher.locks(TABLE) == ())


def test_a_release_during_an_outage_happens_after_it(zookeeper: EmbeddedZooKeeper) -> None:
    """Releasing while disconnected frees the lock at the reconnection, not at expiry."""
    with lossy(zookeeper, 0.5) as (client, proxy, watcher):
        lease = client.acquire(request("g", 1), wait_s=0)
        proxy.lose("request", stay_shut=True)
        lease.report({"rows": "1"})
        eventually(lambda: lease.state is LeaseState.DOUBTFUL)
        lease.release()
        assert lease.state is LeaseState.LOST
        assert len(watcher.locks(TABLE)) == 1
        proxy.open = True
        eventually(lambda: watcher.locks(TABLE) == ())


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("at", ["queue", "grant"])
def test_a_lost_time_chunk_request_is_granted_once(
    zookeeper: EmbeddedZooKeeper, lost: str, at: str
) -> None:
    """Its place or its grant went astray: one lock, one version, and no place left behind."""
    chroot = next(_chroots)
    watcher = client_of(zookeeper.hosts, chroot)
    low = watcher.acquire(append("low"), wait_s=0)
    with LossyProxy(int(zookeeper.hosts.rpartition(":")[2])) as proxy:
        client = client_of(proxy.hosts, chroot)
        client.acquire(append("warm"), wait_s=0).release()
        asked = time_chunk("g", above=0, priority=75 if at == "grant" else 25)
        if at == "grant":
            client.before_send = lambda: proxy.lose(lost)
        else:
            proxy.lose(lost)
            low.release()
        lease = client.acquire(asked, wait_s=PATIENCE_S)
        lease.check()
        assert proxy.losses == 1
        (lock,) = [each for each in watcher.locks(TABLE) if each.group == "g"]
        assert (lock.token, lock.version) == (lease.token, lease.version)
        eventually(lambda: watcher.waiters(TABLE) == ())
        client.close()
    if at == "grant":
        with pytest.raises(LockRevoked, match="group g"):
            low.make_irrevocable()
    watcher.close()


@pytest.mark.parametrize("lost", ["request", "reply"])
def test_a_lost_publish_is_doubtful_until_asked_again(
    zookeeper: EmbeddedZooKeeper, lost: str
) -> None:
    """Not knowing whether it may commit, the holder must not; asked again, it may."""
    with lossy(zookeeper) as (client, proxy, rival):
        lease = client.acquire(request("g", 1), wait_s=0)
        proxy.lose(lost, stay_shut=True)  # or the answer might come after a quick reconnection
        with pytest.raises(LockLost, match="doubtful"):
            lease.make_irrevocable()
        proxy.open = True
        eventually(lambda: lease.state is LeaseState.HELD)
        lease.make_irrevocable()
        with pytest.raises(LockTimeout):
            rival.acquire(replace(request("h", 1), priority=75), wait_s=0)


def test_a_publish_that_nobody_confirmed_is_refused(zookeeper: EmbeddedZooKeeper) -> None:
    """Interrupted and connected again at once: the lock is there, but others may revoke it."""
    client = client_of(zookeeper.hosts, next(_chroots))
    lease = client.acquire(request("g", 1), wait_s=0)
    claim = lease._claim_state
    lease._claim_state = lambda: False  # type: ignore[method-assign]  # the request was lost
    with pytest.raises(LockLost, match="doubtful"):
        lease.make_irrevocable()
    lease._claim_state = claim  # type: ignore[method-assign]
    lease.make_irrevocable()
    client.close()


def test_a_revocation_during_an_outage_is_found_after_it(zookeeper: EmbeddedZooKeeper) -> None:
    """Cut off and back, the holder learns that its lock was taken meanwhile."""
    with lossy(zookeeper, 0.5) as (client, proxy, rival):
        lease = client.acquire(time_chunk("low"), wait_s=0)
        proxy.lose("request", stay_shut=True)
        with pytest.raises(LockLost, match="doubtful"):
            lease.make_irrevocable()
        rival.acquire(replace(append("high"), priority=75), wait_s=0)
        with pytest.raises(LockLost, match="doubtful"):
            lease.check()
        proxy.open = True
        eventually(lambda: lease.state is LeaseState.LOST)
        with pytest.raises(LockRevoked, match="group high"):
            lease.make_irrevocable()


def test_a_request_too_large_is_refused_before_it_is_sent(zookeeper: EmbeddedZooKeeper) -> None:
    """Over ZooKeeper's 1 MiB we say so; sent, it would cut the connection without a reason."""
    client = client_of(zookeeper.hosts, next(_chroots))
    chunks = [ChunkKey(CHUNK.interval, BASE + n) for n in range(7)]
    every_other = frozenset(
        chunk.segment(partition) for chunk in chunks for partition in range(1, 60_000, 2)
    )
    large = LockRequest(table=TABLE, group="g", purpose="p", holder="h", segments=every_other)
    with pytest.raises(LimitReached, match=r"210000 segments.*split the plan"):
        client.acquire(large, wait_s=0)
    client.acquire(request("g", 1), wait_s=0).check()
    client.close()


# ---- the holder ----------------------------------------------------------------------------------

HOLDER = f"""
import sys
from airflow_provider_segtable.coordination.zookeeper.zookeeper_coordinator import (
    ZooKeeperCoordinator,
)
from airflow_provider_segtable.core.errors import LockLost
from tests.contract.worlds import request
client = ZooKeeperCoordinator(sys.argv[1], sys.argv[2], session_timeout_s={SHORT_S})
lease = client.acquire(request("g", 1), wait_s=0)
print(lease.token.number, flush=True)
sys.stdin.readline()
try:
    lease.check()
    print("held", flush=True)
except LockLost as error:
    print(error, flush=True)
"""


def holder_of(hosts: str, chroot: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, hosts, chroot],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_holder_that_stood_still_finds_its_lock_lost(zookeeper: EmbeddedZooKeeper) -> None:
    """Stopped past its session, then resumed: check raises at once; the rival's token is higher."""
    chroot = next(_chroots)
    rival = client_of(zookeeper.hosts, chroot)
    with holder_of(zookeeper.hosts, chroot) as holder:
        assert holder.stdin
        assert holder.stdout
        token = int(holder.stdout.readline())
        with pytest.raises(LockTimeout):
            rival.acquire(request("h", 1), wait_s=0)
        holder.send_signal(signal.SIGSTOP)
        lease = rival.acquire(request("h", 1), wait_s=PATIENCE_S)
        assert lease.token.number > token
        holder.send_signal(signal.SIGCONT)
        said, _ = holder.communicate("go\n", timeout=PATIENCE_S)
        assert "do not commit" in said
    lease.check()
    rival.close()


def test_a_killed_holder_is_replaced(zookeeper: EmbeddedZooKeeper) -> None:
    """Kill -9 of a holder frees its lock after the session timeout, without anybody's help."""
    chroot = next(_chroots)
    rival = client_of(zookeeper.hosts, chroot)
    with holder_of(zookeeper.hosts, chroot) as holder:
        assert holder.stdout
        token = int(holder.stdout.readline())
        holder.kill()
    assert rival.acquire(request("h", 1), wait_s=PATIENCE_S).token.number > token
    rival.close()


def test_a_forked_child_has_a_session_of_its_own(zookeeper: EmbeddedZooKeeper) -> None:
    """In the child the parent's lease is lost and new locks are its own; the parent keeps its."""
    client = client_of(zookeeper.hosts, next(_chroots))
    lease = client.acquire(request("g", 1), wait_s=0)
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # a child that hangs must not outlive the test run
        verdict = 1
        try:
            own = client.acquire(request("h", 2), wait_s=PATIENCE_S)
            own.check()
            verdict = 0 if lease.state is LeaseState.LOST else 2
            client.close()
        finally:
            os._exit(verdict)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    lease.check()
    assert [lock.group for lock in client.locks(TABLE)] == ["g"]
    client.close()
