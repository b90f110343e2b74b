"""Planner runs over the tables inside a table (``table.indexes.inner_tables``).

1. The feeds are copied first, unless it is a dry run, so that they can be compacted.
2. Each table has its own policy, and a planner run of its own. What fails for one of them is
   logged, and concerns no other table.
"""

import logging
from collections.abc import Iterator, Mapping

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_table import folder
from airflow_provider_segtable.planning.properties.policy import Policy
from airflow_provider_segtable.services.planner import PlannerRun, plan_table
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.lifecycle import forward_all, inner_tables

_LOG = logging.getLogger(__name__)


def plan_inner_tables(
    ports: TableContext, *, overrides: Mapping[str, str] | None = None, dry_run: bool = False
) -> Iterator[tuple[str, PlannerRun]]:
    """Yield the folder of each table inside a table, with its planner run.

    Args:
        ports: the table's ports.
        overrides: settings of policies, instead of those of the tables inside, without prefix.
        dry_run: compute the runs without writing.

    Raises:
        SegtableError: the table's own log cannot be read.
    """
    if not dry_run:
        forward_all(ports, ports.log.load())
    given = {f"compaction.{name}": value for name, value in (overrides or {}).items()}
    for index, own in inner_tables(ports, ports.log.load()):
        try:
            policy = Policy.read({**own.log.load().table.properties, **given})
            run = plan_table(own, policy=policy, dry_run=dry_run)
        except (SegtableError, OSError) as error:
            _LOG.warning("index %s was not planned: %s", index.definition.name, error)
            continue
        yield folder(index.definition.id), run
