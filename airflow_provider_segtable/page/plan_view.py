"""Plans and reasons: the work of a table, done, running and due, and a reason for every rest.

1. *Pending* plans wait for a worker; *running* ones have one, with the progress that it reports.
2. *Done* plans have the expectation and the measure side by side.
3. *Chosen* plans would begin now. *Left* is everything else, with a code, a sentence, and the
   number that would change it.
4. A simulation plans the same version twice: with its own properties, and with others. Nothing is
   written.
"""

from pydantic import Field

from airflow_provider_segtable.page.answer import Shown
from airflow_provider_segtable.page.plan_bars import Place, PlanBar


class PlanOffer(Shown):
    """A plan that would begin now."""

    id: str
    kind: str
    place: Place
    segments: int
    rows: int
    bytes: int = Field(description="of its inputs: the cost")
    outputs: int
    gain: float = Field(description="segments that it removes or tidies")
    expected_seconds: float
    reason: str
    clustering: str
    granularity: str | None
    index: str


class PlanProgress(Shown):
    """A pending or running plan."""

    bar: PlanBar
    place: Place
    outputs: int
    expected_seconds: float
    age_seconds: float = Field(description="since its request")
    holder: str = Field(description="holder of its locks, or waiter for them; empty if none")
    waiting: bool = Field(description="whether its worker waits for locks")
    progress: dict[str, str] = Field(description="as its worker reports it")
    share: float | None = Field(description="of the work, 0 to 1; None if not reported")


class PlanDone(Shown):
    """A completed or aborted plan: expected and measured."""

    bar: PlanBar
    place: Place
    expected_outputs: int
    expected_files_removed: int
    files_removed: int | None
    expected_seconds: float
    gained: float | None = Field(description="share of the possible gain, 0 to 1; None: unknown")
    overlap_before: float | None = Field(description="files over one instant, on average")
    overlap_after: float | None
    bytes_reordered: int | None


class Limit(Shown):
    """The number that would change a decision: the present value, and the bound."""

    name: str = Field(description="the property, e.g. compaction.min_segments")
    value: float | None
    bound: float | None
    unit: str = Field(description="bytes, seconds, segments, share, plans; empty: a count")


class LeftAlone(Shown):
    """A part of the table that no plan is made for."""

    place: Place
    places: int = Field(description="number of time chunks or buckets with equal reasons")
    kind: str
    code: str = Field(description="stable word")
    sentence: str
    number: Limit | None
    until: str | None = Field(description="when the reason ends by itself, ISO-8601 UTC")


class Plans(Shown):
    """All work of a table at one version."""

    pending: list[PlanProgress]
    running: list[PlanProgress]
    done: list[PlanDone] = Field(description="newest first")
    chosen: list[PlanOffer] = Field(description="best first")
    left: list[LeftAlone]
    done_total: int
    left_total: int
    whole: bool = Field(description="whether all places were looked at")
    due: str | None = Field(description="when another look may differ by itself")
    trouble: str = Field(description="why progress is not known; empty if it is")


class SimulationRequest(Shown):
    """The properties of a simulation; an empty text is the default."""

    properties: dict[str, str] = Field(max_length=100)


class Outcome(Shown):
    """The plans that one set of properties makes."""

    chosen: list[PlanOffer]
    chosen_total: int
    left: list[LeftAlone]
    plans_by_kind: dict[str, int]
    segments: int = Field(description="inputs of all chosen plans")
    bytes: int
    outputs: int
    seconds: float = Field(description="expected, one after the other")
    small_files: int
    due: str | None


class PropertyChange(Shown):
    """A property with its value before and after."""

    name: str
    before: str
    after: str


class ReasonChange(Shown):
    """A place whose treatment differs."""

    place: Place
    before: str = Field(description="plan or reason, one sentence; empty: none")
    after: str
    begins: bool = Field(description="whether a plan begins there after, and none before")
    ends: bool = Field(description="whether a plan began there before, and none after")


class Difference(Shown):
    """The difference between two outcomes."""

    properties: list[PropertyChange]
    begun: list[PlanOffer] = Field(description="plans of the second outcome alone")
    dropped: list[PlanOffer] = Field(description="plans of the first outcome alone")
    same: int
    places: list[ReasonChange]
    places_total: int
    sentence: str


class Simulation(Shown):
    """A simulation of other properties at one version."""

    before: Outcome
    after: Outcome
    difference: Difference
