"""Kills of a fleet run, and the supervisor that starts again what was killed.

1. Killed with SIGKILL are: the scheduler alone, so that its tasks go on as orphans; the scheduler
   and all below it, as a machine that fails; the triggerer; one process of a task; a writer; and
   ZooKeeper, which stays away for some seconds.
2. The supervisor starts again whatever has ended, whoever ended it; it is not killed itself.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from tests.stress.crew import Crew
from tests.support.airflow_stack import COMPONENTS, AirflowStack

VICTIMS = ("scheduler", "machine", "triggerer", "task", "task", "task", "zookeeper", "writer")
AWAY_S = (2.0, 8.0)
"""How long ZooKeeper, and a component, stay away."""


@dataclass(slots=True)
class Disasters:
    """What is killed and started again; ``done`` says when, as pairs of time and victim."""

    stack: AirflowStack
    zookeeper: EmbeddedZooKeeper
    crew: Crew
    random: Random
    done: list[tuple[float, str]] = field(default_factory=list)
    away: dict[str, float] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)

    def strike(self) -> None:
        """Kill somebody."""
        victim = self.random.choice(VICTIMS)
        back = time.monotonic() + self.random.uniform(*AWAY_S)
        match victim:
            case "zookeeper" if victim not in self.away:
                self.zookeeper.kill()
                self.away[victim] = back
            case "scheduler" | "triggerer" if victim not in self.away:
                self.stack.kill_alone(victim)
                self.away[victim] = back
            case "machine" if "scheduler" not in self.away:
                self.stack.kill("scheduler")
                self.away["scheduler"] = back
            case "task" if tasks := self.stack.tasks_under_way():
                self.random.choice(tasks).kill()
            case "writer":
                self.crew.kill(self.random.choice(sorted(self.crew.running)))
            case _:
                victim = f"no {victim} to kill"
        self.done.append((time.time(), victim))

    def tend(self) -> None:
        """Start again what has been away long enough, and servers that have ended by themselves."""
        for name in COMPONENTS:
            if name not in self.away and self.stack.has_ended(name):
                self.ended[name] += 1
                self.away[name] = time.monotonic()
        for name, until in tuple(self.away.items()):
            if time.monotonic() >= until:
                self.zookeeper.start() if name == "zookeeper" else self.stack.revive(name)
                del self.away[name]

    def restore(self) -> None:
        """Start again all that is away."""
        self.away = dict.fromkeys(self.away, 0.0)
        self.tend()
