"""Write corrections: tombstones over records that lose, as log files in their places.

1. The order of a correction is in the name of its file (instant, log version, write token) and in
   its ordering value. So there is a file for each order and place.
2. No correction may roll over to a file of a higher version: files have at most ``MOST_ROWS``.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_state import IndexDefinition
from airflow_provider_segtable.core.indexes.record_index import rules_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Instant, Layout
from airflow_provider_segtable.data.indexes.records.correction_rows import correction_rows
from airflow_provider_segtable.data.indexes.records.decision import (
    Decision,
    Orders,
    correction_orders,
)
from airflow_provider_segtable.data.keyed.log_files import LogWriter, Records
from airflow_provider_segtable.table.context import TableContext

MOST_ROWS = 100_000
"""Number of corrections of a file; so many tombstones are far below ``log_files.LOG_BYTES``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where corrections go that a compaction brings: its time chunks, at its version."""

    layout: Layout
    version: Instant


def corrections(
    ports: TableContext,
    state: State,
    index: IndexDefinition,
    facts: pa.Table,
    decision: Decision,
    target: Target | None = None,
) -> Iterator[Segment]:
    """Write the corrections of all losers; yield the segments.

    Args:
        ports: the table's ports.
        state: a version of the table.
        index: its index of records.
        facts: the facts that were decided.
        decision: what was decided.
        target: where they go, if a compaction brings them; else where new records go.

    Raises:
        SegtableError: a file could not be written.
    """
    if not len(decision.losers):
        return
    rows = correction_rows(index.kind.columns, state.table, facts, decision)
    for order, places in _by_order(correction_orders(facts, decision)):
        for start in range(0, len(places), MOST_ROWS):
            some = rows.take(pa.array(places[start : start + MOST_ROWS]))
            deleted = np.ones(some.num_rows, bool)
            writer = _writer(ports, state, order, target)
            yield from writer.written(Records(rows=some, deleted=deleted))


def _by_order(orders: Orders) -> Iterator[tuple[tuple[int, int, str], list[int]]]:
    """Yield each order with the numbers of its corrections."""
    found: dict[tuple[int, int, str], list[int]] = defaultdict(list)
    instants, versions = orders.instants.tolist(), orders.versions.tolist()
    for at, order in enumerate(zip(instants, versions, orders.tokens, strict=True)):
        found[order].append(at)
    yield from found.items()


def _writer(
    ports: TableContext, state: State, order: tuple[int, int, str], target: Target | None
) -> LogWriter:
    instant, version, token = order
    return LogWriter(
        files=ports.files,
        table=state.table,
        rules=rules_of(state.table),
        layout=target.layout if target else state.layout,
        base_version=state.base_version,
        version=target.version if target else None,
        ingested=target is None,
        instant=instant,
        token=ports.randomness.token,
        first_version=version,
        token_start=token,
    )
