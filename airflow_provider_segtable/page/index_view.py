"""Indexes of a table: what they keep and lack, and their lag over time.

1. An index *lacks* the intervals whose files it has no entries of.
2. Its lag over time is computed from the events since a checkpoint, once; after that, the page adds
   a point for each version that it looks at.
3. What the entries cover is read from the index's own table, once a version, of a table of at most
   ``LARGE`` segments. One that cannot be read is said to be so.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from fastapi import APIRouter
from pydantic import Field

from airflow_provider_segtable.core.catch_up import catch_up
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant, iso
from airflow_provider_segtable.library.table_facts import index_facts, index_line
from airflow_provider_segtable.page.answer import MOST_LISTED, Answer, Shown
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.page.recent import Recent
from airflow_provider_segtable.planning.properties import OFF, Policy
from airflow_provider_segtable.table.index_lifecycle import Coverage, coverage
from airflow_provider_segtable.table.log.event_log import EventLog

HISTORY = 300
"""Events whose lag is computed when indexes are looked at first."""
LARGE = 200_000
"""A table of more segments has a history from the first look on: its checkpoint takes a second."""
POINTS = 200


class Gap(Shown):
    """An interval that an index lacks."""

    interval: str
    event: int = Field(description="the event whose files it lacks")
    since: str = Field(description="time of that event, ISO-8601 UTC")


class LagPoint(Shown):
    """The lag of an index at a version."""

    at: str
    version: int
    lag_seconds: float
    gaps: int = Field(description="number of lacked commits")


class IndexLine(Shown):
    """An index with its progress."""

    name: str
    id: str
    kind: str
    columns: list[str]
    settings: dict[str, str]
    status: str
    sentence: str
    current: bool = Field(description="whether reads use it for all files")
    lag_commits: int
    lag_seconds: float
    lacking: list[Gap] = Field(description="at most 1000")
    lacking_total: int
    waiting_feeds: int
    plan: str | None
    plan_status: str | None
    plan_age_seconds: float | None
    files: int | None = Field(description="files that reads see; None: not known")
    indexed: int | None = Field(description="of these, files with entries")
    entries: int | None
    own_files: int | None
    own_bytes: int | None
    history: list[LagPoint]
    trouble: str


class Indexes(Shown):
    """The indexes of a table."""

    indexes: list[IndexLine]
    planner_builds: bool = Field(description="whether the planner builds what is lacking")


def indexes_of(
    state: State,
    now: Instant,
    covered: Mapping[str, Coverage | str],
    history: Mapping[str, Sequence[LagPoint]],
) -> Indexes:
    """Return the indexes of a version.

    Args:
        state: the version.
        now: the wall clock.
        covered: by name, what the entries of an index cover, or why that is not known.
        history: by name, its lag over time.
    """
    return Indexes(
        indexes=[
            _index_line(each, state, now, covered.get(name, "not read yet"), history.get(name, ()))
            for name, each in state.indexes.items()
        ],
        planner_builds=Policy.read(state.table.properties).indexes != OFF,
    )


def _index_line(
    index: IndexState,
    state: State,
    now: Instant,
    covered: Coverage | str,
    history: Sequence[LagPoint],
) -> IndexLine:
    facts = index_facts(index, state, now)
    known = covered if isinstance(covered, Coverage) else None
    return IndexLine(
        name=facts["name"],
        id=facts["id"],
        kind=facts["kind"],
        columns=facts["columns"],
        settings={key: f"{value:g}" for key, value in facts["settings"].items()},
        status=facts["status"],
        sentence=f"{index_line(facts)}: {facts['message']}",
        current=index.current,
        lag_commits=facts["lag_commits"],
        lag_seconds=facts["lag_s"],
        lacking=[
            Gap(interval=str(each.interval), event=each.n, since=iso(each.time))
            for each in index.lacks[:MOST_LISTED]
        ],
        lacking_total=len(index.lacks),
        waiting_feeds=len(index.feeds),
        plan=facts["plan"],
        plan_status=facts["plan_status"],
        plan_age_seconds=facts["plan_age_s"],
        files=known.files if known else None,
        indexed=known.indexed if known else None,
        entries=known.entries if known else None,
        own_files=known.own_files if known else None,
        own_bytes=known.own_bytes if known else None,
        history=list(history),
        trouble="" if isinstance(covered, Coverage) else covered,
    )


def lag_points(states: Iterable[State]) -> dict[str, list[LagPoint]]:
    """Return the lag of each index at each of some versions, oldest first."""
    points: dict[str, list[LagPoint]] = {}
    for state in states:
        for name in state.indexes:
            found = catch_up(state, name)
            points.setdefault(name, []).append(
                LagPoint(
                    at=iso(state.time),
                    version=state.n,
                    lag_seconds=round(found.lag_s, 3),
                    gaps=found.lag_commits,
                )
            )
    return points


class LagHistory:
    """The lag of the indexes of tables over time, as far as the page has looked; rule 1."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._recent: Recent[str, dict[str, list[LagPoint]]] = Recent(64)

    def of(self, log: EventLog, state: State) -> Mapping[str, Sequence[LagPoint]]:
        """Return the lag by name, up to this version; it is thinned to ``POINTS`` an index."""
        known = self._recent.get(state.table.table_id)
        if known is None:
            known = lag_points(_recent_states(log, state))
        for name, points in lag_points([state]).items():
            before = known.get(name, [])
            if not before or before[-1].version < state.n:
                known = {**known, name: [*before, *points]}
        thinned = {name: _thinned(points) for name, points in known.items()}
        return self._recent.keep(state.table.table_id, thinned)


def _recent_states(log: EventLog, state: State) -> Iterable[State]:
    """Yield the versions since a checkpoint before the last events; none of a large table."""
    if len(state.timeline) > LARGE:
        return
    with suppress(SegtableError):
        for _, each in log.history(state.time, max(0, state.n - HISTORY)):
            if each.n > state.n:
                return
            yield each


def _thinned(points: Sequence[LagPoint]) -> list[LagPoint]:
    """Return every other point until there are at most ``POINTS``; the newest one stays."""
    thinned = list(points)
    while len(thinned) > POINTS:
        thinned = thinned[-1::-2][::-1]
    return thinned


# The lake's answers
def routes(lake: Lake) -> APIRouter:
    """Return the route of indexes."""
    router, history = APIRouter(), LagHistory()
    covered: Recent[tuple[str, int], Mapping[str, Coverage | str]] = Recent(64)

    def indexes_seen(seen: Seen) -> Indexes:
        state, ports = seen.state, seen.ports
        found = covered.of((state.table.table_id, state.n), lambda: _covered(seen))
        return indexes_of(state, ports.clock.now(), found, history.of(ports.log, state))

    @router.get("/api/indexes")
    async def indexes(table: str) -> Answer[Indexes]:
        return await lake.answer(table, indexes_seen)

    return router


def _covered(seen: Seen) -> Mapping[str, Coverage | str]:
    """Return what the entries of each index cover, or why that is not known."""
    found: dict[str, Coverage | str] = {}
    if len(seen.state.timeline) > LARGE:
        why = f"not counted: the table has more than {counted(LARGE, 'segment')}"
        return dict.fromkeys(seen.state.indexes, why)
    for name, index in seen.state.indexes.items():
        try:
            found[name] = coverage(seen.ports, index, seen.state)
        except (SegtableError, OSError) as error:
            found[name] = seen.safe(str(error))
    return found
