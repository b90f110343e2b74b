"""Claims in ZooKeeper: one ephemeral node for each claimed name of a group.

1. The number of a claim is its node's creation transaction (czxid); its content is the node's
   data, beside a guid, by which a request whose reply was lost recognises its node.
2. A claim is believed after a reconnection only once its node was seen.
3. Readers watch the group and each of its nodes, all with one bell, so that watches do not
   accumulate. Unreadable nodes are no claims: claims are hints.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from airflow_provider_segtable.coordination.zookeeper.link import Interrupted, Link
from airflow_provider_segtable.coordination.zookeeper.nodes import MILLISECOND_US, named
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, LockLost, UnreadableNode
from airflow_provider_segtable.ports.coordination import Claimed, LeaseState

MAX_CONTENT_BYTES = 65_536


class ZooKeeperClaim:
    """A claim of this client: a node of one session."""

    def __init__(self, link: Link, asked: "ClaimRequest", stat: Any, *, generation: int) -> None:
        """Wrap a node that was seen in a generation of the link."""
        self.number: int = stat.czxid
        self._link = link
        self._asked = asked
        self._session = stat.ephemeralOwner
        self._verified = generation
        self._why_lost = ""

    @property
    def state(self) -> LeaseState:
        """Return the known state; ask the server at most once after a reconnection."""
        known = self._known()
        if known is LeaseState.HELD and self._verified != self._link.generation:
            return self._ask()
        return known

    def update(self, content: Mapping[str, str]) -> None:
        """Replace the content; raise ``LockLost`` unless the claim is held."""
        data = self._asked.encoded(content)
        if self.state is LeaseState.HELD:
            with suppress(Interrupted):
                if self._is_ours(self._set(data)):
                    return
        raise LockLost(
            f"the claim {self._asked.path} is {self.state} "
            f"({self._why_lost or 'the connection to ZooKeeper is interrupted'}): claim it again"
        )

    def release(self) -> None:
        """End the claim; no error if it has ended already."""
        if not self._why_lost and self._link.session == self._session:
            self._link.delete((self._asked.path,))
        self._why_lost = self._why_lost or "it was released"

    def _set(self, data: bytes) -> Any:
        try:
            return self._link.call(self._link.client.set_async, self._asked.path, data)
        except NoNodeError:
            return None

    def _known(self) -> LeaseState:
        if not self._why_lost and self._link.session != self._session:
            self._why_lost = "its session ended"
        if self._why_lost:
            return LeaseState.LOST
        return LeaseState.HELD if self._link.connected else LeaseState.DOUBTFUL

    def _ask(self) -> LeaseState:
        generation, client = self._link.generation, self._link.client
        try:
            self._link.begin(client.sync_async, self._asked.path)  # a follower may lag behind
            stat = self._link.call(client.exists_async, self._asked.path)
        except (Interrupted, KazooException):
            known = self._known()
            return known if known is LeaseState.LOST else LeaseState.DOUBTFUL
        if self._is_ours(stat):
            self._verified = generation
        return self._known()

    def _is_ours(self, stat: Any) -> bool:
        if stat is None or stat.czxid != self.number:
            self._why_lost = self._why_lost or "its node is gone from ZooKeeper"
        return not self._why_lost


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """A name to claim, at ``path``, with the first content."""

    path: str
    content: Mapping[str, str]
    guid: str = field(default_factory=lambda: uuid.uuid4().hex)

    def encoded(self, content: Mapping[str, str]) -> bytes:
        """Return the data of the node."""
        data = json.dumps({"claim": self.guid, "content": dict(content)}).encode()
        if len(data) > MAX_CONTENT_BYTES:
            raise InvalidInput(
                f"the content of claim {self.path} has {len(data)} bytes, more than "
                f"{MAX_CONTENT_BYTES}: shorten it"
            )
        return data

    def take(self, link: Link) -> ZooKeeperClaim | None:
        """Make the node; None if another claim has the name.

        Raises:
            UnreadableNode: if a node without a session has it.
        """
        client, data = link.client, self.encoded(self.content)
        while True:
            generation = link.generation
            with suppress(NoNodeError):  # the table was forgotten, or the other claim ended
                try:
                    link.call(client.ensure_path_async, self.path.rpartition("/")[0])
                    made = link.call(
                        client.create_async, self.path, data, ephemeral=True, include_data=True
                    )
                    return ZooKeeperClaim(link, self, made[1], generation=generation)
                except NodeExistsError:
                    found, stat = link.call(client.get_async, self.path)
                    self._refuse_lasting(stat)
                    if self._made(link, found, stat):
                        return ZooKeeperClaim(link, self, stat, generation=generation)
                    return None

    def undo(self, link: Link) -> None:
        """Delete the node if this request made it, although that was never confirmed."""
        with suppress(NoNodeError):
            found, stat = link.call(link.client.get_async, self.path)
            if self._made(link, found, stat):
                link.call(link.client.delete_async, self.path)

    def _made(self, link: Link, found: bytes, stat: Any) -> bool:
        return stat.ephemeralOwner == link.session and self.guid.encode() in found

    def _refuse_lasting(self, stat: Any) -> None:
        if not stat.ephemeralOwner:
            raise UnreadableNode(
                f"ZooKeeper node {self.path} belongs to no session, so it is not a claim and never "
                "ends: delete it with ZooKeeper's own command line"
            )


def read_claims(
    link: Link, ring: Callable[[object], None] | None = None, *, group: str
) -> dict[str, Claimed]:
    """Return the claims below a node; ``ring`` is called at their next change."""
    client = link.client
    there = link.begin(client.exists_async, group, ring)  # rings when the first claim is made
    names = named(link, link.begin(client.get_children_async, group, ring))
    link.wait(there)
    begun = {name: link.begin(client.get_async, f"{group}/{name}", ring) for name in names}
    found: dict[str, Claimed] = {}
    for name, call in sorted(begun.items()):
        with suppress(NoNodeError, ValueError, KeyError, TypeError, AttributeError):
            data, stat = link.wait(call)
            content = {str(key): str(value) for key, value in json.loads(data)["content"].items()}
            if stat.ephemeralOwner:
                since = stat.ctime * MILLISECOND_US
                found[name] = Claimed(name=name, number=stat.czxid, content=content, since=since)
    return found
