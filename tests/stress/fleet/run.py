"""A lake of many tables under one set of DAGs, with kills: ``make fleet``, which is this module.

1. *Lake*: busy tables, to each of which a process of its own writes small files, changes or
   upserts; quiet ones with a history; cold ones that Spark sorts; broken ones (``lake``).
2. *Airflow*: api-server, scheduler, triggerer and DAG processor as processes, LocalExecutor,
   SQLite, a real ZooKeeper, and the DAGs of ``fleet_dags``. Something is killed at random times
   that the seed gives, and started again (``disasters``). In the last minute and a half nothing is
   killed. Then the writers end, and the plans under way have ``DRAIN_S`` to end.
3. *Verdict*, from the tables' own logs (``verdict``): each table has exactly the rows of the
   commits that landed, every acknowledged one among them; each busy table is within its objective
   when its writer ends; the budgets of bytes and of plans at once were kept; no plan was requested
   twice while pending, and none is lost: each has ended, or a DAG run that lives has it; the
   planner's log names each broken table and no other; there were always six DAGs.
4. A table and the verdict are printed; all numbers are written as JSON.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.planning.fleet.fleet import Budget
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.table.context import (
    SESSION_TIMEOUT_VARIABLE,
    TableContext,
    open_context,
)
from airflow_provider_segtable.table.table import Table
from tests.stress.crew import Crew
from tests.stress.fleet.disasters import Disasters
from tests.stress.fleet.lake import (
    NO_STORE,
    Lake,
    break_table,
    expected,
    fleet_file,
    form_of,
    found,
    history_of,
    make_table,
    times_of,
)
from tests.stress.fleet.observer import Observer, misses
from tests.stress.fleet.verdict import (
    PlanLife,
    TableStory,
    lost_or_twice,
    most_at_once,
    over_bytes,
    quantile,
    waits,
)
from tests.stress.fleet.worker import PAUSE_S, SESSION_S, work
from tests.stress.forks import Forks
from tests.stress.keyed.notes import notes_in
from tests.support.airflow_stack import AirflowStack

PLANNER, UPKEEP = "segtable_planner__lake", "segtable_upkeep__lake"
DAG_IDS = (
    *(f"segtable_{kind}__lake" for kind in ("minor", "semi_major", "major", "index")),
    UPKEEP,
    PLANNER,
)
DAG_FILE = """
from airflow_provider_segtable.dag_factory import fleet_dags

fleet_dags(
    {file!r},
    name="lake",
    schedule="*/2 * * * *",
    upkeep="*/15 * * * *",
    kinds={{"major": {{"engine": "spark"}}}},
)
"""
SETTINGS = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "5",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "20",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    SESSION_TIMEOUT_VARIABLE: str(SESSION_S),
}
"""How soon Airflow and ZooKeeper notice that a process is dead."""
LOOK_EVERY_S = 5.0
CALM_S, DRAIN_S, FIRST_STRIKE_S = 90.0, 180.0, 20.0


# The run
@dataclass(slots=True)
class Trial:
    """A run, and what was seen of it."""

    place: Path
    lake: Lake
    given: argparse.Namespace
    zookeeper: EmbeddedZooKeeper
    began: float = 0.0
    wrote_until: float = 0.0
    drained_s: float = 0.0
    late_at_end: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ports: dict[str, TableContext] = field(default_factory=dict)
    observer: Observer | None = None
    disasters: Disasters | None = None

    def carry_out(self) -> "Outcome":
        """Make the lake, run everything, and judge it."""
        say(f"making {self.lake.tables} tables")
        self._make()
        (self.place / "dags").mkdir()
        file = self.place / "fleet.toml"
        file.write_text(fleet_file(self.lake))
        (self.place / "dags" / "lake.py").write_text(DAG_FILE.format(file=str(file)))
        extra = {
            "zookeeper": self.zookeeper.address,
            "spark_master": "local[1]",
            "storage_options": dict(NO_STORE),
        }
        connection = {"conn_type": "segtable", "host": str(self.lake.root), "extra": extra}
        env = {"AIRFLOW_CONN_SEGTABLE_DEFAULT": json.dumps(connection), **SETTINGS}
        names = (*self.lake.busy_names, *self.lake.still_names)
        self.ports = {name: open_context(self.lake.uri(name)) for name in names}
        stack = AirflowStack(self.place / "home", self.place / "dags", env, parallelism=6)
        say("starting Airflow")
        with stack:
            for dag_id in DAG_IDS:
                stack.unpause(dag_id)
            self._run(stack)
        return Outcome(self)

    def _make(self) -> None:
        names = (*self.lake.busy_names, *self.lake.still_names)
        broken = [each for each in self.lake.broken_names if "://" not in each]
        given = [(self.lake, name, self.zookeeper.address) for name in (*names, *broken)]
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            for share in pool.map(_made, [given[::2], given[1::2]]):
                assert share
        for name in broken:
            break_table(self.lake, name)

    def _run(self, stack: AirflowStack) -> None:
        folder = self.place / "crew"
        folder.mkdir()
        (folder / "zookeeper").write_text(self.zookeeper.address)
        (folder / PAUSE_S).write_text(str(self.given.pause))
        crew = Crew(Forks(work, folder, (work.__module__,)), folder, SESSION_S)
        self.disasters = Disasters(stack, self.zookeeper, crew, Random(self.given.seed))
        busy = {name: self.ports[name] for name in self.lake.busy_names}
        self.observer = Observer(busy, stack.home / "airflow.db")
        self.began = time.time()
        try:
            for name in self.lake.busy_names:
                crew.start(form_of(name), _writer(name), self.lake.uri(name))
            self._watch(self.given.minutes * 60)
        finally:
            crew.end()
        self.wrote_until = time.time()
        self._drain()

    def _watch(self, seconds: float) -> None:
        assert self.disasters is not None
        assert self.observer is not None
        until = self.began + seconds
        random, strike = Random(self.given.seed), self.began + FIRST_STRIKE_S
        look, tell = self.began, self.began + 60
        while (now := time.time()) < until:
            self.disasters.tend()
            self.disasters.crew.tend()
            if now >= strike and now < until - CALM_S:
                self.disasters.strike()
                strike = now + self.given.every * random.uniform(0.5, 1.5)
            if now >= look:
                self.observer.look()
                look = now + LOOK_EVERY_S
            if now >= tell:
                tell += 60
                say(self._progress())
            time.sleep(0.2)
        self.disasters.restore()
        self.late_at_end = self._late()

    def _late(self) -> dict[str, tuple[str, ...]]:
        now = int(time.time() * 1_000_000)
        states = {name: self.ports[name].log.load() for name in self.lake.busy_names}
        missed = {name: misses(name, state, now) for name, state in states.items()}
        return {name: aims for name, aims in missed.items() if aims}

    def _progress(self) -> str:
        assert self.disasters is not None
        assert self.observer is not None
        newest = self.observer.samples[-self.lake.busy :]
        files, late = [each.files for each in newest], sum(bool(each.missed) for each in newest)
        minutes = (time.time() - self.began) / 60
        return (
            f"{minutes:4.1f} min: {len(self.disasters.done)} kills, most files {max(files)}, "
            f"{late} late, load {self.observer.load[-1]:.1f}"
        )

    def _drain(self) -> None:
        """Wait until no plan is pending; the planner goes on, and chooses more."""
        assert self.disasters is not None
        start = time.time()
        while time.time() < start + DRAIN_S:
            self.disasters.tend()
            began_before = self.wrote_until * 1_000_000
            pending = [
                known
                for ports in self.ports.values()
                for known in ports.log.load().pending_plans()
                if known.requested_at < began_before
            ]
            if not pending:
                break
            time.sleep(2)
        self.drained_s = time.time() - start


def _writer(table: str) -> str:
    """Return the name of a table's writer."""
    return table.partition("/")[2]


def _made(given: Sequence[tuple[Lake, str, str]]) -> int:
    """Make tables, in a process of their own."""
    first: TableContext | None = None
    for lake, name, address in given:
        uri = lake.uri(name)
        first = first or open_context(uri, zookeeper=address, author="history")
        make_table(first.at(uri), name)
    assert first is not None
    first.coordinator.close()
    return len(given)


# The outcome
@dataclass(slots=True)
class Outcome:
    """What came of a run: numbers, and what is wrong."""

    trial: Trial
    stories: dict[str, TableStory] = field(init=False)

    def __post_init__(self) -> None:
        """Read the logs of all tables."""
        ports = self.trial.ports
        self.stories = {
            name: TableStory(name).read(each.log.events(0)) for name, each in ports.items()
        }

    @property
    def lives(self) -> list[PlanLife]:
        """Return all plans of all tables."""
        return [life for story in self.stories.values() for life in story.lives]

    def pending(self) -> list[PlanLife]:
        """Return the plans that have not ended, of those that were requested during the run."""
        until = self.trial.wrote_until * 1_000_000
        return [life for life in self.lives if life.ended is None and life.requested < until]

    def live_runs(self) -> list[str]:
        """Return the conf of each DAG run that is queued or running."""
        assert self.trial.observer is not None
        query = "select conf from dag_run where state in ('queued', 'running')"
        return [str(conf) for (conf,) in self.trial.observer.ask(query)]

    def problems(self) -> Iterator[str]:
        """Yield all that is wrong."""
        for name, story in self.stories.items():
            yield from story.problems
            yield from self._rows(name, story)
        yield from self._budgets()
        yield from (
            f"{n} misses {', '.join(m)} at the end" for n, m in self.trial.late_at_end.items()
        )
        runs = self.live_runs()
        yield from (
            f"{life.table}: {life.plan} is pending, and no DAG run has it"
            for life in self.pending()
            if not any(life.plan in conf for conf in runs)
        )
        yield from self._reported()
        observer = self.trial.observer
        if observer is None or set(observer.dags) != {len(DAG_IDS)}:
            yield f"numbers of DAGs: {set(observer.dags) if observer else None}"
        yield from self._too_little()

    def _rows(self, name: str, story: TableStory) -> Iterator[str]:
        ports = self.trial.ports[name]
        yield from violations(ports.log.load())
        turns: Sequence[int] = range(history_of(name))
        if name in self.trial.lake.busy_names:
            writer = _writer(name)
            acks = notes_in(self.trial.place / "crew", "acks").get(writer, [])
            yield from lost_or_twice(writer, [ack["turn"] for ack in acks], story.commits, name)
            mine = (each for each in story.commits if each.startswith(f"{writer}-"))
            turns = [int(each.rpartition("-")[2]) for each in mine]
        wanted = expected(form_of(name), turns, times_of(name))
        have = found(Table(ports))
        if not np.array_equal(wanted, have):
            yield f"{name}: {len(have)} rows, of {len(wanted)}, are not those of its commits"

    def _budgets(self) -> Iterator[str]:
        fleet = read_fleet(fleet_file(self.trial.lake), "fleet.toml")
        accounts = [("fleet", fleet.budget, self.lives)]
        for group in fleet.groups:
            mine = [life for life in self.lives if fleet.group_of(life.table) == group]
            accounts.append((f"group {group.name}", group.quota, mine))
        for name, story in self.stories.items():
            accounts.append((name, Budget(plans=fleet.budget.plans_per_table), story.lives))
        for of, budget, lives in accounts:
            if budget.bytes_per_hour is not None:
                yield from over_bytes(of, lives, budget.bytes_per_hour)
            if budget.plans is not None and most_at_once(lives) > budget.plans:
                yield f"{of}: {most_at_once(lives)} plans at once, of {budget.plans}"

    def _reported(self) -> Iterator[str]:
        """Yield broken tables that the newest planner log lacks, and sound ones that it has."""
        away = ("CoordinatorUnavailable", "ConnectionLost")
        named = [self._named(lines, away) for lines in self._planner_logs()]
        whole = [names for names in named if names is not None]
        broken = set(self.trial.lake.broken_names)
        if not whole:
            yield "no run of the planner has ended"
        for names in whole:
            if missing := broken - names:
                yield f"a planner's log does not name {sorted(missing)}"
            if others := names - broken:
                yield f"a planner's log names sound tables: {sorted(others)}"

    def _named(self, lines: Sequence[str], excused: Sequence[str]) -> set[str] | None:
        """Return the tables that a planner's log reports; None if it did not end."""
        if not any("::group::left, with reasons" in line for line in lines):
            return None
        told = [line for line in lines if ": not planned: " in line or ": not listed" in line]
        sound = [line for line in told if not any(each in line for each in excused)]
        return {line.split(": not ")[0].split()[-1] for line in sound}

    def _planner_logs(self) -> Iterator[list[str]]:
        home = self.trial.place / "home" / "logs" / f"dag_id={PLANNER}"
        for path in sorted(home.glob("run_id=*/task_id=plan/attempt=*.log")):
            text = path.read_text(errors="replace").splitlines()
            yield [str(json.loads(each).get("event")) for each in text if each.endswith("}")]

    def _too_little(self) -> Iterator[str]:
        """Yield what did not happen: a run without it proves nothing."""
        completed = Counter(life.kind for life in self.lives if life.completed)
        yield from (
            f"no {kind} plan was completed" for kind in ("minor", "major") if not completed[kind]
        )
        if not any("group-bytes" in line for lines in self._planner_logs() for line in lines):
            yield "no plan waited for the budget of a group"

    def facts(self) -> dict[str, Any]:
        """Return all numbers."""
        trial, observer, disasters = self.trial, self.trial.observer, self.trial.disasters
        assert observer is not None
        assert disasters is not None
        busy = [life for life in self.lives if life.table.startswith("busy/")]
        feeding, working = waits(busy)
        samples = observer.samples
        within = Counter(each.table for each in samples if not each.missed)
        looks = Counter(each.table for each in samples)
        worst = min(looks, key=lambda name: within[name] / looks[name])
        acks = [each for notes in notes_in(trial.place / "crew", "acks").values() for each in notes]
        runs = observer.ask("select dag_id, state, count(*) from dag_run group by 1, 2")
        return {
            "tables": trial.lake.tables,
            "busy": trial.lake.busy,
            "broken": trial.lake.broken,
            "minutes": trial.given.minutes,
            "seed": trial.given.seed,
            "kills": dict(Counter(victim for _, victim in disasters.done)),
            "ended_by_themselves": dict(disasters.ended),
            "commits": len(acks),
            "commit_s": _spread([each["took_s"] for each in acks]),
            "plans": _counted(self.lives),
            "commit_to_plan_s": _spread(feeding),
            "plan_to_commit_s": _spread(working),
            "within_objective": round(sum(within.values()) / max(1, len(samples)), 4),
            "worst_table": [worst, round(within[worst] / looks[worst], 4)],
            "most_files": max(each.files for each in samples),
            "pending_in_a_run": len(self.pending()),
            "drained_s": round(trial.drained_s, 1),
            "runs": {f"{dag} {state}": n for dag, state, n in runs},
            "dags": sorted(set(observer.dags)),
            "load": _spread(observer.load),
        }


def _counted(lives: Sequence[PlanLife]) -> dict[str, int]:
    def end(life: PlanLife) -> str:
        return "completed" if life.completed else "pending" if life.ended is None else "aborted"

    return dict(Counter(f"{life.kind} {end(life)}" for life in lives))


def _spread(values: Sequence[float]) -> dict[str, float]:
    shares = {"median": 0.5, "p95": 0.95, "most": 1.0}
    return {name: round(quantile(values, share), 2) for name, share in shares.items()}


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _arguments() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="make fleet", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    made.add_argument("--minutes", type=float, default=15.0, help="of writing (default 15)")
    made.add_argument("--tables", type=int, default=200, help="of all kinds (default 200)")
    made.add_argument("--busy", type=int, default=20, help="of these (default 20)")
    made.add_argument("--broken", type=int, default=5, help="of these, at most 5 (default 5)")
    made.add_argument("--every", type=float, default=40.0, help="seconds between kills (40)")
    made.add_argument("--pause", type=float, default=8.0, help="seconds between commits (8)")
    made.add_argument("--seed", type=int, default=1, help="of the kills (default 1)")
    made.add_argument("--json", type=Path, default=Path("build/fleet.json"), help="the numbers")
    made.add_argument("--keep", type=Path, help="a new folder to keep everything in")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; return 0 if everything held."""
    given = _arguments().parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="segtable-fleet-") as temporary:
        place = (given.keep or Path(temporary)).absolute()
        place.mkdir(parents=True, exist_ok=True)
        lake = Lake(root=place / "lake", tables=given.tables, busy=given.busy, broken=given.broken)
        with EmbeddedZooKeeper(place / "zookeeper") as server:
            outcome = Trial(place, lake, given, server).carry_out()
        problems, facts = [*outcome.problems()], outcome.facts()
    for name, value in facts.items():
        say(f"  {name:20} {value}")
    for problem in problems[:40]:
        say(f"WRONG: {problem}")
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps({**facts, "problems": problems}, indent=1) + "\n")
    say(
        f"{len(problems)} problems; {given.json} has the numbers" if problems else "everything held"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
