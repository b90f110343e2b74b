"""What happens to the table of the keyed stress run beside its writers.

1. ``minor`` runs the planner, and carries out log compactions. ``base`` asks for base files of
   single time chunks at random, ``compact`` carries out whatever is pending: the same plans as the
   others, and against them.
2. ``clean`` deletes what a retention of seconds lets go.
3. ``travel`` reads some kept version, as of its completion time, and notes a digest of its rows.
   Now and then it tags one, so that some old versions outlive what they were made of.
4. ``index`` builds what the table's indexes lack, and begins them anew now and then.
5. Races with other workers are values or typed errors, of which ``EXPECTED`` may happen; all others
   are noted in ``FOLDER/NAME.errors``, as are failed plans.
"""

import hashlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import TypeAlias

from airflow_provider_segtable.core.errors import (
    CommitConflict,
    CoordinationError,
    InvalidInput,
    NotFound,
    SegtableError,
    VersionExpired,
)
from airflow_provider_segtable.core.log.group_plans import MinorPlan, SemiMajorPlan
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean as clean_once
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.table import Table
from tests.every_reader import tuples_of
from tests.stress import indexing
from tests.stress.keyed.notes import note

COLUMNS = ("at", "row", "count", "text", "note")
KEPT_S, ORPHANS_S = 6.0, 60.0
RETENTION = Retention(hours=KEPT_S / 3600, versions=5, orphan_hours=ORPHANS_S / 3600)
EXPECTED = (CoordinationError, CommitConflict, InvalidInput)
"""Locks lost or held, plans overtaken, nothing left to compact."""
FENCED = "coordination: "
"""How the failure of an attempt begins whose session ended, while its process slept or starved."""
MINOR_EVERY_S, BASE_EVERY_S, CLEAN_EVERY_S, LOOK_EVERY_S, TAG_EVERY = 0.2, 2.0, 1.5, 0.5, 12
INDEX_EVERY_S = 1.0

Going: TypeAlias = Iterator[None]


def minor(ports: TableContext, name: str, folder: Path, going: Going) -> None:
    """Plan, and carry out log compactions."""
    for _ in going:
        _tolerated(folder, name, lambda: plan_table(ports))
        _tolerated(folder, name, lambda: _carry_out(ports, name, folder, MinorPlan.kind))
        time.sleep(MINOR_EVERY_S)


def base(ports: TableContext, name: str, folder: Path, going: Going) -> None:
    """Ask for the base files of some time chunk, and make them."""
    random = Random(f"{name} {time.time_ns()}")

    def ask() -> None:
        chunks = [*ports.log.load().timeline.visible_chunks()]
        if chunks:
            request(ports, SemiMajorPlan.kind, interval=random.choice(chunks).interval)

    for _ in going:
        _tolerated(folder, name, ask)
        _tolerated(folder, name, lambda: _carry_out(ports, name, folder, SemiMajorPlan.kind))
        time.sleep(BASE_EVERY_S * random.random())


def anything(ports: TableContext, name: str, folder: Path, going: Going) -> None:
    """Carry out what is pending."""
    for _ in going:
        _tolerated(folder, name, lambda: _carry_out(ports, name, folder))
        time.sleep(BASE_EVERY_S)


def _carry_out(ports: TableContext, name: str, folder: Path, kind: str = "") -> None:
    def wanted(known: PlanState) -> bool:
        return kind in ("", known.plan.kind)

    pending = [known.plan.id for known in ports.log.load().pending_plans() if wanted(known)]
    for result in compact(ports, pending, in_process(ports.files)):
        note(folder / f"{name}.runs", {"plan": result.plan_id, "ended": result.ended.value})
        if result.ended is Ended.FAILED and not result.message.startswith(FENCED):
            note(folder / f"{name}.errors", {"error": f"plan {result.plan_id}: {result.message}"})


def clean(ports: TableContext, name: str, folder: Path, going: Going) -> None:
    """Clean, again and again."""
    for _ in going:
        _tolerated(folder, name, lambda: _clean(ports, folder / f"{name}.runs"))
        time.sleep(CLEAN_EVERY_S)


def _clean(ports: TableContext, runs: Path) -> None:
    run = clean_once(ports, retention=RETENTION)
    note(
        runs,
        {"files": len(run.files), "orphans": len(run.orphans), "log": len(run.log_files)},
    )


def travel(ports: TableContext, name: str, folder: Path, going: Going) -> None:
    """Read versions that are kept."""
    random = Random(f"{name} {time.time_ns()}")
    for look, _ in enumerate(going, 1):
        if look % TAG_EVERY == 0:
            _tolerated(folder, name, lambda: Table(ports).tag(f"t{time.time_ns()}"))
        _tolerated(folder, name, lambda: _look(ports, folder / f"{name}.looks", random))
        time.sleep(LOOK_EVERY_S * random.random())


def _look(ports: TableContext, looks: Path, random: Random) -> None:
    head = ports.log.load()
    n = random.randint(head.retained_from, head.n)
    try:
        snapshot = Table(ports).snapshot(as_of=ports.log.version(n, head).time)
        note(looks, {"version": n, "read": snapshot.state.n, "digest": digest_of(snapshot)})
    except (NotFound, VersionExpired) as gone:
        if ports.log.load().keeps(n):
            note(looks, {"version": n, "wrong": f"is kept, but not whole: {gone}"})


def digest_of(snapshot: Snapshot) -> str:
    """Return the digest of a version."""
    return digest(tuples_of(snapshot.to_arrow(columns=COLUMNS)))


def digest(rows: Iterable[tuple[int | None, ...]]) -> str:
    """Return a digest of rows in whatever order; keys are unique in the order of ``COLUMNS``."""
    ordered = sorted(rows, key=lambda row: row[:2])
    return hashlib.sha256(repr(ordered).encode()).hexdigest()


def _tolerated(folder: Path, name: str, action: Callable[[], object]) -> None:
    """Do what may lose races."""
    try:
        action()
    except EXPECTED as lost:
        sys.stderr.write(f"{type(lost).__name__}: {lost}\n")
    except SegtableError as error:
        note(folder / f"{name}.errors", {"error": f"{type(error).__name__}: {error}"})


def index(ports: TableContext, name: str, folder: Path, going: Going) -> None:
    """Build indexes, and begin them anew now and then."""
    for turn, _ in enumerate(going, 1):
        _tolerated(folder, name, lambda: _index(ports, folder / f"{name}.runs", turn))  # noqa: B023
        time.sleep(INDEX_EVERY_S)


def _index(ports: TableContext, runs: Path, turn: int) -> None:
    run = indexing.run_once(ports, turn)
    note(runs, {"ended": run.ended.value, "pieces": run.pieces, "files": run.files})


SERVICES: dict[str, Callable[[TableContext, str, Path, Going], None]] = {
    "minor": minor,
    "base": base,
    "compact": anything,
    "clean": clean,
    "travel": travel,
    "index": index,
}
