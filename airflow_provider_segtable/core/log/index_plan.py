"""Index builds: a run computes the entries that an index lacks, piece by piece.

1. The plan names the index and the newest event that it lacks. Equal requests are one plan; what
   the index lacks later is a new plan. There is one pending plan for each index.
2. It claims no segments: appends, changes and compactions go on, and it waits for none of them.
   Time that pending plans rewrite is left for later (``apart``), so that entries are not computed
   for files that are about to be replaced.
3. Its lock excludes only other workers of the same plan (``core.locks``, rule 2).
4. Each piece is an event of its own (``IndexBuilt``), so the plan may stop after any piece, and a
   later attempt goes on from there. It completes once all that was lacking at its request is built;
   it publishes no segments.

Source of the idea: Hudi RFC-45, whose indexing plan names a base instant.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar, Self

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.locks import LockRequest
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.plan import (
    BuildIndex,
    Claim,
    Complete,
    Named,
    Plan,
    PlanState,
    Step,
    decoded_fields,
)
from airflow_provider_segtable.core.log.state import State, index_of
from airflow_provider_segtable.core.segment import Place, Segment
from airflow_provider_segtable.core.segment_codec import Json
from airflow_provider_segtable.core.time import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlan(Plan):
    """A build of what an index lacks; ``chunk`` spans that time, and ``inputs`` are empty.

    Attributes:
        index: the id of the index.
        name: its name.
        through: the newest event that the index lacks.
        apart: the time that is left for a later plan.
    """

    kind: ClassVar[str] = "index"
    planned_in: ClassVar[str] = "airflow_provider_segtable.planning.finders.index"
    rank: ClassVar[int] = 40

    index: str
    name: str
    through: int
    apart: tuple[Interval, ...] = ()

    @property
    def claim(self) -> Claim:
        """Claim nothing."""
        return Claim(interval=self.interval, segments=frozenset())

    def done(self, files: int) -> str:
        """Return how many files were indexed: the reason is what was lacking before."""
        return f"index {self.name}: built the entries about {counted(files, 'file')}"

    def excluded_by(self, pending: Plan) -> bool:
        """Return whether a pending plan builds the same index."""
        return isinstance(pending, IndexPlan) and pending.index == self.index

    def facts(self) -> Json:
        """Return the name of the index."""
        return Plan.facts(self) | {"index": self.name}

    def admit_request(self, state: State) -> Conflict | None:
        """Refuse an index that is gone, or lacks nothing."""
        found = index_of(self.index, state)
        if found is None:
            return self._gone()
        if self._left(found):
            return None
        return Conflict(reason=f"index {self.name} lacks nothing of event {self.through}")

    def hopeless(self, state: State) -> Conflict | None:
        """Return why the plan can never complete: its index is gone."""
        return self._gone() if index_of(self.index, state) is None else None

    def admit_start(self, inputs: Sequence[Any], state: State) -> Conflict | None:
        """Refuse an index that is gone."""
        del inputs
        return self.hopeless(state)

    def admit_completion(
        self, found: PlanState, segments: tuple[Segment, ...], state: State
    ) -> tuple[Segment, ...] | Conflict:
        """Refuse a completion while the index lacks what it lacked at the request."""
        index = index_of(self.index, state)
        if index is None:
            return self._gone()
        self.check_balance(found, segments, state)
        if not self._left(index):
            return ()
        return Conflict(reason=f"index {self.name} still lacks files of event {self.through}")

    def imbalance(
        self, found: PlanState, segments: Sequence[Segment], state: State
    ) -> Iterable[str]:
        """Report every segment: the plan publishes none."""
        del found, state
        return (
            f"segment {segment.id} is published, but an index build publishes none"
            for segment in segments
        )

    def lock(self, asked: LockRequest, state: State) -> LockRequest:
        """Lock the plan, and neither segments nor time."""
        del state
        return asked

    def name_outputs(
        self, found: PlanState, counts: Mapping[Place, int], state: State
    ) -> dict[Place, Named]:
        """Name nothing."""
        del found, counts, state
        return {}

    def next_step(
        self, inputs: Sequence[Segment], done: Sequence[tuple[Segment, ...]], state: State
    ) -> Step:
        """Build the index, then complete."""
        del inputs, state
        return Complete(segments=()) if done else BuildIndex(index=self.index, apart=self.apart)

    def encode(self) -> Json:
        """Return the plan as JSON."""
        apart = {"apart": [each.name for each in self.apart]} if self.apart else {}
        own = {"index": self.index, "name": self.name, "through": self.through}
        return Plan.encode(self) | own | apart

    @classmethod
    def decode(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encode``."""
        return cls(
            **decoded_fields(body),
            index=body["index"],
            name=body["name"],
            through=body["through"],
            apart=tuple(map(Interval.from_name, body.get("apart", ()))),
        )

    def _left(self, index: IndexState) -> bool:
        lacks = without(index, self.apart).lacks
        return any(each.n <= self.through for each in lacks)

    def _gone(self) -> Conflict:
        return Conflict(reason=f"index {self.name} was dropped or rebuilt")


def without(index: IndexState, apart: Iterable[Interval]) -> IndexState:
    """Return an index as if it lacked nothing in some times."""
    newest = max((each.n for each in index.lacks), default=0)
    return reduce(lambda left, each: left.built(each, newest), apart, index)


def index_plan_id(table: str, index: IndexState) -> str:
    """Return the id of the plan for what an index lacks: ``index-20130101-1a2b3c4d5e6f``."""
    lacks = (f"{each.interval.name} {each.n}" for each in index.lacks)
    text = "\n".join((table, IndexPlan.kind, index.definition.id, *lacks))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{IndexPlan.kind}-{index.lacks[0].interval.name[:8]}-{digest}"


def pending_plan(index: str, plans: Iterable[PlanState]) -> PlanState | None:
    """Return the pending plan of an index, by the index's id."""
    for known in plans:
        plan = known.plan
        if known.status.pending and isinstance(plan, IndexPlan) and plan.index == index:
            return known
    return None


def newest_plan(index: str, plans: Iterable[PlanState]) -> PlanState | None:
    """Return the plan of an index that changed last, by the index's id."""
    mine = (each for each in plans if isinstance(each.plan, IndexPlan) and each.plan.index == index)
    return max(mine, key=lambda known: known.last_n, default=None)
