"""Announce a table's commits in ZooKeeper, and let committers that met a rival take turns.

The head, raised to the newest event without delay for the committer:

1. Each call begins in the callback of the one before, in kazoo's thread; the committer does not
   wait for it. At most one call per table is under way. Events announced meanwhile are announced by
   the next call, the newest one only.
2. The head is set at the version that this client saw last. If another client has changed it, it
   is read first, so it never goes back.
3. An event that may be overtaken *lingers* first, beside the newest one that lingers already. Its
   announcement is left out if another client's event has followed it by then.
4. An announcement is a hint: if the connection drops, it is lost.
5. ``drain`` announces lingering events, and waits for the calls under way and for one that may be
   about to begin: before this client reads the head, and before it or its process ends.

6. A watcher of many tables has one watch on each head, and reads again only those that changed.

The queue in front of a table's commits:

7. A committer makes an ephemeral node with a sequence and waits until no earlier one is left. The
   node ends with its turn or its session.
8. It watches the node before its own: no polling, no herd.
9. The queue is a hint. A committer that waited too long, or whose connection drops, goes on
   without its turn: the log decides.
"""

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from airflow_provider_segtable.coordination.zookeeper.link import Interrupted, Link
from airflow_provider_segtable.coordination.zookeeper.locks import Bell
from airflow_provider_segtable.coordination.zookeeper.nodes import ABANDONED_S, children, named
from airflow_provider_segtable.ports.coordination import Overtaken

LINGER_S = 0.02
"""How long an event lingers that may be overtaken."""
LINGERS = "segtable-announcement"
"""The name of the thread that waits for it."""
DRAINED_S = 1.0
"""Longest wait for announcements under way."""


# The head
class Head:
    """The head of one table, as one link raises it."""

    def __init__(self, link: Link, path: str) -> None:
        """Raise the node at ``path``, which need not exist."""
        self.link = link
        self._path = path
        self._changed = threading.Condition()
        self._wanted = self._announced = -1
        self._version: int | None = None
        self._busy = False
        self._judged = 0
        self._lingering: tuple[int, Overtaken] | None = None

    def raise_to(self, n: int, overtaken: Overtaken | None = None) -> None:
        """Announce event ``n`` unless a later event is announced; later if it may be overtaken."""
        if overtaken is None:
            self._raise(n)
        else:
            self._linger(n, overtaken)

    def drain(self) -> None:
        """Announce the lingering event, and wait until no call is under way."""
        with self._changed:
            lingering, self._lingering = self._lingering, None
        if lingering:
            self._raise(lingering[0])
        with self._changed:
            self._changed.wait_for(lambda: self._idle or self.link.session is None, DRAINED_S)

    @property
    def _idle(self) -> bool:
        return not self._busy and not self._judged

    def _linger(self, n: int, overtaken: Overtaken) -> None:
        with self._changed:
            before = self._lingering
            if before is None or before[0] < n:
                self._lingering = n, overtaken
        if before is None:
            timer = threading.Timer(LINGER_S, self._lingered)
            timer.name, timer.daemon = LINGERS, True
            timer.start()

    def _lingered(self) -> None:
        with self._changed:
            lingering, self._lingering = self._lingering, None
            self._judged += 1
        try:
            if lingering and not lingering[1]():
                self._raise(lingering[0])
        finally:
            with self._changed:
                self._judged -= 1
                self._changed.notify_all()

    def _raise(self, n: int) -> None:
        with self._changed:
            self._wanted = max(self._wanted, n)
            if self._busy or self._announced >= self._wanted:
                return
            self._busy = True
        self._next()

    def _next(self) -> None:
        """Begin the next call, or end if the newest event is announced."""
        with self._changed:
            n, version = self._wanted, self._version
            if self._announced >= n:
                self._end()
                return
        client, data = self.link.client, str(n).encode()
        try:
            if version is None:
                call = self.link.begin(client.get_async, self._path)
                call.rawlink(self._read)
            else:
                call = self.link.begin(client.set_async, self._path, data, version=version)
                call.rawlink(lambda done: self._raised(n, done))
        except Interrupted:
            self._fail()

    def _read(self, done: Any) -> None:
        if isinstance(done.exception, NoNodeError):
            self._create()
        elif done.exception:
            self._fail()
        else:
            data, stat = done.value
            self._known(int(data) if data.isdigit() else -1, stat.version)

    def _create(self) -> None:
        n = self._wanted
        try:
            call = self.link.begin(
                self.link.client.create_async, self._path, str(n).encode(), makepath=True
            )
            call.rawlink(lambda done: self._raised(n, done))
        except Interrupted:
            self._fail()

    def _raised(self, n: int, done: Any) -> None:
        if isinstance(done.exception, BadVersionError | NodeExistsError | NoNodeError):
            self._known(-1, None)
        elif done.exception:
            self._fail()
        else:
            self._known(n, getattr(done.value, "version", 0))  # a new node has version 0

    def _known(self, announced: int, version: int | None) -> None:
        with self._changed:
            self._announced, self._version = announced, version
        self._next()

    def _fail(self) -> None:
        with self._changed:
            self._version = None
            self._end()

    def _end(self) -> None:
        self._busy = False
        self._changed.notify_all()


class WatchedHeads:
    """The heads of many tables, as one link has read them; a head is read anew when it changed."""

    def __init__(self) -> None:
        """Start without heads."""
        self.bell = Bell()
        self._link: Link | None = None
        self._known: dict[str, int] = {}
        self._stale: set[str] = set()
        self._rings: dict[str, Callable[[object], None]] = {}

    def read(self, link: Link, paths: Collection[str]) -> dict[str, int]:
        """Return the number at each path; -1 if there is none. All requests share a round trip."""
        if link is not self._link:
            self._link, self._known = link, {}
        todo = [path for path in paths if path not in self._known or path in self._stale]
        for path in todo:  # from here on a change marks it anew
            self._known.pop(path, None)
            self._stale.discard(path)
        client = link.client
        watches = [link.begin(client.exists_async, path, watch=self._ring(path)) for path in todo]
        reads = [link.begin(client.get_async, path) for path in todo]
        for path, watch, read in zip(todo, watches, reads, strict=True):
            link.wait(watch)
            self._known[path] = _number(link, read)
        return {path: self._known[path] for path in paths}

    def _ring(self, path: str) -> Callable[[object], None]:
        """Return what kazoo calls at a change: one for each path, so that watches are not many."""

        def changed(event: object) -> None:
            self._stale.add(path)
            self.bell.ring(event)

        return self._rings.setdefault(path, changed)


def _number(link: Link, read: Any) -> int:
    """Return the number of an announcement; -1 without one that can be read."""
    with suppress(NoNodeError, ValueError):  # the next announcement overwrites bad data
        return int(link.wait(read)[0])
    return -1


def drain(heads: dict[str, Head]) -> None:
    """Wait for all announcements under way."""
    for head in tuple(heads.values()):
        head.drain()


# The queue of committers
@contextmanager
def queued(link: Link, parent: str, wait_s: float) -> Iterator[None]:
    """Hold a place in the queue below ``parent``, from its turn on (rule 9)."""
    guid, places = uuid.uuid4().hex, list[str]()
    try:
        with suppress(Interrupted, KazooException):
            made = link.begin(
                link.client.create_async, f"{parent}/{guid}-", b"", ephemeral=True, sequence=True
            )
            queue = link.begin(link.client.get_children_async, parent)  # in the same round trip
            places.append(link.wait(made))
            _await_turn(link, places[0], named(link, queue), wait_s)
        yield
    finally:
        if places:
            link.delete(places)
        else:
            link.clean(lambda: _leave(link, parent, guid))


def _await_turn(link: Link, place: str, queue: list[str], wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    parent, _, own = place.rpartition("/")
    while not link.abandoned and (left_s := deadline - time.monotonic()) > 0:
        ahead = [name for name in queue if _order(name) < _order(own)]
        if not ahead:
            return
        _await_end(link, f"{parent}/{max(ahead, key=_order)}", min(left_s, ABANDONED_S))
        queue = children(link, parent)


def _await_end(link: Link, path: str, wait_s: float) -> None:
    ended = threading.Event()
    if link.call(link.client.exists_async, path, watch=lambda _: ended.set()):
        ended.wait(wait_s)


def _order(name: str) -> str:
    return name.rpartition("-")[2]


def _leave(link: Link, parent: str, guid: str) -> None:
    """Delete the place, although its creation was never confirmed."""
    for name in children(link, parent):
        if name.startswith(guid):
            with suppress(NoNodeError):
                link.call(link.client.delete_async, f"{parent}/{name}")
