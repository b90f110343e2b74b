"""Settle a primary-key table in this worker: record which rows readers show.

Settling needs no Spark, no lock and no ZooKeeper, and changes nothing that readers see, so there is
no asset event. What a killed task had recorded stays; the next run goes on from there.
"""

from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.operators.rendered import TableOperator


class SegtableSettleOperator(TableOperator):
    """Record which rows of a primary-key table are shown, so that its reads merge little.

    Returns ``{"version", "dry_run", "groups", "settled_before", "lost", "rows", "hidden",
    "open"}``: the version, the flag, numbers of file groups (``lost`` ones were
    compacted meanwhile, and the next run settles them), and numbers of rows.

    Args:
        dry_run: count the file groups that are due; write nothing.
        kwargs: see ``TableOperator``; the connection needs no ZooKeeper.
    """

    ui_color = "#e8f5df"

    def __init__(self, *, dry_run: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.only_look = dry_run

    def execute(self, context: Context) -> dict[str, Any]:
        """Settle the table, and return a summary."""
        from airflow_provider_segtable.services.settling import settle

        with self.opened(context, f"settling {self.table}") as ports:
            facts = settle(ports, dry_run=self.only_look).facts()
        for name, value in facts.items():
            self.log.info("%s: %s", name, value)
        return dict(facts)
