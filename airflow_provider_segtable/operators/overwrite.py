"""Load an interval of a table again as a task: its rows go, those of files come, in one event.

1. The interval is by default the data interval of the DAG run, so a backfill replaces day by day.
2. The commit id is by default DAG, run and task, and how often the run was cleared. So a retry
   overwrites once, and a run that is cleared, or another run of the same interval, replaces what
   the run before wrote.
3. All else is as in ``SegtableIngestOperator``.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.arguments import option, plain
from airflow_provider_segtable.core.requests.overwrite import Extent, extent_of
from airflow_provider_segtable.operators.change import commit_id_of
from airflow_provider_segtable.operators.ingest import SegtableIngestOperator

DATA_INTERVAL = "{{ data_interval_start | ts }}/{{ data_interval_end | ts }}"


class SegtableOverwriteOperator(SegtableIngestOperator):
    """Replace the rows of an interval by those of files, in the task itself or on Spark.

    Returns ``{"event", "segments", "rows", "bytes", "appended_before"}``; ``event`` is None if
    there was nothing to delete and nothing to write.

    Args:
        interval: the event times to replace, ``START/END``; the run's data interval by default.
            ``chunks``: the time chunks that the rows touch.
        commit_id: overwrites with equal ids are applied once; by default ``dag/run/task``, and the
            number of times that the run was cleared.
        kwargs: see ``SegtableIngestOperator``.
    """

    template_fields: Sequence[str] = ("interval", *SegtableIngestOperator.template_fields)
    done: ClassVar[str] = "overwritten"
    ui_color = "#f5ecd8"

    def __init__(self, *, interval: str = DATA_INTERVAL, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.interval = interval

    def _name_of(self, context: Context) -> str | None:
        name = commit_id_of(context)
        cleared = getattr(context.get("dag_run"), "clear_number", None)
        return f"{name}/cleared-{cleared}" if name and cleared else name

    def _extent(self) -> Extent | None:
        return extent_of(plain("interval", self.interval))

    def _asked(self, files: Sequence[str], commit_id: str | None) -> Sequence[str]:
        """Return the application's arguments."""
        self._extent()  # refused before anything is launched
        return (*super()._asked(files, commit_id), option("overwrite", self.interval))

    def _written(self, table: Any, rows: Any, commit_id: str | None) -> int | None:
        """Overwrite in this process, and return the event."""
        n: int | None = table.overwrite(rows, interval=self._extent(), commit_id=commit_id).n
        return n
