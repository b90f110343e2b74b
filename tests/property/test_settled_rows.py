"""Settled reads: rows by their fates are those of merging all files, whatever is asked for.

The oracle is the ordered read, which merges all files of a group (``tests/property/test_merge.py``
holds it against a naive model). Compared are all columns and some, conditions on keys and on other
columns, intervals, counts and earlier versions; each as a process reads that has nothing in memory,
and as one that has read before.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import DAY_US, Interval
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table.scan import Scan
from tests.examples import examples

FIRST_US = 1_767_225_600_000_000
SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("word", pa.string(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        ("seq", pa.int64()),
        ("seen", pa.int64()),
        ("a", pa.int64()),
        ("b", pa.string()),
    ]
)
CONDITIONS = (
    None,
    "number = 3",
    "word >= 'w4' AND word < 'w6'",
    "a < 40",
    "b = 'b7' OR a IS NULL",
    "number > 5 AND a > 20",
)
COLUMNS = (None, ["a"], ["b", "number"], ["word"])


@dataclass
class World:
    """A table, and the versions that it had."""

    draw: Random
    table: Table
    written: int = 0

    def step(self) -> None:
        """Write, delete, compact, settle or read, so that fates are in memory."""
        acts: list[Callable[[], object]] = [
            *(self.upsert, self.delete, self.compact, self.table.settle, self.check)
        ]
        self.draw.choices(acts, [8, 2, 2, 3, 2])[0]()

    def upsert(self) -> None:
        """Write records, some of them late, some of them in part."""
        draw, rows = self.draw, []
        for _ in range(draw.choice([1, 3, 30])):
            self.written += 1
            key = draw.randrange(12)
            rows.append(
                {
                    "number": key,
                    "word": f"w{key % 7}",
                    "at": FIRST_US + key % 3 * DAY_US,
                    "seq": draw.choice([None, *range(5)]),
                    "seen": draw.choice([None, *range(5)]),
                    "a": draw.choice([None, self.written]),
                    "b": draw.choice([None, f"b{self.written % 9}"]),
                }
            )
        self.table.upsert(pa.Table.from_pylist(rows, schema=SCHEMA))

    def delete(self) -> None:
        """Delete some keys."""
        self.table.delete(f"number = {self.draw.randrange(12)}")

    def compact(self) -> None:
        """Merge log files, or make base files."""
        with suppress(InvalidInput):  # there may be nothing to compact
            self.table.compact(self.draw.choice(["minor", "semi-major"]))

    def check(self) -> None:
        """Compare reads of a version with the oracle, by a process that has read and a new one."""
        draw, state = self.draw, self.table.state()
        version = draw.choice([state.n, draw.randint(state.retained_from, state.n)])
        whole = Interval(FIRST_US, FIRST_US + 3 * DAY_US)
        second = Interval(FIRST_US + DAY_US, FIRST_US + DAY_US + 1)
        asked: dict[str, Any] = {
            "columns": draw.choice(COLUMNS),
            "where": draw.choice(CONDITIONS),
            "interval": draw.choice([None, second, whole]),
            "version": version,
        }
        for table in (self.table, Table.open(self.table.ports.uri, zookeeper="memory://settled")):
            scan = table.scan(**asked)
            want = in_order(scan)
            assert rows_of(scan.to_arrow()) == want, asked
            assert scan.count() == want.total(), asked


def in_order(scan: Scan) -> Counter[Any]:
    """Return the rows of the read that merges all files."""
    rules = scan.state.table.kind.rules
    assert isinstance(rules, MergeRules)
    merged = replace(scan.merged_scan(rules), in_order=True)
    return rows_of(pa.Table.from_batches(merged.batches(), scan.schema))


def rows_of(table: pa.Table) -> Counter[Any]:
    """Return rows, each with how often it is there."""
    return Counter(tuple(row.values()) for row in table.to_pylist())


@examples(10)
@given(
    st.integers(0, 2**32),
    st.sampled_from([("number",), ("word", "number")]),
    st.sampled_from(["latest", "partial_update"]),
    st.sampled_from(["", "seq"]),
)
def test_fates_give_the_rows_of_a_merge(
    seed: int, key: tuple[str, ...], merge: str, ordering: str
) -> None:
    """At every version, in any columns, for any condition."""
    draw = Random(seed)
    with TemporaryDirectory() as place:
        table = Table.create(
            place,
            schema=SCHEMA,
            time_column="at",
            granularity=draw.choice(["day", "all"]),
            primary_key=key,
            buckets=draw.randint(1, 2),
            ordering=ordering,
            merge=merge,
            groups={"seen": ["b"]} if merge == "partial_update" else None,
            zookeeper="memory://settled",
        )
        world = World(draw, table)
        for _ in range(14):
            world.step()
        for _ in range(4):
            world.check()
        assert table.verify(deep=True).findings == ()
