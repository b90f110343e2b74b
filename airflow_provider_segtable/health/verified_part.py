"""The part of a large table that one run verifies: what was written lately, and some of the rest.

1. *Lately* means after ``since``, by the storage's clock: events and checkpoints, sidecars, and the
   chunks that the newest checkpoint has beside its sidecars. The log is read from the newest
   checkpoint on that was stored before.
2. *The rest* has a moment of its own in each ``ROTA_US``, each sidecar by its name
   (``planning.fleet.rota``). So runs that follow each other look at all of it, and none needs a
   memory: a run takes what became due since the run before.
3. A sidecar never changes, so what it has is what was verified before, except for damage to files.
4. The part is a list of intervals that split no chunk. Checks of a table hold within each, because
   no rule spans chunks that do not overlap.
5. A table without sidecars is verified as a whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.log_paths import CHECKPOINTS, number
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import whole_chunks
from airflow_provider_segtable.core.time import DAY_US, Instant, Interval
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.planning.fleet.rota import due
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.table.log.sidecars import SIDECARS, Layers, layers_of

ROTA_US = 28 * DAY_US
"""The time in which runs that follow each other look at all of a table."""
SKEW_US = 300_000_000
"""By how much the clock of the storage may differ from the one of ``since``."""
TOGETHER = 32_768
"""Number of segments from which on a part is checked before more are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a run verifies: all that was written after ``since``, and what is due up to ``now``."""

    since: Instant
    now: Instant

    def takes(self, name: str) -> bool:
        """Return whether something that has not changed is due (rule 2)."""
        return due(name, self.since, self.now, ROTA_US)

    def base(self, storage: Storage) -> int:
        """Return the event of the newest checkpoint that was stored before; -1 without one."""
        before = self.since - SKEW_US
        old = (e.path for e in storage.list(CHECKPOINTS) if e.modified <= before)
        return max((n for path in old if (n := number(path)) is not None), default=-1)

    def states(self, storage: Storage, state: State) -> Iterator[State]:
        """Yield the state with some chunks at a time, all of them if it has no sidecars."""
        layers = layers_of(state)
        if layers is None or not layers.sidecars:
            yield state
            return
        some, count = list[Interval](), 0
        for piece in whole_chunks(state.timeline, self._intervals(storage, state, layers)):
            some.append(piece)
            count += sum(chunk.count for chunk in state.timeline.chunks(piece))
            if count >= TOGETHER:
                yield within(state, some)
                some, count = [], 0
        yield within(state, some)

    def _intervals(self, storage: Storage, state: State, layers: Layers) -> set[Interval]:
        before = self.since - SKEW_US
        old = {each.path for each in storage.list(SIDECARS) if each.modified <= before}
        beside = {*layers.own.keys, *state.timeline.changed_chunks(layers.timeline)}
        return {key.interval for key in beside} | {
            Interval(each.first.interval.start, each.end)
            for each in layers.sidecars
            if each.first and (each.path not in old or self.takes(each.path))
        }


def within(state: State, pieces: Sequence[Interval]) -> State:
    """Return the state with the chunks of some intervals alone, and their settlements."""
    present = (s for piece in pieces for s in state.timeline.segments(piece))
    timeline = Timeline.empty().with_changes(add=present)
    keys = {*timeline.chunk_keys()}
    settled = {at: each for at, each in state.settled.items() if each.group.chunk in keys}
    return replace(state, timeline=timeline, settled=settled)
