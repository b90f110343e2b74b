"""The timeline: the events of a table as sentences, and its plans as bars.

1. Events are listed newest first, in pages: ``before`` is the event after the page.
2. A filter looks at no more than ``SCANNED`` events for a page; the next page goes on from there.
3. Plans are those that were pending or changed in the time of the page, the newest first.
4. Files and bytes that a plan replaced are known as long as the state keeps the plan.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import VersionExpired
from airflow_provider_segtable.core.log.events import KINDS, Event, encode
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log.work import Work
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.page.answer import MOST_LISTED, Answer, Limit, Shown
from airflow_provider_segtable.page.event_shelf import EventDigest, EventShelf, digest_of
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.page.plan_bars import PlanBar, TaskName, bar_of, shown_task

SCANNED = 2000
"""Most events that a filter looks at for a page."""
STEP = 250
"""Events that are read at once for a filtered page."""
ENTRIES = 100
"""Entries of a list that an event in full keeps."""


class EventLine(Shown):
    """An event of the log in a line."""

    n: int
    at: str = Field(description="ISO-8601 UTC")
    kind: str = Field(description="stable name, e.g. PlanCompleted")
    sentence: str
    author: str
    task: TaskName | None
    commit: str
    plans: list[str]
    tags: list[str] = Field(description="names of the tags on this version")
    rows_added: int
    rows_deleted: int | None = Field(description="None: unknown before reading")
    files_added: int
    files_removed: int | None = Field(description="None: unknown")
    bytes_added: int
    bytes_removed: int | None = Field(description="None: unknown")
    moved: bool = Field(description="whether it only moves rows that the table had")
    readable: bool = Field(description="whether the version can be read, or restored")


class Timeline(Shown):
    """A page of events, and the plans of its time."""

    events: list[EventLine]
    plans: list[PlanBar]
    oldest: int = Field(description="oldest event that the log has")
    newest: int
    before: int | None = Field(description="begin of the next page; None at the end")
    total: int = Field(description="number of events that the log has")
    kinds: list[str] = Field(description="all kinds of events, for the filter")


class EventInFull(Shown):
    """An event as a sentence and as JSON; long lists are cut."""

    line: EventLine
    body: dict[str, Any]
    cut: int = Field(description="number of list entries that were left out of the body")
    touches: list[str] = Field(description="intervals whose segments it may change; empty: none")
    everywhere: bool = Field(description="whether it may change segments anywhere")


# Pure functions
@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """A filter of events; empty fields hold for all. ``search`` ignores case."""

    kind: str = ""
    search: str = ""

    def holds(self, event: EventDigest) -> bool:
        """Return whether an event is listed."""
        if self.kind and event.kind != self.kind:
            return False
        texts = (event.sentence, event.author, event.commit, *event.plans)
        return not self.search or any(self.search.lower() in text.lower() for text in texts)


def timeline_of(
    state: State, events: Sequence[EventDigest], *, oldest: int, before: int | None, first: bool
) -> Timeline:
    """Return a page of the timeline.

    Args:
        state: the newest version.
        events: those of the page, the newest first.
        oldest: the oldest event of the log.
        before: the begin of the next page.
        first: whether it is the newest page: it has the plans that are pending now.
    """
    return Timeline(
        events=[event_line(event, state) for event in events],
        plans=[*_bars(state, events, first=first)],
        oldest=oldest,
        newest=state.n,
        before=before,
        total=state.n - oldest + 1,
        kinds=sorted(kind.name for kind in KINDS),
    )


def event_line(event: EventDigest, state: State) -> EventLine:
    """Return an event as the newest version knows it."""
    done = [state.plans[each] for each in event.plans if each in state.plans] if event.moved else []
    works = [known.work for known in done if known.work is not None]
    known = not event.moved or bool(works)
    return EventLine(
        n=event.n,
        at=iso(event.time),
        kind=event.kind,
        sentence=event.sentence,
        author=event.author,
        task=shown_task(event.author),
        commit=event.commit,
        plans=list(event.plans),
        tags=sorted(name for name, n in state.tags.items() if n == event.n),
        rows_added=event.rows_added,
        rows_deleted=event.rows_deleted,
        files_added=event.files_added,
        files_removed=event.cleaned + sum(w.files_read for w in works) if known else None,
        bytes_added=event.bytes_added,
        bytes_removed=None if event.cleaned or not known else sum(map(_removed, works)),
        moved=event.moved,
        readable=state.keeps(event.n),
    )


def _removed(work: Work) -> int:
    """Return the bytes that a run replaced; the build of an index only reads."""
    return work.bytes_read if work.files_read else 0


def event_in_full(event: Event, state: State) -> EventInFull:
    """Return an event with everything that it records, except the rest of long lists."""
    digest, cut = digest_of(event), _Cut()
    body = cut.of(json.loads(encode(event)))
    return EventInFull(
        line=event_line(digest, state),
        body=body,
        cut=cut.left_out,
        touches=[str(each) for each in sorted(digest.touches or ())][:MOST_LISTED],
        everywhere=digest.touches is None,
    )


class _Cut:
    """Cuts long lists in JSON, and counts the entries that it leaves out."""

    def __init__(self) -> None:
        self.left_out = 0

    def of(self, value: Any) -> Any:
        """Return a value with its lists cut."""
        if isinstance(value, dict):
            return {key: self.of(each) for key, each in value.items()}
        if isinstance(value, list):
            self.left_out += max(0, len(value) - ENTRIES)
            return [self.of(each) for each in value[:ENTRIES]]
        return value


def _bars(state: State, events: Sequence[EventDigest], *, first: bool) -> Iterator[PlanBar]:
    if not events:
        return
    begin, end = events[-1].time, state.time if first else events[0].time
    known = sorted(state.plans.values(), key=lambda each: -each.last_n)
    shown = (
        each
        for each in known
        if each.requested_at <= end and (each.status.pending or each.changed_at >= begin)
    )
    yield from (bar_of(each) for each, _ in zip(shown, range(MOST_LISTED), strict=False))


# The lake's answers
def found_page(
    events: Iterable[EventDigest], wanted: EventFilter, limit: int
) -> tuple[list[EventDigest], int | None]:
    """Return the events of a page, the newest first, and the begin of the next page.

    Args:
        events: the newest first; no more are taken than are needed.
        wanted: the filter.
        limit: most events of a page.
    """
    page: list[EventDigest] = []
    last: int | None = None
    for event in events:
        if len(page) == limit:
            break
        last = event.n
        if wanted.holds(event):
            page.append(event)
    return page, last


def routes(lake: Lake) -> APIRouter:
    """Return the routes of the timeline."""
    router, shelf = APIRouter(), EventShelf()

    def timeline_seen(
        seen: Seen, *, before: int | None, limit: int, kind: str, search: str
    ) -> Timeline:
        state, log = seen.state, seen.ports.log
        oldest = log.first()
        end = min(state.n + 1, state.n + 1 if before is None else before)
        wanted = EventFilter(kind=kind, search=search)
        step = STEP if kind or search else limit
        low = max(oldest, end - SCANNED)
        events = shelf.backwards(log, state.table.table_id, end, low, step)
        page, last = found_page(events, wanted, limit)
        more = last if last is not None and last > oldest else None
        return timeline_of(state, page, oldest=oldest, before=more, first=before is None)

    def event_seen(seen: Seen, *, n: int) -> EventInFull:
        event = seen.ports.log.event(n) if 0 <= n <= seen.state.n else None
        if event is None:
            raise VersionExpired(
                f"event {n} is not in the log, which has {seen.ports.log.first()} to "
                f"{seen.state.n}: choose one of these"
            )
        return event_in_full(event, seen.state)

    @router.get("/api/timeline")
    async def timeline(
        table: str, before: int | None = None, limit: Limit = 100, kind: str = "", search: str = ""
    ) -> Answer[Timeline]:
        return await lake.answer(
            table, timeline_seen, before=before, limit=limit, kind=kind, search=search
        )

    @router.get("/api/event")
    async def event(table: str, n: int) -> Answer[EventInFull]:
        return await lake.answer(table, event_seen, n=n)

    return router
