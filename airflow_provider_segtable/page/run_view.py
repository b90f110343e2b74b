"""Runs: completed plans, their work and gain, by day and by owner, over one table or a fleet.

1. A run is a completed plan with its measured work (``core.log.work``).
2. Days are UTC days of its end. Its owner is the DAG of its author, else the author's host.
3. Only the plans that the state still keeps are known: a table keeps its last thousand.
"""

from pydantic import Field

from airflow_provider_segtable.page.answer import Shown
from airflow_provider_segtable.page.plan_bars import TaskName


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
