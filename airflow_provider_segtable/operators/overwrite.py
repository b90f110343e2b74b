"""Load rows again as a task: replace the rows of an interval or a condition by those of files.

1. One event, once (``operators.spark_operator``). The commit id is by default DAG, run and task,
   the start of the run, and the number of times that it was cleared. So a retry overwrites once.
   A run that is cleared, deleted and made anew, or another run of the interval, overwrites again.
2. The interval is by default the data interval of the DAG run, so a backfill replaces day by day.
   Airflow gives runs an empty one by default (``schedule="@daily"``): it is refused at once.
3. The engine is chosen as by ``SegtableIngestOperator``; conditions that only Spark can evaluate
   are Spark's.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.arguments import option, plain
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.operators.ingest import NOTHING, SegtableFilesOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.core.requests.overwrite import Overwrite
    from airflow_provider_segtable.table.context import TableContext

DATA_INTERVAL = (
    "{{ data_interval_start | default(none) | ts }}/{{ data_interval_end | default(none) | ts }}"
)
"""A run without a logical date has no data interval."""


class SegtableOverwriteOperator(SegtableFilesOperator):
    """Replace the rows of an interval by those of files, in the task itself or on Spark.

    Returns ``{"event", "segments", "rows", "bytes", "matched", "deleted", "dry_run",
    "appended_before"}``; ``event`` is None of a dry run, and if there was nothing to delete and
    nothing to write; ``deleted`` is None for a rollup table.

    Args:
        interval: the event times to replace, ``START/END``; the run's data interval by default.
            ``chunks``: the time chunks that the rows touch.
        where: instead, a Spark SQL expression over the rows to replace; every new row must match.
        commit_id: overwrites with equal ids are applied once; by default ``dag/run/task``, the
            run's start, and the number of times that it was cleared.
        dry_run: only count the rows that would be replaced; nothing is written.
        kwargs: see ``SegtableFilesOperator``.
    """

    template_fields: Sequence[str] = ("interval", "where", *SegtableFilesOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **SegtableFilesOperator.template_fields_renderers,
        "where": "sql",
    }
    kind = "overwrite"
    done = "overwritten"
    ui_color = "#f5ecd8"

    def __init__(
        self,
        *,
        interval: str | None = None,
        where: str | None = None,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.interval = DATA_INTERVAL if interval is None and where is None else interval
        self.where = where
        self.only_look = dry_run  # operators have a method ``dry_run``

    def name_of(self, context: Context) -> str | None:
        """Return the default commit id: task instance, start of the run, times it was cleared."""
        name, run = super().name_of(context), context.get("dag_run")
        if name is None or run is None:
            return name
        started = f"/{run.start_date.isoformat()}" if run.start_date else ""
        cleared = f"/cleared-{run.clear_number}" if run.clear_number else ""
        return f"{name}{started}{cleared}"

    def request(self, commit_id: str | None) -> "Overwrite":
        """Return the overwrite request.

        Raises:
            InvalidInput: the interval or the condition is empty, or both are given.
        """
        from airflow_provider_segtable.core.requests.overwrite import Overwrite, extent_of

        where = None if self.where is None else plain("where", self.where, sql=True)
        extent = None if self.interval is None else extent_of(filled(self.interval))
        return Overwrite(extent=extent, where=where, commit_id=commit_id, dry_run=self.only_look)

    def asked(self, commit_id: str | None) -> Sequence[str]:
        """Return the application's arguments."""
        request = self.request(commit_id)
        which = (
            option("overwrite", str(request.extent))
            if request.extent is not None
            else option("overwrite-where", str(request.where), sql=True)
        )
        dry = ("--dry-run",) if request.dry_run else ()
        return (*super().asked(commit_id), which, *dry)

    def only_spark(self, state: "State", files: Sequence[str], stored: Mapping[str, str]) -> str:
        """Return why only Spark can do it; empty if this process can."""
        from airflow_provider_segtable.data.arrow_schema import to_arrow
        from airflow_provider_segtable.data.where import why_not_here

        why = super().only_spark(state, files, stored)
        return why or why_not_here(self.where, to_arrow(state.table.schema))

    def written(
        self, ports: "TableContext", rows: "pa.Table", commit_id: str | None
    ) -> dict[str, Any]:
        """Overwrite in this process, and return the result."""
        from airflow_provider_segtable.table.table import Table

        asked = self.request(commit_id)
        done = Table(ports).overwrite(
            rows,
            interval=asked.extent,
            where=asked.where,
            commit_id=commit_id,
            dry_run=asked.dry_run,
        )
        if done.n is not None:
            return self.logged(ports, done.n)
        return self._counted(done.facts())

    def logged(self, ports: "TableContext", n: int) -> dict[str, Any]:
        """Return the overwrite of event ``n``."""
        from airflow_provider_segtable.core.log.families.change_events import RowsChanged

        event = ports.log.event(n)
        action = event.action if event else None
        matched, deleted = None, None
        if isinstance(action, RowsChanged):
            matched, deleted = action.matched, None if action.predicate else action.deleted
        return {
            **super().logged(ports, n),
            "matched": matched,
            "deleted": deleted,
            "dry_run": False,
        }

    def reported(self, ports: "TableContext", facts: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the overwrite that an application reports."""
        if facts.get("event") is not None or "matched" not in facts:
            return super().reported(ports, facts)
        return self.with_aside(self._counted(facts), facts)

    def sentence(self, told: Mapping[str, Any]) -> str:
        """Return a result in one line."""
        if told["dry_run"]:
            gone = counted(told["matched"], "row")
            return f"{gone} would be replaced by {told['rows']:,}: a dry run, nothing was written"
        if told["event"] is None:
            return "there was no row to delete and none to write: no event"
        gone = "" if told["matched"] is None else f", instead of {counted(told['matched'], 'row')}"
        return f"{super().sentence(told)}{gone}"

    def _counted(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of an overwrite that made no event."""
        return {
            **NOTHING,
            "rows": facts.get("inserted", 0),
            "matched": facts["matched"],
            "deleted": facts.get("deleted"),
            "dry_run": self.only_look,
        }


def filled(interval: str) -> str:
    """Return the rendered interval.

    Raises:
        InvalidInput: it is empty, because the run has no data interval.
    """
    text = plain("interval", interval)
    start, _, end = text.partition("/")
    if start == end:
        raise InvalidInput(
            f"interval {text!r} is empty: give the DAG a timetable whose runs have a data "
            'interval, such as CronDataIntervalTimetable("@daily", timezone="UTC"), or name the '
            "interval"
        )
    return text
