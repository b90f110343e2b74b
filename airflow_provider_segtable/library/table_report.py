"""A table at one version, for a report: its facts, map, growth, findings, plans and last events.

1. Everything is an answer of the library; the report adds none of its own.
2. What cannot be known (findings without a readable folder, a policy that does not fit) is named in
   ``troubles``; the rest is reported.
3. No text holds a credential: addresses are redacted.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from airflow_provider_segtable import __version__
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, worst_first
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.library.growth import GrowthPoint, growth
from airflow_provider_segtable.library.segment_map.shapes import Shapes, shapes_of
from airflow_provider_segtable.library.table_facts import describe_facts, event_facts
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import Planned
from airflow_provider_segtable.planning.table_plan import plan_all
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.refusing import blocking_schemas
from airflow_provider_segtable.table.publishing.status import published_status

SHAPES = 600
"""Most shapes of the map: more cannot be told apart on a printed page."""
POINTS = 80
EVENTS = 25
PLANS = 10

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """A table as a report shows it.

    Attributes:
        facts: the facts of ``segtable table describe``.
        made: when the report was made.
        package: the version of segtable.
        shapes: the segment map of all time.
        points: sizes over time.
        findings: the worst first.
        planned: the plans that would begin now, and reasons for the rest.
        pending: plans that wait or run.
        done: the newest plans that ended.
        events: facts of the newest events, newest first.
        troubles: what is not known, and why.
    """

    facts: Facts
    made: Instant
    package: str
    shapes: Shapes
    points: tuple[GrowthPoint, ...]
    findings: tuple[Finding, ...]
    planned: Planned
    pending: tuple[PlanState, ...]
    done: tuple[PlanState, ...]
    events: tuple[Facts, ...]
    troubles: tuple[str, ...]


def table_report(ports: TableContext, uri: str) -> TableReport:
    """Return the report of a table's newest version; it reads, and writes nothing.

    Args:
        ports: the table's ports.
        uri: its address, as it is shown.

    Raises:
        NotATable, CorruptTable, StorageError: the log cannot be read.
    """
    state, now = ports.log.load(), ports.clock.now()
    tried = _Tried()
    nothing: Sequence[Facts] = ()
    published = tried("publications", lambda: _published(ports), nothing)
    ended = [known for known in state.plans.values() if not known.status.pending]
    return TableReport(
        facts=describe_facts(redacted(uri), state, published),
        made=now,
        package=__version__,
        shapes=shapes_of(state, limit=SHAPES),
        points=tried("growth", lambda: growth(ports.log, state, POINTS), ()),
        findings=tried("findings", lambda: _findings(ports), ()),
        planned=tried("plans", lambda: _planned(state, now), Planned(chosen=(), skipped=())),
        pending=state.pending_plans(),
        done=tuple(sorted(ended, key=lambda known: -known.last_n)[:PLANS]),
        events=tried("events", lambda: _events(ports, state), ()),
        troubles=tuple(tried.troubles),
    )


class _Tried:
    """Tries answers that may fail, and keeps why."""

    def __init__(self) -> None:
        self.troubles: list[str] = []

    def __call__(self, name: str, answer: Callable[[], T], otherwise: T) -> T:
        try:
            return answer()
        except (SegtableError, OSError) as error:
            self.troubles.append(f"{name} are not known: {redacted(str(error))}")
            return otherwise


def _published(ports: TableContext) -> Sequence[Facts]:
    return [each.facts() for each in published_status(ports).values()]


def _findings(ports: TableContext) -> tuple[Finding, ...]:
    return tuple(worst_first(examine(ports).findings))


def _planned(state: State, now: Instant) -> Planned:
    policy = Policy.read(state.table.properties)
    return plan_all(state, policy, now, blocking_schemas(state))


def _events(ports: TableContext, state: State) -> tuple[Facts, ...]:
    first = max(ports.log.first(), state.n - EVENTS + 1)
    found = [event_facts(event) for event in ports.log.events(first) if event.n <= state.n]
    return tuple(reversed(found))
