"""Look after the tables of a fleet: clean, publish, verify by rota.

1. The task does all that it can, and fails at the end if a step failed or a table is damaged.
2. It leaves its time, and the tables with a failure or damage, in XCom, also if it fails. The next
   run verifies what became due since then, and these tables again. So a damaged table is reported
   until it is repaired, and lets no other one be verified sooner.
3. A retry is for a worker that died. It would find the same damage, so there is none then.
4. A run whose conf names a table takes the steps of the conf for that one alone
   (``health.fleet_upkeep.Wished``), and leaves nothing for the next run.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, Context

from airflow_provider_segtable.core.arguments import shown
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.hooks.fleet import fleet_of, tables_of
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.operators.rendered import author_of, refused_at_once
from airflow_provider_segtable.planning.fleet.fleet import Fleet

if TYPE_CHECKING:
    from airflow_provider_segtable.health.fleet_upkeep import Upkeep, Wished

LONGEST_GAP = timedelta(days=7)
"""So far back a run makes up for missed ones; each table has its moment once in this time."""
KEPT_UP = "kept_up"
"""The key in XCom of what the next run goes on from: ``{"at": microseconds, "again": tables}``."""


class SegtableFleetUpkeepOperator(BaseOperator):
    """Clean, publish and verify the tables of a fleet file.

    Returns counts of tables: ``{"tables", "left", "failed", "damaged"}``.

    Args:
        fleet: the fleet file, a path or a URI.
        wished: a table and its steps (rule 4), or their JSON text; without a table, all tables are
            looked after.
        segtable_conn_id: the connection; its host is where names of tables begin.
        kwargs: of any operator.
    """

    template_fields: Sequence[str] = ("fleet", "wished", "segtable_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"wished": "json"}
    ui_color = "#e8f5df"

    def __init__(
        self,
        *,
        fleet: str,
        wished: Mapping[str, Any] | str | None = None,
        segtable_conn_id: str = SegtableHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.fleet = fleet
        self.wished = wished
        self.segtable_conn_id = segtable_conn_id

    def execute(self, context: Context) -> dict[str, int]:
        """Look after all tables; fail at the end if anything is wrong."""
        with refused_at_once(f"upkeep of the fleet {self.fleet}"):
            fleet, place = fleet_of(self.fleet, SegtableHook(self.segtable_conn_id).place)
            wished, now = _wished(self.wished), _now()
            if wished is not None:
                return _judged([self._kept_up_one(context, fleet, place, wished)])
            found = tables_of(fleet, place, None, now)
            names = (*found.names, *found.unread)  # the latter fail, and are counted so
            since = _since(_before(context, self.task_id), now)
            done: list[Upkeep] = []
            with place.ports_of_tables(author=author_of(context)) as ports_of:
                for each in _kept_up(fleet, names, ports_of, since, now):
                    self._log(each)
                    done.append(each)
        _leave(context, now, done)
        return _judged(done)

    def _kept_up_one(
        self, context: Context, fleet: Fleet, place: Place, wished: "Wished"
    ) -> "Upkeep":
        """Take the steps that a user asks for."""
        from airflow_provider_segtable.health.fleet_upkeep import keep_up_one

        with place.ports_of_tables(author=author_of(context)) as ports_of:
            report = keep_up_one(fleet, wished, ports_of)
        self._log(report)
        return report

    def _log(self, report: "Upkeep") -> None:
        if report.left:
            self.log.info("%s: left: %s", report.table, report.left)
        for line in report.done:
            self.log.info("%s: %s", report.table, line)
        for line in report.failed:
            self.log.error("%s: %s", report.table, line)
        for each in report.findings:
            what = f"{each.severity.value} {each.code}: {each.what}"
            self.log.error("%s: %s. %s", report.table, what, each.do)


def _now() -> Instant:
    from airflow_provider_segtable.storage.local import SystemClock

    return SystemClock().now()


def _wished(given: Mapping[str, Any] | str | None) -> "Wished | None":
    """Return what a user asks for; None if it is nothing.

    Raises:
        InvalidInput: it has another form.
    """
    from airflow_provider_segtable.health.fleet_upkeep import Wished

    try:
        found = json.loads(given or "{}") if isinstance(given, str) else given or {}
    except ValueError:
        raise InvalidInput(f"wished = {shown(given)} is not a JSON object") from None
    return Wished.of(found)


def _kept_up(*asked: Any) -> "Iterator[Upkeep]":
    """Return the reports of ``keep_up``."""
    # Imported here, because each task of the fleet reads the DAG file, and begins sooner so.
    from airflow_provider_segtable.health.fleet_upkeep import keep_up

    return keep_up(*asked)


def _judged(done: "Sequence[Upkeep]") -> dict[str, int]:
    """Return counts of tables; fail if anything is wrong."""
    counts = {
        "tables": len(done),
        "left": sum(bool(each.left) for each in done),
        "failed": sum(bool(each.failed) for each in done),
        "damaged": sum(bool(each.findings) for each in done),
    }
    if counts["failed"] or counts["damaged"]:
        found = f"{counts['failed']} with a step that failed, {counts['damaged']} damaged"
        raise AirflowFailException(f"of {counted(len(done), 'table')} {found}: see the log")
    return counts


def _leave(context: Context, now: Instant, done: "Sequence[Upkeep]") -> None:
    """Leave what the next run goes on from."""
    again = [each.table for each in done if each.failed or each.findings]
    if "ti" in context:
        context["ti"].xcom_push(KEPT_UP, {"at": now, "again": again})


def _before(context: Context, task_id: str) -> Mapping[str, Any]:
    """Return what the newest run has left; nothing if there is none."""
    if "ti" not in context:
        return {}
    pulled = context["ti"].xcom_pull(task_id, key=KEPT_UP, include_prior_dates=True)
    return pulled if isinstance(pulled, Mapping) else {}


def _since(before: Mapping[str, Any], now: Instant) -> Callable[[str], Instant]:
    """Return since when a table is verified, by its name; at most a week ago."""
    week_ago = now - LONGEST_GAP // timedelta(microseconds=1)
    at, again = int(before.get("at", week_ago)), frozenset(before.get("again", ()))
    return lambda table: week_ago if table in again else max(week_ago, at)
