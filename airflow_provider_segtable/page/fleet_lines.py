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

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Query
from pydantic import Field

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.core.recovery.diagnosis import Severity, worst
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso
from airflow_provider_segtable.core.time_words import in_words
from airflow_provider_segtable.page.answer import MOST_LISTED, Answer, Shown
from airflow_provider_segtable.page.fleet_watch import Fleetwide, Known
from airflow_provider_segtable.page.lake import FleetSeen, Lake, Part, Seen
from airflow_provider_segtable.page.sources import within
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


# Rows: what orders and sums need of a table
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A table of the list; its line is made only if it is shown."""

    name: str
    own_name: str
    group: str
    known: Known
    part: Part
    now: Instant

    @property
    def look(self) -> TableLook:
        """Return what the planner found; an empty look before it has."""
        return self.known.look or _NO_LOOK

    @property
    def backlog(self) -> float:
        """Return for how many seconds the oldest worthwhile plan has waited."""
        oldest = min((each.since for each in self.look.offers), default=self.now)
        return _seconds(oldest, self.now)

    @property
    def small(self) -> float:
        """Return the number of small files."""
        return self.longest("backlog.small_segments") or 0.0

    @property
    def pending(self) -> int:
        """Return the number of plans that are pending or running."""
        return sum(each.pending for each in self.look.begun)

    @property
    def unread(self) -> float | None:
        """Return the age of the oldest event that a consumer has not read, in seconds."""
        since = self.known.glance.unread_since
        return None if since is None else _seconds(since, self.now)

    def longest(self, gauge: str) -> float | None:
        """Return the largest value of a gauge; None if the table has none of it."""
        values = (each.at(self.now) for each in self.look.gauges if each.name == gauge)
        return max(values, default=None)


_NO_LOOK = TableLook(name="")


def rows_of(fleet: FleetSeen) -> list[Row]:
    """Return the tables of all sources, the worst first."""
    rows = [
        Row(
            name=part.name_of(name),
            own_name=name,
            group=group.name if (group := part.source.fleet.group_of(name)) else "",
            known=known,
            part=part,
            now=fleet.now,
        )
        for part in fleet.parts
        for name, known in part.known.tables.items()
    ]
    return sorted(rows, key=_badness)


def _badness(row: Row) -> tuple[Any, ...]:
    times = max((each.times for each in row.look.misses), default=0.0)
    rank = _BY_RANK.index(health_of(row.known))
    return rank, not row.known.error, -times, -row.backlog, -len(row.look.offers), row.name


def health_of(known: Known) -> Health:
    """Return the health of a table (rule 2)."""
    severity = worst(known.glance.findings)
    if known.error or (known.look and known.look.misses) or severity is Severity.CRITICAL:
        return "ill"
    if known.look is None:
        return "unknown"
    return "ok" if severity in (None, Severity.INFO) else "warning"


# Lines
def fleet_lines(
    fleet: FleetSeen, *, search: str, sort: str, descending: bool | None, offset: int, limit: int
) -> FleetLines:
    """Return some lines of the tables whose name or group contains a text."""
    every, wanted = rows_of(fleet), search.casefold()
    found = [each for each in every if wanted in f"{each.name} {each.group}".casefold()]
    key, largest_first = SORTS[sort]
    if key is not None:
        found.sort(key=lambda each: each.name)
        found.sort(key=key, reverse=largest_first if descending is None else descending)
    elif descending:
        found.reverse()
    plans = {part.prefix: next_plans(part.known, fleet.now) for part in fleet.parts}
    return FleetLines(
        total=len(found),
        ill=sum(health_of(each.known) == "ill" for each in every),
        missed=sum(bool(each.look.misses) for each in every),
        offset=offset,
        limit=limit,
        lines=[
            line_of(each, plans[each.part.prefix].get(each.own_name))
            for each in found[offset : offset + limit]
        ],
        totals=Totals(
            tables=len(every),
            files=sum(each.look.files for each in every),
            bytes=sum(each.look.bytes for each in every),
            rows=sum(each.look.rows for each in every),
        ),
    )


def line_of(row: Row, following: "Next | None") -> Line:
    """Return a table's line."""
    known, look, last = row.known, row.look, row.known.glance.last_run
    aims = objective_of(row.part.source.fleet, row.own_name) != Objective()
    seen = known.look is not None
    return Line(
        table=row.name,
        group=row.group or None,
        error=within(known.error, row.own_name) or None,
        health=health_of(known),
        reason=reason_of(row, objective=aims),
        misses=[each.sentence for each in look.misses],
        objective=aims,
        version=look.version if seen else None,
        committed=iso(look.committed) if seen else None,
        files=look.files,
        bytes=look.bytes,
        rows=look.rows,
        small_files=round(row.small),
        backlog_seconds=row.backlog,
        offers=len(look.offers),
        pending=row.pending,
        lags=Lags(
            index=row.longest("index.lag_seconds"),
            log_store=None,
            publication=row.longest("publication.lag_seconds"),
            consumer=row.unread,
        ),
        next_plan=following.plan if following else "",
        next_when=following.when if following else _nothing(row),
        last_run=None
        if last is None
        else LineRun(kind=last.kind, at=iso(last.at), state=last.status),
        spark=Spark(
            files=[files for files, _ in known.history], bytes=[size for _, size in known.history]
        ),
    )


def reason_of(row: Row, *, objective: bool) -> str:
    """Return the worst thing about a table in a sentence."""
    known = row.known
    if known.error:
        return within(known.error, row.own_name)
    if known.look is None:
        return "it was not looked at yet"
    if known.look.misses:
        return known.look.misses[0].sentence
    if known.glance.findings and health_of(known) != "ok":
        first = known.glance.findings[0]
        own = first.where.endswith(f"/{row.own_name}")
        return within(first.what if own else f"{first.where}: {first.what}", row.own_name)
    return "its objective is met" if objective else "nothing is wrong at a glance"


class Next(NamedTuple):
    """The plan of a table that begins next, and when, or why it waits."""

    plan: str
    when: str


def next_plans(known: Fleetwide, now: Instant) -> Mapping[str, Next]:
    """Return what begins next in each table, or its best offer that does not; by name."""
    found: dict[str, Next] = {}
    for one in known.plan.chosen:
        if one.table not in found:
            found[one.table] = Next(_offered(one.offer, now), "at the planner's next run")
    for left in known.plan.left:
        if left.table not in found:
            until = "" if left.until is None else f" until {iso(left.until)}"
            waits = f"waits{until}: {left.reason}"
            found[left.table] = Next(_offered(left.offer, now), waits)
    return found


def _offered(offer: Offer, now: Instant) -> str:
    work = f"{offer.kind} of {in_words(offer.interval, now)}"
    if not offer.inputs:  # an index is built beside the files
        return work
    return f"{work}: {counted(offer.inputs, 'file')} to {offer.outputs:,}"


def _nothing(row: Row) -> str:
    if row.pending:
        return f"{counted(row.pending, 'plan')} pending or running, none else is worthwhile"
    return "nothing is worthwhile" if row.known.look else ""


def _seconds(since: Instant, now: Instant) -> float:
    return max(0, now - since) / SECOND_US


# Orders
def _known(value: float | None) -> float:
    return -1.0 if value is None else value


SORTS: Mapping[str, tuple[Callable[[Row], Any] | None, bool]] = MappingProxyType(
    {
        "worst": (None, False),
        "table": (lambda row: row.name, False),
        "group": (lambda row: row.group, False),
        "committed": (lambda row: row.look.committed, True),
        "files": (lambda row: row.look.files, True),
        "bytes": (lambda row: row.look.bytes, True),
        "rows": (lambda row: row.look.rows, True),
        "small_files": (lambda row: row.small, True),
        "backlog": (lambda row: row.backlog, True),
        "offers": (lambda row: len(row.look.offers), True),
        "pending": (lambda row: row.pending, True),
        "last_run": (
            lambda row: row.known.glance.last_run.at if row.known.glance.last_run else 0,
            True,
        ),
        "index": (lambda row: _known(row.longest("index.lag_seconds")), True),
        "log_store": (lambda _: -1.0, True),
        "publication": (lambda row: _known(row.longest("publication.lag_seconds")), True),
        "consumer": (lambda row: _known(row.unread), True),
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
