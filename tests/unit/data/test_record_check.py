"""Checks of the records in a primary-key table's file."""

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.tables.merge_rules import (
    DELETE,
    GROUPS_ONLY,
    OP,
    OWN,
    ROOT_PARTITION,
    UPSERT,
    MergeEngine,
    MergeRules,
)
from airflow_provider_segtable.data.keyed.group_reader import RecordCheck

Record = tuple[int | None, int, int | None]
"""Key, operation, root."""


def faults(*records: Record, partial: bool = False, size: int = 2) -> set[str]:
    """Return the words for what is wrong with a file of these records, in batches."""
    engine = MergeEngine.PARTIAL_UPDATE if partial else MergeEngine.LATEST
    check = RecordCheck(
        rules=MergeRules(key=("key",), engine=engine), roots=pa.array([OWN], pa.int64())
    )
    keys, operations, roots = zip(*records, strict=True)
    rows = pa.record_batch(
        {
            "key": pa.array(keys, pa.int64()),
            OP: pa.array(operations, pa.int8()),
            ROOT_PARTITION: pa.array(roots, pa.int64()),
        }
    )
    parts = (rows.slice(at, size) for at in range(0, len(records), size))
    return {code for part in parts for code, _ in check.look(part)}


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([(1, UPSERT, OWN), (2, DELETE, OWN), (5, UPSERT, OWN)], set()),
        ([(1, UPSERT, OWN), (3, UPSERT, OWN), (2, UPSERT, OWN)], {"unsorted"}),
        ([(1, UPSERT, OWN), (2, UPSERT, OWN), (2, DELETE, OWN)], {"doubled-key"}),
        ([(1, UPSERT, OWN), (2, DELETE, OWN), (2, UPSERT, OWN)], {"doubled-key"}),
        ([(1, UPSERT, OWN), (2, 7, OWN)], {"unknown-operation"}),
        ([(1, UPSERT, OWN), (2, UPSERT, 4)], {"unknown-root"}),
        ([(1, UPSERT, OWN), (2, UPSERT, None)], {"unknown-root"}),
    ],
)
def test_what_a_merge_relies_on_is_checked(
    records: list[Record], expected: set[str], size: int
) -> None:
    """Order, uniqueness, operations and roots, also where two batches meet."""
    assert faults(*records, size=size) == expected


@pytest.mark.parametrize("size", [1, 2])
def test_partial_updates_keep_a_tombstone_before_an_upsert(size: int) -> None:
    """That pair is right; any other two records of a key are not."""
    pair = [(1, UPSERT, OWN), (2, DELETE, OWN), (2, GROUPS_ONLY, OWN)]
    assert faults(*pair, partial=True, size=size) == set()
    assert faults(pair[2], pair[1], partial=True, size=size) == {"doubled-key"}
