"""What a person may do from the page, and what each action says before it is done.

1. ``preview`` changes nothing. It returns what would happen, and the command that does the same.
2. ``run`` commits one event, or begins one DAG run. Its author is the user.
3. ``NoActions`` is for a page that only shows.
"""

from typing import Protocol

from pydantic import Field

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.page.answer import Shown
from airflow_provider_segtable.page.lake import Seen
from airflow_provider_segtable.page.rights import Viewer

Argument = str | int | float | bool | None | list[str]


class ActionRequest(Shown):
    """An action on a table."""

    table: str
    action: str
    arguments: dict[str, Argument] = Field(default_factory=dict)


class Preview(Shown):
    """What an action would do."""

    sentence: str
    effects: list[str]
    command: str = Field(description="the command line that does the same")
    confirm: str = Field(description="the question to ask before")


class Outcome(Shown):
    """What an action did: an event of the table's log, or a DAG run."""

    sentence: str
    event: int | None = None
    dag_id: str | None = None
    run_id: str | None = None
    href: str | None = None


class Actions(Protocol):
    """What can be done; see the module."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all actions; none if the page only shows."""
        ...

    def preview(self, seen: Seen, request: ActionRequest) -> Preview:
        """Return what an action would do; it changes nothing."""
        ...

    def run(self, seen: Seen, request: ActionRequest, viewer: Viewer) -> Outcome:
        """Do it, in the name of a user who may."""
        ...


class NoActions:
    """No action at all."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return none."""
        return ()

    def preview(self, seen: Seen, request: ActionRequest) -> Preview:
        """Refuse."""
        raise InvalidInput(f"{request.action!r} of {seen.name}: this page only shows")

    def run(  # the arguments are the port's
        self,
        seen: Seen,
        request: ActionRequest,
        viewer: Viewer,  # noqa: ARG002
    ) -> Outcome:
        """Refuse."""
        raise InvalidInput(f"{request.action!r} of {seen.name}: this page only shows")
