"""Major compaction: a region of time is replaced by a new version.

1. The outputs are the core sets of the region's chunks at a new version: sorted, perfectly rolled
   up, repartitioned by ``granularity`` if that is given. The attempt numbers them itself. In a
   primary-key table each bucket of a chunk has a core set, and ``buckets`` may change their number.
   A core set is the base of its chunk (``core.segment``); what is carried over is not in it.
2. The lock is on the region: REPLACE if every segment appended meanwhile fits one new chunk
   (granularity stays or gets coarser in all of the region), so that appends go on; else EXCLUSIVE:
   appends wait, or revoke the lock. Its worker waits some minutes for others in the region.
3. A pending plan claims the region. The inputs are its visible segments as found under the lock,
   so the plan stays possible whatever other compactions replace meanwhile.
4. Completion carries over what was appended meanwhile: each such segment gets the next partition
   of its chunk at the new version, by metadata alone. Where the region then has no rows, tombstones
   hide the segments of older versions, in every bucket that has any. If an appended segment fits
   no chunk, because locks were lost, the completion is a conflict; no row is lost.
5. Writers of a primary-key table hold no locks. A log file that does not fit is *divided*: its
   rows are written again, into log files with provisional ids in the places of the new version
   (``division``). The completion names these files as further inputs, and gives the new ones ids.
   If an index of records promises one row a key, a log file of a chunk that is cut into several is
   divided even if it fits: whichever of its records and the outputs' loses is corrected
   (``table.indexes.routing``).
6. The work is in proportion to rows and to chunks that have rows, not to the time between the first
   and the last event: of *sparse* inputs the event times are read to find their chunks.
7. Balance: the outputs of a chunk are its partitions ``0..n-1``, with core size ``n``. Each row
   lies inside its chunk, and no other chunk of the version hides it.

Source of the ideas: Druid (time chunk locks; concurrent append and replace, ``upgrade_segments``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.locks import Generation, LockGranularity, LockRequest, Mode
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
from airflow_provider_segtable.core.log.replacement import (
    hidden_by_equals,
    home,
    present,
    tombstones,
    unaccounted,
    unequal,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import (
    NO_BUCKET,
    ChunkKey,
    Place,
    Segment,
    SegmentId,
    Shard,
)
from airflow_provider_segtable.core.segment_codec import Json
from airflow_provider_segtable.core.time import Granularity, Instant, Interval, Layout

FEW_CHUNKS = 1_000
"""So many time chunks are listed, whether they have rows or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MajorPlan(Plan):
    """A major compaction.

    Attributes:
        region: the time that it replaces; splits no chunk, old or new.
        clustering: the order of output rows; event time if empty.
        granularity: the region's new granularity; None to keep the present one.
        buckets: the region's new number of buckets; 0 to keep the present one.
    """

    kind: ClassVar[str] = "major"
    planned_in: ClassVar[str] = "airflow_provider_segtable.planning.finders.major"
    rank: ClassVar[int] = 30
    wait_s: ClassVar[float] = 600.0
    lock_granularity: ClassVar[LockGranularity] = LockGranularity.TIME_CHUNK
    options: ClassVar[frozenset[str]] = frozenset({"clustering", "granularity", "buckets"})
    starts_version: ClassVar[bool] = True

    region: Interval
    clustering: str = ""
    granularity: Granularity | None = None
    buckets: int = 0

    @property
    def interval(self) -> Interval:
        """Return the region."""
        return self.region

    @property
    def claim(self) -> Claim:
        """Claim everything in the region."""
        return Claim(interval=self.region)

    def facts(self) -> Json:
        """Return the clustering, the new granularity and the new number of buckets."""
        cut = self.granularity.value if self.granularity else None
        return Plan.facts(self) | {
            "clustering": self.clustering,
            "granularity": cut,
            "buckets": self.buckets,
        }

    def layout_after(self, layout: Layout) -> Layout:
        """Return the layout, repartitioned in the region."""
        if self.granularity is None and not self.buckets:
            return layout
        return layout.recut(self.region, self.granularity, self.buckets)

    def carries_appends(self, layout: Layout) -> bool:
        """Return whether every segment appended in this layout fits one chunk of the plan.

        If any part of the region is refined, no appends are carried over: one lock covers the
        region.
        """
        if self.granularity is None:
            return True
        return all(old.nests_in(self.granularity) for old in layout.granularities(self.region))

    def published(
        self, found: PlanState, segments: tuple[Segment, ...], state: State
    ) -> tuple[Segment, ...] | Conflict:
        """Return the outputs, the segments carried over, and tombstones; or the conflict."""
        core, divided = _parts(self.with_base(found, segments, state))
        late = carried_over(found, self.layout_after(state.layout), core, divided, state)
        return late if isinstance(late, Conflict) else (*core, *late)

    def with_base(
        self, found: PlanState, segments: tuple[Segment, ...], state: State
    ) -> tuple[Segment, ...]:
        """Return outputs with the core set of each chunk as its base."""
        del found, state
        return tuple(
            replace(s, shard=replace(s.shard, base=s.shard.core))
            if s.id.partition < s.shard.core and not s.shard.base
            else s
            for s in segments
        )

    def imbalance(
        self, found: PlanState, segments: Sequence[Segment], state: State
    ) -> Iterable[str]:
        """Compare rows, versions and core sets (rule 7)."""
        yield from unaccounted(present(found.inputs, state), segments, state)
        layout = self.layout_after(state.layout)
        chunks: dict[ChunkKey, list[Segment]] = {}
        core, divided = _parts(segments)
        for segment in segments:
            place = home(segment, layout)
            where = place.reason if isinstance(place, Conflict) else place
            yield from unequal(f"time chunk of {segment.id}", segment.id.chunk.place, where)
            yield from unequal(f"version of {segment.id}", segment.id.version, found.version)
        for segment, winner in hidden_by_equals((*core, *divided)):
            yield f"rows of {segment.id} would be hidden by chunk {winner} of the same version"
        for segment in core:
            chunks.setdefault(segment.id.chunk, []).append(segment)
        for chunk, members in chunks.items():
            if not self.region.encloses(chunk.interval):
                yield f"chunk {chunk} is outside the region {self.region}"
            size = len(members)
            shards = sorted((s.shard for s in members), key=lambda shard: shard.partition)
            bases = (shard.base for shard in shards)
            expected = [Shard.first_generation(p, core=size, base=b) for p, b in enumerate(bases)]
            yield from unequal(f"core set of {chunk}", shards, expected)

    def lock(self, asked: LockRequest, state: State) -> LockRequest:
        """Lock the region, and allocate a new version (rule 2)."""
        return replace(
            asked,
            mode=Mode.REPLACE if self.carries_appends(state.layout) else Mode.EXCLUSIVE,
            intervals=(self.region,),
            version_above=state.version_above(self.region),
        )

    def name_outputs(
        self, found: PlanState, counts: Mapping[Place, int], state: State
    ) -> dict[Place, Named]:
        """Number the core set of each chunk at the attempt's version."""
        del state
        version = found.version or 0
        return {
            place: _core_set(ChunkKey(place.interval, version, place.bucket), size)
            for place, size in counts.items()
        }

    def next_step(
        self, inputs: Sequence[Segment], done: Sequence[tuple[Segment, ...]], state: State
    ) -> Step:
        """Rewrite the inputs into the chunks of the new version, then publish them."""
        if done or not inputs:  # the region may have become empty
            return Complete(segments=done[-1] if done else ())
        return self._rewrite(inputs, self.clustering, state)

    def division(self, found: PlanState, state: State) -> Rewrite | None:
        """Return the rewrite of the log files that do not fit (rule 5)."""
        layout = self.layout_after(state.layout)
        unfit = [
            segment
            for segment in _late(found, state)
            if segment.id.bucket != NO_BUCKET
            and isinstance(_fitting(segment, layout, state), Conflict)
        ]
        return replace(self._rewrite(unfit, None, state), late=tuple(unfit)) if unfit else None

    def _rewrite(self, inputs: Sequence[Segment], clustering: str | None, state: State) -> Rewrite:
        layout = self.layout_after(state.layout)
        sparse = _sparse(inputs, layout)
        intervals = tuple(_chunks_of([s for s in inputs if s not in sparse], layout))
        buckets = tuple(layout.buckets_at(interval.start) for interval in intervals)
        return Rewrite(
            intervals=intervals,
            clustering=clustering,
            buckets=buckets if state.table.kind.buckets else (),
            one_group=False,
            sparse=sparse,
            layout=layout if sparse else None,
        )

    def encode(self) -> Json:
        """Return the plan as JSON; the inputs may lie in several chunks."""
        rarely = {
            "clustering": self.clustering,
            "granularity": self.granularity.value if self.granularity else "",
            "buckets": self.buckets,
        }
        return {
            **Plan.encode(self),
            "inputs": [str(segment_id) for segment_id in self.inputs],
            "region": self.region.name,
            **{name: value for name, value in rarely.items() if value},
        }

    @classmethod
    def decode(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encode``."""
        common = decoded_fields({**body, "inputs": ()})
        return cls(
            **{**common, "inputs": tuple(map(SegmentId.parse, body["inputs"]))},
            region=Interval.from_name(body["region"]),
            clustering=body.get("clustering", ""),
            granularity=Granularity(body["granularity"]) if "granularity" in body else None,
            buckets=body.get("buckets", 0),
        )


def carried_over(
    found: PlanState,
    layout: Layout,
    core: Sequence[Segment],
    divided: Sequence[Segment],
    state: State,
) -> tuple[Segment, ...] | Conflict:
    """Return the carried segments and tombstones that a completion adds (rules 4 and 5).

    Args:
        found: the plan and its attempt.
        layout: the layout after the plan.
        core: the outputs.
        divided: what log files that did not fit were divided into.
        state: the table before the commit.
    """
    region, version = found.plan.interval, found.version or 0
    following = _next_partitions(core)
    carried: list[Segment] = []
    late = ((segment, _fitting(segment, layout, state)) for segment in _late(found, state))
    for segment, place in (*late, *((each, home(each, layout)) for each in divided)):
        if isinstance(place, Conflict):
            return place
        chunk = ChunkKey(place.interval, version, place.bucket)
        first, size = following.get(chunk, (0, 0))
        partition = max(first, state.id_space(chunk, Generation.FIRST).next)
        following[chunk] = (partition + 1, size)
        carried.append(segment.carried(chunk.segment(partition), size))
    filled = [segment.id for segment in (*core, *carried)]
    known = {chunk.bucket for chunk in state.timeline.chunk_keys(region)}
    hiding: list[Segment] = []
    for bucket in sorted(known | {each.bucket for each in filled}):
        covered = {each.interval for each in filled if each.bucket == bucket}
        hiding += tombstones(region, covered, version, state.time, bucket)
    return (*carried, *hiding)


def _fitting(segment: Segment, layout: Layout, state: State) -> Place | Conflict:
    """Return where a segment can be carried over to, or the conflict if it has to be divided."""
    found, chunk = home(segment, layout), segment.id.interval
    if isinstance(found, Conflict) or found.interval.encloses(chunk):
        return found
    if all(index.definition.kind.about_files for index in state.indexes.values()):
        return found
    reason = f"{chunk} is cut: other records of keys of {segment.id} may lie elsewhere; divide it"
    return Conflict(reason=reason)


def _late(found: PlanState, state: State) -> list[Segment]:
    """Return the segments that came to the region after the inputs, and still are to carry over."""
    inputs = set(found.inputs)
    visible = state.timeline.visible_segments(found.plan.interval)
    return [each for each in visible if each.id not in inputs and not each.tombstone]


def _parts(segments: Iterable[Segment]) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Return the core sets, and what log files were divided into."""
    parts: dict[bool, list[Segment]] = {False: [], True: []}
    for segment in segments:
        parts[segment.id.provisional].append(segment)
    return tuple(parts[False]), tuple(parts[True])


def _next_partitions(segments: Iterable[Segment]) -> dict[ChunkKey, tuple[int, int]]:
    """Return the first free partition and the core set size, by chunk."""
    sizes: dict[ChunkKey, tuple[int, int]] = {}
    for segment in segments:
        count = sizes.get(segment.id.chunk, (0, 0))[0] + 1
        sizes[segment.id.chunk] = (count, count)
    return sizes


def _core_set(chunk: ChunkKey, size: int) -> Named:
    core = (Shard.first_generation(p, core=size, base=size) for p in range(size))
    return tuple((chunk.segment(p), shard) for p, shard in enumerate(core))


def _chunks_of(inputs: Sequence[Segment], layout: Layout) -> Iterator[Interval]:
    """Yield the time chunks that may receive rows, by the first and last events of the inputs."""
    before: Interval | None = None
    for first, last in _stretches(inputs):
        for chunk in layout.chunks(first, last):
            if chunk != before:
                yield chunk
            before = chunk


def _stretches(inputs: Iterable[Segment]) -> Iterator[tuple[Instant, Instant]]:
    """Yield the first and last event times of inputs, joined where they overlap, in order."""
    held: tuple[Instant, Instant] | None = None
    for segment in sorted(inputs, key=lambda each: each.time_min):
        if held is not None and segment.time_min <= held[1]:
            held = (held[0], max(held[1], segment.time_max))
            continue
        if held is not None:
            yield held
        held = (segment.time_min, segment.time_max)
    if held is not None:
        yield held


def _sparse(inputs: Sequence[Segment], layout: Layout) -> tuple[Segment, ...]:
    """Return the inputs whose time chunks are not worth a list; few chunks always are."""
    chunks = sum(layout.most_chunks(first, last) for first, last in _stretches(inputs))
    if chunks <= FEW_CHUNKS:
        return ()
    return tuple(s for s in inputs if layout.most_chunks(s.time_min, s.time_max) > max(1, s.rows))
