"""Plans that replace adjacent groups of one chunk by one group: minor and semi-major compaction.

1. Inputs are whole, visible, adjacent groups (``core.timeline``). The outputs are one atomic
   update group: the same root range, at a higher minor version. If an input is replaced meanwhile,
   the plan can never complete.
2. The lock is EXCLUSIVE on the input segments, and new ids of the later generation are allocated
   with it. Workers do not wait for it: if another worker holds a segment, the plan is left to it.
3. In a primary-key table the group of a semi-major compaction is a *base file*, so it begins at the
   first root of its bucket: a slice has one base file, and everything older is in it.
4. Balance: the outputs have ids of the attempt, the plan's root range, the size of their group,
   the chunk's core set, and a minor version above all groups over these roots. An append
   table's also have the lineage of the inputs (``TableKind.misplaced``).
5. The outputs are in a base as ``core.segment`` says. In a file group no plan takes a base
   apart: what is left of it would be no base, and what is made none either.
6. *Minor compaction* joins small adjacent groups of a chunk, and rows keep their order. They are
   copied undecoded where possible.
7. *Semi-major compaction* sorts all groups of a chunk, as of the plan, into one group of well sized
   segments. Appends go on beside it; later segments stay beside its outputs.
8. In a rollup table both roll rows up within the inputs.
"""

from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.locks import Allocation, Generation, LockRequest
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.plan import (
    Claim,
    Complete,
    Named,
    Plan,
    PlanState,
    Rewrite,
    Step,
    decoded_fields,
)
from airflow_provider_segtable.core.log.replacement import present, unaccounted, unequal
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import (
    NO_BUCKET,
    ChunkKey,
    Place,
    Segment,
    Shard,
    base_after,
    torn_base,
)
from airflow_provider_segtable.core.segment_codec import Json
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import check_contiguous


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan(Plan, ABC):
    """A plan over adjacent groups.

    Attributes:
        root_start: the first root that the outputs stand for.
        root_end: the first root after them.
    """

    root_start: int
    root_end: int

    @property
    def order(self) -> str | None:
        """Return the clustering of the outputs; None keeps the order of the inputs."""
        return None

    @property
    def position(self) -> tuple[Interval, int]:
        """Return the plan's place in lists."""
        return self.interval, self.root_start

    @property
    def claim(self) -> Claim:
        """Claim the inputs."""
        return Claim(interval=self.interval, segments=frozenset(self.inputs))

    def facts(self) -> Json:
        """Return the root range and the clustering."""
        root = [self.root_start, self.root_end]
        return Plan.facts(self) | {"root": root, "clustering": self.order or ""}

    def admit_request(self, state: State) -> Conflict | None:
        """Refuse inputs that are gone; refuse groups that are torn apart or not adjacent."""
        gone = self.replaced(self.inputs, state)
        if gone:
            return gone
        groups = state.timeline.visible_groups(self.chunk)
        voided = state.voided.get(self.chunk, frozenset())
        check_contiguous(self.id, self.inputs, (self.root_start, self.root_end), groups, voided)
        torn = torn_base(self.inputs, state.timeline.base(self.chunk))
        if torn:
            raise InvalidInput(f"plan {self.id} takes the base of {self.chunk} apart: {torn}")
        return None

    def imbalance(
        self, found: PlanState, segments: Sequence[Segment], state: State
    ) -> Iterable[str]:
        """Compare rows, ids, lineage, root range and minor version (rule 4)."""
        inputs = present(found.inputs, state)
        yield from unaccounted(inputs, segments, state)
        strangers = {s.id for s in segments} - set(found.outputs)
        if strangers or not segments:
            yield f"output ids: expected some of {found.outputs}, found {[s.id for s in segments]}"
        yield from state.table.kind.misplaced(inputs, segments)
        minor = state.timeline.max_minor(self.chunk, self.root_start, self.root_end)
        core = state.timeline.core(self.chunk)
        for segment in segments:
            yield from self._misplaced(segment, len(segments), core)
            if segment.shard.minor_version <= minor:
                found_minor = segment.shard.minor_version
                yield f"minor version of {segment.id} is {found_minor}, must be over {minor}"

    def with_base(
        self, found: PlanState, segments: tuple[Segment, ...], state: State
    ) -> tuple[Segment, ...]:
        """Return outputs in the base that the inputs make."""
        if all(segment.shard.base for segment in segments):
            return segments
        base = self._base(present(found.inputs, state))
        return tuple(replace(s, shard=replace(s.shard, base=base)) for s in segments)

    def _base(self, inputs: Sequence[Segment]) -> int:
        return base_after(inputs, self.chunk, (self.root_start, self.root_end))

    def _misplaced(self, segment: Segment, size: int, core: int) -> Iterable[str]:
        shard = segment.shard
        roots = (shard.root_start, shard.root_end)
        yield from unequal(f"root range of {segment.id}", roots, (self.root_start, self.root_end))
        yield from unequal(f"group size of {segment.id}", shard.group_size, size)
        yield from unequal(f"core set of {segment.id}", shard.core, core)

    def lock(self, asked: LockRequest, state: State) -> LockRequest:
        """Lock the inputs, and allocate ids for the outputs."""
        outputs = Allocation(
            chunk=self.chunk,
            generation=Generation.LATER,
            count=self.outputs,
            at_least=state.id_space(self.chunk, Generation.LATER).next,
        )
        return replace(asked, segments=frozenset(self.inputs), allocate=(outputs,))

    def name_outputs(
        self, found: PlanState, counts: Mapping[Place, int], state: State
    ) -> dict[Place, Named]:
        """Name the outputs by the ids of the attempt, one minor version above the groups below."""
        minor = state.timeline.max_minor(self.chunk, self.root_start, self.root_end) + 1
        core = state.timeline.core(self.chunk)
        base = self._base(present(found.inputs, state))

        def shard(partition: int, size: int) -> Shard:
            return Shard(
                partition=partition,
                root_start=self.root_start,
                root_end=self.root_end,
                minor_version=minor,
                group_size=size,
                core=core,
                base=base,
            )

        return {
            place: tuple((i, shard(i.partition, size)) for i in found.outputs[:size])
            for place, size in counts.items()
        }

    def next_step(
        self, inputs: Sequence[Segment], done: Sequence[tuple[Segment, ...]], state: State
    ) -> Step:
        """Rewrite the inputs into one group, then publish it."""
        del inputs, state
        if done:
            return Complete(segments=done[-1])
        return Rewrite(
            intervals=(self.interval,), clustering=self.order, most=self.outputs, one_group=True
        )

    def encode(self) -> Json:
        """Return the plan as JSON."""
        return Plan.encode(self) | {"root": [self.root_start, self.root_end]}

    @classmethod
    def decode(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encode``."""
        start, end = body["root"]
        return cls(**decoded_fields(body), root_start=start, root_end=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinorPlan(GroupPlan):
    """A minor compaction. Its rules are those of every plan over groups."""

    kind: ClassVar[str] = "minor"
    planned_in: ClassVar[str] = "airflow_provider_segtable.planning.finders.minor"
    rank: ClassVar[int] = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SemiMajorPlan(GroupPlan):
    """A semi-major compaction; ``clustering`` is the order of output rows, event time if empty."""

    kind: ClassVar[str] = "semi-major"
    planned_in: ClassVar[str] = "airflow_provider_segtable.planning.finders.semi_major"
    rank: ClassVar[int] = 20
    options: ClassVar[frozenset[str]] = frozenset({"clustering"})

    clustering: str = ""

    @property
    def order(self) -> str | None:
        """Return the clustering of the outputs."""
        return self.clustering

    def admit_request(self, state: State) -> Conflict | None:
        """Refuse also a base file that would not begin at the first root."""
        if not may_begin(self.chunk, self.root_start):
            where = f"{self.id} at root {self.root_start}"
            return Conflict(reason=f"a base file begins at the first root, and {where}")
        return GroupPlan.admit_request(self, state)

    def encode(self) -> Json:
        """Return the plan as JSON."""
        own = {"clustering": self.clustering} if self.clustering else {}
        return GroupPlan.encode(self) | own

    @classmethod
    def decode(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encode``."""
        start, end = body["root"]
        clustering = body.get("clustering", "")
        return cls(**decoded_fields(body), root_start=start, root_end=end, clustering=clustering)


def may_begin(chunk: ChunkKey, root: int) -> bool:
    """Return whether a sorted group of a chunk may begin at a root (rule 3)."""
    return chunk.bucket == NO_BUCKET or root == chunk.numbering.first.start
