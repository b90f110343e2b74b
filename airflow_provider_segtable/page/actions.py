"""What a person may do from the page: preview, confirm, run.

1. ``POST api/preview`` changes nothing. It answers with what would happen in numbers, the command
   that does the same, the question to ask, and a seal (``action_kind``).
2. ``POST api/run`` takes the same body and the seal. If what it would do has changed since, it is
   refused. So one confirmation is for one thing.
3. Both need the right to the action on this table (``rights.refusal``). It is asked before anything
   is read.
4. The author of what is committed is the user, and the timeline shows it.
5. ``Actions`` is a port: ``ActionsHere`` acts in this process, ``ui`` by events and DAG runs.
   ``NoActions`` is for a page that only shows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import Field

from airflow_provider_segtable.core.arguments import shown
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.page.action_events import (
    RebuildIndex,
    ReleaseLock,
    RemoveTag,
    RequestIndex,
    RestoreVersion,
    TagVersion,
)
from airflow_provider_segtable.page.action_kind import (
    Action,
    Changed,
    Foreseen,
    Pin,
    author_named,
    command_line,
    key_of,
    pin_of,
    sealed,
)
from airflow_provider_segtable.page.action_work import (
    BuildMissing,
    CleanTable,
    CompactSegments,
    PlanTable,
    PublishTable,
)
from airflow_provider_segtable.page.answer import Answer, Shown
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.page.rights import Rights, Viewer
from airflow_provider_segtable.page.sources import TablePlace
from airflow_provider_segtable.table.context import TableContext

KINDS: Mapping[str, type[Action]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            *(PlanTable, CompactSegments, CleanTable, TagVersion, RemoveTag, RestoreVersion),
            *(RequestIndex, BuildMissing, RebuildIndex, PublishTable, ReleaseLock),
        )
    }
)
"""The actions by name."""
Argument = str | int | float | bool | None | list[str]
LAST_EVENTS = 1000
"""So many events are looked at for one's own."""


# Requests and answers
class ActionRequest(Shown):
    """An action on a table."""

    table: Annotated[str, Field(min_length=1, max_length=2000)]
    action: Annotated[str, Field(max_length=100)]
    arguments: Annotated[dict[str, Argument], Field(max_length=16)] = Field(default_factory=dict)


class RunRequest(ActionRequest):
    """An action that the user has confirmed."""

    seal: Annotated[str, Field(max_length=100)] = Field(
        default="", description="of the preview that was confirmed"
    )


class Preview(Shown):
    """What an action would do."""

    sentence: str
    effects: list[str] = Field(description="in numbers, a sentence each")
    command: str = Field(description="the command line that does the same")
    confirm: str = Field(description="the question to ask before")
    seal: str = Field(description="for the run: what the user agrees to")


class Outcome(Shown):
    """What an action did: an event of the table's log, or a DAG run."""

    sentence: str
    event: int | None = None
    dag_id: str | None = None
    run_id: str | None = None
    href: str | None = None


class Allowed(Shown):
    """Whether the user may do something to a table."""

    name: str
    allowed: bool
    refusal: str = Field(description="why not; empty if it is allowed")


class AllowedActions(Shown):
    """The actions on a table."""

    actions: list[Allowed]


# The port
class Actions(Protocol):
    """What can be done; see the module."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all actions; none if the page only shows."""
        ...

    def preview(self, seen: Seen, request: ActionRequest) -> Preview:
        """Return what an action would do; it changes nothing."""
        ...

    def run(self, seen: Seen, request: RunRequest, viewer: Viewer) -> Outcome:
        """Do it, in the name of a user who may.

        Raises:
            Changed: what it would do has changed since the preview.
        """
        ...


class NoActions:
    """No action at all."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return none."""
        return ()

    def preview(self, seen: Seen, request: ActionRequest) -> Preview:
        """Refuse."""
        raise InvalidInput(f"{shown(request.action)} of {seen.name}: this page only shows")

    def run(  # the arguments are the port's
        self,
        seen: Seen,
        request: RunRequest,
        viewer: Viewer,  # noqa: ARG002
    ) -> Outcome:
        """Refuse."""
        raise InvalidInput(f"{shown(request.action)} of {seen.name}: this page only shows")


# Steps that all adapters share
@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """An action that is still what the user has confirmed.

    Attributes:
        action: with its arguments.
        seen: the table now; the author of its ports is the user.
        pin: of the preview.
        key: equal for equal previews.
    """

    action: Action
    seen: Seen
    pin: Pin
    key: str

    @property
    def author(self) -> str:
        """Return the author of what is committed."""
        return self.seen.ports.author

    @property
    def event(self) -> int | None:
        """Return the last event that this action has committed; None if there is none."""
        return next(_own_events(self.seen.ports, self.seen.state.n), None)


def action_of(request: ActionRequest) -> Action:
    """Return the action that is asked for.

    Raises:
        InvalidInput: it is unknown, or an argument does not fit.
    """
    kind = KINDS.get(request.action)
    if kind is None:
        raise InvalidInput(f"action {shown(request.action)} is unknown: one of {', '.join(KINDS)}")
    return kind.of(request.arguments)


def now_of(seen: Seen) -> Pin:
    """Return the newest version, and the time."""
    return Pin(n=seen.state.n, at=seen.ports.clock.now())


def previewed(seen: Seen, action: Action, *more: str) -> Preview:
    """Return the preview of an action; ``more`` are further effects."""
    pin = now_of(seen)
    foreseen = action.foresee(seen, pin)
    return Preview(
        sentence=seen.safe(foreseen.sentence),
        effects=[seen.safe(each) for each in (*foreseen.effects, *more)],
        command=command_line(seen, foreseen),
        confirm=seen.safe(foreseen.confirm),
        seal=sealed(action, seen.name, pin, foreseen),
    )


def agreed(seen: Seen, action: Action, seal: str, viewer: Viewer) -> Agreed:
    """Return an action that the user has confirmed, after checking that it is the same still.

    Raises:
        Changed: it would do something else than the preview has shown, or was never shown.
    """
    pin = pin_of(seal, now_of(seen))
    found = action.foresee(seen, pin)
    if sealed(action, seen.name, pin, found) != seal:
        raise Changed(_what_changed(seen, action, found, pin))
    author = author_named(viewer.name, seen.ports.randomness.token())
    acting = replace(seen, ports=seen.ports.by(author))
    return Agreed(action=action, seen=acting, pin=pin, key=key_of(seal))


def _what_changed(seen: Seen, action: Action, found: Foreseen, pin: Pin) -> str:
    since = f"version {seen.state.n} follows version {pin.n}" if seen.state.n > pin.n else ""
    now = seen.safe(found.sentence).rstrip(".")
    return (
        f"what {action.name} does to {seen.name} has changed since it was shown"
        f"{f' ({since})' if since else ''}; now: {now}. Nothing was done: look at it again"
    )


def _own_events(ports: TableContext, before: int) -> Iterator[int]:
    """Yield the numbers of the author's events after an event, newest first."""
    newest = ports.log.load().n
    for n in range(newest, max(before, newest - LAST_EVENTS), -1):
        event = ports.log.event(n)
        if event is not None and event.author == ports.author:
            yield n


# Routes
def _refusal(  # what is bound, then what a request has
    rights: Rights,
    actions: Actions,
    viewer: Viewer,
    name: str,
    place: TablePlace,
    given: Mapping[str, Argument],
) -> str:
    """Return why a user may not do something to a table; empty if it is allowed."""
    refused = rights.refusal(viewer, name, place, given)
    return refused if actions.names else refused or "this page only shows"


def routes(lake: Lake, rights: Rights, actions: Actions) -> APIRouter:
    """Return the routes of all actions."""
    router, refusal = APIRouter(), partial(_refusal, rights, actions)

    async def admit(viewer: Viewer, request: ActionRequest) -> None:
        asked = partial(refusal, viewer, request.action, given=request.arguments)
        if why := await lake.aside(request.table, asked):
            raise HTTPException(403, why)

    def foreseen(seen: Seen, *, request: str) -> Preview:
        return actions.preview(seen, ActionRequest.model_validate_json(request))

    @router.post("/api/preview")
    async def preview(
        request: ActionRequest, viewer: Annotated[Viewer, Depends(rights.view)]
    ) -> Answer[Preview]:
        action_of(request)
        await admit(viewer, request)
        asked = request.model_dump_json()
        return await lake.answer(request.table, foreseen, fresh_s=0.0, request=asked)

    @router.post("/api/run")
    async def run(request: RunRequest, viewer: Annotated[Viewer, Depends(rights.view)]) -> Outcome:
        action_of(request)
        await admit(viewer, request)
        return await lake.act(request.table, lambda seen: actions.run(seen, request, viewer))

    @router.get("/api/actions")
    async def allowed(
        table: Annotated[str, Query(max_length=2000)],
        viewer: Annotated[Viewer, Depends(rights.view)],
    ) -> Answer[AllowedActions]:
        whys = await lake.aside(
            table, lambda place: {name: refusal(viewer, name, place, {}) for name in actions.names}
        )
        found = [Allowed(name=name, allowed=not why, refusal=why) for name, why in whys.items()]
        return lake.now(AllowedActions(actions=found))

    return router
