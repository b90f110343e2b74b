"""What the keyed stress run saw of the log, event by event: cleaning deletes events and files.

1. The observer reads each event soon after it landed, much sooner than cleaning may delete it. It
   fails loudly if it came too late: then the run has proved nothing.
2. Log files of changes by condition are hard-linked below ``kept``, to be read at the end: what a
   change wrote depends on what it saw.
3. ``progress`` counts what has happened so far.
"""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted, PlanRequested
from airflow_provider_segtable.table.context import TableContext
from tests.stress.keyed.workload import streams_in


@dataclass(slots=True)
class Observer:
    """The events of a table so far; ``kept`` is where linked files are."""

    ports: TableContext
    kept: Path
    events: list[Event] = field(default_factory=list)
    progress: Counter[str] = field(default_factory=Counter)
    plans: dict[str, str] = field(default_factory=dict)

    def look(self) -> None:
        """Read the new events."""
        for event in self.ports.log.events(len(self.events)):
            self.events.append(event)
            self._count(event)
        newest, following = self.ports.log.load().n, len(self.events)
        if newest >= following and self.ports.log.event(following) is None:
            raise AssertionError(f"event {following} expired before it was read: look more often")

    def batches_of(self, writers: str) -> int:
        """Return the number of batches that streams of writers with this name have landed."""
        streams = streams_in(self.kept.parent)
        mine = {query for query, name in streams.items() if name.startswith(writers)}
        return sum(event.commit.rpartition("-")[0] in mine for event in self.events)

    def _count(self, event: Event) -> None:
        match event.action:
            case Appended(segments=segments) if event.commit.startswith("changer"):
                for segment in segments:
                    self._link(segment.path)
            case PlanRequested(plan=plan):
                self.plans[plan.id] = plan.kind
            case PlanCompleted(plan_id=plan_id):
                self.progress[self.plans[plan_id]] += 1
            case Cleaned(ids=ids) if ids:
                self.progress["cleaning"] += 1
            case _:
                pass

    def _link(self, path: str) -> None:
        (self.kept / path).parent.mkdir(parents=True, exist_ok=True)
        os.link(Path(self.ports.uri) / path, self.kept / path)
