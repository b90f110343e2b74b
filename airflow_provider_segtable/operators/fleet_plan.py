"""Plan the tables of a fleet, and trigger the DAG runs that carry the plans out.

The task triggers the runs itself where it can (``operators.dag_runs``); a mapped
``TriggerDagRunOperator`` triggers the others; see ``dag_factory``. Running twice is harmless: a
plan is requested once, and is in one run as long as that waits. A table that cannot be read, or
whose settings do not fit, is logged as a warning and delays no other.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import BaseOperator, Context

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.hooks.fleet import fleet_of, tables_of
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.operators.dag_runs import Emitter
from airflow_provider_segtable.operators.emission import Located
from airflow_provider_segtable.operators.metrics import send_fleet
from airflow_provider_segtable.operators.objective_alerts import (
    MISSED_FOR,
    Alert,
    alert_of_misses,
)
from airflow_provider_segtable.operators.plan import PLANS_PER_RUN
from airflow_provider_segtable.operators.rendered import author_of, refused_at_once
from airflow_provider_segtable.planning.fleet.fleet import Fleet

if TYPE_CHECKING:
    from airflow_provider_segtable.planning.fleet.fleet_memory import FoundTables
    from airflow_provider_segtable.services.fleet_run import FleetRun, TableReport


class SegtableFleetPlanOperator(BaseOperator):
    """Run the planner over all tables of a fleet file.

    Returns arguments for a mapped ``TriggerDagRunOperator``: a list of ``{"trigger_dag_id",
    "trigger_run_id", "conf"}``, empty if the task has triggered all runs itself. The ``conf`` of
    each has its ``table`` and ``plans``.

    Args:
        fleet: the fleet file, a path or a URI.
        trigger_dag_ids: for each kind of plan, the DAG that carries it out.
        plans_per_run: how many plans of a table share one DAG run, and so one start of Spark.
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
        """Plan the fleet, and trigger the DAG runs."""
        with refused_at_once(f"planning the fleet {self.fleet}"):
            connected = SegtableHook(self.segtable_conn_id).place
            fleet, place = fleet_of(self.fleet, connected)
            found, run = self._planned(fleet, place, author_of(context))
        self._log_run(fleet, found, run)
        self._tell(context, fleet, run)
        # The tasks of the runs have the connection alone: without a root there, they need URIs.
        launches = _launches(run, str if connected.root else place.uri)
        emitter = Emitter(
            trigger_dag_ids=self.trigger_dag_ids,
            plans_per_run=self.plans_per_run,
            ports_of=partial(place.table_ports, author=author_of(context)),
            log=self.log,
        )
        return emitter.emitted(context, launches)

    def _planned(self, fleet: Fleet, place: Place, author: str) -> "tuple[FoundTables, FleetRun]":
        """Run the planner, with the memory of the run before."""
        from airflow_provider_segtable.library.fleet_lags import with_log_store_lags
        from airflow_provider_segtable.services.fleet_memory_file import read_memory, write_memory
        from airflow_provider_segtable.services.fleet_run import run_fleet
        from airflow_provider_segtable.storage import open_storage
        from airflow_provider_segtable.storage.local import SystemClock

        root = open_storage(place.root, place.storage_options) if place.root else None
        now, before = SystemClock().now(), read_memory(root, fleet.name)
        found = tables_of(fleet, place, before.found, now)
        with place.ports_of_tables(author=author) as ports_of:
            run = run_fleet(fleet, found.names, ports_of, now, memory=before)
            run = with_log_store_lags(run, ports_of)
        write_memory(root, fleet.name, replace(run.memory, found=found))
        return found, run

    def _tell(self, context: Context, fleet: Fleet, run: "FleetRun") -> None:
        """Send the metrics of a run, and alerts of objectives that are missed for long."""
        from airflow_provider_segtable.storage.local import SystemClock

        now = SystemClock().now()
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

    def _log_tables(self, reports: "Iterable[TableReport]") -> None:
        for each in reports:
            if each.error:
                self.log.warning("%s: not planned: %s", each.name, each.error)
            for miss in each.misses:
                self.log.warning("%s: misses its objective: %s", each.name, miss)
            if each.expected is not None:
                self.log.warning("%s: %s", each.name, each.expected)

    def _log_run(self, fleet: Fleet, found: "FoundTables", run: "FleetRun") -> None:
        self._log_found(fleet, found)
        for why, count in Counter(run.looked.values()).items():
            self.log.info("%s looked at: %s", counted(count, "table"), why.value)
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

    def _log_found(self, fleet: Fleet, found: "FoundTables") -> None:
        tables = counted(len(found.names), "table")
        self.log.info("fleet %s: %s, found by %d listings", fleet.name, tables, found.listings)
        if not found.complete:
            self.log.warning("the search for tables was cut short: name folders in the globs")
        for place, error in found.unread.items():
            self.log.warning("%s: not listed, so no table there is planned: %s", place, error)
        for name in sorted(set(fleet.tables).difference(found.names, found.unread)):
            self.log.warning("%s: the fleet file names it, and it is not there", name)


def _launches(run: "FleetRun", address: Callable[[str], str]) -> Iterator[Located]:
    """Yield all launches in the order of their requests, so that runs of before are named again."""
    every = [
        Located(table=address(name), launch=launch)
        for each in run.tables
        for name, planned in each.runs.items()
        for launch in planned.launches
    ]
    yield from sorted(
        every, key=lambda each: (each.launch.requested_at, each.table, each.launch.event)
    )
