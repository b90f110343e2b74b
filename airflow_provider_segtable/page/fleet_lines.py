"""The view *Fleet*: a table a line, the worst first.

1. A line shows what the planner's look and a glance have found (``page.fleet_watch``): nothing is
   read for it.
2. A table is *ill* if it cannot be read, misses its objective, or has a critical finding. It has a
   *warning* if the worst finding is one. It is *unknown* until it was looked at. The reason is the
   worst of these in a sentence.
3. Worst first: ill ones, warnings, unknown ones; then those that cannot be read, then by how much
   an objective is missed, by the backlog's age, and by the number of offers.
4. Changes are the newest known versions, for polling: no table is loaded for them.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Query
from pydantic import Field

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.core.recovery.diagnosis import Severity, worst
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso
from airflow_provider_segtable.core.time_words import in_words
from airflow_provider_segtable.page.answer import MOST_LISTED, Answer, Shown
from airflow_provider_segtable.page.fleet_watch import Fleetwide, Known
from airflow_provider_segtable.page.lake import FleetSeen, Lake, Part, Seen
from airflow_provider_segtable.planning.fleet.fleet import Objective, objective_of
from airflow_provider_segtable.planning.fleet.fleet_plan import Offer, TableLook

Health = Literal["ill", "warning", "unknown", "ok"]
_BY_RANK: tuple[Health, ...] = ("ill", "warning", "unknown", "ok")


class Lags(Shown):
    """Seconds by which readers of a table are behind; null: there is none, or it is not known."""

    index: float | None = Field(description="age of the oldest commit that an index lacks")
    log_store: float | None = Field(description="not known without asking its services")
    publication: float | None = Field(description="age of the oldest commit not published")
    consumer: float | None = Field(description="age of the oldest event not read")


class LineRun(Shown):
    """The plan that changed last."""

    kind: str
    at: str
    state: PlanStatus


class Spark(Shown):
    """The size of a table over its last versions, ascending; at most 24 numbers each."""

    files: list[int]
    bytes: list[int]


class Line(Shown):
    """A table."""

    table: str
    group: str | None = Field(description="of the fleet file")
    error: str | None = Field(description="why it could not be looked at")
    health: Health
    reason: str = Field(description="the worst thing, in a sentence")
    misses: list[str] = Field(description="aims that it misses, the worst first")
    objective: bool = Field(description="whether it has an objective")
    version: int | None
    committed: str | None = Field(description="time of the newest event")
    files: int
    bytes: int
    rows: int
    small_files: int
    backlog_seconds: float = Field(description="for so long the oldest worthwhile plan has waited")
    offers: int = Field(description="worthwhile plans")
    pending: int = Field(description="plans that are pending or running")
    lags: Lags
    next_plan: str = Field(description="the best plan: its kind, time and files; empty: none")
    next_when: str = Field(description="when it begins, why it waits, or why there is none")
    last_run: LineRun | None
    spark: Spark


class Totals(Shown):
    """Sums over all tables of the lake."""

    tables: int
    files: int
    bytes: int
    rows: int


class FleetLines(Shown):
    """Tables, and sums over the whole lake."""

    total: int = Field(description="tables that the search found")
    ill: int
    missed: int = Field(description="tables that miss their objective")
    offset: int
    limit: int
    lines: list[Line]
    totals: Totals


class Heads(Shown):
    """The newest known version of each table; without those that were not looked at yet."""

    heads: dict[str, int]


# From what is known to lines
def fleet_lines(
    fleet: FleetSeen, *, search: str, sort: str, descending: bool | None, offset: int, limit: int
) -> FleetLines:
    """Return some lines of the tables whose name or group contains a text."""
    ranked = [each for part in fleet.parts for each in lines_of(part, fleet.now)]
    every, wanted = [line for _, line in sorted(ranked, key=_first)], search.casefold()
    found = [each for each in every if wanted in f"{each.table} {each.group or ''}".casefold()]
    key, largest_first = SORTS[sort]
    if key is not None:
        found.sort(key=lambda each: each.table)
        found.sort(key=key, reverse=largest_first if descending is None else descending)
    elif descending:
        found.reverse()
    return FleetLines(
        total=len(found),
        ill=sum(each.health == "ill" for each in every),
        missed=sum(bool(each.misses) for each in every),
        offset=offset,
        limit=limit,
        lines=found[offset : offset + limit],
        totals=Totals(
            tables=len(every),
            files=sum(each.files for each in every),
            bytes=sum(each.bytes for each in every),
            rows=sum(each.rows for each in every),
        ),
    )


Rank = tuple[Any, ...]
"""The lowest is the worst."""


def _first(ranked: tuple[Rank, Line]) -> Rank:
    return ranked[0]


def lines_of(part: Part, now: Instant) -> Iterable[tuple[Rank, Line]]:
    """Yield the lines of a source's tables, each with its rank."""
    plans = next_plans(part.known, now)
    for name, known in part.known.tables.items():
        group = part.source.fleet.group_of(name)
        aims = objective_of(part.source.fleet, name) != Objective()
        line = line_of(
            part.name_of(name),
            known,
            now,
            group=group.name if group else "",
            objective=aims,
            following=plans.get(name),
        )
        yield _rank(known, line), line


def line_of(
    name: str,
    known: Known,
    now: Instant,
    *,
    group: str,
    objective: bool,
    following: "Next | None",
) -> Line:
    """Return a table's line."""
    look, last = known.look or TableLook(name=name), known.glance.last_run
    health, reason = health_of(look.name, known, objective=objective)
    oldest = min((each.since for each in look.offers), default=now)
    small = next((each.value for each in look.gauges if each.name == _SMALL), 0.0)
    return Line(
        table=name,
        group=group or None,
        error=within(known.error, look.name) or None,
        health=health,
        reason=reason,
        misses=[each.sentence for each in look.misses],
        objective=objective,
        version=None if known.look is None else look.version,
        committed=None if known.look is None else iso(look.committed),
        files=look.files,
        bytes=look.bytes,
        rows=look.rows,
        small_files=round(small),
        backlog_seconds=_seconds(oldest, now),
        offers=len(look.offers),
        pending=sum(each.pending for each in look.begun),
        lags=_lags(known, look, now),
        next_plan=following.plan if following else "",
        next_when=following.when if following else _nothing(look, known),
        last_run=None
        if last is None
        else LineRun(kind=last.kind, at=iso(last.at), state=last.status),
        spark=Spark(
            files=[files for files, _ in known.history], bytes=[size for _, size in known.history]
        ),
    )


_SMALL = "backlog.small_segments"


def health_of(name: str, known: Known, *, objective: bool) -> tuple[Health, str]:
    """Return the health of a table, and the worst thing about it in a sentence."""
    if known.error:
        return "ill", within(known.error, name)
    if known.look is None:
        return "unknown", "it was not looked at yet"
    findings = known.glance.findings
    if known.look.misses:
        return "ill", known.look.misses[0].sentence
    severity = worst(findings)
    if severity is None or severity is Severity.INFO:
        return "ok", "its objective is met" if objective else "nothing is wrong at a glance"
    first = findings[0]
    what = first.what if first.where.endswith(f"/{name}") else f"{first.where}: {first.what}"
    return "ill" if severity is Severity.CRITICAL else "warning", within(what, name)


def within(sentence: str, name: str) -> str:
    """Return a sentence about a table without the place of the table in its paths."""
    return re.sub(rf"(?<!\S)\S*/{re.escape(name)}/", "", sentence)


class Next(NamedTuple):
    """The plan of a table that begins next, and when, or why it waits."""

    plan: str
    when: str


def next_plans(known: Fleetwide, now: Instant) -> Mapping[str, Next]:
    """Return what begins next in each table, or its best offer that does not; by name."""
    found: dict[str, Next] = {}
    for one in known.plan.chosen:
        found.setdefault(one.table, Next(_offered(one.offer, now), "at the planner's next run"))
    for left in known.plan.left:
        until = "" if left.until is None else f" until {iso(left.until)}"
        waits = Next(_offered(left.offer, now), f"waits{until}: {left.reason}")
        found.setdefault(left.table, waits)
    return found


def _offered(offer: Offer, now: Instant) -> str:
    files = f"{counted(offer.inputs, 'file')} to {offer.outputs:,}"
    return f"{offer.kind} of {in_words(offer.interval, now)}: {files}"


def _nothing(look: TableLook, known: Known) -> str:
    pending = [each for each in look.begun if each.pending]
    if pending:
        return f"{counted(len(pending), 'plan')} pending or running, none else is worthwhile"
    return "nothing is worthwhile" if known.look else ""


def _lags(known: Known, look: TableLook, now: Instant) -> Lags:
    unread = known.glance.unread_since
    return Lags(
        index=_longest(look, "index.lag_seconds", now),
        log_store=None,
        publication=_longest(look, "publication.lag_seconds", now),
        consumer=None if unread is None else _seconds(unread, now),
    )


def _longest(look: TableLook, gauge: str, now: Instant) -> float | None:
    return max((each.at(now) for each in look.gauges if each.name == gauge), default=None)


def _seconds(since: Instant, now: Instant) -> float:
    return max(0, now - since) / SECOND_US


# Orders
def _rank(known: Known, line: Line) -> Rank:
    misses = known.look.misses if known.look else ()
    times = max((each.times for each in misses), default=0.0)
    health = _BY_RANK.index(line.health)
    return health, not line.error, -times, -line.backlog_seconds, -line.offers, line.table


def _lag(name: str) -> Callable[[Line], float]:
    def key(line: Line) -> float:
        value: float | None = getattr(line.lags, name)
        return -1.0 if value is None else value

    return key


SORTS: Mapping[str, tuple[Callable[[Line], Any] | None, bool]] = MappingProxyType(
    {
        "worst": (None, False),
        "table": (lambda line: line.table, False),
        "group": (lambda line: line.group or "", False),
        "committed": (lambda line: line.committed or "", True),
        "files": (lambda line: line.files, True),
        "bytes": (lambda line: line.bytes, True),
        "rows": (lambda line: line.rows, True),
        "small_files": (lambda line: line.small_files, True),
        "backlog": (lambda line: line.backlog_seconds, True),
        "offers": (lambda line: line.offers, True),
        "pending": (lambda line: line.pending, True),
        "last_run": (lambda line: line.last_run.at if line.last_run else "", True),
        **{name: (_lag(name), True) for name in ("index", "log_store", "publication", "consumer")},
    }
)
"""Orders by name, with whether the largest comes first by default."""
Sort = Literal[
    "worst",
    "table",
    "group",
    "committed",
    "files",
    "bytes",
    "rows",
    "small_files",
    "backlog",
    "offers",
    "pending",
    "last_run",
    "index",
    "log_store",
    "publication",
    "consumer",
]


# Changes
def heads_of(fleet: FleetSeen, *, since: str) -> Heads:
    """Return the newest known versions that were noticed since a time."""
    return Heads(
        heads={
            part.name_of(name): known.look.version
            for part in fleet.parts
            for name, known in part.known.tables.items()
            if known.look is not None and iso(known.noticed) >= since
        }
    )


def version_of(seen: Seen) -> int:
    """Return the newest version of a table."""
    return seen.state.n


def routes(lake: Lake) -> APIRouter:
    """Return the routes of the view."""
    router = APIRouter()

    @router.get("/api/fleet")
    async def fleet(
        *,
        search: Annotated[str, Query(max_length=200)] = "",
        sort: Sort = "worst",
        descending: bool | None = None,
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 200,
    ) -> Answer[FleetLines]:
        return await lake.fleet(
            fleet_lines, search=search, sort=sort, descending=descending, offset=offset, limit=limit
        )

    @router.get("/api/fleet/changes")
    async def changes(
        since: Annotated[str, Query(max_length=40)] = "",
        table: Annotated[str, Query(max_length=1000)] = "",
    ) -> Answer[Heads]:
        found = await lake.fleet(heads_of, since=since)
        if not table:
            return found
        looked_at = await lake.answer(table, version_of)
        heads = {**found.data.heads, table: looked_at.data}
        return found.model_copy(update={"data": Heads(heads=heads), "late": looked_at.late})

    return router
