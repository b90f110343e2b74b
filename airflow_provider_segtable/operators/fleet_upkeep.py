"""Look after the tables of a fleet: clean, publish, verify by rota.

The task does everything that it can, and fails at the end if a step failed or a table is damaged.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, BaseOperator, Context

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.time import Instant, instant
from airflow_provider_segtable.health.fleet_upkeep import Upkeep, keep_up
from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.fleet_plan import fleet_of, tables_of
from airflow_provider_segtable.operators.rendered import author_of, refused_at_once
from airflow_provider_segtable.storage.local import SystemClock

LONGEST_GAP = timedelta(days=7)
"""So far back a run makes up for missed ones; each table has its moment once in this time."""


class SegtableFleetUpkeepOperator(BaseOperator):
    """Clean, publish and verify the tables of a fleet file.

    Returns counts of tables: ``{"tables", "left", "failed", "damaged"}``.

    Args:
        fleet: the fleet file, a path or a URI.
        segtable_conn_id: the connection; its host is where names of tables begin.
        kwargs: of any operator.
    """

    template_fields: Sequence[str] = ("fleet", "segtable_conn_id")
    ui_color = "#e8f5df"

    def __init__(
        self,
        *,
        fleet: str,
        segtable_conn_id: str = SegtableHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.fleet = fleet
        self.segtable_conn_id = segtable_conn_id

    def execute(self, context: Context) -> dict[str, int]:
        """Look after all tables; fail at the end if anything is wrong."""
        counts = Counter(tables=0, left=0, failed=0, damaged=0)
        with refused_at_once(f"upkeep of the fleet {self.fleet}"):
            fleet, place = fleet_of(self.fleet, SegtableHook(self.segtable_conn_id).place)
            now = SystemClock().now()
            names = tables_of(fleet, place, None, now).names
            with place.ports_of_tables(author=author_of(context)) as ports_of:
                for each in keep_up(fleet, names, ports_of, _since(context, now), now):
                    self._log(each)
                    counts.update(_counts(each))
        if counts["failed"] or counts["damaged"]:
            told = f"{counts['failed']} with a step that failed, {counts['damaged']} damaged"
            raise AirflowException(f"of {counted(counts['tables'], 'table')} {told}: see the log")
        return dict(counts)

    def _log(self, report: Upkeep) -> None:
        if report.left:
            self.log.info("%s: left: %s", report.table, report.left)
        for line in report.done:
            self.log.info("%s: %s", report.table, line)
        for line in report.failed:
            self.log.error("%s: %s", report.table, line)
        for each in report.findings:
            what = f"{each.severity.value} {each.code}: {each.what}"
            self.log.error("%s: %s. %s", report.table, what, each.do)


def _counts(report: Upkeep) -> dict[str, int]:
    return {
        "tables": 1,
        "left": bool(report.left),
        "failed": bool(report.failed),
        "damaged": bool(report.findings),
    }


def _since(context: Context, now: Instant) -> Instant:
    """Return when the last good run began; at most a week ago."""
    week_ago = now - LONGEST_GAP // timedelta(microseconds=1)
    before = context.get("prev_start_date_success")
    # Airflow 3.1 gives a proxy, which is false without a value, but is not None.
    return max(week_ago, instant(before)) if before else week_ago
