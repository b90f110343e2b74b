"""Cleaning at any moment of any history: every kept version stays whole, and the rest goes.

The histories are those of ``test_versions``: late appends, compactions of every kind, cuts of time.
Here cleaners plan at one moment and commit at another, doomed files are deleted and swept late,
versions are tagged and untagged. The model remembers the state after every event.
"""

import random
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.log.events import Action
from airflow_provider_segtable.core.log.families.cleaning_events import (
    Cleaned,
    Keep,
    Swept,
    cleanable,
)
from airflow_provider_segtable.core.log.families.tag_events import Tagged, Untagged
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from tests.examples import examples
from tests.property.test_versions import History


def shown(state: State) -> set[str]:
    """Return the files that a reader of a version opens."""
    return {segment.path for segment in state.timeline.visible_segments() if segment.path}


@dataclass
class CleanedHistory(History):
    """A history with cleaners and taggers."""

    past: list[State] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    planned: list[Cleaned] = field(default_factory=list)

    def commit(self, action: Action) -> bool:
        """Commit, and remember what the table was like."""
        if not self.past:
            self.past.append(self.state)
        before = self.state
        done = super().commit(action)
        if done:
            self.past.append(self.state)
            if isinstance(action, Cleaned):
                assert self.state.timeline.lookup() == before.timeline.lookup()
        return done

    def check(self) -> None:
        """Check that every kept version has all its files."""
        super().check()
        for state in (*self.past, self.state):
            if self.state.keeps(state.n):
                assert not shown(state) & self.deleted, f"version {state.n}"
        for plan in self.state.pending_plans():
            assert all(i in self.state.timeline for i in plan.inputs)

    def plan_cleaning(self) -> None:
        """A cleaner looks, keeping some of the last versions; it commits later, or never."""
        if self.past:
            self.planned.append(self.look(max(0, self.state.n - self.draw.randint(0, 20))))

    def look(self, oldest: int) -> Cleaned:
        """Return what a cleaner finds."""
        oldest = max(oldest, self.state.retained_from)
        found = cleanable(
            self.state,
            retained=[self.past[oldest]],
            tagged=[self.past[n] for n in self.state.tags.values()],
        )
        return Cleaned(retained_from=oldest, ids=found.ids, tags=self.state.tags)

    def clean(self) -> None:
        """A cleaner commits, if the log lets it."""
        if self.planned:
            self.commit(self.planned.pop(self.draw.randrange(len(self.planned))))

    def sweep(self) -> None:
        """Doomed files are deleted; the event may come later, or never."""
        self.deleted |= self.state.pending_delete
        if self.state.pending_delete and self.draw.random() < 0.5:
            self.commit(Swept(paths=tuple(sorted(self.state.pending_delete))))

    def tag(self) -> None:
        """Somebody names a version, old or new, whether it is kept or not."""
        if self.past:
            n = self.draw.randint(0, self.state.n)
            kept = self.state.keeps(n)
            assert self.commit(Tagged(name=f"tag{self.number}-{self.state.n}", n=n)) == kept

    def untag(self) -> None:
        """A name is taken away."""
        if self.state.tags:
            self.commit(Untagged(name=self.draw.choice(sorted(self.state.tags))))

    def finish(self) -> None:
        """When all else is done, one cleaning leaves exactly what is needed."""
        while self.running:
            self.end_major()
        if not self.past:
            return
        self.commit(self.look(self.state.n))
        self.deleted |= self.state.pending_delete
        versions = (self.state, *(self.past[n] for n in self.state.tags.values()))
        needed = {path for state in versions for path in shown(state)}
        claimed = {i for plan in self.state.pending_plans() for i in plan.inputs}
        left = [s for s in self.state.timeline.segments() if s.path and s.path not in needed]
        held = {s.shard.group for s in left if s.id in claimed}
        assert all(s.shard.group in held for s in left)
        assert read_checkpoint(write_checkpoint(self.state)) == self.state


@examples(70)
@given(st.randoms(use_true_random=False))
def test_kept_versions_stay_whole_and_the_rest_goes(draw: random.Random) -> None:
    """Whatever is cleaned when, no kept version misses a file, and at rest nothing is left over."""
    history = CleanedHistory(draw)
    steps = [
        *(history.begin_append, history.end_append, history.end_append),
        *(history.begin_major, history.end_major, history.compact_chunk, history.compact_chunk),
        *(history.plan_cleaning, history.clean, history.clean, history.sweep),
        *(history.tag, history.untag, history.untag),
    ]
    for _ in range(70):
        draw.choice(steps)()
    history.finish()
    history.check()


def test_the_histories_reach_what_is_interesting() -> None:
    """Segments are cleaned, kept for every reason, and files shared, in these histories."""
    reasons: set[Keep] = set()
    cleaned = shared = 0
    for seed in range(15):
        history = CleanedHistory(random.Random(seed))
        steps = [history.begin_append, history.end_append, history.begin_major, history.end_major]
        steps += [history.compact_chunk, history.plan_cleaning, history.clean, history.tag]
        for _ in range(80):
            history.draw.choice(steps)()
            if history.past:
                state, old = history.state, history.past[max(0, history.state.n - 5)]
                tagged = [history.past[n] for n in state.tags.values()]
                found = cleanable(state, retained=[old], tagged=tagged)
                reasons |= set(found.kept.values())
                cleaned += len(found.segments)
                paths = [s.path for s in state.timeline.segments() if s.path]
                shared += len(paths) - len(set(paths))
    assert {Keep.RECENT, Keep.TAGGED, Keep.BELOW} <= reasons
    assert cleaned > 100
    assert shared > 10
