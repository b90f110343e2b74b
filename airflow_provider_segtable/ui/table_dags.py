"""The DAGs of a table: those that ``dag_factory`` made for it, or for a fleet that it is in.

1. Airflow's database has them, as the scheduler read them: no DAG file is read here. A planner's
   DAG is known by the beginning of its id; its task names the connection, the table or the fleet
   file, and the DAG of each kind of plan.
2. A table's own planner counts before that of a fleet. A fleet's file says which tables it has; if
   it cannot be read from here, it is the page's own file, if that has its name.
3. What was read is kept for ``FRESH_S``. A DAG is read again only if it has changed.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.ports.clock import Clock
from airflow_provider_segtable.services.fleet_tables import load_fleet

if TYPE_CHECKING:
    from airflow_provider_segtable.page.sources import TablePlace
    from airflow_provider_segtable.planning.fleet.fleet import Fleet

PLANNER, UPKEEP = "segtable_planner__", "segtable_upkeep__"
PLAN_TASK, UPKEEP_TASK = "plan", "keep_up"
FRESH_S = 30.0
FLEET_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDags:
    """The DAGs by which a table is planned and looked after.

    Attributes:
        planner: its planner's.
        of_kind: that of each kind of plan.
        upkeep: that which cleans and publishes; empty if there is none.
        conn_id: the connection of all of them.
        table: the table that they are for; empty for a fleet.
        fleet: the fleet file that they are for; empty for one table.
    """

    planner: str
    of_kind: Mapping[str, str]
    upkeep: str = ""
    conn_id: str
    table: str = ""
    fleet: str = ""


class DagsOfTables:
    """Finds the DAGs of tables; for threads of the page."""

    def __init__(self, conn_of: Callable[[str], str], clock: Clock) -> None:
        """Begin without a look.

        Args:
            conn_of: returns the connection of a source of the page.
            clock: for what is kept.
        """
        self._conn_of = conn_of
        self._clock = clock
        self._mutex = threading.Lock()
        self._known: dict[str, _Read] = {}
        self._read_s = float("-inf")
        self._fleets: dict[tuple[str, str], tuple[float, Fleet | None]] = {}

    def of(self, place: "TablePlace") -> TableDags | None:
        """Return the DAGs of a table; None if none serves it."""
        conn_id = self._conn_of(place.source)
        with self._mutex:
            found = [each for each in self._planners() if each.conn_id == conn_id]
            own = (each for each in found if each.table == place.own_name)
            fleets = (each for each in found if each.fleet and self._holds(each, place))
            return next(own, None) or next(fleets, None)

    def _holds(self, dags: TableDags, place: "TablePlace") -> bool:
        fleet = self._fleet(dags)
        if fleet is None and PurePosixPath(dags.fleet).name == place.fleet.source:
            fleet = place.fleet
        return fleet is not None and fleet.holds(place.own_name)

    def _fleet(self, dags: TableDags) -> "Fleet | None":
        key, now_s = (dags.conn_id, dags.fleet), self._clock.monotonic()
        read_s, fleet = self._fleets.get(key, (float("-inf"), None))
        if now_s - read_s < FLEET_S:
            return fleet
        fleet = None
        with suppress(SegtableError, OSError):
            options = dict(SegtableHook(dags.conn_id).place.storage_options)
            fleet = load_fleet(dags.fleet, options)
        self._fleets[key] = now_s, fleet
        return fleet

    def _planners(self) -> Iterator[TableDags]:
        now_s = self._clock.monotonic()
        if now_s - self._read_s >= FRESH_S:
            self._known, self._read_s = _read_again(self._known), now_s
        return (each.dags for each in self._known.values() if each.dags is not None)


# Airflow's database
@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A planner's DAG as it was read; ``mark`` changes with it."""

    mark: str
    dags: TableDags | None = field(default=None)


def _read_again(known: Mapping[str, _Read]) -> "dict[str, _Read]":
    """Return all planners' DAGs that are not stale."""
    from airflow.models.dag import DagModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    found: dict[str, _Read] = {}
    with create_session() as session:
        live = select(DagModel.dag_id).where(~DagModel.is_stale)
        present = frozenset(session.scalars(live.where(DagModel.dag_id.startswith("segtable_"))))
        marks = session.execute(
            select(SerializedDagModel.dag_id, SerializedDagModel.dag_hash)
            .where(SerializedDagModel.dag_id.startswith(PLANNER))
            .order_by(SerializedDagModel.created_at)
        )
        upkeeps = frozenset(each for each in present if each.startswith(UPKEEP))
        for dag_id, digest in {each[0]: each[1] for each in marks}.items():
            if dag_id not in present:
                continue
            upkeep = UPKEEP + dag_id.removeprefix(PLANNER)
            mark = f"{digest} {upkeep in upkeeps}"
            kept = known.get(dag_id)
            if kept is None or kept.mark != mark:
                made = _dags_of(dag_id, upkeep if upkeep in upkeeps else "", session)
                kept = _Read(mark=mark, dags=made)
            found[dag_id] = kept
    return found


def _dags_of(dag_id: str, upkeep: str, session: Any) -> TableDags | None:
    """Return the DAGs of a planner's; None if it is none, or names its table by a template."""
    from airflow.models.dagbag import DBDagBag

    dag = DBDagBag().get_latest_version_of_dag(dag_id, session=session)
    task = dag.task_dict.get(PLAN_TASK) if dag is not None else None
    if task is None:
        return None
    conn_id, of_kind = getattr(task, "segtable_conn_id", ""), getattr(task, "trigger_dag_ids", {})
    table, fleet = getattr(task, "table", "") or "", getattr(task, "fleet", "") or ""
    if not (isinstance(of_kind, Mapping) and conn_id) or "{{" in f"{conn_id}{table}{fleet}":
        return None
    return TableDags(
        planner=dag_id,
        of_kind={str(kind): str(each) for kind, each in of_kind.items()},
        upkeep=upkeep if fleet else "",
        conn_id=str(conn_id),
        table=str(table),
        fleet=str(fleet),
    )
