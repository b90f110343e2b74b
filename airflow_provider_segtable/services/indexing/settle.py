"""Settle keys: correct the records of keys that have several rows, once an index knows them all.

1. Writers route the keys that they write (``table.routing``). Rows that were there before an index
   of records, or came while it lacked something, were not routed: a run of the index looks for keys
   with several facts, after it has built what was lacking.
2. Feeds are copied first, and the index's own table is read in the order of its keys, so memory
   holds a batch. What came later was routed by its writer, who knew all facts.
3. Of keys that are to be corrected, the records are read. Their corrections are one event for each
   batch of keys, under a commit id of its own. If others wrote such a key meanwhile, the batch is
   looked at again.
4. It may be done at any time, by anyone, and twice: a key that has one row needs no correction.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.errors import CommitConflict, CommitUnknown
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Appended
from airflow_provider_segtable.core.log.families.index_events import index_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.indexes.records import decided, places_of
from airflow_provider_segtable.data.keyed.merging import key_codes
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.facts import facts_of
from airflow_provider_segtable.table.indexes.index_entries import entry_rules, index_ports
from airflow_provider_segtable.table.indexes.routing import Route, discard, holds, rerouted
from airflow_provider_segtable.table.log.committer import (
    Change,
    Unknown,
    commit_files,
    forward_feeds,
    way_out,
)
from airflow_provider_segtable.table.parts import MergedScan, groups_to_read

COMMIT = "settled-"
"""The begin of the commit ids."""
MOST_FACTS = 65_536
"""Number of facts from which on a batch takes no further one."""
TRIES = 20


class _Overtaken(Exception):  # not an error: the batch is looked at again
    """Another event has a key of the batch."""


def settle(
    ports: TableContext, index_id: str, token: str, check: Callable[[], None] = lambda: None
) -> None:
    """Correct the records of all keys that have several rows.

    Args:
        ports: the table's ports.
        index_id: the index; nothing is done if it is not about records, or gone.
        token: the attempt; commit ids begin with it.
        check: called before each event; raises if the attempt lost its lease.

    Raises:
        CommitConflict: others wrote the same keys, repeatedly.
        CommitUnknown: the last reply was lost; run the index again.
    """
    state = ports.log.load()
    index = index_of(index_id, state)
    if index is None or index.definition.kind.about_files:
        return
    forward_feeds(ports, state)
    for number, facts in enumerate(_doubled(ports, index)):
        _settled(ports, check, index_id, facts, f"{COMMIT}{token}-{number}")


def _doubled(ports: TableContext, index: IndexState) -> Iterator[pa.Table]:
    """Yield facts about keys with several live places, as far as the facts tell."""
    own = index_ports(ports, index.definition)
    state = own.log.load()
    key = index.definition.kind.divided_by
    held: list[pa.Table] = []
    for facts in _by_key(own, state, key):
        layout = ports.log.load().layout
        losers = decided(facts, places_of(facts, layout)[0], key).losers
        if len(losers):
            held.append(facts.take(pa.array(losers)))
        if sum(some.num_rows for some in held) >= MOST_FACTS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _by_key(own: TableContext, state: State, key: tuple[str, ...]) -> Iterator[pa.Table]:
    """Yield all facts of an index's own table, those of a key together."""
    scan = MergedScan(
        files=own.files,
        table=state.table,
        rules=entry_rules(own, state),
        columns=state.table.schema.names,
        found=groups_to_read(state, None),
    )
    left: pa.Table | None = None
    for batch in scan.batches():
        rows = pa.Table.from_batches([batch])
        rows = rows if left is None else pa.concat_tables([left, rows])
        codes = key_codes(rows, MergeRules(key=key)).rows
        last = np.flatnonzero(codes != codes[-1])  # the last key may go on in the next batch
        end = int(last[-1]) + 1 if len(last) else 0
        left = rows.slice(end)
        if end:
            yield rows.slice(0, end)
    if left is not None and left.num_rows:
        yield left


def _settled(
    ports: TableContext, check: Callable[[], None], index_id: str, facts: pa.Table, commit_id: str
) -> None:
    """Correct the records of some keys, as the newest version has them."""
    reason = "nothing was tried"
    for attempt in range(TRIES):
        state = ports.log.refresh(ports.log.load())
        index = index_of(index_id, state)
        if index is None:
            return
        route = rerouted(ports, state, index, facts_of(ports, index, facts))
        if not route.corrections:
            discard(ports, route)
            return
        outcome = _committed(ports, check, state, route, f"{commit_id}-{attempt}")
        if outcome is None:
            return
        reason = outcome
    raise CommitConflict(
        f"{ports.uri}: keys could not be settled, because {reason} {TRIES} times: run the index "
        "again"
    )


def _committed(
    ports: TableContext, check: Callable[[], None], state: State, route: Route, commit_id: str
) -> str | None:
    """Commit the corrections of a route; return why they were refused, None if they were not."""

    def guard() -> None:
        check()
        if not holds(ports, route, ports.log.refresh(state)):
            raise _Overtaken

    change = Change(
        action=Appended(segments=route.corrections),
        commit_id=commit_id,
        guard=guard,
        feeds=(route.feed,),
    )
    try:
        outcome = commit_files(ports, state, change, route.corrections)
    except _Overtaken:
        return "others wrote them"
    if isinstance(outcome, Unknown):
        raise CommitUnknown(way_out(ports, change, outcome.n))
    return outcome.reason if isinstance(outcome, Conflict) else None
