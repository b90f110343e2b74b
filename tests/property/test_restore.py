"""Restore at any moment of any history: the table shows exactly what the version showed.

The histories are those of ``test_cleaning``: late appends, compactions of every kind, cuts of time,
cleanings, tags. Any version is restored at any time, and all goes on from there.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.log.events import Action
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored, restoration
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from tests.examples import examples
from tests.property.test_cleaning import CleanedHistory, shown
from tests.property.test_versions import Row


@dataclass
class RestoredHistory(CleanedHistory):
    """A history in which versions are restored."""

    rows: dict[int, list[Row]] = field(default_factory=lambda: {0: []})
    seen: Counter[str] = field(default_factory=Counter)

    def commit(self, action: Action) -> bool:
        """Commit, and remember the rows of the version."""
        before = self.appended
        if isinstance(action, VersionRestored):
            self.appended = list(self.rows[action.version])
        done = super().commit(action)
        if not done:
            self.appended = before
        self.rows[self.state.n] = list(self.appended)
        return done

    def file(
        self, chunk: ChunkKey, shard: Shard, rows: list[Row], sorted_from: Sequence[Segment] = ()
    ) -> Segment:
        """A compaction applies all deletes that it has read."""
        made = super().file(chunk, shard, rows, sorted_from)
        return replace(made, deletes_applied_through=self.state.n) if sorted_from else made

    def check_carried(self, action: PlanCompleted) -> None:
        """A restore may have ended the plan."""
        if self.state.plans[action.plan_id].status.pending:
            super().check_carried(action)
        else:
            self.seen["aborted"] += 1

    def restore(self) -> None:
        """Any version comes back, if it is kept."""
        if not self.past:
            return
        old = self.draw.choice(self.past)
        before, kept = self.state, self.state.keeps(old.n)
        assert self.commit(restoration(old)) == kept
        if not kept:
            self.seen["refused"] += 1
            return
        assert shown(self.state) == shown(old)
        assert self.state.layout == old.layout
        assert {s.id for s in before.timeline.segments()} <= {
            s.id for s in self.state.timeline.segments()
        }
        self.count(before, old)

    def count(self, before: State, old: State) -> None:
        """Count what is interesting."""
        self.seen["restored"] += 1
        self.seen["left alone"] += len(before.timeline) == len(self.state.timeline)
        self.seen["recut"] += before.layout != old.layout
        self.seen["undone"] += bool(shown(before) - shown(old))
        self.seen["brought back"] += bool(shown(old) - shown(before))


def played(history: RestoredHistory, steps: int) -> None:
    """Play steps of every kind."""
    kinds = [
        *(history.begin_append, history.end_append, history.begin_append, history.end_append),
        *(history.begin_major, history.end_major, history.compact_chunk),
        *(history.plan_cleaning, history.clean, history.sweep, history.tag, history.untag),
        *(history.restore, history.restore),
    ]
    for _ in range(steps):
        history.draw.choice(kinds)()


@examples(15)
@given(st.randoms(use_true_random=False))
def test_a_restored_version_shows_what_it_showed(draw: random.Random) -> None:
    """Whatever happened since, and whatever happens then, every row is there exactly once."""
    history = RestoredHistory(draw)
    played(history, 60)
    history.finish()
    history.check()
    assert read_checkpoint(write_checkpoint(history.state)) == history.state


def test_the_histories_reach_what_is_interesting() -> None:
    """Restores undo and bring back files, cut time again, end plans, and are refused."""
    seen: Counter[str] = Counter()
    for seed in range(18):
        history = RestoredHistory(random.Random(seed))
        played(history, 60)
        seen += history.seen
    wanted = ("restored", "left alone", "recut", "undone", "brought back", "refused", "aborted")
    assert min(seen[name] for name in wanted) > 3, seen
