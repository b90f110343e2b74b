"""One member's share of the buckets that a consumer group reads.

1. Members are claims of the group's own claim group, and so are the buckets that they have. All
   members compute the same assignment (``core.log_store.assignment``), without a leader.
2. ``step`` gives up what others should have, and takes its own as it becomes free. A member that
   dies loses its claims with its session; then the others take its buckets.
3. A bucket that is taken begins at the position that the group has stored. What its last member had
   returned and not stored, comes again: at least once.
4. ``store`` is fenced by the table's log (``stored_positions``). A member that was refused gives up
   all its buckets, and takes them anew from where the group is.
5. While the coordinator is away nothing moves.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.consumer import LogMark
from airflow_provider_segtable.core.errors import CoordinatorUnavailable, Fenced, LockLost
from airflow_provider_segtable.core.log_store.assignment import assign
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.ports.claims import Claim, Claimed, LeaseState
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.readers.stored_positions import (
    store_positions,
    stored_marks,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """Buckets that a member took, each with the stored position if there is one, and gave up."""

    taken: Mapping[int, Position | None]
    left: frozenset[int]


class GroupShare:
    """A member of a consumer group; it belongs to one thread.

    Args:
        ports: the table's ports, with a coordinator.
        group: the group's name.
        buckets: all buckets that the group reads.

    Raises:
        InvalidName, InvalidInput: the group cannot have this name.
        CoordinatorUnavailable: there is none.
    """

    def __init__(self, ports: TableContext, group: str, buckets: Collection[int]) -> None:
        state = ports.log.load()
        stored_marks(state, group)
        self._ports, self._group, self._buckets = ports, group, buckets
        self._coordinator, self._table = ports.coordinator, state.table.table_id
        self._me = f"member-{ports.randomness.token()}"
        self._member: Claim | None = None
        self._claims: dict[int, Claim] = {}
        self._marks: dict[int, LogMark] = {}
        self._left: set[int] = set()

    @property
    def claim_group(self) -> str:
        """Return the name of the claims' group."""
        return f"log-consumers-{self._group}"

    def step(self) -> Moves:
        """Give up buckets that are not this member's, and take those that are."""
        self._lose()
        taken: dict[int, Position | None] = {}
        try:
            wanted = self._wanted()
            self._give_up(self._claims.keys() - wanted)
            taken = self._take(wanted - self._claims.keys())
        except CoordinatorUnavailable:
            pass
        left, self._left = frozenset(self._left), set()
        return Moves(taken=taken, left=left)

    def store(self, positions: Mapping[int, Position]) -> None:
        """Store positions of this member's buckets.

        Raises:
            LockLost: the claim of a bucket was lost; the next step gives the bucket up.
            Fenced: another member has stored a position meanwhile.
        """
        lost = [b for b, claim in self._claims.items() if claim.state is LeaseState.LOST]
        if lost:
            raise LockLost(
                f"buckets {lost} of consumer group {self._group!r} went to other members: read on, "
                "which gives them up, and store then"
            )
        mine = {bucket: at for bucket, at in positions.items() if bucket in self._claims}
        try:
            marks = store_positions(self._ports, self._group, mine, self._marks)
        except Fenced:
            self._give_up(set(self._claims))
            raise
        self._marks |= marks

    def close(self) -> None:
        """Leave the group."""
        self._give_up(set(self._claims))
        if self._member:
            self._member.release()

    def _wanted(self) -> frozenset[int]:
        """Return the buckets that this member should have, as the claims are now."""
        if self._member is None or self._member.state is LeaseState.LOST:
            content = {"author": self._ports.author}
            self._member = self._claimed(self._me, content)
        claims = self._coordinator.claims(self._table, self.claim_group)
        members = {name for name in claims if not name.isdecimal()} | {self._me}
        held = {int(name): _holder(claim) for name, claim in claims.items() if name.isdecimal()}
        key = f"{self._table}/{self._group}"
        assigned = assign(key, self._buckets, members, held)
        return frozenset(bucket for bucket, name in assigned.items() if name == self._me)

    def _claimed(self, name: str, content: Mapping[str, str]) -> Claim | None:
        return self._coordinator.claim(self._table, self.claim_group, name, content)

    def _take(self, buckets: Collection[int]) -> dict[int, Position | None]:
        claims = {bucket: self._claimed(str(bucket), {"member": self._me}) for bucket in buckets}
        got = {bucket: claim for bucket, claim in claims.items() if claim is not None}
        if not got:
            return {}
        self._claims |= got
        stored = stored_marks(self._ports.log.load(), self._group)
        self._marks |= {bucket: stored[bucket] for bucket in got if bucket in stored}
        return {b: stored[b].position if b in stored else None for b in got}

    def _lose(self) -> None:
        lost = {b for b, claim in self._claims.items() if claim.state is LeaseState.LOST}
        self._give_up(lost)

    def _give_up(self, buckets: Collection[int]) -> None:
        for bucket in list(buckets):
            self._claims.pop(bucket).release()
            self._marks.pop(bucket, None)
            self._left.add(bucket)


def _holder(claim: Claimed) -> str:
    return claim.content.get("member", "")
