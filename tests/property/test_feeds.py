"""Feeds in events, in files, joined and copied: the entries are those of events in their order.

The oracle is a dictionary. Between any two events somebody may come with feeds, and die on the way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import StorageError
from airflow_provider_segtable.core.indexes.index_kind import (
    BYTES,
    CHECKSUM,
    END,
    FILE,
    ROWS,
    START,
    FileList,
)
from airflow_provider_segtable.core.indexes.index_state import index_table
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.time import DAY_US
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.indexes import index_entries
from airflow_provider_segtable.table.indexes.feeding import forward
from airflow_provider_segtable.table.indexes.index_entries import (
    entries_in,
    fed_entries,
    index_ports,
)
from airflow_provider_segtable.table.table import Table
from tests.examples import examples
from tests.unit.table.conftest import new_table
from tests.unit.table.test_indexes import found
from tests.unit.table.test_joined_feeds import dying, feed_by_hand

LARGE, SMALL = 0, 8192
WHOLE = 9
"""Number of events after which nobody who copies feeds dies any more."""


@dataclass(frozen=True)
class Step:
    """An event with entries and tombstones, in files or not; then copies that die, if any."""

    entries: Mapping[int, int]
    gone: frozenset[int]
    most_inline: int
    copies: Sequence[int]


keys = st.integers(0, 3)
steps = st.builds(
    Step,
    entries=st.dictionaries(keys, st.integers(1, 99), max_size=3),
    gone=st.frozensets(keys, max_size=2),
    most_inline=st.sampled_from([LARGE, SMALL, SMALL]),
    copies=st.lists(st.sampled_from([0, 1, 2, WHOLE]), max_size=2),
)


def rows_of(schema: pa.Schema, entries: Mapping[int, int]) -> pa.Table:
    """Return entries by file; those of files 2 and 3 are in another chunk of the index's table."""
    some = [
        {
            FILE: f"file-{key}",
            START: (key // 2) * 400 * DAY_US,
            END: 0,
            CHECKSUM: "",
            ROWS: 1,
            BYTES: value,
        }
        for key, value in sorted(entries.items())
    ]
    return pa.Table.from_pylist(some, schema=schema)


def come(table: Table, left: int) -> None:
    """Copy feeds; die after some events."""
    try:
        forward(table.ports, table.state(), dying(left, late=bool(left % 2)))
    except StorageError:
        return


@examples(15)
@given(st.lists(steps, min_size=1, max_size=7))
def test_entries_are_those_of_events_in_their_order(played: list[Step]) -> None:
    """Whatever travels in the event, and however far anybody came with copies."""
    table = new_table(MemoryService())
    request_index(table.ports, "files", FileList())
    begun = table.state().n
    schema = to_arrow(index_table(found(table).definition, table.state().table).schema)
    model: dict[int, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        for step in played:
            patch.setattr(index_entries, "MOST_INLINE", step.most_inline)
            some, gone = rows_of(schema, step.entries), dict.fromkeys(step.gone, 0)
            feed_by_hand(table, some, rows_of(schema, gone).select([FILE, START]))
            model = {k: v for k, v in {**model, **step.entries}.items() if k not in step.gone}
            for left in step.copies:
                check(table, rows_of(schema, model), begun)
                come(table, left)
            check(table, rows_of(schema, model), begun)
    come(table, WHOLE)
    check(table, rows_of(schema, model), begun)
    assert not found(table).feeds
    assert not [*violations(index_ports(table.ports, found(table).definition).log.load())]


def check(table: Table, wanted: pa.Table, begun: int) -> None:
    """Compare the entries, and those that came since the request, with the oracle's."""
    for entries in (
        entries_in(table.ports, found(table)),
        fed_entries(table.ports, found(table), begun),
    ):
        assert entries.sort_by(FILE).equals(wanted)
