"""Everything at once: ``make stress``, which is this module.

1. *Stress*: appenders, deleters, updaters and a cleaner with a short retention beside an indexer
   and compactors of all three kinds over the same chunks of one table, real ZooKeeper and Spark;
   every few seconds somebody is killed (SIGKILL), put to sleep beyond the end of its session, or
   loses its executor. Some major compactions cut time anew.
2. *Control*: the very same, but that the compactors work on another table, made beforehand. It says
   what the busy machine alone does to a commit.
3. *Verdict*: the rest of the work is finished; then the table must hold exactly what the commits
   that landed leave (``changes``), every acknowledged one among them; old versions that were read
   meanwhile are not torn; all invariants hold, no lock is left, and every kind has completed
   compactions.

Stalls are reported for both phases: how long appends, deletes and updates took, and how long of
that they waited for their lock. Left out are those whose own process was put to sleep; reported
apart, those that met a major compaction that cuts time anew, for which appenders wait by design.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.log.fold import COMMITS_KEPT
from airflow_provider_segtable.core.log.group_plans import MinorPlan, SemiMajorPlan
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.table import Table
from tests.stress import changes, indexing, worker
from tests.stress.crew import Crew, launcher

SESSION_S = 5
FIRST_STRIKE_S = 20.0
TWIN_APPENDS = 100
FINISH_S = 240.0
KINDS = (MinorPlan.kind, SemiMajorPlan.kind, MajorPlan.kind)
REPORTED = (*KINDS, indexing.KIND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """From when to when it lasted (seconds since the epoch), and who slept meanwhile."""

    start: float
    end: float
    naps: tuple[tuple[str, float, float], ...]

    def naps_of(self, commit_id: str) -> list[tuple[float, float]]:
        """Return when the author of an append slept."""
        author = commit_id.rsplit("-", 1)[0]
        return [(start, end) for name, start, end in self.naps if name == author]


def main(argv: Sequence[str] | None = None) -> int:
    """Run it all; return 0 if everything held."""
    given = _arguments().parse_args(argv)
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="segtable-stress-") as place:
        folder = Path(place)
        with EmbeddedZooKeeper(folder / "zookeeper") as server:
            twin = _filled(_table(folder / "twin", server.address))
            for title, minutes in (("control", given.control), ("stress", given.minutes)):
                ports = _table(folder / title, server.address)
                compacted = twin if title == "control" else ports
                problems += _run(title, ports, compacted, folder, minutes, given)
    for problem in problems:
        _say(f"WRONG: {problem}")
    _say(f"{0 if problems else 1} passed, {1 if problems else 0} failed")
    return 1 if problems else 0


def _arguments() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="make stress", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    made.add_argument("--minutes", type=float, default=5.0, help="of stress (default 5)")
    made.add_argument("--control", type=float, default=2.0, help="minutes of control (default 2)")
    made.add_argument("--appenders", type=int, default=4, help="appenders (default 4)")
    made.add_argument("--every", type=float, default=6.0, help="seconds between strikes (6)")
    made.add_argument("--seed", type=int, default=1, help="of the strikes (default 1)")
    return made


def _table(place: Path, address: str) -> TableContext:
    ports = open_context(str(place), zookeeper=address, author="stress")
    Table.create(
        ports.uri,
        schema=worker.SCHEMA,
        time_column="at",
        granularity="hour",
        properties={
            "compaction.clustering": "key",
            "compaction.target_size": str(512 * 1024),
            "compaction.max_attempts": "1000",
            "compaction.semi_major": "off",  # its worker asks for them
            "compaction.major": "off",
        },
    )
    return ports


def _filled(ports: TableContext) -> TableContext:
    for turn in range(TWIN_APPENDS):
        Table(ports).append(worker.batch(f"appender0-{turn}"))
    return ports


def _run(
    title: str,
    ports: TableContext,
    compacted: TableContext,
    place: Path,
    minutes: float,
    given: argparse.Namespace,
) -> Iterator[str]:
    names = [f"appender{n}" for n in range(1, given.appenders + 1)]
    changers = [f"{kind}{n}" for kind in ("deleter", "updater") for n in (1, 2)]
    jobs = dict.fromkeys(names, ("append", ports.uri))
    jobs |= dict.fromkeys(changers, ("change", ports.uri)) | {"cleaner": ("tend", ports.uri)}
    Table(ports).append(worker.batch(changes.FIRST), commit_id=changes.FIRST)
    indexing.request_indexes(ports, "row")
    jobs |= {kind: (kind, compacted.uri) for kind in KINDS} | {"indexer": ("index", ports.uri)}
    folder = place / f"{title}-crew"
    folder.mkdir()
    address = ports.coordinator.address.removeprefix("zk://")
    crew = Crew(launcher("tests.stress.worker", address, folder, SESSION_S), folder, SESSION_S)
    phase = _phase(crew, jobs, minutes * 60, given)
    yield from _finish(ports)
    yield from indexing.finish_indexes(ports)
    yield from _verdict(ports, folder)
    acks, runs = _notes(folder, "acks"), _notes(folder, "runs")
    _report(title, acks, runs, phase)
    if compacted is ports:
        yield from _starved([*names, *changers], acks, runs)
    ports.coordinator.close()


def _starved(
    names: Sequence[str], acks: Sequence[dict[str, Any]], runs: Sequence[dict[str, Any]]
) -> Iterator[str]:
    ended = Counter(run["kind"] for run in runs if run["ended"] == "completed")
    yield from (f"no {kind} run completed" for kind in REPORTED if not ended[kind])
    counts = Counter(note["commit"].rsplit("-", 1)[0] for note in acks)
    yield from (f"{name} starved: {counts[name]} commits" for name in names if counts[name] < 5)


def _phase(
    crew: Crew, jobs: Mapping[str, tuple[str, str]], seconds: float, given: argparse.Namespace
) -> Phase:
    """Run a crew for a while."""
    randomness = random.Random(given.seed)
    try:
        for name, (mode, uri) in jobs.items():
            crew.start(mode, name, uri)
        start, following = time.time(), time.monotonic() + FIRST_STRIKE_S
        while time.time() < start + seconds:
            time.sleep(0.2)
            crew.tend()
            if time.monotonic() >= following:
                crew.strike(randomness)
                following = time.monotonic() + randomness.uniform(0.5, 1.5) * given.every
        end = time.time()
    finally:
        crew.end()
    _say(f"strikes: {', '.join(f'{n} {what}' for what, n in sorted(crew.done.items()))}")
    return Phase(start=start, end=end, naps=tuple(crew.naps))


def _finish(ports: TableContext) -> Iterator[str]:
    """Finish what is pending, in this process; the dead sessions expire meanwhile."""
    deadline = time.monotonic() + FINISH_S
    while time.monotonic() < deadline:
        plan_table(ports)
        pending = [p.plan.id for p in EventLog(ports.storage).load().pending_plans()]
        if not pending:
            break
        compact(ports, pending, in_process(ports.files), wait_s=SESSION_S * 2.0)
    state = EventLog(ports.storage).load()
    if state.pending_plans():
        yield f"{len(state.pending_plans())} plans are still pending after {FINISH_S:.0f} s"
    left = ports.coordinator.locks(state.table.table_id)
    if left:
        yield f"locks are left: {[lock.group for lock in left]}"


def _verdict(ports: TableContext, folder: Path) -> Iterator[str]:
    state = EventLog(ports.storage).load()
    yield from violations(state)
    acknowledged = {note["commit"] for note in _notes(folder, "acks")}
    authors = ("appender", "deleter", "updater")
    commits = {commit for commit in state.commits if commit.startswith(authors)}
    if len(state.commits) < COMMITS_KEPT and (lost := acknowledged - commits):
        yield f"{len(lost)} acknowledged commits are not in the log: {sorted(lost)[:5]}"
    commits |= acknowledged
    rows, counts = changes.expected(commits)
    found, counted = changes.read(Snapshot(ports=ports, state=state))
    if not np.array_equal(rows, found):
        missing, extra = np.setdiff1d(rows, found), np.setdiff1d(found, rows)
        doubled = len(found) - len(np.unique(found))
        yield f"of {len(rows)} rows {len(missing)} lost, {len(extra)} back, {doubled} doubled"
    elif not np.array_equal(counts, counted):
        yield f"{int((counts != counted).sum())} rows are not counted as often as they should be"
    looks = _notes(folder, "looks")
    yield from (f"version {n['version']}: {what}" for n in looks for what in n["wrong"])
    kinds = Counter(commit.rstrip("-0123456789") for commit in commits)
    _say(f"{dict(kinds)}; {len(found)} rows, counted {int(counted.sum())} times")
    _say(f"{len(looks)} old versions read; kept is from {state.retained_from} of {state.n}")


def _notes(folder: Path, kind: str) -> list[dict[str, Any]]:
    notes = []
    for path in sorted(folder.glob(f"*.{kind}")):
        for line in path.read_text().splitlines():
            if line.endswith("}"):  # a killed writer may leave half a line
                notes.append(json.loads(line))
    return notes


def _report(
    title: str, acks: Sequence[dict[str, Any]], runs: Sequence[dict[str, Any]], phase: Phase
) -> None:
    for kind in REPORTED:
        mine = [run for run in runs if run["kind"] == kind]
        ended = Counter(run["ended"] for run in mine)
        _say(f"  {kind}: {', '.join(f'{n} {how}' for how, n in sorted(ended.items())) or 'none'}")
        for run in mine:
            if run["ended"] == "failed":
                _say(f"    failed: {run['message']}")
    cuts = [(r["start"], r["start"] + r["took_s"]) for r in runs if r["exclusive"]]
    cuts = cuts if title == "stress" else []
    awake = [a for a in acks if not _met(a, phase.naps_of(a["commit"]))]
    for author in ("appender", "deleter", "updater"):
        mine = [a for a in awake if a["commit"].startswith(author)]
        _say(_stalls(f"{title}, {author}s", [a for a in mine if not _met(a, cuts)]))
        if apart := [a for a in mine if _met(a, cuts)]:
            _say(_stalls(f"{title}, {author}s, time being cut anew", apart))


def _met(ack: dict[str, Any], spans: Sequence[tuple[float, float]]) -> bool:
    start, end = ack["start"], ack["start"] + ack["took_s"]
    return any(first < end and start < last for first, last in spans)


def _stalls(title: str, acks: Sequence[dict[str, Any]]) -> str:
    if not acks:
        return f"{title}: nothing"
    told = []
    for what, key in (("each", "took_s"), ("its lock", "lock_s")):
        seconds = [ack[key] for ack in acks]
        p50, p99 = np.percentile(seconds, [50, 99])
        told.append(f"{what} median {p50:.3f} s, 99 % {p99:.2f} s, longest {max(seconds):.2f} s")
    return f"{title}: {len(acks)}; {'; '.join(told)}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
