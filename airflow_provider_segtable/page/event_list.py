"""The timeline: the events of a table as sentences, and its plans as bars.

1. Events are listed newest first, in pages: ``before`` is the event after the page.
2. A filter looks at no more than ``SCANNED`` events for a page; the next page goes on from there.
3. Plans are those that were pending or changed in the time of the page.
4. A plan's bar has three times: requested, begun (its latest attempt), ended.
5. An author that is a task names its DAG, run and task (``host:pid dag/run/task``).
"""

from typing import Any, Literal

from pydantic import BaseModel, Field


class TaskName(BaseModel, frozen=True):
    """The task that an author is; empty texts if it is none."""

    dag_id: str
    run_id: str
    task_id: str


class EventLine(BaseModel, frozen=True):
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


class PlanBar(BaseModel, frozen=True):
    """A plan as a bar over time."""

    id: str
    kind: str
    status: Literal["requested", "inflight", "completed", "aborted"]
    interval: str
    reason: str
    note: str
    requested: str = Field(description="ISO-8601 UTC")
    inflight: str | None = Field(description="begin of its latest attempt")
    completed: str | None = Field(description="when it was completed or aborted")
    waited_seconds: float
    worked_seconds: float | None
    attempts: int
    yields: int
    author: str = Field(description="of its newest event")
    task: TaskName | None
    event: int = Field(description="its newest event")
    rows: int
    bytes: int = Field(description="of its inputs")
    files_read: int
    files_written: int | None
    bytes_written: int | None


class Timeline(BaseModel, frozen=True):
    """A page of events, and the plans of its time."""

    events: list[EventLine]
    plans: list[PlanBar]
    oldest: int = Field(description="oldest event that the log has")
    newest: int
    before: int | None = Field(description="begin of the next page; None at the end")
    total: int = Field(description="number of events that the log has")
    kinds: list[str] = Field(description="all kinds of events, for the filter")


class EventInFull(BaseModel, frozen=True):
    """An event as a sentence and as JSON; long lists are cut."""

    line: EventLine
    body: dict[str, Any]
    cut: int = Field(description="number of list entries that were left out of the body")
    touches: list[str] = Field(description="intervals whose segments it may change; empty: none")
    everywhere: bool = Field(description="whether it may change segments anywhere")
