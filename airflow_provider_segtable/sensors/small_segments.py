"""Wait until compaction has caught up with an interval.

Poke, reschedule and deferred modes ask the same question (``triggers.table.SmallSegments``), so
they agree on the answer. ZooKeeper wakes a deferred wait early.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    BaseSensorOperator,
    Context,
    conf,
)

from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.base.rendered import TableOperator, refused_at_once
from airflow_provider_segtable.planning.verdict import Verdict
from airflow_provider_segtable.triggers.table import SmallSegments, SmallSegmentsTrigger


class SegtableSmallSegmentsSensor(TableOperator, BaseSensorOperator):
    """Wait until every chunk of an interval has at most ``at_most`` small segments.

    Args:
        table: below the connection's root, or a URI.
        interval: ISO 8601 ``start/end``; the whole table if left out.
        at_most: how many small segments a chunk may have. By default as many as the table's policy
            leaves uncompacted: one less than ``compaction.min_segments``.
        segtable_conn_id: the connection.
        deferrable: wait in the triggerer, and take no worker slot.
    """

    template_fields: Sequence[str] = ("table", "interval", "segtable_conn_id")
    ui_color = "#d9ecdf"

    def __init__(
        self,
        *,
        table: str,
        interval: str | None = None,
        at_most: int | None = None,
        segtable_conn_id: str = SegtableHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.interval = interval
        self.at_most = at_most
        self.segtable_conn_id = segtable_conn_id
        self.deferrable = deferrable

    def poke(self, context: Context) -> bool:  # noqa: ARG002  # Airflow's signature
        """Return whether the interval has caught up now."""
        return self._look().satisfied

    def execute(self, context: Context) -> Any:
        """Wait on this worker or in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        if self._look().satisfied:
            return None
        trigger = SmallSegmentsTrigger(
            table=self.table,
            segtable_conn_id=self.segtable_conn_id,
            interval=self.interval,
            at_most=self.at_most,
            poll_interval=self.poke_interval,
        )
        timeout = timedelta(seconds=self.timeout)
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)

    def execute_complete(
        self,
        context: Context,  # noqa: ARG002  # Airflow's signature
        event: Mapping[str, Any] | None = None,
    ) -> None:
        """Go on after the trigger's event.

        Raises:
            AirflowException: if the trigger met an error.
        """
        told = event or {"status": "error", "message": "the trigger ended without an event"}
        if told["status"] != "success":
            raise AirflowException(f"waiting for {self.table} failed: {told['message']}")
        self.log.info("%s: %s", self.table, told["message"])

    def _look(self) -> Verdict:
        question = SmallSegments(table=self.table, interval=self.interval, at_most=self.at_most)
        with (
            refused_at_once(f"waiting for {self.table}"),
            SegtableHook(self.segtable_conn_id).table_ports(self.table) as ports,
        ):
            verdict = question.judge(ports.log.load())
        self.log.info("%s at version %d: %s", self.table, verdict.version, verdict.message)
        return verdict
