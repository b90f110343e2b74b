"""The lease of a grant in ZooKeeper: an ephemeral node that lives as long as its session.

1. HELD: connected, the present session made the node, and the node was seen after the last
   reconnection. DOUBTFUL: disconnected. LOST for good: another session, no node, a forked child,
   revoked, or released.
2. ``state`` returns the local view and asks the server at most once after a reconnection.
   ``check`` always asks, so it also notices a session that ended while this process was paused.
3. ``publish`` creates the lock's state in a transaction that checks the lock; a rival that revokes
   creates the same node. After a lost reply the winner is unknown and the lease doubtful. If
   ``publish`` then finds its own state, it counts as done.
4. ``release`` deletes no state if the last check found none, which costs the server a transaction.
   If a rival revoked the lock since, the next request that contests deletes the state (``view``).
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from airflow_provider_segtable.coordination.waiting import revoked_error
from airflow_provider_segtable.coordination.zookeeper.connection.link import Interrupted, Link
from airflow_provider_segtable.coordination.zookeeper.records import PUBLISHING, with_state
from airflow_provider_segtable.core.errors import InvalidInput, LockLost
from airflow_provider_segtable.core.locks import FencingToken, Lock
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.claims import LeaseState

MAX_PROGRESS_BYTES = 65_536


class ZooKeeperLease:
    """Lease of locks that were granted together.

    Args:
        link: the link of the request.
        session: the session that owns the lock node.
        lock: the granted lock.
        belongings: paths of the lock node, its state, and its progress.
        generation: the link's generation in which the node was seen.
    """

    def __init__(
        self,
        link: Link,
        session: int,
        lock: Lock,
        belongings: tuple[str, str, str],
        *,
        generation: int,
    ) -> None:
        """Wrap a grant."""
        self.link = link
        self.path, self.state_path, self._progress_path = belongings
        self._session = session
        self._lock = lock
        self._verified = generation
        self._why_lost = "it was revoked" if lock.revoked else ""
        self._released = self._publishing = False
        self._reported = self._stateless = False

    @property
    def token(self) -> FencingToken:
        """Return the fencing token: the transaction that made the node."""
        return self._lock.token

    @property
    def allocated(self) -> tuple[SegmentId, ...]:
        """Return the new segment ids, in the order of the request's allocations."""
        return self._lock.allocated

    @property
    def granted_at(self) -> Instant:
        """Return the server's wall clock at the grant."""
        return self._lock.since

    @property
    def version(self) -> Instant | None:
        """Return the new version, if one was requested."""
        return self._lock.version

    @property
    def state(self) -> LeaseState:
        """Return the known state of the lease."""
        known = self._known()
        if known is LeaseState.HELD and self._verified != self.link.generation:
            return self._ask()
        return known

    @property
    def undisturbed(self) -> bool:
        """Return whether the lease is held as far as known, without an interruption since."""
        return self._known() is LeaseState.HELD and self._verified == self.link.generation

    def check(self) -> None:
        """Ask the server; raise ``LockLost`` unless this lease still holds the lock."""
        known = self._ask()
        if known is not LeaseState.HELD:
            self._refuse(known)

    def publish(self) -> None:
        """Check the lock, and make it irrevocable from now on."""
        if not self._publishing and self._claim_state():
            self._publishing = True  # the transaction checked the lock
            return
        self.check()
        if not (self._publishing or self._lock.publishing):
            self._refuse(LeaseState.DOUBTFUL)  # interrupted: it may still take effect

    def _claim_state(self) -> bool:
        """Create the state; return False if that failed or its outcome is unknown."""
        if (known := self._known()) is not LeaseState.HELD:
            self._refuse(known)
        self._stateless = False
        multi = self.link.transaction()
        multi.check(self.path, 0)  # under a later session it would outlive the lock
        multi.create(self.state_path, PUBLISHING, ephemeral=True)
        try:
            outcome = self.link.call(multi.commit_async)
        except (Interrupted, KazooException):
            return False  # unknown: the next check finds out, or is doubtful
        return not any(isinstance(each, Exception) for each in outcome)

    def _refuse(self, known: LeaseState) -> NoReturn:
        if self._lock.revoked:
            raise revoked_error(self._lock)
        why = f"lost ({self._why_lost})"
        if known is LeaseState.DOUBTFUL:
            why = "doubtful (the connection to ZooKeeper is interrupted)"
        raise LockLost(
            f"the lock of {self._lock.group}, taken for {self._lock.purpose}, is {why}: do not "
            "commit; run the same work again, which is never committed twice"
        )

    def report(self, progress: Mapping[str, str]) -> None:
        """Publish progress beside the lock, best effort; it ends with the session."""
        record = {"group": self._lock.group, "progress": dict(progress)}
        data = json.dumps(record).encode()
        if len(data) > MAX_PROGRESS_BYTES:
            raise InvalidInput(
                f"progress report has {len(data)} bytes, more than {MAX_PROGRESS_BYTES}: shorten it"
            )
        client = self.link.client
        with suppress(Interrupted, KazooException):
            if self._known() is not LeaseState.HELD:
                return
            self._reported = True
            creation = self.link.transaction()
            creation.check(self.path, 0)  # under a later session it would outlive the lock
            creation.create(self._progress_path, data, ephemeral=True)
            outcome = self.link.call(creation.commit_async)
            if any(isinstance(each, NodeExistsError) for each in outcome):
                self.link.call(client.set_async, self._progress_path, data)

    def release(self) -> None:
        """Release the locks; no error if they have ended already."""
        if not self._released and self.link.session == self._session:
            reported = (self._progress_path,) if self._reported else ()
            state = () if self._stateless else (self.state_path,)
            self.link.delete((self.path, *state, *reported))
        self._released = True
        self._why_lost = self._why_lost or "it was released"

    def _read_state(self, call: Any) -> None:
        try:
            self._lock = with_state(self._lock, self.link.wait(call)[0])
        except NoNodeError:
            self._stateless = True
        else:
            self._stateless = False

    def _known(self) -> LeaseState:
        session = self.link.session
        if not self._why_lost and session != self._session:
            self._why_lost = "its session ended"
        if self._why_lost:
            return LeaseState.LOST
        return LeaseState.HELD if self.link.connected else LeaseState.DOUBTFUL

    def _ask(self) -> LeaseState:
        if (known := self._known()) is not LeaseState.HELD:
            return known
        generation, client = self.link.generation, self.link.client
        try:
            self.link.begin(client.sync_async, self.path)  # a follower may lag behind
            lock = self.link.begin(client.exists_async, self.path)
            state = self.link.begin(client.get_async, self.state_path)
            stat = self.link.wait(lock)
            self._read_state(state)
        except (Interrupted, KazooException):
            known = self._known()
            return known if known is LeaseState.LOST else LeaseState.DOUBTFUL
        if self._lock.revoked:
            self._why_lost = self._why_lost or "it was revoked"
        if stat is None or stat.ephemeralOwner != self._session or stat.czxid != self.token.number:
            self._why_lost = self._why_lost or "its node is gone from ZooKeeper"
        else:
            self._verified = generation
        return self._known()
