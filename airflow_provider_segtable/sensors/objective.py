"""Wait until a table meets its objective: that of a fleet file, or one that is given.

The objective is fixed at the first look. While the table misses it, each new state is logged: what
is missed, with both numbers, and when the planner is expected to mend it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.arguments import shown
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.planning.fleet.fleet import Fleet, Objective, objective_of
from airflow_provider_segtable.sensors.table_sensor import SegtableTableSensor
from airflow_provider_segtable.triggers.objective import MeetsObjective

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.table.context import TableContext


class SegtableObjectiveSensor(SegtableTableSensor):
    """Wait until a table meets its objective.

    Args:
        objective: the aims, as in a fleet file: ``{"files_read": 200, "publish_lag": "5m"}``, or
            the JSON text; they win over the file's.
        fleet: the fleet file that has the table's objective, a path or a URI.
        kwargs: see ``SegtableTableSensor``. Ages grow without a commit: in the triggerer it looks
            every ``poke_interval``, too.
    """

    template_fields: Sequence[str] = ("objective", "fleet", *SegtableTableSensor.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {"objective": "json"}

    def __init__(
        self,
        *,
        objective: Mapping[str, object] | str | None = None,
        fleet: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.objective = objective
        self.fleet = fleet

    def question(self, context: Context, ports: "TableContext", state: "State") -> MeetsObjective:
        """Return the question, with the objective as it is at the first look."""
        from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet, read_objective
        from airflow_provider_segtable.services.fleet_tables import fleet_text

        del context, ports, state
        given, name, text = _mapping(self.objective), self.table, ""
        aims = {}
        if self.fleet:
            text = fleet_text(self.fleet, dict(self.place.storage_options))
            fleet = read_fleet(text, self.fleet)
            name = self._name_in(fleet)
            aims = _aims(objective_of(fleet, name))
        aims |= _aims(read_objective(given))
        if not set(aims) - {"hot"}:
            raise InvalidInput(
                f"the objective of {self.table} has no aim: give one, such as "
                'objective={"files_read": 200}, or in the fleet file'
            )
        return MeetsObjective(table=self.table, aims=aims, fleet=text, name=name)

    def _name_in(self, fleet: Fleet) -> str:
        """Return the table's name in a fleet: below the root, or its URI."""
        root = (self.place.root or fleet.root).rstrip("/")
        name = self.place.uri(self.table).removeprefix(f"{root}/") if root else self.table
        if not fleet.holds(name):
            raise InvalidInput(
                f"table {name} is not in the fleet {self.fleet}: no group of it matches; add it, "
                "or give the objective without the file"
            )
        return name


def _aims(objective: Objective) -> dict[str, float]:
    return {name: aim for name, aim in asdict(objective).items() if aim is not None}


def _mapping(given: Mapping[str, object] | str | None) -> Mapping[str, object]:
    """Return the aims of a rendered field, which may be JSON text.

    Raises:
        InvalidInput: it is not a mapping.
    """
    found: Any = given or {}
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            found = given
    if not isinstance(found, Mapping):
        raise InvalidInput(
            f'objective = {shown(given)} is not a mapping of aims: write {{"files_read": 200}}'
        )
    return found
