"""Random tables, planned and compacted for a while: every plan is sound, every skip explained.

A seed makes a history: appends with holes and voids, rows deleted, plans requested, carried out,
given up or left pending, time passing. After each step the planner is asked, and what it answers
must be

1. admissible: requested one after another, the log's own rules let every plan in, so none breaks
   adjacency or takes what another has claimed, nor touches a pending major compaction's region;
2. within the budget; 3. complete: each visible segment is an input or has a reason;
4. a function: asked again, the same plans with the same ids, also if no reasons are wanted;
5. lasting: without an event the plans stay the same until the time that the planner says.

In the end nobody appends or deletes any more: then planning comes to rest, whatever the policy
wants, and no chunk is left of which much is deleted, but for the budget.
"""

from collections import Counter
from dataclasses import dataclass, replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.deletion import VectorFile
from airflow_provider_segtable.core.locks import FencingToken, Generation
from airflow_provider_segtable.core.log.events import Action, Event
from airflow_provider_segtable.core.log.families.append_events import Appended, Voided
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.log.fold import Conflict, admit, apply
from airflow_provider_segtable.core.log.group_plans import MinorPlan
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    Segment,
    SegmentId,
    Shard,
    concatenated,
    roots_of,
)
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, MINUTE_US, Granularity, Interval
from airflow_provider_segtable.planning.planner_context import look_at_table
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import BRIEFLY, Planned
from airflow_provider_segtable.planning.table_plan import plan_all
from tests.examples import examples
from tests.support.builders import BASE, DEFINITION, created

HOURS = 30
START = BASE - 10 * DAY_US
ROW_BYTES = 100
ROUNDS_TO_REST = 40


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A row's event time and address."""

    at: int
    root: SegmentId
    number: int


class History:
    """A table without files: ``rows`` by path, ``gone`` says which event deleted a row."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        hours = {"granularity": Granularity.HOUR}
        self.state: State = created(replace(DEFINITION, **hours))
        self.rows: dict[str, list[Row]] = {}
        self.gone: dict[Row, int] = {}
        self.policy = self.some_policy()
        self.idle_us = 0

    @property
    def now(self) -> int:
        """Return the time."""
        return self.state.time + self.idle_us

    def some_policy(self) -> Policy:
        """Return a policy."""
        pick = self.draw.choice
        return Policy(
            target_size=pick([500, 2000]),
            min_segments=pick([2, 4]),
            max_age_minutes=pick([0.0, 60.0]),
            max_plans=pick([1, 64]),
            max_plan_bytes=pick([2000, 10**9]),
            clustering=pick(["", "carrier"]),
            deleted_share=pick([0.0, 0.1, 0.5]),
            semi_major_unclustered=pick([0.0, 0.1, 0.5]),
            semi_major_interval_minutes=pick([0.0, 60.0]),
            major=pick(["auto", "auto", "off"]),
            major_after_minutes=pick([0.0, 1440.0]),
            major_unclustered=pick([0.0, 0.1, 0.5]),
            major_granularity=pick(["", "day", "hour"]),
            retry_aborted_minutes=pick([0.0, 60.0]),
            skip_offset_minutes=pick([0.0, 0.0, 14_000.0]),
            skip_offset_from="now",
        )

    def commit(self, action: Action) -> bool:
        """Commit as the committer does; False if the log refuses."""
        admitted = admit(action, self.state)
        if isinstance(admitted, Conflict):
            return False
        n = self.state.n + 1
        at, self.idle_us = self.now + 1_000_000, 0
        event = Event(n=n, time=at, commit=f"c{n}", author="test", action=admitted)
        self.state = apply(self.state, event)
        return True

    def file(self, chunk: ChunkKey, shard: Shard, rows: list[Row], **more: object) -> Segment:
        """Return a segment with these rows; without any it has no file."""
        path = f"data/{len(self.rows)}.parquet" if rows else ""
        if rows:
            self.rows[path] = rows
        inside = [row.at for row in rows] or [chunk.interval.start, chunk.interval.end - 1]
        made = Segment(
            id=chunk.segment(shard.partition),
            shard=shard,
            path=path,
            rows=len(rows),
            size=ROW_BYTES * len(rows),
            row_groups=1,
            time_min=min(inside),
            time_max=max(inside),
            created=self.now,
        )
        return replace(made, **more)

    def append(self) -> None:
        """Append to an hour or two; sometimes an id is left out, as a slow writer does."""
        segments = []
        first = self.draw.randrange(HOURS)
        for hour in {first, min(first + self.draw.randrange(3), HOURS - 1)}:
            at = START + hour * HOUR_US
            chunk = self.state.append_chunk(self.state.layout.chunk(at))
            if any(chunk == segment.id.chunk for segment in segments):
                continue
            following = self.state.id_space(chunk, Generation.FIRST).next
            shard = Shard.first_generation(following + self.draw.choice([0, 0, 0, 1]))
            root = chunk.segment(shard.partition)
            rows = [Row(at + k, root, k) for k in range(self.draw.choice([1, 3, 15, 40]))]
            segments.append(self.file(chunk, shard, rows))
        assert self.commit(Appended(segments=tuple(segments)))

    def delete(self) -> None:
        """Delete few rows, many, or all of some segments."""
        visible = [s for s in self.state.timeline.visible_segments() if s.path]
        some = self.draw.sample(visible, min(len(visible), self.draw.choice([1, 3])))
        randomness = self.draw.choice([0.05, 0.3, 1.0])
        going = [
            row
            for segment in some
            for row in self.rows[segment.path]
            if row not in self.gone and self.draw.random() < randomness
        ]
        if not going:
            return
        counts = Counter(row.root for row in going)
        file = VectorFile(path=f"deletes/{self.state.n}.arrow", size=1, rows=dict(counts))
        change = RowsChanged(kind="delete", vectors=(file,), seen=self.state.n, matched=len(going))
        assert self.commit(change)
        self.gone |= dict.fromkeys(going, self.state.n)

    def void(self) -> None:
        """Some writer gave up."""
        holes = self.holes()
        if holes:
            self.commit(Voided(ids=(self.draw.choice(holes),), reason="dead"))

    def request(self) -> Planned:
        """Plan and request everything; the log must let every plan in."""
        planned = self.planned()
        for plan in planned.chosen:
            assert self.commit(PlanRequested(plan=plan)), plan
        return planned

    def planned(self) -> Planned:
        """Ask the planner, and check what it says."""
        found = plan_all(self.state, self.policy, self.now)
        assert plan_all(self.state, self.policy, self.now) == found
        self.check_lasting(found)
        assert len(found.chosen) <= self.policy.max_plans
        assert sum(plan.size for plan in found.chosen) <= self.policy.max_plan_bytes
        assert all(skipped.reason for skipped in found.skipped)
        taken = {segment_id for plan in found.chosen for segment_id in plan.inputs}
        for segment in self.state.timeline.visible_segments():
            explained = not segment.rows or segment.id in taken or _left(segment.id, found)
            assert explained, f"{segment.id} is neither chosen nor explained"
        for plan in found.chosen:
            assert all(i in self.state.timeline for i in plan.inputs)
            assert any(s.rows for i in plan.inputs if (s := self.state.timeline.get(i)))
        return found

    def check_lasting(self, found: Planned) -> None:
        """Ask again without reasons, and just before the plans are due."""
        brief = plan_all(self.state, self.policy, self.now, explain=BRIEFLY)
        lasts = self.now + 9 * DAY_US if brief.due is None else brief.due - 1
        times = {self.now, max(self.now, lasts), self.draw.randint(self.now, max(self.now, lasts))}
        for at in times:
            again = plan_all(self.state, self.policy, at, explain=BRIEFLY)
            assert _offered(again) == _offered(found)

    def give_up(self) -> None:
        """Some pending plan is aborted."""
        pending = self.state.pending_plans()
        if pending:
            known = self.draw.choice(pending)
            reason = "its workers died"
            action = PlanAborted(plan_id=known.plan.id, attempt=known.attempt, reason=reason)
            assert self.commit(action)

    def carry_out(self) -> None:
        """Some pending plan is carried out; its inputs may be gone by now."""
        pending = self.state.pending_plans()
        if pending:
            self.finish(self.draw.choice(pending).plan)

    def finish(self, plan: Plan) -> None:
        """Carry a plan out, or give it up if its inputs are gone."""
        major = plan.kind == MajorPlan.kind
        version = self.state.version_above(plan.interval) + 1 if major else None
        inputs = plan.inputs
        if major:
            visible = self.state.timeline.visible_segments(plan.interval)
            inputs = tuple(s.id for s in visible if not s.tombstone)
        following = self.state.id_space(plan.chunk, Generation.LATER).next
        ids = () if major else tuple(plan.chunk.segment(following + p) for p in range(plan.outputs))
        start = PlanInflight(
            plan_id=plan.id,
            attempt="a",
            token=FencingToken("e", self.state.n),
            outputs=ids,
            inputs=inputs if major else (),
            version=version,
        )
        if not self.commit(start):
            gone = PlanAborted(plan_id=plan.id, attempt=None, reason="inputs are gone")
            assert self.commit(gone)
            return
        made = self.major(plan, inputs, version or 0) if major else self.group(plan, ids)
        made = tuple(replace(segment, deletes_applied_through=self.state.n) for segment in made)
        if self.draw.random() < 0.2:
            self.delete()
        assert self.commit(PlanCompleted(plan_id=plan.id, attempt="a", segments=made))

    def major(self, plan: Plan, inputs: tuple[SegmentId, ...], version: int) -> tuple[Segment, ...]:
        """Return the core sets of the new version."""
        roots = roots_of(s for i in inputs if (s := self.state.timeline.get(i)))
        chunks: dict[Interval, list[Row]] = {}
        for row in self.left(inputs):
            chunks.setdefault(plan.layout_after(self.state.layout).chunk(row.at), []).append(row)
        made: list[Segment] = []
        for interval, rows in chunks.items():
            parts = self.cut(rows)
            for p, part in enumerate(parts):
                shard = Shard.first_generation(p, core=len(parts), base=len(parts))
                chunk = ChunkKey(interval, version)
                more = {"clustering": plan.clustering, "roots": roots}
                made.append(self.file(chunk, shard, part, **more))
        return tuple(made)

    def group(self, plan: Plan, ids: tuple[SegmentId, ...]) -> tuple[Segment, ...]:
        """Return the atomic update group of a minor or semi-major compaction."""
        inputs = [s for i in plan.inputs if (s := self.state.timeline.get(i))]
        rows = self.left(plan.inputs)
        minor = plan.kind == MinorPlan.kind
        parts = [rows] if minor or not rows else self.cut(rows, most=len(ids))
        whole = len(rows) == sum(segment.rows for segment in inputs)
        lineage = concatenated(inputs) if minor and whole else ()
        above = self.state.timeline.max_minor(plan.chunk, plan.root_start, plan.root_end) + 1
        return tuple(
            self.file(
                plan.chunk,
                Shard(
                    partition=segment_id.partition,
                    root_start=plan.root_start,
                    root_end=plan.root_end,
                    minor_version=above,
                    group_size=len(parts),
                    core=self.state.timeline.core(plan.chunk),
                ),
                part,
                lineage=lineage,
                roots=() if lineage else roots_of(inputs),
                clustering=plan.order or "",
            )
            for segment_id, part in zip(ids, parts, strict=False)
        )

    def left(self, inputs: tuple[SegmentId, ...]) -> list[Row]:
        """Return the rows of segments that are not deleted."""
        found = (s for i in inputs if (s := self.state.timeline.get(i)) and s.path)
        return [r for s in found for r in self.rows[s.path] if r not in self.gone]

    def cut(self, rows: list[Row], most: int = 1000) -> list[list[Row]]:
        """Return rows as well-sized parts, or larger ones if that gives too many."""
        per_part = max(self.policy.target_size // ROW_BYTES, -(-len(rows) // most))
        return [rows[at : at + per_part] for at in range(0, len(rows), per_part)]

    def settle(self) -> None:
        """Nobody appends any more: everything pending is carried out, until nothing pays."""
        for known in self.state.pending_plans():
            self.finish(known.plan)
        self.policy = replace(self.policy, max_plans=64)
        for _ in range(ROUNDS_TO_REST):
            self.idle_us = 2 * DAY_US
            if self.holes():
                assert self.commit(Voided(ids=self.holes(), reason="dead"))
            planned = self.request()
            for plan in planned.chosen:
                self.finish(plan)
            if not planned.chosen:
                self.check_purged()
                return
        raise AssertionError(f"not at rest after {ROUNDS_TO_REST} rounds: {planned.chosen[0]}")

    def check_purged(self) -> None:
        """At rest no chunk has many deleted rows, by estimate, but for the budget."""
        found = look_at_table(self.state, self.policy, self.now)
        for chunk in self.state.timeline.visible_chunks():
            much = found.much_deleted(found.segments(chunk.interval))
            assert self.policy.max_plan_bytes < 10**9 or not much, f"{chunk}: {much}"

    def holes(self) -> tuple[SegmentId, ...]:
        """Return the ids that somebody may still publish."""
        return tuple(
            chunk.segment(partition)
            for (chunk, generation), space in self.state.ids.items()
            if generation is Generation.FIRST
            for partition in sorted(space.holes)
        )


def _offered(planned: Planned) -> list[tuple[str, float | None]]:
    """Return the plans with their gains, without reasons: these tell ages."""
    return [(plan.id, planned.gains.get(plan.id)) for plan in planned.chosen]


def _left(segment_id: SegmentId, found: Planned) -> bool:
    return any(
        skipped.chunk.interval.overlaps(segment_id.interval)
        if not skipped.partitions
        else skipped.chunk == segment_id.chunk and segment_id.partition in skipped.partitions
        for skipped in found.skipped
    )


@examples(45)
@given(st.integers(0, 2**32), st.integers(5, 40))
def test_plans_are_sound_explained_and_come_to_an_end(seed: int, steps: int) -> None:
    """Whatever happens to a table, planning keeps its rules and comes to rest."""
    history = History(seed)
    doing = [
        history.append,
        history.append,
        history.append,
        history.delete,
        history.void,
        history.request,
        history.carry_out,
        history.carry_out,
        history.give_up,
    ]
    for _ in range(steps):
        history.draw.choice(doing)()
        history.planned()
        if history.draw.random() < 0.1:
            history.policy = history.some_policy()
        if history.draw.random() < 0.1:
            history.idle_us += 90 * MINUTE_US
    assert list(violations(history.state)) == []
    history.settle()
    assert list(violations(history.state)) == []
