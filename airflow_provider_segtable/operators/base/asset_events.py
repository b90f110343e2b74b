"""Emit asset events of a table: one for each task that committed to it, so that DAGs can wait.

1. The asset is known only when the task runs, because ``table`` may be a template; and a task that
   committed nothing emits nothing. So the outlet of an operator is an alias of its own, to which
   the task adds the table's asset (``assets.table_asset``) with its event. Airflow records it if
   the task succeeds, in the same transaction.
2. A commit that this try made itself is emitted. A commit that it found in the log, an earlier try
   may have made and died; or it ended well, and was cleared later. So Airflow is asked: the commit
   is emitted if no asset event since then names it. So one commit has one asset event.
3. The event's ``extra`` sums up the log's events (``core.reads.published``), and has the table's
   URI, the ``kind`` of work, and the operator's own counts.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import Asset, AssetAlias, Context

from airflow_provider_segtable.assets.table_asset import segtable_asset
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.indexes.index_table import INDEXES
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.fold import published
from airflow_provider_segtable.core.time import moment
from airflow_provider_segtable.operators.base.rendered import TableOperator
from airflow_provider_segtable.table.context import TableContext

NOTHING: Mapping[str, int] = {}
MOST_SKEW = timedelta(hours=1)
"""How much Airflow's clock may be behind the log's."""


class AssetEventOperator(TableOperator):
    """An operator that commits to ``table``, and emits asset events of it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alias = AssetAlias(f"segtable/{self.dag_id}/{self.task_id}", group="segtable")
        self.outlets = [*self.outlets, self.alias]

    def emit(
        self,
        context: Context,
        ports: TableContext,
        kind: str,
        *,
        made: Collection[int] = (),
        found: Collection[int] = (),
        counts: Mapping[str, int] = NOTHING,
    ) -> None:
        """Emit an asset event of the task's commits to a table of its own, if there are any.

        Args:
            context: of the task; outside a run nothing is emitted.
            ports: the table.
            kind: the work in one word.
            made: numbers of the events that this try committed.
            found: numbers of the events that it found in the log; emitted unless they were before.
            counts: more of ``extra``; they take precedence.
        """
        outlets = context.get("outlet_events")
        inside = f"/{INDEXES}/" in ports.uri  # no DAG waits for the table of an index
        if outlets is None or inside or not (made or found):
            return
        asset = segtable_asset(ports.uri)
        events = [*logged(ports, made), *unemitted(asset, logged(ports, found))]
        if not events:
            return
        facts = {"table": ports.uri, "kind": kind, **asdict(published(events)), **counts}
        outlets[self.alias].add(asset, extra=plain_values(facts))
        self.log.info("asset event of %s: %s", asset.uri, counted(len(events), "commit"))


def logged(ports: TableContext, numbers: Collection[int]) -> list[Event]:
    """Return events, in log order, without those that expired."""
    found = (ports.log.event(n) for n in sorted(numbers))
    return [event for event in found if event is not None]


def own_events(ports: TableContext, since: int) -> list[int]:
    """Return the numbers of the events after ``since`` whose author is this task."""
    later = logged(ports, range(since + 1, ports.log.load().n + 1))
    return [event.n for event in later if event.author == ports.author]


def unemitted(asset: Asset, events: Sequence[Event]) -> list[Event]:
    """Return the events that no asset event names."""
    if not events:
        return []
    known = set(emitted(asset, events[0]))
    return [event for event in events if event.n not in known]


def emitted(asset: Asset, first: Event) -> Iterator[object]:
    """Yield the numbers of events that asset events name, from a first event on."""
    from airflow.sdk.execution_time.context import InletEventsAccessors

    since = moment(first.time) - MOST_SKEW
    for known in InletEventsAccessors([asset])[asset].after(since.isoformat()):
        told = (known.extra or {}).get("events")
        yield from told if isinstance(told, list) else ()


def plain_values(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts as JSON has them."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in facts.items()}
