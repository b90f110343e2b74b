"""Actions inside Airflow: one event through the connection, or a DAG run; in the user's name.

1. What is one event is committed here: tags, restores, requests of indexes, released locks.
2. A compaction or an index build is requested here, by the user. Then a run of the kind's DAG
   carries the plans out. Its id is what the planner calls a run of these plans: they have one run.
3. ``plan`` is a run of the planner's DAG, ``clean`` and ``publish`` one of the fleet's upkeep. The
   planner of a single table publishes it, too; no DAG cleans a single table.
4. The right to an action is the right to trigger the DAG that would run; for an event, the
   planner's. Without such a DAG there is no right.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.dag_runs import Placed, placed_run
from airflow_provider_segtable.operators.emission import Located, emissions, legal_run_id
from airflow_provider_segtable.operators.index import SegtableIndexOperator
from airflow_provider_segtable.operators.plan import PLANS_PER_RUN
from airflow_provider_segtable.page.action_kind import Runs
from airflow_provider_segtable.page.actions import (
    KINDS,
    ActionRequest,
    Agreed,
    Outcome,
    Preview,
    RunRequest,
    action_of,
    agreed,
    previewed,
)
from airflow_provider_segtable.page.lake import Seen
from airflow_provider_segtable.page.rights import Viewer
from airflow_provider_segtable.page.sources import TablePlace
from airflow_provider_segtable.services.planner import launch_of
from airflow_provider_segtable.ui.table_dags import DagsOfTables, TableDags
from airflow_provider_segtable.ui.triggering import RunsOfServer, address_of, may_not_run


class DagRights:
    """Who may do what to a table (rule 4)."""

    def __init__(self, dags: DagsOfTables) -> None:
        """Take the DAGs of tables."""
        self._dags = dags

    def refusal(
        self, viewer: Viewer, action: str, table: TablePlace, arguments: Mapping[str, Any]
    ) -> str:
        """Return why a user may not do this to a table; empty if it is allowed."""
        found = self._dags.of(table)
        if found is None:
            return no_dags(table)
        try:
            wanted = dags_for(action, arguments, found)
        except InvalidInput as error:
            return str(error)
        return next((why for each in wanted if (why := may_not_run(viewer.identity, each))), "")


def no_dags(table: TablePlace) -> str:
    """Return why nothing can be done to a table that no DAG serves."""
    return (
        f"no DAG of this Airflow serves {table.name}: make its DAGs by fleet_dags or "
        "compaction_dags, with its name as it is below the connection's root"
    )


def dags_for(action: str, arguments: Mapping[str, Any], dags: TableDags) -> tuple[str, ...]:
    """Return the DAGs whose runs an action needs.

    Raises:
        InvalidInput: there is none.
    """
    match action:
        case "compact":
            kind = arguments.get("kind")
            return tuple(dags.of_kind.values()) if kind is None else (_of_kind(kind, dags),)
        case "build_index":
            return (_of_kind(SegtableIndexOperator.work, dags),)
        case "publish":
            return (dags.upkeep or dags.planner,)
        case "clean":
            if not dags.upkeep:
                raise InvalidInput(
                    "no DAG of this Airflow cleans it: use fleet_dags, or run `segtable clean`"
                )
            return (dags.upkeep,)
        case _:
            return (dags.planner,)


def _of_kind(kind: object, dags: TableDags) -> str:
    found = dags.of_kind.get(str(kind))
    if found is None:
        raise InvalidInput(f"no DAG of {dags.planner} carries out {kind!r} plans")
    return found


class AirflowActions:
    """All actions, by events and DAG runs; see the module."""

    def __init__(
        self, dags: DagsOfTables, runs_of: Callable[[str], RunsOfServer] = RunsOfServer
    ) -> None:
        """Take the DAGs of tables, and what makes runs in the name of a user."""
        self._dags = dags
        self._runs_of = runs_of

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all actions."""
        return tuple(KINDS)

    def preview(self, seen: Seen, request: ActionRequest) -> Preview:
        """Return what an action would do, and in which DAG."""
        action, dags = action_of(request), self._dags_of(seen)
        (dag_id,) = dags_for(action.name, request.arguments, dags)
        if action.runs is Runs.EVENT:
            return previewed(seen, action)
        return previewed(seen, action, *self._where(dag_id, dags))

    def _where(self, dag_id: str, dags: TableDags) -> Iterator[str]:
        yield f"A run of DAG {dag_id} does it, in your name."
        if dag_id == dags.planner and dags.fleet:
            yield "It plans all tables of the fleet, within its budgets and windows."
        if dag_id == dags.planner and not dags.fleet:
            yield "It plans the table, and publishes what readers of other formats lack."
        if self._runs_of("").paused(dag_id):
            yield f"DAG {dag_id} is paused: its run begins when it is unpaused."

    def run(self, seen: Seen, request: RunRequest, viewer: Viewer) -> Outcome:
        """Do it: commit an event, trigger a run, or both."""
        action, dags = action_of(request), self._dags_of(seen)
        now = agreed(seen, action, request.seal, viewer)
        (dag_id,) = dags_for(action.name, request.arguments, dags)
        if action.runs in (Runs.PLANNER, Runs.UPKEEP):
            return self._triggered(now, dag_id, dags, viewer)
        done = action.do(now.seen, now.pin, now.key)
        if not done.plans:
            return Outcome(sentence=seen.safe(done.sentence), event=now.event)
        return self._launched(now, done.plans, dags, viewer)

    def _triggered(self, now: Agreed, dag_id: str, dags: TableDags, viewer: Viewer) -> Outcome:
        """Trigger a run of the planner, or of the upkeep for this table alone."""
        runs, name = self._runs_of(viewer.name), now.action.name
        conf: dict[str, Any] = {}
        if dag_id == dags.upkeep:
            conf = {"table": now.seen.own_name, **now.action.conf(now.seen, now.pin)}
        run_id = legal_run_id(f"page__{name}__{now.seen.own_name.replace('/', '.')}__{now.key}")
        new = runs.trigger(dag_id, run_id, conf=conf, note=f"{now.seen.name}: {name}")
        sentence = f"A run of DAG {dag_id} {'was triggered' if new else 'does it already'}."
        if runs.paused(dag_id):
            sentence = f"{sentence} The DAG is paused: unpause it."
        href = address_of(dag_id, run_id)
        return Outcome(sentence=sentence, dag_id=dag_id, run_id=run_id, href=href)

    def _launched(
        self, now: Agreed, plans: Sequence[str], dags: TableDags, viewer: Viewer
    ) -> Outcome:
        """Trigger the runs that carry out plans (rule 2)."""
        ports, runs = now.seen.ports, self._runs_of(viewer.name)
        event, state = now.event, ports.log.load()
        table = now.seen.own_name if SegtableHook(dags.conn_id).place.root else ports.uri
        launches = [launch_of(state.plans[each]) for each in plans if each in state.plans]
        found = emissions(
            [Located(table=table, launch=each) for each in launches],
            trigger_dag_ids=dags.of_kind,
            plans_per_run=PLANS_PER_RUN,
        )
        placed = [placed_run(each, runs, ports.clock.now(), conf={}) for each in found]
        dag_id, run_id = runs.last
        return Outcome(
            sentence=now.seen.safe(_placed(plans, placed)),
            event=event,
            dag_id=dag_id or None,
            run_id=run_id or None,
            href=address_of(dag_id, run_id) if run_id else None,
        )

    def _dags_of(self, seen: Seen) -> TableDags:
        found = self._dags.of(seen.place)
        if found is None:
            raise InvalidInput(no_dags(seen.place))
        return found


def _placed(plans: Sequence[str], placed: Sequence[Placed]) -> str:
    """Return where plans are, in words."""
    runs = [each.run_id for each in placed if each.run_id]
    waiting = [each.why for each in placed if not each.run_id]
    begun = f"{counted(len(plans), 'plan')} requested"
    parts = [f"{begun}; {counted(len(runs), 'DAG run')} triggered" if runs else begun, *waiting]
    return f"{'; '.join(parts)}."
