"""Plan the tables of a fleet, and return the DAG runs that carry the plans out.

The result feeds a mapped ``TriggerDagRunOperator``; see ``dag_factory``. Running twice is harmless:
a plan is requested once, and a launch has one run id. A table that cannot be read, or whose
settings do not fit, is logged as a warning and delays no other.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from inspect import signature
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import BaseOperator, Context

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.time import Instant, iso
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.operators.emission import Located, fleet_emissions
from airflow_provider_segtable.operators.metrics import send_fleet
from airflow_provider_segtable.operators.objective_alerts import (
    MISSED_FOR,
    Alert,
    alert_of_misses,
)
from airflow_provider_segtable.operators.plan import PLANS_PER_RUN
from airflow_provider_segtable.operators.rendered import author_of, refused_at_once, run_name
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.planning.fleet.fleet_memory import FoundTables
from airflow_provider_segtable.services.fleet_memory_file import read_memory, write_memory
from airflow_provider_segtable.services.fleet_run import (
    NOTHING,
    FleetRun,
    TableReport,
    run_fleet,
)
from airflow_provider_segtable.services.fleet_tables import load_fleet, tables_again
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.storage.local import SystemClock


class SegtableFleetPlanOperator(BaseOperator):
    """Run the planner over all tables of a fleet file.

    Returns arguments for a mapped ``TriggerDagRunOperator``: a list of ``{"trigger_dag_id",
    "trigger_run_id", "conf"}``, empty if there is nothing to do. The ``conf`` of each has the
    ``work``: ``[{"table": ..., "plans": [...]}, ...]``.

    Args:
        fleet: the fleet file, a path or a URI.
        trigger_dag_ids: for each kind of plan, the DAG that carries it out.
        plans_per_run: how many plans share one DAG run, of any tables.
        segtable_conn_id: the connection; its host is where names of tables begin.
        on_objective_missed: called with the task's context and ``missed`` once a table has missed
            its objective for ``missed_for``: a function, a notifier, or several
            (``operators.objective_alerts``).
        missed_for: how long a table may miss its objective before that.
        kwargs: of any operator.
    """

    template_fields: Sequence[str] = ("fleet", "trigger_dag_ids", "segtable_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"trigger_dag_ids": "json"}
    ui_color = "#dfe8f5"

    def __init__(
        self,
        *,
        fleet: str,
        trigger_dag_ids: Mapping[str, str],
        plans_per_run: int = PLANS_PER_RUN,
        segtable_conn_id: str = SegtableHook.default_conn_name,
        on_objective_missed: Alert | Sequence[Alert] | None = None,
        missed_for: timedelta = MISSED_FOR,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.fleet = fleet
        self.trigger_dag_ids = trigger_dag_ids
        self.plans_per_run = plans_per_run
        self.segtable_conn_id = segtable_conn_id
        given = on_objective_missed
        self.on_objective_missed = (given,) if callable(given) else tuple(given or ())
        self.missed_for = missed_for

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Plan the fleet and return the DAG runs to emit."""
        with refused_at_once(f"planning the fleet {self.fleet}"):
            connected = SegtableHook(self.segtable_conn_id).place
            fleet, place = fleet_of(self.fleet, connected)
            storage = open_storage(place.root, place.storage_options) if place.root else None
            now, before = SystemClock().now(), NOTHING
            if storage is not None:
                before = read_memory(storage, fleet.name)
            found = tables_of(fleet, place, before.found, now)
            with place.ports_of_tables(author=author_of(context)) as ports_of:
                run = run_fleet(fleet, found.names, ports_of, now, memory=before)
            if storage is not None:
                write_memory(storage, fleet.name, replace(run.memory, found=found))
        self._log_run(fleet, found, run)
        send_fleet(fleet, run, now)
        if self.on_objective_missed:
            alert_of_misses(
                self.on_objective_missed,
                after=self.missed_for,
                fleet=fleet.name,
                run=run,
                context=context,
                now=now,
            )
        # The tasks of the runs have the connection alone: without a root there, they need URIs.
        names = _launches(run, str if connected.root else place.uri)
        return self._emitted(fleet, names, run_name(context))

    def _emitted(
        self, fleet: Fleet, launches: Iterable[Located], planned_by: str
    ) -> list[dict[str, Any]]:
        """Return the DAG runs of all launches."""
        # Imported here, because it brings Airflow's database models to each DAG file and task.
        from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

        runs = fleet_emissions(
            [*launches],
            fleet=fleet.name,
            trigger_dag_ids=self.trigger_dag_ids,
            plans_per_run=self.plans_per_run,
            conf={"planned_by": planned_by},
            notes="note" in signature(TriggerDagRunOperator).parameters,
        )
        self.log.info("%s to emit", counted(len(runs), "DAG run"))
        return runs

    def _log_tables(self, reports: Iterable[TableReport]) -> None:
        for each in reports:
            if each.error:
                self.log.warning("%s: not planned: %s", each.name, each.error)
            for miss in each.misses:
                self.log.warning("%s: misses its objective: %s", each.name, miss)
            if each.expected is not None:
                self.log.warning("%s: %s", each.name, each.expected)

    def _log_run(self, fleet: Fleet, found: FoundTables, run: FleetRun) -> None:
        tables = counted(len(found.names), "table")
        self.log.info("fleet %s: %s, found by %d listings", fleet.name, tables, found.listings)
        for why, count in Counter(run.looked.values()).items():
            self.log.info("%s looked at: %s", counted(count, "table"), why.value)
        if not found.complete:
            self.log.warning("the search for tables was cut short: name folders in the globs")
        for name in sorted(set(fleet.tables).difference(found.names)):
            self.log.warning("%s: the fleet file names it, and it is not there", name)
        self._log_tables(run.tables)
        for kind, cost in run.costs.items():
            self.log.info("%s plans take %s", kind, cost)
        for one in run.plan.chosen:
            size, offer = describe_size(one.offer.size), one.offer
            self.log.info("chosen  %s %s (%s): %s", one.table, offer.plan_id, size, offer.reason)
        self.log.info("::group::left, with reasons (%d)", len(run.plan.left))
        for left in run.plan.left:
            until = "" if left.until is None else f"; until {iso(left.until)}"
            plan_id = left.offer.plan_id
            self.log.info("%s %s %s: %s%s", left.code, left.table, plan_id, left.reason, until)
        self.log.info("::endgroup::")


def fleet_of(file: str, place: Place) -> tuple[Fleet, Place]:
    """Read a fleet file, with the connection's options for object stores.

    Returns:
        The fleet, and the connection's settings with the root of the fleet's tables: the
        connection's, or else the file's.
    """
    fleet = load_fleet(file, dict(place.storage_options))
    return fleet, replace(place, root=place.root or fleet.root)


def tables_of(fleet: Fleet, place: Place, before: FoundTables | None, now: Instant) -> FoundTables:
    """Find the tables of a fleet below its root, unless they were found some minutes ago."""
    options = place.storage_options
    return tables_again(fleet, lambda uri: open_storage(uri or place.root, options), before, now)


def _launches(run: FleetRun, address: Callable[[str], str]) -> Iterator[Located]:
    """Yield all launches in the order of their requests, so that runs of before are named again."""
    every = [
        Located(table=address(name), launch=launch)
        for each in run.tables
        for name, planned in each.runs.items()
        for launch in planned.launches
    ]
    yield from sorted(every, key=lambda each: (each.launch.requested_at, each.launch.run_id))
