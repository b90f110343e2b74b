"""Scripts of changes, played on the real core: ``admit`` and ``apply``, and no file at all.

A tiny interpreter plays readers and kernels: a dictionary says which rows each path holds (with
root addresses where the log does not tell them), another which row numbers each file of vectors
names. A kernel leaves out what is deleted at the event it reads, and says so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from airflow_provider_segtable.core.deletion import VectorFile, paths
from airflow_provider_segtable.core.locks import FencingToken, Generation
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Action, Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned, Swept, cleanable
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanCompleted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.log.fold import admit, apply
from airflow_provider_segtable.core.log.group_plans import MinorPlan, SemiMajorPlan
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.plan import Plan, plan_id
from airflow_provider_segtable.core.log.replacement import closed_region
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    Segment,
    SegmentId,
    Shard,
    concatenated,
    roots_of,
)
from airflow_provider_segtable.core.time import Granularity, Interval
from tests.property.changes_model import HOURS, Row, Step, renewed
from tests.support.builders import DEFINITION, created

HOURLY = replace(DEFINITION, granularity=Granularity.HOUR)


class Held(NamedTuple):
    """A row, and its root address."""

    root: SegmentId
    index: int
    row: Row


@dataclass
class _Look:
    step: Step
    seen: int
    chosen: list[Held]
    tries: int = 0


@dataclass
class _Run:
    plan: Plan
    made: tuple[Segment, ...]


@dataclass
class Ours:
    """The table, what its files hold, and who is at work."""

    state: State = field(default_factory=lambda: created(HOURLY))
    held: dict[str, list[Held | Row]] = field(default_factory=dict)
    vectors: dict[str, dict[SegmentId, frozenset[int]]] = field(default_factory=dict)
    past: list[State] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    conflicts: int = 0
    deletes_applied_through: int = 0
    _written: dict[str, Appended] = field(default_factory=dict)
    _looked: dict[str, _Look] = field(default_factory=dict)
    _running: dict[str, _Run] = field(default_factory=dict)

    @property
    def rows(self) -> dict[str, Row]:
        """Return what a reader finds."""
        return {held.row.number: held.row for held in self.read(self.state)}

    def read(self, state: State) -> list[Held]:
        """Return what a reader of a version finds, each row once."""
        found = [
            held
            for seen in state.timeline.lookup()
            for segment in seen.segments
            for held in self.kept(segment, state)
            if seen.interval.holds(held.row.at)
        ]
        assert len({held.row.number for held in found}) == len(found), "a row is doubled"
        return found

    def kept(self, segment: Segment, state: State) -> list[Held]:
        """Return the rows of a segment without those deleted as of a state."""
        assert segment.path not in self.deleted
        deletions = state.deletions(segment)
        assert not paths(deletions) & self.deleted
        gone = {
            (root, index)
            for root, some in deletions.items()
            for each in some
            for index in self.vectors[each.path][root]
        }
        held = self.addressed(segment)
        assert all(segment.may_hold(one.root) for one in held)
        return [one for one in held if (one.root, one.index) not in gone]

    def addressed(self, segment: Segment) -> list[Held]:
        """Return all rows of a segment's file, with the addresses that the log or it tells."""
        rows = self.held.get(segment.path, [])
        if not segment.traced:
            return [row for row in rows if isinstance(row, Held)]
        roots = [(run.root, run.start + i) for run in segment.runs for i in range(run.rows)]
        plain = [row.row if isinstance(row, Held) else row for row in rows]
        return [Held(*address, row) for address, row in zip(roots, plain, strict=True)]

    def play(self, step: Step) -> None:
        """Do one step."""
        match step.do:
            case "write":
                self._written[step.name] = Appended(segments=self.files(step.rows, step.pick))
            case "append":
                self.append(self._written.pop(step.name))
            case "look":
                chosen = set(step.where.chosen(sorted(self.rows.values())))
                rows = [held for held in self.read(self.state) if held.row in chosen]
                self._looked[step.name] = _Look(step, self.state.n, rows)
            case "change":
                self.change(self._looked.pop(step.name))
            case "start":
                self.start(step)
            case "finish":
                self.finish(step.name)
            case "clean":
                self.clean(step.pick)
            case "sweep":
                self.deleted |= self.state.pending_delete
                if self.state.pending_delete and step.pick % 2:
                    self.commit(Swept(paths=tuple(self.state.pending_delete)))

    def commit(self, action: Action) -> bool:
        """Commit an action if it is admitted, and check what the state alone tells."""
        admitted = admit(action, self.state)
        if isinstance(admitted, Conflict):
            self.conflicts += 1
            return False
        self.past.append(self.state)
        n = self.state.n + 1
        event = Event(n=n, time=self.state.time + 1, commit=f"c{n}", author="x", action=admitted)
        self.state = apply(self.state, event)
        assert list(violations(self.state)) == []
        return True

    def files(self, rows: Sequence[Row], offset: int = 0) -> tuple[Segment, ...]:
        """Write rows, one file for each time chunk, under ids that others may have, too."""
        chunks: dict[Interval, list[Row]] = {}
        for row in rows:
            chunks.setdefault(self.state.layout.chunk(row.at), []).append(row)
        made = []
        for interval, some in chunks.items():
            chunk = self.state.append_chunk(interval)
            partition = self.state.id_space(chunk, Generation.FIRST).next + offset
            made.append(self.file(chunk, Shard.first_generation(partition), some))
        return tuple(made)

    def file(
        self,
        chunk: ChunkKey,
        shard: Shard,
        rows: Sequence[Held | Row],
        *,
        inputs: Sequence[Segment] = (),
        deletes_applied_through: int = 0,
    ) -> Segment:
        """Write a file; ``inputs`` is what it was made of, if not of new rows."""
        times = [row.row.at if isinstance(row, Held) else row.at for row in rows]
        path = f"{len(self.held)}.parquet" if rows else ""
        if rows:
            self.held[path] = list(rows)
        untouched = sum(segment.rows for segment in inputs) == len(rows)
        ordered = [held for s in inputs for held in self.addressed(s)] == list(rows)
        lineage = concatenated(inputs) if untouched and ordered else ()
        return Segment(
            id=chunk.segment(shard.partition),
            shard=shard,
            path=path,
            rows=len(rows),
            size=len(rows),
            row_groups=1,
            time_min=min(times, default=chunk.interval.start),
            time_max=max(times, default=chunk.interval.end - 1),
            created=self.state.time,
            lineage=lineage,
            roots=() if lineage else roots_of(inputs),
            deletes_applied_through=deletes_applied_through,
        )

    def append(self, action: Appended) -> None:
        """Commit an append; where time was cut anew, its writer writes again."""
        if not self.commit(action):
            rows = [row for s in action.segments for row in self.held[s.path]]
            plain = [row for row in rows if isinstance(row, Row)]
            assert self.commit(Appended(segments=self.files(plain)))

    def change(self, look: _Look) -> None:
        """Commit a change as its author saw it; look again if others changed the same roots."""
        rows = [renewed(held.row, look.step.name) for held in look.chosen]
        segments = self.files(rows) if look.step.update else ()
        while look.chosen:
            file = self.vector_file(look.chosen)
            if self.commit(
                RowsChanged(kind="x", segments=segments, vectors=(file,), seen=look.seen)
            ):
                return
            look.tries += 1
            assert look.tries < 3
            there = set(self.read(self.state)).intersection(look.chosen)  # by address, too
            if look.step.update and len(there) < len(look.chosen):
                return
            look.chosen = [held for held in look.chosen if held in there]
            look.seen = self.state.n
            segments = self.files(rows) if look.step.update else ()

    def vector_file(self, rows: Iterable[Held]) -> VectorFile:
        """Write a file of vectors."""
        found: dict[SegmentId, set[int]] = {}
        for held in rows:
            found.setdefault(held.root, set()).add(held.index)
        path = f"{len(self.vectors)}.arrow"
        self.vectors[path] = {root: frozenset(some) for root, some in found.items()}
        return VectorFile(path=path, size=1, rows={r: len(some) for r, some in found.items()})

    def start(self, step: Step) -> None:
        """Plan a compaction, begin it, and read what it is to write."""
        plan = self.major(step) if step.kind == MajorPlan.kind else self.group(step)
        if plan is None or not self.commit(PlanRequested(plan=plan)):
            return
        major = plan.kind == MajorPlan.kind
        first = self.state.id_space(plan.chunk, Generation.LATER).next
        size = 1 if plan.kind == MinorPlan.kind else 1 + step.pick % 2
        ids = tuple(plan.chunk.segment(first + p) for p in range(size))
        action = PlanInflight(
            plan_id=plan.id,
            attempt="a",
            token=FencingToken("e", 1),
            outputs=() if major else ids,
            inputs=plan.inputs if major else (),
            version=self.state.version_above(plan.interval) + 1 if major else None,
        )
        if self.commit(action):
            made = self.new_version(plan, step) if major else self.merged(plan, ids)
            self._running[step.name] = _Run(plan, made)

    def finish(self, name: str) -> None:
        """Commit a compaction; whatever was changed meanwhile, only its inputs can be gone."""
        run = self._running.pop(name, None)
        if run is None:
            return
        visible = {s.id for s in self.state.timeline.visible_segments(run.plan.interval)}
        done = self.commit(PlanCompleted(plan_id=run.plan.id, attempt="a", segments=run.made))
        torn = getattr(run.plan, "granularity", None) is Granularity.HOUR
        assert done or torn or not visible.issuperset(run.plan.inputs)

    def group(self, step: Step) -> Plan | None:
        """Plan some adjacent groups of a chunk, or all of them."""
        chunks = self.state.timeline.visible_chunks()
        if not chunks:
            return None
        groups = self.state.timeline.visible_groups(chunks[step.pick % len(chunks)])
        if step.kind == MinorPlan.kind:
            first = step.pick % len(groups)
            groups = groups[first : first + 1 + step.pick % 3]
        if not groups or any(a.end != b.start for a, b in pairwise(groups)):
            return None
        inputs = [s.id for g in groups for s in g.segments]
        kind = MinorPlan if step.kind == MinorPlan.kind else SemiMajorPlan
        start, end = groups[0].start, groups[-1].end
        return kind(**_common(step, inputs), root_start=start, root_end=end)

    def major(self, step: Step) -> Plan | None:
        """Plan a region, maybe cutting it anew."""
        at = step.pick * 7919 % (HOURS * 60) * 60_000_000
        region = closed_region(self.state.layout.chunk(at), step.cut, self.state)
        visible = self.state.timeline.visible_segments(region)
        inputs = [s.id for s in visible if s.rows]
        if not inputs:
            return None
        return MajorPlan(**_common(step, inputs), region=region, granularity=step.cut)

    def inputs(self, plan: Plan) -> list[Segment]:
        """Return a plan's inputs, in its order."""
        return [s for i in plan.inputs if (s := self.state.timeline.get(i))]

    def merged(self, plan: Plan, ids: Sequence[SegmentId]) -> tuple[Segment, ...]:
        """Return what a minor or semi-major compaction makes."""
        inputs = self.inputs(plan)
        rows = [held for segment in inputs for held in self.kept(segment, self.state)]
        if plan.kind == SemiMajorPlan.kind:
            rows.sort(key=lambda held: held.row, reverse=True)
        ids = ids[: max(len(rows), 1)]
        self.deletes_applied_through += sum(segment.rows for segment in inputs) - len(rows)
        above = self.state.timeline.max_minor(plan.chunk, plan.root_start, plan.root_end) + 1
        shards = (
            Shard(
                partition=segment_id.partition,
                root_start=plan.root_start,
                root_end=plan.root_end,
                minor_version=above,
                group_size=len(ids),
                core=self.state.timeline.core(plan.chunk),
            )
            for segment_id in ids
        )
        return tuple(
            self.file(
                plan.chunk,
                s,
                rows[p :: len(ids)],
                inputs=inputs,
                deletes_applied_through=self.state.n,
            )
            for p, s in enumerate(shards)
        )

    def new_version(self, plan: Plan, step: Step) -> tuple[Segment, ...]:
        """Return the core sets that a major compaction makes."""
        inputs, version = self.inputs(plan), self.state.plans[plan.id].version or 0
        layout = plan.layout_after(self.state.layout)
        chunks: dict[Interval, list[Held]] = {}
        kept = [held for segment in inputs for held in self.kept(segment, self.state)]
        self.deletes_applied_through += sum(segment.rows for segment in inputs) - len(kept)
        for held in sorted(kept, key=lambda held: held.row, reverse=True):
            chunks.setdefault(layout.chunk(held.row.at), []).append(held)
        made = []
        for interval, rows in chunks.items():
            size = min(1 + step.pick % 3, len(rows))
            for p in range(size):
                shard, part = Shard.first_generation(p, core=size), rows[p::size]
                chunk = ChunkKey(interval, version)
                made.append(
                    self.file(
                        chunk, shard, part, inputs=inputs, deletes_applied_through=self.state.n
                    )
                )
        return tuple(made)

    def clean(self, keep: int) -> None:
        """Clean what only versions older than the last few show."""
        oldest = max(self.state.n - keep, self.state.retained_from)
        retained = [*self.past, self.state][oldest]
        found = cleanable(self.state, retained=[retained])
        self.commit(Cleaned(retained_from=oldest, ids=found.ids))


def _common(step: Step, inputs: Sequence[SegmentId]) -> dict[str, Any]:
    return {
        "id": plan_id("t", step.kind, tuple(inputs), step.name),
        "chunk": inputs[0].chunk,
        "inputs": tuple(inputs),
        "outputs": 1,
        "rows": 1,
        "size": 1,
        "reason": "",
    }
