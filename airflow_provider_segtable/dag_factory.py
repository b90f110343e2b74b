"""The compaction DAGs of a table, or of a fleet of tables, in one call.

::

    planner DAG (cron, one run at a time)          a DAG per kind (one run per batch of plans)
    plan ── triggers runs ───────────────────┬───> minor        compact: in the task
                                             ├───> semi_major   compact  itself, or by
                                             ├───> major        compact  spark-submit
                                             └───> index        build

    from airflow_provider_segtable.dag_factory import compaction_dags

    compaction_dags(
        table="flights",
        schedule="*/5 * * * *",
        kinds={"major": {"pool": "nightly", "spark_conf": {"spark.executor.memory": "8g"}}},
    )

1. The planner re-reads the table at every run, so a missed or repeated run is harmless. The
   table's policy decides which kinds are planned; the DAGs of the other kinds never run. The task
   that plans triggers the runs itself (``operators.dag_runs``); where it cannot, the mapped task
   ``emit`` does, and is skipped otherwise.
2. Runs queue behind their DAG's ``max_active_runs`` and pool. If kinds share a pool, runs of
   smaller kinds go first: they are short, and readers benefit soonest.
3. A run of a kind's DAG that a user triggers with the conf ``{"segments": [ids]}`` compacts these
   segments by this kind (``SegtableCompactOperator``). A run of the index DAG with the conf
   ``{"index": name}`` builds that index, and without a conf all indexes of the table. The form
   *Trigger* asks for these values, and each DAG has a page of documentation.
4. The DAGs of a fleet are as many as those of one table. A run is for one table; its id and its
   note name it. The planner is woken by commits to any of the tables (``triggers.fleet``). Parsing
   the DAG file reads no fleet file, no table, no storage and no ZooKeeper::

       fleet_dags(Path(__file__).with_name("fleet.toml"))
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow.providers.common.compat.sdk import BaseOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Asset, Param

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.operators.fleet_plan import SegtableFleetPlanOperator
from airflow_provider_segtable.operators.fleet_upkeep import SegtableFleetUpkeepOperator
from airflow_provider_segtable.operators.index import SegtableIndexOperator
from airflow_provider_segtable.operators.objective_alerts import MISSED_FOR, Alert
from airflow_provider_segtable.operators.plan import PLANS_PER_RUN, SegtablePlanOperator
from airflow_provider_segtable.planning.engine import Engine
from airflow_provider_segtable.triggers.fleet import wake_asset

try:
    from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable, DeltaTriggerTimetable
except ImportError:  # Airflow 3.1 has them elsewhere
    from airflow.timetables.assets import AssetOrTimeSchedule  # type: ignore[assignment]
    from airflow.timetables.trigger import (  # type: ignore[assignment]
        CronTriggerTimetable,
        DeltaTriggerTimetable,
    )

if TYPE_CHECKING:
    from airflow.sdk.definitions.deadline import DeadlineAlert

Schedule: TypeAlias = str | timedelta | Collection[Asset] | None
"""When a planner runs."""
AGAIN: Mapping[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=10)}
"""Tasks without a driver of their own may run twice, and do when a worker dies: the plans of a run
that is not emitted would wait for the next planner run."""
NO_CRON = ("@once", "@continuous")
START = datetime(2024, 1, 1, tzinfo=UTC)
PLANS_OF_THE_RUN = "{{ ((dag_run.conf or {}).get('plans') or []) | tojson }}"
SEGMENTS_OF_THE_RUN = "{{ ((dag_run.conf or {}).get('segments') or []) | tojson }}"
INDEX_OF_THE_RUN = "{{ (dag_run.conf or {}).get('index') or '' }}"
TABLE_OF_THE_RUN = (
    "{%% set own %%}%(table)s{%% endset %%}"
    "{%% set given = (dag_run.conf or {}).get('table') or '' %%}"
    "{{ given if given.startswith(own.rstrip('/') ~ '/%(below)s/') else own }}"
)
"""The DAG's table, perhaps a template; for plans of an index, the table of the index."""
TABLE_OF_THE_CONF = "{{ (dag_run.conf or {}).get('table') or '' }}"
PLANNER_OF_THE_RUN = "{{ (dag_run.conf or {}).get('planned_by') or '' }}"
CONF_OF_THE_RUN = "{{ (dag_run.conf or {}) | tojson }}"


PLANNER_DOCS = """Finds the compactions of the table **{table}** that pay, and triggers runs of
the DAGs of their kinds.

- The log of the task `plan` gives the reason for each chosen plan and, folded, why the other time
  chunks were skipped.
- A run reads the table anew, so a missed or repeated run does no harm.
- On the command line, `segtable plan {table}` shows the same and writes nothing.
"""
KIND_DOCS = """Carries out {kind} plans of the table **{table}**: {does}. Appends and reads go
on meanwhile.

The planner DAG triggers the runs; their notes give the reasons. No run has to be triggered by hand.
A run that is triggered by hand {by_hand}.
"""
FLEET_DOCS = """Finds the plans of all tables of the fleet file `{fleet}` that pay, and triggers
runs of the DAGs of their kinds.

- The log of the task `plan` gives the reason for each chosen plan and, folded, the code and the
  reason for each other one. Tables that cannot be read, or miss their objective, are warnings.
- A run opens the tables of which it may find something new; a missed or repeated run does no harm.
- On the command line, `segtable fleet plan` and `segtable fleet status` show the same.
"""
UPKEEP_DOCS = """Looks after all tables of the fleet file `{fleet}`: removes what their retention
lets go, publishes in the formats that are switched on, and verifies each table once a week, at a
moment of its own. The task fails if a table is damaged or a step failed, after all were done; its
log names them.

A run that is triggered by hand for the table of its form cleans and publishes that one alone.
"""
KIND_OF_FLEET_DOCS = """Carries out {kind} plans of the tables of the fleet {fleet}: {does}. Appends
and reads go on meanwhile. A run is for one table; its id and its note name it.

The planner DAG triggers the runs. No run has to be triggered by hand. A run that is triggered by
hand, for the table of its form, {by_hand}.
"""
TABLE = "Name of the table: its path below the connection's root, or its URI."
DOES = {
    "minor": "joins runs of small segments",
    "semi-major": "sorts all segments of a time chunk by the clustering columns",
    "major": "replaces whole time chunks by a new version",
    SegtableIndexOperator.work: "builds the missing entries of the table's indexes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionDags:
    """The DAGs of one table, or of a fleet; ``of_kind`` has those that carry out plans, by kind.

    ``upkeep`` cleans, publishes and verifies the tables of a fleet.
    """

    planner: DAG
    of_kind: Mapping[str, DAG]
    upkeep: DAG | None = None


def compaction_dags(  # noqa: PLR0913  # each is a setting
    *,
    table: str,
    schedule: Schedule = "*/5 * * * *",
    name: str | None = None,
    segtable_conn_id: str = SegtableHook.default_conn_name,
    policy: Mapping[str, Any] | None = None,
    plans_per_run: int = PLANS_PER_RUN,
    max_active_runs: int = 2,
    pool: str | None = None,
    engine: str = Engine.AUTO,
    spark: Mapping[str, Any] | None = None,
    kinds: Mapping[str, Mapping[str, Any]] | None = None,
    tags: tuple[str, ...] = ("segtable",),
) -> CompactionDags:
    """Make the planner DAG of a table, and one DAG for each kind of compaction, and for indexes.

    Args:
        table: below the connection's root, or a URI.
        schedule: when to plan, as cron or interval, or on which assets, such as the table's own
            (``assets.table_asset``); None: only when triggered.
        name: part of the DAG ids; the last part of ``table`` by default.
        segtable_conn_id: the connection.
        policy: overrides the table's own.
        plans_per_run: how many plans share one start of Spark.
        max_active_runs: how many runs of the smallest kind at once; the larger kinds have one, see
            ``kinds``.
        pool: pool of the compacting tasks.
        engine: where plans are carried out: ``local``, in the task itself; ``spark``; or ``auto``,
            by the size of their inputs (``planning.engine``).
        spark: more arguments of the operators that carry out plans (``SegtablePlansOperator``):
            ``spark_conn_id``, ``spark_conf``, ``local_bytes`` ...
        kinds: settings for one kind alone, e.g. ``minor``: ``max_active_runs``, ``pool``,
            ``priority_weight``, ``engine``, ``spark_conf`` ...
        tags: tags of all DAGs.

    Returns:
        The DAGs; Airflow finds them even if they are not assigned to a variable.

    Raises:
        InvalidInput: ``kinds`` names an unknown kind, or ``table`` holds credentials.
    """
    from airflow_provider_segtable.core.indexes.index_state import INDEXES
    from airflow_provider_segtable.storage import check_uri

    if "://" in table and "{{" not in table:
        check_uri(table)  # the DAG ids contain it, and Airflow shows them
    defaults = _checked_defaults(max_active_runs, 1, kinds)
    title = _title(name or table.rstrip("/").rsplit("/", 1)[-1])
    common: dict[str, Any] = {"start_date": START, "catchup": False, "tags": list(tags)}
    place = {"table": table, "segtable_conn_id": segtable_conn_id}
    ids = {kind: f"segtable_{kind.replace('-', '_')}__{title}" for kind in defaults}
    wanted = {"trigger_dag_ids": ids, "policy": policy, "plans_per_run": plans_per_run}
    about = f"Plans compactions of {title} and triggers their DAGs"
    docs = PLANNER_DOCS.format(table=table)
    single = _single_dag(f"segtable_planner__{title}", about, docs, schedule, common)
    planner = _planned(single, SegtablePlanOperator, {**place, **wanted})
    shared = {**place, "engine": engine, **(spark or {}), **({"pool": pool} if pool else {})}
    shared["table"] = TABLE_OF_THE_RUN % {"table": table, "below": INDEXES}
    made = {}
    for kind, settings in defaults.items():
        of_task = {**settings, **shared, **(kinds or {}).get(kind, {})}
        made[kind] = _kind_dag(ids[kind], kind, {**common, **_of_table(kind, table)}, of_task)
    return CompactionDags(planner=planner, of_kind=made)


def fleet_dags(  # noqa: PLR0913  # each is a setting
    fleet: str | Path,
    *,
    name: str | None = None,
    schedule: Schedule = "*/5 * * * *",
    wake: bool = True,
    upkeep: Schedule = "17 * * * *",
    segtable_conn_id: str = SegtableHook.default_conn_name,
    plans_per_run: int = PLANS_PER_RUN,
    max_active_runs: int = 16,
    pool: str | None = None,
    engine: str = Engine.AUTO,
    spark: Mapping[str, Any] | None = None,
    kinds: Mapping[str, Mapping[str, Any]] | None = None,
    on_objective_missed: Alert | Sequence[Alert] | None = None,
    missed_for: timedelta = MISSED_FOR,
    deadline: "DeadlineAlert | None" = None,
    tags: tuple[str, ...] = ("segtable",),
) -> CompactionDags:
    """Make the planner DAG of a fleet of tables, one DAG a kind of plan, and one for upkeep.

    Args:
        fleet: the fleet file (``planning.fleet.fleet_file``): a path, best beside the DAG file, or
            a URI.
        name: part of the DAG ids; the name of the file by default.
        schedule: when to plan at the latest; None: only when triggered.
        wake: plan as well when anyone commits to a table (``triggers.fleet``), if ``schedule`` is a
            cron expression or an interval. The triggerer reads the fleet file, too.
        upkeep: when to clean, publish and verify.
        segtable_conn_id: the connection, whose host is where names of tables begin.
        plans_per_run: how many plans of a table share a DAG run.
        max_active_runs: how many runs of each kind at once, each of one table.
        pool: as in ``compaction_dags``, like the following.
        engine: where plans are carried out.
        spark: more arguments of the operators that carry out plans.
        kinds: settings for one kind alone.
        on_objective_missed: called with the context of the planner's task and ``missed`` once a
            table has missed its objective for ``missed_for``: a function, a notifier, or several.
        missed_for: how long a table may miss its objective before that.
        deadline: Airflow's ``DeadlineAlert`` of the DAGs that carry out plans, such as one for runs
            that were queued too long. Each supported Airflow has it; ``DAG.test`` fails with it.
        tags: tags of all DAGs.

    Returns:
        The DAGs; Airflow finds them even if they are not assigned to a variable.

    Raises:
        InvalidInput: ``kinds`` names an unknown kind.
    """
    defaults = _checked_defaults(max_active_runs, max_active_runs, kinds)
    title = _title(name or Path(str(fleet)).stem)
    ids = {kind: f"segtable_{kind.replace('-', '_')}__{title}" for kind in defaults}
    common: dict[str, Any] = {"start_date": START, "catchup": False, "tags": list(tags)}
    shared: dict[str, Any] = {"segtable_conn_id": segtable_conn_id}
    wanted = {"fleet": str(fleet), "trigger_dag_ids": ids, "plans_per_run": plans_per_run}
    alerts = {"on_objective_missed": on_objective_missed, "missed_for": missed_for}
    about = f"Plans compactions of the tables of {title}, and triggers their DAGs"
    docs = FLEET_DOCS.format(fleet=fleet)
    planner_id = f"segtable_planner__{title}"
    asset = wake_asset(f"{planner_id}/wake", str(fleet), segtable_conn_id=segtable_conn_id)
    when = _woken(schedule, asset) if wake else schedule
    single = _single_dag(planner_id, about, docs, when, common)
    planner = _planned(single, SegtableFleetPlanOperator, {**shared, **wanted, **alerts})
    shared |= {"engine": engine, **(spark or {}), **({"pool": pool} if pool else {})}
    shared["table"] = TABLE_OF_THE_CONF
    made = {}
    for kind, settings in defaults.items():
        of_task = {**settings, **shared, **(kinds or {}).get(kind, {})}
        of_dag = {**common, "deadline": deadline, **_of_fleet(kind, title)}
        made[kind] = _kind_dag(ids[kind], kind, of_dag, of_task)
    about = f"Cleans, publishes and verifies the tables of {title}"
    docs = UPKEEP_DOCS.format(fleet=fleet)
    form = {"table": Param(None, type=["null", "string"], title="Table", description=TABLE)}
    of_dag = {**common, "params": form}
    with _single_dag(f"segtable_upkeep__{title}", about, docs, upkeep, of_dag) as of_upkeep:
        SegtableFleetUpkeepOperator(
            task_id="keep_up",
            fleet=str(fleet),
            wished=CONF_OF_THE_RUN,
            segtable_conn_id=segtable_conn_id,
            **AGAIN,
        )
    return CompactionDags(planner=planner, of_kind=made, upkeep=of_upkeep)


def _title(name: str) -> str:
    """Return a name as part of DAG ids."""
    return re.sub(r"[^\w.-]", "_", name)


def _checked_defaults(
    of_smallest: int, of_larger: int, kinds: Mapping[str, Mapping[str, Any]] | None
) -> dict[str, dict[str, Any]]:
    """Return the default settings of each kind's DAG, if the given ones name known kinds.

    Smaller kinds have more weight.
    """
    from airflow_provider_segtable.core.log.plan_kinds import kinds as plan_kinds

    names = [kind.kind for kind in plan_kinds()]
    unknown = sorted(set(kinds or {}).difference(names))
    if unknown:
        known = ", ".join(names)
        raise InvalidInput(f"kinds names {unknown[0]!r}, which is unknown: choose among {known}")
    runs = (of_smallest, *(of_larger for _ in names[1:]))
    return {
        name: {"max_active_runs": most, "priority_weight": len(names) - at}
        for at, (name, most) in enumerate(zip(names, runs, strict=True))
    }


def _emit(plan: BaseOperator) -> None:
    """Make the mapped task that triggers the runs that a planner's task cannot trigger itself."""
    TriggerDagRunOperator.partial(
        task_id="emit",
        **AGAIN,
        logical_date=None,
        skip_when_already_exists=True,
        map_index_template="{{ task.trigger_run_id }}",
    ).expand_kwargs(plan.output)


def _woken(schedule: Schedule, asset: Asset) -> Any:
    """Return a schedule of time with an asset beside it; another schedule as it is."""
    if isinstance(schedule, timedelta):
        timetable: Any = DeltaTriggerTimetable(schedule)
    elif isinstance(schedule, str) and schedule not in NO_CRON:
        timetable = CronTriggerTimetable(schedule, timezone="UTC")
    else:
        return schedule
    return AssetOrTimeSchedule(timetable=timetable, assets=[asset])


def _single_dag(
    dag_id: str, about: str, docs: str, schedule: Any, of_dag: Mapping[str, Any]
) -> DAG:
    """Return an empty DAG of which one run at a time is under way."""
    return DAG(
        dag_id,
        description=about,
        doc_md=docs,
        schedule=schedule,
        max_active_runs=1,
        **of_dag,
    )


def _planned(made: DAG, operator: type[BaseOperator], of_task: Mapping[str, Any]) -> DAG:
    """Return a planner's DAG with its tasks: plan, and trigger the runs that carry plans out."""
    with made:
        _emit(operator(task_id="plan", **AGAIN, **of_task))
    return made


def _kind_dag(
    dag_id: str, kind: str, of_dag: Mapping[str, Any], settings: Mapping[str, Any]
) -> DAG:
    """Return the DAG that carries out plans of one kind, of one table or of the run's table.

    ``settings`` are those of its task, and the number of runs at once.
    """
    of_task = {"plans": PLANS_OF_THE_RUN, "planned_by": PLANNER_OF_THE_RUN, **settings}
    runs = of_task.pop("max_active_runs")
    with DAG(dag_id, schedule=None, max_active_runs=runs, **of_dag) as made:
        TASKS.get(kind, _compaction)(kind, of_task)
    return made


def _of_table(kind: str, table: str) -> dict[str, Any]:
    """Return how Airflow shows the DAG of a kind of one table's plans."""
    name, param, by_hand = _asked_of_users(kind)
    does = DOES.get(kind, f"plans of kind {kind}")
    return {
        "description": f"Carries out {kind} plans of {table}",
        "doc_md": KIND_DOCS.format(kind=kind, table=table, does=does, by_hand=by_hand),
        "params": {name: param},
    }


def _of_fleet(kind: str, title: str) -> dict[str, Any]:
    """Return how Airflow shows the DAG of a kind of a fleet's plans."""
    name, param, by_hand = _asked_of_users(kind)
    does = DOES.get(kind, f"plans of kind {kind}")
    table = Param(None, type=["null", "string"], title="Table", description=TABLE)
    return {
        "description": f"Carries out {kind} plans of the tables of {title}",
        "doc_md": KIND_OF_FLEET_DOCS.format(kind=kind, fleet=title, does=does, by_hand=by_hand),
        "params": {"table": table, name: param},
    }


def _asked_of_users(kind: str) -> tuple[str, Param, str]:
    """Return the name and form field of a kind's value, and its use in words."""
    if kind == SegtableIndexOperator.work:
        about = "Name of the index to build. Empty: all indexes of the table."
        param = Param(None, type=["null", "string"], title="Index", description=about)
        return "index", param, "builds the index of its form, or all"
    about = (
        f"Ids of the segments to compact by this kind ({kind}), one a line, as `segtable table "
        "segments` prints them. Empty: carry out all pending plans of the table."
    )
    items = {"type": "string", "minLength": 1}
    param = Param([], type=["null", "array"], items=items, title="Segments", description=about)
    return "segments", param, "compacts the segments of its form, or carries out all pending plans"


def _compaction(kind: str, of_task: Mapping[str, Any]) -> None:
    """Make the task that carries out compactions, or compacts chosen segments by their kind."""
    chosen = f"{{{{ '{kind}' if (dag_run.conf or {{}}).get('segments') else '' }}}}"
    SegtableCompactOperator(task_id="compact", kind=chosen, segments=SEGMENTS_OF_THE_RUN, **of_task)


def _index_build(kind: str, of_task: Mapping[str, Any]) -> None:
    """Make the task that builds indexes: of the plans, of one, or of the whole table."""
    SegtableIndexOperator(task_id=kind, index=INDEX_OF_THE_RUN, **of_task)


TASKS: Mapping[str, Callable[[str, Mapping[str, Any]], None]] = {
    SegtableIndexOperator.work: _index_build
}
"""The tasks of plans that are no compactions, by the name of their kind."""
