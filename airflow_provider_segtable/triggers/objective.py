"""Wait until a table meets its objective.

1. Every mode of the sensor asks the same question, ``MeetsObjective``, with the measures and aims
   of ``planning.fleet.objectives``.
2. The question holds the text of the fleet file, not its path: the triggerer may have another copy
   of the file, or none.
3. The expected time is that of the planner (``planning.fleet.expected``), seen from this table
   alone: the share of a budget that other tables use is not known here.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.planning.fleet.fleet import Fleet, Objective, Scope
from airflow_provider_segtable.triggers.watch import Answer, Question

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.planning.fleet.fleet_plan import TableLook
    from airflow_provider_segtable.table.context import TableContext

NO_FLEET = Fleet(name="fleet", source="", scope=Scope(name="all tables"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetsObjective(Question):
    """The question: does a table meet each of these aims?

    Attributes:
        aims: the objective by the names of ``Objective``, with durations in microseconds.
        fleet: the text of the fleet file; empty without one.
        name: the table's name in the fleet.
    """

    aims: Mapping[str, float] = field(default_factory=dict)
    fleet: str = ""
    name: str = ""

    def answer(self, ports: "TableContext", state: "State") -> Answer:
        """Measure the table, and plan it if it misses an aim."""
        from airflow_provider_segtable.planning.fleet.expected import expected
        from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
        from airflow_provider_segtable.planning.fleet.fleet_plan import plan_fleet
        from airflow_provider_segtable.planning.fleet.table_look import with_minutes
        from airflow_provider_segtable.services.fleet_run import look_for

        now, objective = ports.clock.now(), Objective(**self.aims)  # type: ignore[arg-type]
        fleet = read_fleet(self.fleet, "the fleet file") if self.fleet else NO_FLEET
        look = look_for(fleet, self.name, ports, state, objective, now, dry_run=True).kept
        late = "; ".join((*map(str, look.misses), *self._unmeasured(look)))
        if not late:
            return Answer(message="it meets its objective", event={"version": state.n})
        (look,) = with_minutes((look,))
        plan = plan_fleet(fleet, (look,), now)
        when = expected(look, [each.offer for each in plan.chosen], plan.left, now)
        return Answer(message=f"{late}; {when}" if when else late)

    def _unmeasured(self, look: "TableLook") -> tuple[str, ...]:
        """Return why an aim cannot be judged: publishing alone may be unknown."""
        if "publish_lag" not in self.aims or look.measure.publish_lag is not None:
            return ()
        return (
            "publish_lag is unknown: no format is switched on, or what is published is damaged",
        )
