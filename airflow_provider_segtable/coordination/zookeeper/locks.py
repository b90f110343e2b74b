"""Acquire and hold locks in ZooKeeper: a view, the transaction of a decision, and the lease.

The view of a table's locks, with as few round trips as the request needs:

1. All reads start together. They are not one snapshot, so their order matters: versions first, so
   that any later change fails the multi; states before locks, so that a state without a lock
   belongs to an ended lock; places before locks, so that a place which becomes a lock meanwhile is
   seen at least once.
2. A request that contests reads every lock and place. An append reads only the locks and places of
   time chunks, recognised by their names.
3. Every reader removes the states of ended locks that it sees.
4. The transaction applies a decision, or fails if the decision's view is outdated.

The lease of a grant, an ephemeral node that lives as long as its session:

5. HELD: connected, the present session made the node, and the node was seen after the last
   reconnection. DOUBTFUL: disconnected. LOST for good: another session, no node, a forked child,
   revoked, or released.
6. ``state`` returns the local view and asks the server at most once after a reconnection.
   ``check`` always asks, so it also notices a session that ended while this process was paused.
7. ``make_irrevocable`` creates the lock's state in a transaction that checks the lock; a rival
   that revokes creates the same node. After a lost reply the winner is unknown and the lease
   doubtful. If ``make_irrevocable`` then finds its own state, it counts as done.
8. ``release`` deletes no state if the last check found none, which costs the server a transaction.
   If a rival revoked the lock since, the next request that contests deletes the state.
"""

import hashlib
import json
import threading
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, NoReturn

from kazoo.client import TransactionRequest
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.protocol.serialization import Transaction

from airflow_provider_segtable.coordination.waiting import WaitLog, revoked_error
from airflow_provider_segtable.coordination.zookeeper.link import (
    MAX_REQUEST_BYTES,
    Interrupted,
    Link,
)
from airflow_provider_segtable.coordination.zookeeper.nodes import (
    FIRM,
    MILLISECOND_US,
    OF_TIME_CHUNK,
    PUBLISHING,
    Cache,
    Nodes,
    Seen,
    encode_lock,
    encode_revocation,
    named,
    number_in,
    with_state,
)
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, LimitReached, LockLost
from airflow_provider_segtable.core.locks import (
    MAX_YIELDS,
    FencingToken,
    Generation,
    Granted,
    Lock,
    LockGranularity,
    LockRequest,
    Revokes,
    contested,
    in_turn,
)
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.coordination import LeaseState


# Values that one call of ``acquire`` passes from step to step
@dataclass(slots=True)
class Acquisition:
    """One call of ``acquire``: the nodes it may have made, and the groups that overtook it.

    ``said`` logs the blocking holder.
    """

    asked: LockRequest
    nodes: Nodes
    said: WaitLog
    guid: str = field(default_factory=lambda: uuid.uuid4().hex)
    queued: bool = False
    sent: list[str] = field(default_factory=list)
    overtaken_by: set[str] = field(default_factory=set)
    overtaken: int = 0
    interrupted: int = 0

    @property
    def request(self) -> LockRequest:
        """Return the request, with its overtakers counted as yields."""
        return replace(self.asked, yields=self.asked.yields + len(self.overtaken_by))

    @property
    def firm(self) -> bool:
        """Return whether the request has yielded too often to yield again."""
        return self.request.yields >= MAX_YIELDS

    @property
    def of_time_chunk(self) -> bool:
        """Return whether the request is on intervals."""
        return self.asked.granularity is LockGranularity.TIME_CHUNK

    @property
    def group_prefix(self) -> str:
        """Return the prefix of the group's lock node names."""
        return prefix_of(self.asked.group)

    @property
    def place_prefix(self) -> str:
        """Return the prefix of the request's place in the queue."""
        return f"{self.guid}{OF_TIME_CHUNK if self.of_time_chunk else ''}-"

    def draw_lock_name(self) -> str:
        """Return a name never used before, because nodes are cached by name."""
        name = self.group_prefix + uuid.uuid4().hex
        self.sent.append(name + (OF_TIME_CHUNK if self.of_time_chunk else ""))
        return self.sent[-1]

    @property
    def contests(self) -> bool:
        """Return whether the request may conflict with other locks (an append does not)."""
        return bool(self.asked.segments) or not self.asked.allocate


def prefix_of(group: str) -> str:
    """Return the prefix of a group's lock node names."""
    return hashlib.sha256(group.encode()).hexdigest()[:16] + "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The nodes that one round read, with the versions that the multi checks.

    ``places`` are in the order of arrival; ``mine`` is the index of the request's own. ``now`` is
    the server's clock and ``last_version`` the highest one, if the request wants a version.
    """

    lockbox_version: int
    gate_version: int
    locks: tuple[Seen, ...]
    places: tuple[Seen, ...]
    mine: int | None
    own_nodes: tuple[str, ...]
    states: Mapping[str, int]
    counters: Mapping[tuple[ChunkKey, Generation], tuple[int, int]]
    last_version: tuple[Instant, int | None] = (0, None)
    now: Instant = 0

    @property
    def place(self) -> Seen | None:
        """Return the request's own place in the queue, if it has one."""
        return None if self.mine is None else self.places[self.mine]

    def meets(self, request: LockRequest) -> bool:
        """Return whether the request conflicts with a lock or place of a time chunk."""
        return any(
            seen.of_time_chunk and contested(request, seen.lock)
            for seen in self.locks + self.places
        )


@dataclass(frozen=True, slots=True)
class Blocked:
    """The blocking locks, the node to watch, and the request's own place, if it has one.

    ``state_version`` is the version of the node's state at the decision; None: it had none.
    """

    on: tuple[Lock, ...]
    by: Seen
    state_version: int | None
    place: Seen | None


class Bell:
    """Signal that a node has changed; one for each, so that watches do not accumulate."""

    def __init__(self) -> None:
        """Start without rings."""
        self._condition = threading.Condition()
        self.rung = 0

    def ring(self, _event: object) -> None:
        """Count a change; kazoo calls this."""
        with self._condition:
            self.rung += 1
            self._condition.notify_all()

    def wait(self, rung: int, timeout_s: float) -> None:
        """Wait until the count differs from ``rung``."""
        with self._condition:
            self._condition.wait_for(lambda: self.rung != rung, timeout_s)


# The transaction of a decision
def grant_of(
    multi: TransactionRequest,
    call: Acquisition,
    view: View,
    decision: Granted | Revokes,
    *,
    name: str,
) -> TransactionRequest:
    """Fill a transaction.

    Args:
        multi: an empty transaction.
        call: the call of ``acquire``.
        view: the nodes read.
        decision: the decision on the view.
        name: name of the lock node.

    Raises:
        LimitReached: if the request is too large for ZooKeeper.
    """
    nodes, request = call.nodes, call.request
    granted = decision.granted if isinstance(decision, Revokes) else decision
    if call.contests or view.meets(request):
        multi.set_data(nodes.lockbox, b"", view.lockbox_version)
    if not call.contests:
        multi.check(nodes.gate, view.gate_version)
    for key, following in granted.counters.items():
        version = view.counters[key][1] if key in view.counters else None
        _put(multi, nodes.counter(*key), following, version)
    if granted.version is not None:
        _put(multi, nodes.last_version, granted.version, view.last_version[1])
    if isinstance(decision, Revokes):
        names = {seen.lock.group: seen.name for seen in view.locks}
        for lock in decision.whom:
            if lock.revoked:
                data = encode_revocation(lock, lock.revoked)
                _revoke(multi, nodes, view, data, names[lock.group])
    multi.create(f"{nodes.locks}/{name}", encode_lock(request, granted), ephemeral=True)
    for own in view.own_nodes:
        multi.delete(f"{nodes.waiters}/{own}")
    refuse_oversize(call.asked, len(Transaction(multi.operations).serialize()))
    return multi


def _put(multi: TransactionRequest, path: str, number: int, version: int | None) -> None:
    if version is None:
        multi.create(path, str(number).encode())
    else:
        multi.set_data(path, str(number).encode(), version)


def _revoke(multi: TransactionRequest, nodes: Nodes, view: View, data: bytes, name: str) -> None:
    """Make the lock's state, unless its holder made one first or the lock has ended."""
    multi.check(f"{nodes.locks}/{name}", 0)  # else the state would outlive the lock
    if name in view.states:
        multi.set_data(f"{nodes.states}/{name}", data, view.states[name])
    else:
        multi.create(f"{nodes.states}/{name}", data)


def refuse_oversize(request: LockRequest, size: int) -> None:
    """Refuse a request so large that ZooKeeper would drop the connection.

    Raises:
        LimitReached: the request is too large; the message has the numbers.
    """
    if size > MAX_REQUEST_BYTES:
        raise LimitReached(
            f"locking {len(request.segments)} segments and {len(request.intervals)} intervals and "
            f"allocating for {len(request.allocate)} chunks takes a request of {size} bytes; "
            f"ZooKeeper accepts {MAX_REQUEST_BYTES}:  split the plan into smaller ones"
        )


# The view of a table's locks
def read_view(link: Link, call: Acquisition, cache: Cache) -> View:
    """Read the nodes that the decision of a call depends on.

    Raises:
        NoNodeError: if the table's persistent nodes do not exist.
        UnreadableNode, UnsupportedFormat: if a lock, place or counter cannot be read.
    """
    nodes, client = call.nodes, link.client
    keys = sorted({(ask.chunk, ask.generation) for ask in call.asked.allocate})
    wants_version = call.asked.version_above is not None
    lockbox = link.begin(client.get_async, nodes.lockbox)
    gate = link.begin(client.get_async, nodes.gate)
    counters = {key: link.begin(client.get_async, nodes.counter(*key)) for key in keys}
    clock = link.begin(client.set_async, nodes.clock, b"") if wants_version else None
    last = link.begin(client.get_async, nodes.last_version) if wants_version else None
    states = link.begin(client.get_children_async, nodes.states) if call.contests else None
    waiters = link.begin(client.get_children_async, nodes.waiters)
    locks = link.begin(client.get_children_async, nodes.locks)
    lockbox_version, gate_version = link.wait(lockbox)[1].version, link.wait(gate)[1].version
    with_states = None if states is None else named(link, states)
    places, own = _places(link, call, cache, named(link, waiters))
    found, state_versions = _locks(link, call, cache, named(link, locks), with_states)
    return View(
        lockbox_version=lockbox_version,
        gate_version=gate_version,
        locks=found,
        places=places,
        mine=next((n for n, seen in enumerate(places) if seen.name in own), None),
        own_nodes=own,
        states=state_versions,
        counters={
            key: number
            for key, call in counters.items()
            if (number := number_in(link, call, nodes.counter(*key)))
        },
        last_version=(last and number_in(link, last, nodes.last_version)) or (0, None),
        now=link.wait(clock).mtime * MILLISECOND_US if clock else 0,
    )


def read_locks(link: Link, nodes: Nodes, cache: Cache) -> tuple[Lock, ...]:
    """Return the live locks of a table with their states, oldest first."""
    states = link.begin(link.client.get_children_async, nodes.states)
    locks = link.begin(link.client.get_children_async, nodes.locks)
    with_states, names = named(link, states), named(link, locks)
    cache.keep(nodes.locks, names)
    merged, _ = _merge(link, nodes, cache, names, with_states, all_known=False)
    return tuple(seen.lock for seen in merged)


def read_places(link: Link, nodes: Nodes, cache: Cache) -> tuple[Lock, ...]:
    """Return the waiting requests, in the order in which they are served."""
    names = named(link, link.begin(link.client.get_children_async, nodes.waiters))
    cache.keep(nodes.waiters, names)
    return in_turn(seen.lock for seen in _queue(link, nodes, cache, names, all_known=False))


def _places(
    link: Link, call: Acquisition, cache: Cache, names: list[str]
) -> tuple[tuple[Seen, ...], tuple[str, ...]]:
    cache.keep(call.nodes.waiters, names)
    own = tuple(name for name in names if name.startswith(call.guid))
    if not call.contests:
        names = [
            name
            for name in names
            if OF_TIME_CHUNK + "-" in name or name.endswith(FIRM) or name in own
        ]
    return _queue(link, call.nodes, cache, names), own


def _queue(
    link: Link, nodes: Nodes, cache: Cache, names: Iterable[str], *, all_known: bool = True
) -> tuple[Seen, ...]:
    """Return places in the order of arrival, with firm places marked."""
    names = tuple(names)
    firm = {name.removesuffix(FIRM) for name in names if name.endswith(FIRM)}
    asked = (name for name in names if not name.endswith(FIRM))
    places = cache.read(link, nodes.waiters, asked, all_known=all_known)
    return tuple(
        replace(seen, lock=replace(seen.lock, yields=max(seen.lock.yields, MAX_YIELDS)))
        if seen.name.partition("-")[0] in firm
        else seen
        for seen in places
    )


def _locks(
    link: Link, call: Acquisition, cache: Cache, names: list[str], with_states: list[str] | None
) -> tuple[tuple[Seen, ...], dict[str, int]]:
    nodes = call.nodes
    cache.keep(nodes.locks, names)
    if with_states is None:
        mine = call.group_prefix
        names = [n for n in names if n.endswith(OF_TIME_CHUNK) or n.startswith(mine)]
        return _merge(link, nodes, cache, names, names)
    dead = set(with_states) - set(names)
    for name in dead:
        link.begin(link.client.delete_async, f"{nodes.states}/{name}")
    live = [name for name in with_states if name not in dead]
    return _merge(link, nodes, cache, names, live)


def _merge(
    link: Link,
    nodes: Nodes,
    cache: Cache,
    names: Iterable[str],
    with_states: Iterable[str],
    *,
    all_known: bool = True,
) -> tuple[tuple[Seen, ...], dict[str, int]]:
    """Return the locks with their states applied, and the versions of those states."""
    begun = {
        name: link.begin(link.client.get_async, f"{nodes.states}/{name}") for name in with_states
    }
    versions: dict[str, int] = {}
    merged: list[Seen] = []
    for seen in cache.read(link, nodes.locks, names, all_known=all_known):
        lock = seen.lock
        if call := begun.get(seen.name):
            with suppress(NoNodeError):
                data, stat = link.wait(call)
                lock, versions[seen.name] = with_state(lock, data), stat.version
        merged.append(seen if lock is seen.lock else replace(seen, lock=lock))
    return tuple(merged), versions


MAX_PROGRESS_BYTES = 65_536


# The lease
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
        self._released = self._irrevocable = False
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

    def make_irrevocable(self) -> None:
        """Check the lock, and make it irrevocable from now on."""
        if not self._irrevocable and self._claim_state():
            self._irrevocable = True  # the transaction checked the lock
            return
        self.check()
        if not (self._irrevocable or self._lock.irrevocable):
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
