"""Read and write one table's nodes in ZooKeeper: their paths, records and unreadable contents.

Paths and reads:

1. Lock and waiter nodes never change, so each is read once and cached by its name; ``Cache.keep``
   drops deleted names.
2. Related reads start together and share a round trip; ZooKeeper answers one client's requests in
   order.
3. Names suffice for an append, which does not read the nodes: locks and places of time chunks end
   in ``-T`` (before the sequence of a place), and ``<guid>-firm`` beside a place makes it firm.

Records: locks, places in the queue and states, as compact JSON. Segments are written by chunk,
their partitions as ranges, in the order given::

    {"v": 2, "group": .., "purpose": .., "holder": .., "priority": 25,
     "segments": [["20130101T000000_20130201T000000_1700000000000000", "0-11,14"]],
     "allocated": [["20130101T000000_20130201T000000_1700000000000000", "32768"]],
     "mode": "exclusive", "intervals": ["20130101T000000_20130201T000000"],
     "version": 1700000000000001, "yields": 0, "chunks": [..]}

4. A lock's time and token are not in the record: ZooKeeper noted them when it made the node.
5. A state is ``{"publishing": true}``, or names the segments that a lock yielded and the new owner.
6. A place in the queue names the chunks that need new ids; it has no ids yet.

Nodes that segtable cannot read (damaged, made by hand, or by a newer segtable):

7. Locks and places are ephemeral. A node without a session was not made by a worker, and no
   session will ever end it, so it is ignored, whatever its data.
8. An unreadable node with a session may be the lock of a live writer, so nothing is granted over
   it. Requests that depend on it are refused with its path. It ends with its session, or by
   ``segtable locks TABLE --release NAME``.
9. A lock with an unreadable state is revoked and yields nothing: its holder does not commit.
10. An unreadable counter allocates no ids. Once released, it restarts above the log.
11. Heads and progress are hints: unreadable ones are ignored.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from itertools import groupby
from typing import Any, TypeVar

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from airflow_provider_segtable.coordination.zookeeper.link import Link
from airflow_provider_segtable.coordination.zookeeper.multi_read import read_many
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, UnreadableNode, UnsupportedFormat
from airflow_provider_segtable.core.locks import (
    FencingToken,
    Generation,
    Granted,
    Lock,
    LockRequest,
    Mode,
    Revocation,
)
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.ports.coordination import StrayNode

RECORD_VERSION = 2
ALL = "all"
PUBLISHING = b'{"publishing":true}'
PUBLISHING_RECORD = {"publishing": True}
SHOWN = 40

T = TypeVar("T")


# Records of locks, places and states
def encode_lock(request: LockRequest, granted: Granted | None = None) -> bytes:
    """Return the data of a lock node, or of a place in the queue (not granted yet)."""
    chunks = () if granted else dict.fromkeys(str(ask.chunk) for ask in request.allocate)
    return _compact(
        {
            "v": RECORD_VERSION,
            "group": request.group,
            "purpose": request.purpose,
            "holder": request.holder,
            "priority": request.priority,
            "segments": _encode_segments(sorted(request.segments)),
            "allocated": _encode_segments(granted.allocated if granted else ()),
            "mode": request.mode,
            "intervals": [each.name for each in request.intervals],
            "version": granted.version if granted else None,
            "yields": request.yields,
            "chunks": list(chunks),
        }
    )


def decode_lock(data: bytes, *, since: Instant, token: FencingToken, waiting: bool = False) -> Lock:
    """Return the lock, or place in the queue, that a node records.

    Raises:
        UnsupportedFormat: if a newer segtable wrote it.
        ValueError: if it is not a record of segtable.
    """
    record = _object(data)
    written = record.get("v")
    if not isinstance(written, int):
        raise ValueError("it has no format number")  # noqa: TRY004 - a value of the record
    if written != RECORD_VERSION:
        raise UnsupportedFormat(
            f"a lock in ZooKeeper has format {written}, this segtable reads "
            f"{RECORD_VERSION}: upgrade the older worker"
        )
    try:
        return _lock(record, since, token, waiting=waiting)
    except (KeyError, TypeError, AttributeError, InvalidInput) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _lock(record: dict[str, Any], since: Instant, token: FencingToken, *, waiting: bool) -> Lock:
    return Lock(
        group=_typed(str, record["group"]),
        purpose=_typed(str, record["purpose"]),
        holder=_typed(str, record["holder"]),
        priority=_typed(int, record["priority"]),
        segments=frozenset(_decode_segments(record["segments"])),
        allocated=tuple(_decode_segments(record["allocated"])),
        since=since,
        token=token,
        mode=Mode(record["mode"]),
        intervals=tuple(map(Interval.from_name, record["intervals"])),
        version=_typed(int, record["version"]) if record["version"] is not None else None,
        yields=_typed(int, record["yields"]),
        waiting=waiting,
        chunks=tuple(map(ChunkKey.parse, record["chunks"])),
    )


def _object(data: bytes) -> dict[str, Any]:
    try:
        record = json.loads(data)
    except RecursionError:
        record = None
    if not isinstance(record, dict):
        raise ValueError(f"it holds {data[:SHOWN]!r}, which is not a JSON object")  # noqa: TRY004
    return record


def _typed(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def encode_revocation(lock: Lock, revocation: Revocation) -> bytes:
    """Return the state record of a revoked lock; ``all`` stands for all of its segments."""
    every = revocation.segments == lock.covered
    return _compact(
        {
            "revoked": revocation.by,
            "segments": ALL if every else _encode_segments(sorted(revocation.segments)),
            "intervals": [each.name for each in revocation.intervals],
        }
    )


def with_state(lock: Lock, state: bytes) -> Lock:
    """Return the lock with the state from its state node.

    If the state cannot be read, the lock is revoked but yields nothing: its holder cannot commit,
    and no other writer takes the segments that the holder may be writing.
    """
    try:
        record = _object(state)
        if record == PUBLISHING_RECORD:
            return replace(lock, irrevocable=True)
        segments = record["segments"]
        revocation = Revocation(
            by=_typed(str, record["revoked"]),
            segments=lock.covered if segments == ALL else frozenset(_decode_segments(segments)),
            intervals=tuple(map(Interval.from_name, record["intervals"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError, InvalidInput):
        revocation = Revocation(by=f"an unknown worker (unreadable record {state[:SHOWN]!r})")
    return replace(lock, revoked=revocation)


def _compact(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


def _encode_segments(segments: Iterable[SegmentId]) -> list[list[str]]:
    return [
        [str(chunk), ",".join(_ranges(segment.partition for segment in members))]
        for chunk, members in groupby(segments, key=lambda segment: segment.chunk)
    ]


def _ranges(numbers: Iterable[int]) -> Iterator[str]:
    runs = groupby(enumerate(numbers), key=lambda at: at[1] - at[0])
    for _, run in runs:
        members = [number for _, number in run]
        yield f"{members[0]}-{members[-1]}" if len(members) > 1 else str(members[0])


def _decode_segments(encoded: Iterable[Iterable[str]]) -> Iterator[SegmentId]:
    for chunk_text, ranges in encoded:
        chunk = ChunkKey.parse(chunk_text)
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            if int(last or first) not in chunk.numbering.published:
                raise ValueError(f"{part} has partition ids that are out of range")
            for partition in range(int(first), int(last or first) + 1):
                yield chunk.segment(partition)


MILLISECOND_US = 1000
OF_TIME_CHUNK = "-T"
FIRM = "-firm"
ABANDONED_S = 1.0
"""How often a waiter looks whether its own link was abandoned."""
TOGETHER = 1000
"""Number of deletions that are sent without waiting for an answer."""


# Paths, reads and their cache
@dataclass(frozen=True, slots=True)
class Seen:
    """A lock or waiter node; ``owner`` is its session."""

    name: str
    path: str
    owner: int
    lock: Lock

    @property
    def of_time_chunk(self) -> bool:
        """Return whether the lock is on intervals."""
        return bool(self.lock.intervals)

    def lock_of(self, epoch: str) -> Lock:
        """Return the lock with its token in an epoch."""
        return replace(self.lock, token=FencingToken(epoch, self.lock.token.number))


@dataclass(slots=True)
class Cache:
    """Lock and waiter nodes read before, by path."""

    seen: dict[str, Seen] = field(default_factory=dict)

    def keep(self, parent: str, names: Iterable[str]) -> None:
        """Drop nodes that are no longer under ``parent``."""
        present = {f"{parent}/{name}" for name in names}
        for path in [p for p in tuple(self.seen) if p.startswith(f"{parent}/")]:
            if path not in present:
                self.seen.pop(path, None)

    def read(
        self, link: Link, parent: str, names: Iterable[str], *, all_known: bool = True
    ) -> tuple[Seen, ...]:
        """Return the named nodes, oldest first, without nodes deleted meanwhile.

        Raises:
            UnreadableNode, UnsupportedFormat: a node cannot be read. With ``all_known=False`` it
                is left out, which suffices to show locks, but not to grant any.
        """
        found: list[Seen] = []
        pending: list[tuple[str, Any]] = []
        for name in names:
            if known := self.seen.get(f"{parent}/{name}"):
                found.append(known)
            else:
                pending.append((name, link.begin(link.client.get_async, f"{parent}/{name}")))
        for name, call in pending:
            try:
                with suppress(NoNodeError):
                    if seen := self.learn(link, parent, name, call):
                        found.append(seen)
            except (UnreadableNode, UnsupportedFormat):
                if all_known:
                    raise
        return tuple(sorted(found, key=lambda each: each.lock.token.number))

    def learn(self, link: Link, parent: str, name: str, call: Any) -> Seen | None:
        """Return the node from the answer to its ``get``; None if no session made the node.

        Raises:
            NoNodeError: if the node does not exist.
            UnreadableNode: if a session made the node, but it is not a lock.
            UnsupportedFormat: if a newer segtable wrote it.
        """
        data, stat = link.wait(call)
        if not stat.ephemeralOwner:
            return None
        path = f"{parent}/{name}"
        try:
            lock = decode_lock(
                data,
                since=stat.ctime * MILLISECOND_US,
                token=FencingToken(link.epoch(), stat.czxid),
                waiting=parent.endswith("/waiters"),
            )
        except UnsupportedFormat as error:
            raise UnsupportedFormat(f"{path}: {error}") from None
        except ValueError as error:
            raise UnreadableNode(
                f"ZooKeeper node {path} of session {stat.ephemeralOwner:#x} is not a readable "
                f"lock ({error}), so its extent is unknown and no other lock is granted. It ends "
                "with its session, or remove it: segtable locks TABLE --release "
                f"{parent.rpartition('/')[2]}/{name}"
            ) from None
        seen = Seen(name, path, stat.ephemeralOwner, lock)
        self.seen[seen.path] = seen
        return seen


def children(link: Link, parent: str) -> list[str]:
    """Return the names under a node; empty if the node is absent."""
    return named(link, link.begin(link.client.get_children_async, parent))


def number_in(link: Link, call: Any, path: str) -> tuple[int, int] | None:
    """Return the number in a node and the node's version; None if it is absent.

    Raises:
        UnreadableNode: if the data is not a number.
    """
    try:
        data, stat = link.wait(call)
    except NoNodeError:
        return None
    try:
        return int(data), stat.version
    except ValueError:
        short = "/".join(path.split("/")[-2:]) if "/counters/" in path else path.rpartition("/")[2]
        raise UnreadableNode(
            f"ZooKeeper node {path} has {data[:40]!r} instead of a number, so no ids can be "
            f"allocated. Remove it: segtable locks TABLE --release {short}; ids continue above "
            "the log's"
        ) from None


def named(link: Link, call: Any) -> list[str]:
    """Return the names from a ``get_children`` answer; empty if the node is absent."""
    try:
        return list(link.wait(call))
    except NoNodeError:
        return []


def delete_tree(link: Link, path: str) -> None:
    """Delete a node and all below it, also those made meanwhile; no error if it is absent."""
    while True:
        below = [f"{path}/{name}" for name in children(link, path)]
        for start in range(0, len(below), TOGETHER):
            batch = below[start : start + TOGETHER]
            begun = [link.begin(link.client.delete_async, each) for each in batch]
            for each, call in zip(batch, begun, strict=True):
                if not _deleted(link, call):
                    delete_tree(link, each)
        if _deleted(link, link.begin(link.client.delete_async, path)):
            return


def _deleted(link: Link, call: Any) -> bool:
    """Return whether a node is gone after a ``delete``; False if there are nodes below it."""
    try:
        link.wait(call)
    except NoNodeError:
        return True
    except NotEmptyError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes under ``<chroot>/tables/<table>``."""

    table: str

    @property
    def lockbox(self) -> str:
        """Return the node whose version orders grants."""
        return f"{self.table}/lockbox"

    @property
    def locks(self) -> str:
        """Return the parent of the lock nodes."""
        return f"{self.table}/locks"

    @property
    def waiters(self) -> str:
        """Return the parent of the queue."""
        return f"{self.table}/waiters"

    @property
    def gate(self) -> str:
        """Return the node whose version counts the time chunk requests, for appends."""
        return f"{self.table}/gate"

    @property
    def states(self) -> str:
        """Return the parent of the states of locks: publishing or revoked."""
        return f"{self.table}/states"

    @property
    def clock(self) -> str:
        """Return the node that is written to learn the server's time."""
        return f"{self.table}/clock"

    @property
    def last_version(self) -> str:
        """Return the node of the highest allocated version."""
        return f"{self.table}/version"

    @property
    def commits(self) -> str:
        """Return the parent of the queue in front of the commit."""
        return f"{self.table}/commits"

    @property
    def head(self) -> str:
        """Return the node of the newest announced event."""
        return f"{self.table}/head"

    def claims(self, group: str) -> str:
        """Return the parent of a group's claims."""
        return f"{self.table}/claims/{group}"

    def counter(self, chunk: ChunkKey, generation: Generation) -> str:
        """Return the node of the next id of a chunk."""
        return f"{self.table}/counters/{chunk}-{generation}"

    def progress_of(self, lock_name: str) -> str:
        """Return the node for the progress of a lock's holder."""
        return f"{self.table}/progress/{lock_name}"

    def prepare(self, link: Link) -> None:
        """Make the table's persistent nodes if they are absent."""
        lasting = (
            *("lockbox", "gate", "clock", "locks", "waiters", "states"),
            *("counters", "progress", "commits"),
        )
        begun = [
            link.begin(link.client.ensure_path_async, f"{self.table}/{name}") for name in lasting
        ]
        for each in begun:
            link.wait(each)

    def belongings(self, lock_name: str) -> tuple[str, str, str]:
        """Return all nodes of a lock, the lock node first."""
        return (
            f"{self.locks}/{lock_name}",
            f"{self.states}/{lock_name}",
            self.progress_of(lock_name),
        )

    def queue_up(self, link: Link, prefix: str, record: bytes) -> None:
        """Take a place at the end of the queue; a time chunk request also bumps the gate."""
        multi = link.transaction()
        if OF_TIME_CHUNK in prefix:
            multi.set_data(self.gate, b"")
        multi.create(f"{self.waiters}/{prefix}", record, ephemeral=True, sequence=True)
        for each in link.call(multi.commit_async):
            if isinstance(each, Exception):
                raise each

    def await_change(
        self, link: Link, seen: Seen, state_version: int | None, wait_s: float
    ) -> None:
        """Wait until a lock or place ends, or the lock's state changes.

        If the lock ends without a state, the watch on the state remains: a few bytes until the
        connection ends. ZooKeeper has no other way to watch one lock alone. Watches of a link that
        is abandoned while they are set may never fire, so the link is looked at, too.
        """
        changed, client = threading.Event(), link.client

        def ring(_: object) -> None:
            changed.set()

        # A lock node has no children: this fires when it ends, and sets no watch if it is absent.
        node = link.begin(client.get_children_async, seen.path, ring)
        state = link.begin(client.exists_async, f"{self.states}/{seen.name}", ring)
        with suppress(NoNodeError):
            link.wait(node)
            found = link.wait(state)
            if (found.version if found else None) == state_version:
                deadline = time.monotonic() + wait_s
                while not link.abandoned and (left_s := deadline - time.monotonic()) > 0:
                    if changed.wait(min(left_s, ABANDONED_S)):
                        break

    def make_firm(self, link: Link, guid: str) -> None:
        """Make the place firm: no request overtakes it any more; no error if it is gone."""
        with suppress(NodeExistsError, NoNodeError):
            path = f"{self.waiters}/{guid}{FIRM}"
            link.call(link.client.create_async, path, ephemeral=True)

    def leave_queue(self, link: Link, guid: str) -> None:
        """Delete the request's place, even if its creation was never confirmed."""
        for name in children(link, self.waiters):
            if name.startswith(guid):
                with suppress(NoNodeError):
                    link.call(link.client.delete_async, f"{self.waiters}/{name}")

    def read_progress(self, link: Link) -> dict[str, dict[str, str]]:
        """Return the last reported progress of live holders, by lock group."""
        live = set(children(link, self.locks))
        begun = [
            link.begin(link.client.get_async, self.progress_of(name))
            for name in children(link, f"{self.table}/progress")
            if name in live
        ]
        found: dict[str, dict[str, str]] = {}
        for each in begun:
            with suppress(NoNodeError, ValueError, KeyError, TypeError):  # only a hint
                record = json.loads(link.wait(each)[0])
                found[str(record["group"])] = dict(record["progress"])
        return found

    def read_head(self, link: Link, ring: Callable[[object], None]) -> int:
        """Return the newest announced event (-1: none); ``ring`` is called when it changes."""
        client = link.client
        with suppress(NoNodeError, ValueError):  # the next announcement overwrites bad data
            if link.call(client.exists_async, self.head, watch=ring):
                return int(link.call(client.get_async, self.head)[0])
        return -1


def read_heads(link: Link, tables: Mapping[str, Nodes]) -> dict[str, int]:
    """Return the newest announced event of each table; without those that have none."""
    found: dict[str, int] = {}
    data = read_many(link, [at.head for at in tables.values()])
    for name, text in zip(tables, data, strict=True):
        with suppress(ValueError):  # the next announcement overwrites bad data
            if text is not None:
                found[name] = int(text)
    return found


def read_present(link: Link, paths: Mapping[str, str]) -> list[str]:
    """Return the names whose nodes are there."""
    data = read_many(link, list(paths.values()))
    return [name for name, text in zip(paths, data, strict=True) if text is not None]


# Nodes that segtable cannot read
def read_strays(link: Link, nodes: Nodes) -> tuple[StrayNode, ...]:
    """Return the nodes of a table that cannot be read, by name."""
    fresh = Cache()
    found = [*_records(link, nodes, fresh), *_numbers(link, nodes)]
    return tuple(sorted(found, key=lambda stray: stray.name))


def _records(link: Link, nodes: Nodes, fresh: Cache) -> Iterator[StrayNode]:
    for parent in (nodes.locks, nodes.waiters):
        names = [name for name in children(link, parent) if not name.endswith(FIRM)]
        begun = [(n, link.begin(link.client.get_async, f"{parent}/{n}")) for n in names]
        for name, call in begun:
            short = f"{parent.rpartition('/')[2]}/{name}"
            try:
                with suppress(NoNodeError):
                    if fresh.learn(link, parent, name, call) is None:
                        yield StrayNode(name=short, why="it belongs to no session", blocks=False)
            except (UnreadableNode, UnsupportedFormat) as error:
                yield StrayNode(name=short, why=str(error), blocks=True)


def _numbers(link: Link, nodes: Nodes) -> Iterator[StrayNode]:
    names = [f"counters/{name}" for name in children(link, f"{nodes.table}/counters")]
    begun: list[tuple[str, Any]] = [
        (name, link.begin(link.client.get_async, f"{nodes.table}/{name}"))
        for name in (*names, "version")
    ]
    for name, call in begun:
        try:
            number_in(link, call, f"{nodes.table}/{name}")
        except UnreadableNode as error:
            yield StrayNode(name=name, why=str(error), blocks=True)
