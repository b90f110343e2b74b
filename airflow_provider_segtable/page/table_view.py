"""The view *Table*: what a table is, where its settings come from, who reads it, how it grew.

1. Sizes come from the summaries of chunks: no segment is decoded (``library.table_facts``).
2. A setting shows its value, what gives it, what that wins over, and its default. The scopes of a
   fleet file count, as they do for the planner (``planning.fleet.fleet``).
3. Findings are those of the doctor, at most every ``EXAMINED_S``, as it lists folders and asks for
   locks. The table does not wait for it longer than ``EXAMINED_WITHIN_S``; ``api/health`` does.
   Until it has answered, and for a table of more than ``MOST_EXAMINED`` segments, they are those of
   a glance (``health.glance``).
4. Growth is that of versions that the log still knows (``library.growth``).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.families.consumer_events import needed_from
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity, worst_first
from airflow_provider_segtable.core.tables.evolution import ColumnHistory, column_histories
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.library.growth import growth
from airflow_provider_segtable.library.table_facts import describe_facts
from airflow_provider_segtable.page.answer import Answer, Shown
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.page.table_needs import Needs, needs_of
from airflow_provider_segtable.planning.fleet.fleet import (
    Effective,
    Objective,
    Sourced,
    effective,
    objective_of,
    properties_of,
)
from airflow_provider_segtable.planning.fleet.objectives import compared, measured
from airflow_provider_segtable.planning.properties import (
    DEFAULT,
    PublishSettings,
    settings,
    unset_settings,
)
from airflow_provider_segtable.services.fleet_run import publish_lag
from airflow_provider_segtable.table.kept_versions import unread_since
from airflow_provider_segtable.table.publishing.status import status_of_formats

EXAMINED_S = 60.0
EXAMINED_WITHIN_S = 0.25
MOST_EXAMINED = 100_000


class ColumnChange(Shown):
    """A change of a column, and the number of the schema that it led to."""

    schema_number: int
    change: str


class ColumnShown(Shown):
    """A column of any time."""

    id: int
    name: str
    type: str
    nullable: bool
    default: str | None = Field(description="in rows that were written before it was added")
    dropped: bool
    changes: list[ColumnChange]


class Over(Shown):
    """A value that another one wins over, and what gives it."""

    value: str
    origin: str


class Property(Shown):
    """A setting by which the table is served."""

    name: str
    value: str
    origin: str = Field(description="default, the table with its event, or file, line and scope")
    default: str | None = Field(description="null: there is none")
    over: list[Over] = Field(description="what it wins over, the strongest first")


class Counts(Shown):
    """Sizes of the newest version."""

    chunks: int
    segments: int = Field(description="visible files")
    rows: int
    deleted_rows: int = Field(description="rows in files that are deleted already; about")
    events: int = Field(description="ingested rows that the rows stand for")
    bytes: int
    hidden_segments: int
    tombstones: int
    small_segments: int
    small_below_bytes: int
    worst_interval: str | None = Field(description="the chunk with most small files")
    worst_small_segments: int


class Tag(Shown):
    """A version that has a name, and is kept."""

    name: str
    version: int


class ConsumerShown(Shown):
    """A reader of changes, whose position the log keeps."""

    name: str
    version: int = Field(description="the last version that it has read")
    advanced: str = Field(description="when it said so")
    unread_since: str | None = Field(description="time of the first change not read")
    lag_seconds: float
    lost: bool = Field(description="its position is no longer kept")


class Readers(Shown):
    """Who reads the table, as far as its log knows."""

    tags: list[Tag]
    consumers: list[ConsumerShown]


class Aim(Shown):
    """An aim of the objective beside what readers meet; durations in seconds."""

    name: str
    found: float
    aim: float
    missed: bool
    sentence: str


class FindingShown(Shown):
    """A problem, why it matters, and the way out."""

    code: str
    severity: Severity
    where: str
    what: str
    why: str
    do: str


class HealthShown(Shown):
    """Findings, the worst first."""

    examined: Literal["by the doctor", "at a glance"]
    as_of: str | None
    late: str = Field(description="why the doctor did not answer; empty if it did")
    findings: list[FindingShown]


class TableShown(Shown):
    """A table at its newest version."""

    name: str
    own_name: str = Field(description="the name that it was created with")
    table_id: str
    place: str = Field(description="its URI, without credentials")
    group: str | None
    created: str
    committed: str = Field(description="time of the newest event")
    retained_from: int = Field(description="the oldest version that is kept, tags aside")
    kind: str
    kind_settings: dict[str, object]
    time_column: str
    granularity: str
    overrides: list[str] = Field(description="times of another granularity")
    columns: list[ColumnShown]
    counts: Counts
    read_amplification: float | None = Field(description="sorted runs that a read merges; keyed")
    properties: list[Property]
    readers: Readers
    needs: Needs
    aims: list[Aim]
    health: HealthShown


class GrowthShown(Shown):
    """The size after a version."""

    at: str
    version: int
    files: int
    bytes: int
    rows: int
    small: int


class Growth(Shown):
    """The size over time, ascending; at most 200 points."""

    points: list[GrowthShown]


_UNKNOWN = HealthShown(examined="at a glance", as_of=None, late="", findings=[])


# From what was seen to what is shown
def table_of(seen: Seen) -> TableShown:
    """Return what a table is; its health is asked for apart."""
    state, definition = seen.state, seen.state.table
    facts = describe_facts(seen.name, state)
    group, keyed = seen.fleet.group_of(seen.own_name), facts["file_groups"]
    schemas = (*definition.earlier, definition.schema)
    return TableShown(
        name=seen.name,
        own_name=definition.name,
        table_id=definition.table_id,
        place=seen.safe(seen.ports.uri),
        group=group.name or None if group else None,
        created=facts["created"],
        committed=facts["changed"],
        retained_from=state.retained_from,
        kind=facts["kind"],
        kind_settings=facts["kind_settings"],
        time_column=definition.time_column,
        granularity=definition.granularity.value,
        overrides=[f"{each['interval']}: {each['granularity']}" for each in facts["zones"]],
        columns=[_column(each) for each in column_histories(schemas)],
        counts=Counts(**_counted(facts["counts"]), **_counted(facts["health"])),
        read_amplification=keyed and keyed["read_amplification"],
        properties=properties_shown(seen),
        readers=_readers(seen, seen.ports.clock.now()),
        needs=needs_of(state, seen.ports.clock.now(), seen.safe(seen.ports.uri)),
        aims=_aims(seen, seen.ports.clock.now()),
        health=_UNKNOWN,
    )


def _counted(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name in Counts.model_fields}


def _column(known: ColumnHistory) -> ColumnShown:
    column = known.column
    return ColumnShown(
        id=column.id,
        name=column.name,
        type=column.type,
        nullable=column.nullable,
        default=column.default,
        dropped=known.dropped,
        changes=[ColumnChange(schema_number=n, change=change) for n, change in known.changes],
    )


def properties_shown(seen: Seen) -> list[Property]:
    """Return each setting: first those that something gives, then the defaults."""
    defaults: Sourced = {each.key: (each.value, DEFAULT) for each in unset_settings()}
    given = (each for each in settings(seen.state.table) if each.source != DEFAULT)
    own: Sourced = {each.key: (each.value, f"the table, {each.source}") for each in given}
    return [
        _property(each, defaults) for each in effective(seen.fleet, seen.own_name, own, defaults)
    ]


def _property(each: Effective, defaults: Sourced) -> Property:
    return Property(
        name=each.key,
        value=each.value,
        origin=each.source,
        default=defaults[each.key][0] if each.key in defaults else None,
        over=[Over(value=value, origin=source) for source, value in each.over],
    )


def _readers(seen: Seen, now: Instant) -> Readers:
    state = seen.state
    consumers = []
    for name, each in sorted(state.consumers.items()):
        lost = needed_from(state, each) < state.retained_from
        since = None if lost else unread_since(seen.ports.log, state, each)
        consumers.append(
            ConsumerShown(
                name=name,
                version=each.version,
                advanced=iso(each.advanced_at),
                unread_since=None if since is None else iso(since),
                lag_seconds=0.0 if since is None else max(0, now - since) / SECOND_US,
                lost=lost,
            )
        )
    tags = [Tag(name=name, version=n) for name, n in sorted(state.tags.items())]
    return Readers(tags=tags, consumers=consumers)


def _aims(seen: Seen, now: Instant) -> list[Aim]:
    objective = objective_of(seen.fleet, seen.own_name)
    measure = measured(seen.state, objective, now, _published_lag(seen, objective, now))
    return [
        Aim(
            name=each.name,
            found=float(each.facts()["found"]),
            aim=float(each.facts()["aim"]),
            missed=each.found > each.aim,
            sentence=each.sentence,
        )
        for each in compared(objective, measure)
    ]


def _published_lag(seen: Seen, objective: Objective, now: Instant) -> float | None:
    """Return the lag of what is published, in microseconds; metadata is read if it is an aim."""
    if objective.publish_lag is None:
        return None
    own = properties_of(seen.fleet, seen.own_name, seen.state.table.properties)
    formats = PublishSettings.read(own).formats
    return publish_lag(status_of_formats(seen.ports, seen.state, formats).values(), now)


def examined(seen: Seen) -> list[FindingShown] | None:
    """Return the doctor's findings; None if the table is too large to be examined for a page."""
    if len(seen.state.timeline) > MOST_EXAMINED:
        return None
    return findings_shown(examine(seen.ports).findings, seen.safe)


def findings_shown(
    findings: Iterable[Finding], safe: Callable[[str], str] = str
) -> list[FindingShown]:
    """Return findings, the worst first."""
    return [
        FindingShown(
            code=each.code,
            severity=each.severity,
            where=safe(each.where),
            what=safe(each.what),
            why=safe(each.why),
            do=safe(each.do),
        )
        for each in worst_first(findings)
    ]


def growth_of(seen: Seen) -> Growth:
    """Return the size over time."""
    return Growth(
        points=[
            GrowthShown(
                at=iso(each.at),
                version=each.version,
                files=each.files,
                bytes=each.bytes,
                rows=each.rows,
                small=each.small,
            )
            for each in growth(seen.ports.log, seen.state)
        ]
    )


def routes(lake: Lake) -> APIRouter:
    """Return the routes of the view."""
    router = APIRouter()

    async def health_of(table: str, limit_s: float | None = None) -> HealthShown:
        late, found = "", None
        try:
            found = await lake.answer(table, examined, fresh_s=EXAMINED_S, limit_s=limit_s)
        except (SegtableError, OSError) as error:
            late = lake.safe(str(error))
        if found is not None and found.data is not None:
            as_of = found.as_of
            return HealthShown(
                examined="by the doctor", as_of=as_of, late=found.late, findings=found.data
            )
        known = findings_shown(lake.known(table).glance.findings)
        return HealthShown(examined="at a glance", as_of=None, late=late, findings=known)

    @router.get("/api/table")
    async def table(table: Annotated[str, Query(max_length=1000)]) -> Answer[TableShown]:
        shown, health = await asyncio.gather(
            lake.answer(table, table_of), health_of(table, EXAMINED_WITHIN_S)
        )
        data = shown.data.model_copy(update={"health": health})
        return shown.model_copy(update={"data": data})

    @router.get("/api/health")
    async def health(table: Annotated[str, Query(max_length=1000)]) -> Answer[HealthShown]:
        return lake.now(await health_of(table))

    @router.get("/api/growth")
    async def table_growth(table: Annotated[str, Query(max_length=1000)]) -> Answer[Growth]:
        return await lake.answer(table, growth_of)

    return router
