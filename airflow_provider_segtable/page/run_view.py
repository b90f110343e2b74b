"""Runs: completed plans, their work and gain, by day, owner and kind, over one table or a fleet.

1. A run is a completed plan with its measured work (``core.log.work``).
2. Days are UTC days of its end. Its owner is the DAG of its author, else the author's host.
3. Only the plans that the state still keeps are known: a table keeps its last thousand.
4. Of a table its newest runs are listed, and all are summed up. The runs of a fleet are those of
   its tables: each is read when its version is new, as many at once as the lake allows. Tables that
   did not answer in time are named; the next question finds them.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from operator import add
from typing import Annotated, NamedTuple

from fastapi import APIRouter
from pydantic import Field

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.author import host_of, task_named
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import DAY_US, SECOND_US, Instant, iso
from airflow_provider_segtable.page.answer import MOST_LISTED, Answer, Limit, Shown
from airflow_provider_segtable.page.lake import FleetSeen, Lake, Seen
from airflow_provider_segtable.page.plan_bars import TaskName, shown_task
from airflow_provider_segtable.page.recent import Recent
from airflow_provider_segtable.page.sources import within
from airflow_provider_segtable.planning.fleet.rests import gained

MOST_DAYS = 90
AT_ONCE = 16
WAIT_S = 6.0
"""Seconds that an answer about a fleet waits for its tables."""


class Run(Shown):
    """A completed plan."""

    table: str
    plan: str
    kind: str
    day: str = Field(description="UTC day of its end, YYYY-MM-DD")
    interval: str
    requested: str
    began: str | None
    ended: str
    waited_seconds: float
    seconds: float = Field(description="from the begin of the last attempt to the end; 0: unknown")
    inputs: int = Field(description="files read")
    outputs: int = Field(description="files written")
    bytes_read: int
    bytes_written: int
    rows: int
    gain: float | None = Field(description="share of the possible gain, 0 to 1; None: unknown")
    files_removed: int
    overlap_before: float | None
    overlap_after: float | None
    sentence: str
    owner: str
    author: str
    task: TaskName | None
    attempts: int
    event: int


class RunSum(Shown):
    """Sums over runs; ``name`` is the day or the owner."""

    name: str
    runs: int
    seconds: float
    inputs: int
    outputs: int
    files_removed: int
    bytes_read: int
    bytes_written: int
    bytes_saved: int = Field(description="bytes read less bytes written")
    gain: float | None = Field(description="mean gain, by bytes read")


class Runs(Shown):
    """The runs of some days, newest first, with sums over all of them."""

    runs: list[Run]
    total: int
    all: RunSum
    by_day: list[RunSum] = Field(description="each day, oldest first, also those without runs")
    by_owner: list[RunSum] = Field(description="most seconds first")
    by_kind: list[RunSum]
    days: int
    missing: list[str] = Field(description="tables that could not be read, with the reason")


# Pure functions
class Tally(NamedTuple):
    """Sums over runs; ``gain`` is weighed by the bytes read of runs with a known gain."""

    runs: int = 0
    seconds: float = 0.0
    inputs: int = 0
    outputs: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    gain: float = 0.0
    gain_bytes: int = 0

    def __add__(self, other: "Tally") -> "Tally":  # type: ignore[override]  # sums, no tuple
        """Return the sums of both."""
        return Tally(*map(add, self, other))


class Kept(NamedTuple):
    """Where a tally belongs."""

    day: str
    owner: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRuns:
    """The runs of a table: the newest ones, and the sums of all."""

    runs: tuple[Run, ...] = ()
    tallies: Mapping[Kept, Tally] = field(default_factory=dict)


def table_runs(state: State, table: str, since: Instant, limit: int) -> TableRuns:
    """Return the runs of a table that ended since a time.

    Args:
        state: the version.
        table: the name that they are shown with.
        since: the time.
        limit: most runs that are listed; all are summed up.
    """
    done = [each for each in state.plans.values() if each.completed and each.changed_at >= since]
    tallies: dict[Kept, Tally] = {}
    for each in done:
        at = Kept(iso(each.changed_at)[:10], _owner(each.author), each.plan.kind)
        tallies[at] = tallies.get(at, Tally()) + _tally(each)
    newest = sorted(done, key=lambda each: -each.last_n)[:limit]
    return TableRuns(runs=tuple(_run(each, table) for each in newest), tallies=tallies)


def runs_of(
    tables: Iterable[TableRuns],
    now: Instant,
    days: int,
    *,
    limit: int,
    missing: Sequence[str] = (),
) -> Runs:
    """Return the runs of some tables together, newest first, with their sums.

    Args:
        tables: the runs by table.
        now: the wall clock, in the last day.
        days: number of days up to now.
        limit: most runs that are listed.
        missing: tables whose runs are not known, with the reason.
    """
    every = [*tables]
    tallies = [item for each in every for item in each.tallies.items()]
    names = [iso(now - back * DAY_US)[:10] for back in reversed(range(days))]
    listed = sorted((run for each in every for run in each.runs), key=lambda run: run.ended)
    by_owner = _summed(tallies, lambda at: at.owner)
    return Runs(
        runs=listed[::-1][:limit],
        total=sum(tally.runs for _, tally in tallies),
        all=_sum("all", _total(tally for _, tally in tallies)),
        by_day=_summed(tallies, lambda at: at.day, names),
        by_owner=sorted(by_owner, key=lambda each: -each.seconds)[:MOST_LISTED],
        by_kind=_summed(tallies, lambda at: at.kind),
        days=days,
        missing=[*missing][:MOST_LISTED],
    )


def _run(known: PlanState, table: str) -> Run:
    plan, work, share = known.plan, known.work, gained(known)
    inputs, outputs = _files(known)
    measured = work is not None and work.overlap_before > 0
    return Run(
        table=table,
        plan=plan.id,
        kind=plan.kind,
        day=iso(known.changed_at)[:10],
        interval=str(plan.interval),
        requested=iso(known.requested_at),
        began=iso(known.started_at) if known.started_at else None,
        ended=iso(known.changed_at),
        waited_seconds=known.waited / SECOND_US,
        seconds=known.worked / SECOND_US,
        inputs=inputs,
        outputs=outputs,
        bytes_read=work.bytes_read if work else plan.size,
        bytes_written=work.bytes_written if work else 0,
        rows=plan.rows,
        gain=None if share is None else round(max(0.0, min(1.0, share)), 4),
        files_removed=inputs - outputs if work else 0,
        overlap_before=round(work.overlap_before, 3) if work and measured else None,
        overlap_after=round(work.overlap_after, 3) if work and measured else None,
        sentence=known.note or plan.done(inputs),
        owner=_owner(known.author),
        author=known.author,
        task=shown_task(known.author),
        attempts=known.attempts,
        event=known.last_n,
    )


def _files(known: PlanState) -> tuple[int, int]:
    if known.work is None:
        return len(known.inputs), known.plan.outputs
    return known.work.files_read, known.work.files_written


def _owner(author: str) -> str:
    task = task_named(author)
    return host_of(author) if task is None else task.dag_id


def _tally(known: PlanState) -> Tally:
    work, share = known.work, gained(known)
    inputs, outputs = _files(known)
    size = work.bytes_read if work else 0
    return Tally(
        runs=1,
        seconds=known.worked / SECOND_US,
        inputs=inputs,
        outputs=outputs,
        bytes_read=size,
        bytes_written=work.bytes_written if work else 0,
        gain=0.0 if share is None else max(0.0, min(1.0, share)) * size,
        gain_bytes=0 if share is None else size,
    )


def _summed(
    tallies: Iterable[tuple[Kept, Tally]], name: Callable[[Kept], str], names: Iterable[str] = ()
) -> list[RunSum]:
    found: dict[str, Tally] = {each: Tally() for each in names}
    for at, tally in tallies:
        found[name(at)] = found.get(name(at), Tally()) + tally
    return [_sum(each, found[each]) for each in sorted(found)]


def _total(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for each in tallies:
        total = total + each
    return total


def _sum(name: str, tally: Tally) -> RunSum:
    return RunSum(
        name=name,
        runs=tally.runs,
        seconds=round(tally.seconds, 3),
        inputs=tally.inputs,
        outputs=tally.outputs,
        files_removed=tally.inputs - tally.outputs,
        bytes_read=tally.bytes_read,
        bytes_written=tally.bytes_written,
        bytes_saved=tally.bytes_read - tally.bytes_written,
        gain=round(tally.gain / tally.gain_bytes, 4) if tally.gain_bytes else None,
    )


# The lake's answers
def since_of(now: Instant, days: int) -> Instant:
    """Return the begin of the first of some days, the last of which is today, UTC."""
    return (now // DAY_US - days + 1) * DAY_US


def _seen(seen: Seen, *, since: Instant, limit: int) -> TableRuns:
    return table_runs(seen.state, seen.name, since, limit)


class _Known(NamedTuple):
    """A table of the fleet: its name, and its id and version when it was looked at last."""

    name: str
    table_id: str
    version: int


def _tables_seen(fleet: FleetSeen) -> tuple[_Known, ...]:
    return tuple(
        _Known(part.name_of(name), known.look.table_id, known.look.version)
        if known.look is not None
        else _Known(part.name_of(name), "", -1)
        for part in fleet.parts
        for name, known in part.known.tables.items()
    )


class FleetRuns:
    """The runs of all tables of a lake; rule 4."""

    def __init__(self, lake: Lake) -> None:
        """Know nothing yet."""
        self._lake = lake
        self._recent: Recent[tuple[str, Instant], tuple[int, TableRuns]] = Recent(4000)

    async def read(self, since: Instant, limit: int) -> tuple[list[TableRuns], list[str]]:
        """Return the runs by table, and the tables without an answer, with the reason."""
        tables = (await self._lake.fleet(_tables_seen)).data
        known = {each: self._recent.get((each.name, since)) for each in tables}
        found = [runs for each, (n, runs) in _filled(known) if n == each.version]
        fresh = {each for each, (n, _) in _filled(known) if n == each.version}
        turns = asyncio.Semaphore(AT_ONCE)
        asked = {
            asyncio.ensure_future(self._ask(each, since, limit, turns)): each.name
            for each in tables
            if each not in fresh
        }
        done, late = await asyncio.wait(asked, timeout=WAIT_S) if asked else (set(), set())
        for each in late:
            each.cancel()
        missing = [f"{asked[each]}: not read yet" for each in late]
        for each in done:
            answer = each.result()
            if isinstance(answer, str):
                missing.append(f"{asked[each]}: {within(answer, asked[each])}")
            else:
                found.append(answer)
        return found, sorted(missing)

    async def _ask(
        self, table: _Known, since: Instant, limit: int, turns: asyncio.Semaphore
    ) -> TableRuns | str:
        async with turns:
            try:
                answer = await self._lake.answer(table.name, _seen, since=since, limit=limit)
            except (SegtableError, OSError) as error:
                return self._lake.safe(str(error))
        self._recent.keep((table.name, since), (answer.version or 0, answer.data))
        return answer.data


def _filled(
    known: Mapping[_Known, tuple[int, TableRuns] | None],
) -> Iterable[tuple[_Known, tuple[int, TableRuns]]]:
    return ((each, found) for each, found in known.items() if found is not None)


def routes(lake: Lake) -> APIRouter:
    """Return the route of runs."""
    router, fleet = APIRouter(), FleetRuns(lake)

    @router.get("/api/runs")
    async def runs(
        table: str = "",
        days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = 7,
        limit: Limit = 200,
    ) -> Answer[Runs]:
        now = lake.clock.now()
        since = since_of(now, days)
        if table:
            one = await lake.answer(table, _seen, since=since, limit=limit)
            shown = runs_of([one.data], now, days, limit=limit)
            return Answer[Runs](**{**one.__dict__, "data": shown})
        found, missing = await fleet.read(since, min(limit, 50))
        return lake.now(runs_of(found, now, days, limit=limit, missing=missing))

    return router
