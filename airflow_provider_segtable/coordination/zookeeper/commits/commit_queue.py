"""The queue in front of a table's commits: committers that met a rival take turns.

1. A committer makes an ephemeral node with a sequence and waits until no earlier one is left. The
   node ends with its turn or its session.
2. It watches the node before its own: no polling, no herd.
3. The queue is a hint. A committer that waited too long, or whose connection drops, goes on
   without its turn: the log decides.
"""

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kazoo.exceptions import KazooException, NoNodeError

from airflow_provider_segtable.coordination.zookeeper.connection.link import Interrupted, Link
from airflow_provider_segtable.coordination.zookeeper.nodes import ABANDONED_S, children, named


@contextmanager
def queued(link: Link, parent: str, wait_s: float) -> Iterator[None]:
    """Hold a place in the queue below ``parent``, from its turn on (rule 3)."""
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
