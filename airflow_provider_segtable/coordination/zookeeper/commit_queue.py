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

from airflow_provider_segtable.coordination.zookeeper.link import Interrupted, Link
from airflow_provider_segtable.coordination.zookeeper.nodes import ABANDONED_S, children


@contextmanager
def queued(link: Link, parent: str, wait_s: float) -> Iterator[None]:
    """Hold a place in the queue below ``parent``, from its turn on (rule 3)."""
    guid = uuid.uuid4().hex
    try:
        with suppress(Interrupted, KazooException):
            _await_turn(link, parent, guid, wait_s)
        yield
    finally:
        link.clean(lambda: _leave(link, parent, guid))


def _await_turn(link: Link, parent: str, guid: str, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    made = link.begin(
        link.client.create_async, f"{parent}/{guid}-", b"", ephemeral=True, sequence=True
    )
    own = link.wait(made).rpartition("/")[2]
    while not link.abandoned and (left_s := deadline - time.monotonic()) > 0:
        ahead = [name for name in children(link, parent) if _order(name) < _order(own)]
        if not ahead:
            return
        _await_end(link, f"{parent}/{max(ahead, key=_order)}", min(left_s, ABANDONED_S))


def _await_end(link: Link, path: str, wait_s: float) -> None:
    ended = threading.Event()
    if link.call(link.client.exists_async, path, watch=lambda _: ended.set()):
        ended.wait(wait_s)


def _order(name: str) -> str:
    return name.rpartition("-")[2]


def _leave(link: Link, parent: str, guid: str) -> None:
    """Delete the place, even if its creation was never confirmed."""
    for name in children(link, parent):
        if name.startswith(guid):
            with suppress(NoNodeError):
                link.call(link.client.delete_async, f"{parent}/{name}")
