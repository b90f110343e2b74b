"""Commit the buffered records of a table's log store now.

1. The services that ZooKeeper names are asked, and commit; the task itself writes nothing. It takes
   as long as one commit, so it is not deferred.
2. The asset event is of the commits of the log store between the task's first look and the version
   of the checkpoint. A service commits by itself, too: such commits are in no asset event.
3. A service that does not answer, or takes too long, fails the try; a retry asks again.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException, Context

from airflow_provider_segtable.core.arguments import seconds, shown
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.operators.rendered import AssetEventOperator, logged

if TYPE_CHECKING:
    from airflow_provider_segtable.table.context import TableContext

FAIL, SKIP = "fail", "skip"


class SegtableCheckpointOperator(AssetEventOperator):
    """Ask the services of a table's log store for a checkpoint.

    Returns ``{"version", "records", "services"}``: a version of the table that has every record
    appended before, None if there was never one; how many of them were committed since the task
    began; and the services' addresses.

    Args:
        wait_s: how long each service may take, in seconds.
        if_not_served: ``fail`` or ``skip`` the task if no service has the log store.
        kwargs: see ``TableOperator``; the connection needs ZooKeeper.
    """

    template_fields: Sequence[str] = ("if_not_served", *AssetEventOperator.template_fields)
    ui_color = "#dff0f5"

    def __init__(
        self,
        *,
        wait_s: float = 60.0,
        if_not_served: str = FAIL,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.wait_s = wait_s
        self.if_not_served = if_not_served

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask for the checkpoint, and return a summary of it."""
        from airflow_provider_segtable.library.log_stores import checkpoint_log

        with self.opened(context, f"checkpoint of {self.table}") as ports:
            self._check()
            begun = ports.log.load().n
            self._skip_unserved(ports)
            made = checkpoint_log(ports, wait_s=self.wait_s)
            commits = dict(_commits(ports, begun, made.version or 0))
            records = sum(commits.values())
            self.emit(context, ports, "checkpoint", made=commits, counts={"records": records})
        rows, services = counted(records, "record"), counted(len(made.services), "service")
        self.log.info("checkpoint: %s committed, version %s, by %s", rows, made.version, services)
        return {**made.facts(), "records": records}

    def read_from(self, ports: "TableContext") -> tuple[str, ...]:  # noqa: ARG002
        """Return no dataset: the records were in the log store."""
        return ()

    def _check(self) -> None:
        seconds("wait_s", self.wait_s)
        if self.if_not_served not in (FAIL, SKIP):
            raise InvalidInput(
                f"if_not_served = {shown(self.if_not_served)} is neither {FAIL!r} nor {SKIP!r}: "
                "correct it"
            )

    def _skip_unserved(self, ports: "TableContext") -> None:
        from airflow_provider_segtable.services.log_directory import addresses

        if self.if_not_served == SKIP and not addresses(
            ports.coordinator, ports.log.load().table.table_id
        ):
            raise AirflowSkipException(f"no service serves the log store of {self.table}")


def _commits(ports: "TableContext", begun: int, version: int) -> Iterator[tuple[int, int]]:
    """Yield the log store's commits after an event, up to a version: event and records."""
    from airflow_provider_segtable.core.log.families.append_events import Appended

    for event in logged(ports, range(begun + 1, version + 1)):
        ranges = event.action.log if isinstance(event.action, Appended) else ()
        if ranges:
            yield event.n, sum(each.end - each.start for each in ranges)
