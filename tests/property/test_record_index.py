"""Random histories of a table with an index of records: readers see one row a key, the last one.

The oracle is a list of records in the order in which their writers began. The row of a key is its
record of the highest ordering value, and of equal ones the later. A restore cuts the list off.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table.indexes import feeding
from tests.examples import examples
from tests.unit.table.interleaving import before_event
from tests.unit.table.keyed_indexed import DELETED, KEYS, new_table, read, upsert

STEPS = (
    *("upsert", "upsert", "upsert", "race", "race", "unrouted", "update", "delete"),
    *("minor", "semi-major", "month", "hour", "restore", "run", "rebuild"),
)
Row = dict[str, Any]
BATCH = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.integers(0, 3),
            "day": st.integers(0, 3),
            "seq": st.integers(0, 3),
            DELETED: st.sampled_from([False, False, False, True]),
        }
    ),
    min_size=1,
    max_size=4,
)


@dataclass
class History:
    """A table, and the records of its events."""

    table: Table
    began: int = 0
    records: list[tuple[int, int, Row]] = field(default_factory=list)

    def rows(self, batch: list[Row]) -> list[Row]:
        """Return a batch with a value of its own in each row.

        Without an index a batch has a key once, as tokens would decide among its records.
        """
        if not self.table.indexes():
            batch = [*{row["key"]: row for row in batch}.values()]
        self.began += 1
        return [{**row, "v": self.began * 10 + at} for at, row in enumerate(batch)]

    def noted(self, n: int, rows: list[Row]) -> None:
        """Note the records of event n."""
        self.records += [(n, row["v"], row) for row in rows]

    def expected(self) -> list[tuple[int, int, int]]:
        """Return the rows that readers see."""
        top: dict[int, Row] = {}
        for _, _, row in sorted(self.records, key=lambda each: (each[2]["seq"], each[1])):
            top[row["key"]] = row
        return sorted((k, row["day"], row["v"]) for k, row in top.items() if not row[DELETED])

    def step(self, name: str, batch: list[Row], number: int) -> None:
        """Take one step."""
        match name:
            case "upsert":
                rows = self.rows(batch)
                self.noted(upsert(self.table, *rows), rows)
            case "unrouted":
                with unrouted():
                    self.step("upsert", batch, number)
            case "race":
                self._race(self.rows(batch[:2]), self.rows(batch[1:] or batch))
            case "update" | "delete":
                self._change(name, number)
            case "run" | "rebuild":
                if name == "rebuild":
                    self.table.rebuild_index(KEYS)
                self.table.run_index(KEYS)
            case "restore":
                self._restore(number)
            case _ if self.records:
                cut = {"kind": "major", "granularity": name} if name in {"month", "hour"} else {}
                with suppress(InvalidInput):  # there is nothing to compact
                    self.table.compact(**(cut or {"kind": name}))

    def _race(self, early: list[Row], late: list[Row]) -> None:
        def deed() -> None:
            self.noted(upsert(self.table, *late), late)

        ports = before_event(self.table.ports, deed, word="Appended")
        self.noted(upsert(Table(ports), *early), early)

    def _change(self, name: str, key: int) -> None:
        before = {row[0]: row for row in self.expected()}
        if key not in before or [*before.values()] != read(self.table):
            return  # a change writes records where it finds rows
        self.began += 1
        seq = max(r["seq"] for _, _, r in self.records if r["v"] == before[key][2])
        value = self.began * 10
        row = {"key": key, "day": before[key][1], "seq": seq, "v": value, DELETED: False}
        if name == "delete":
            self.noted(self.table.delete(f"key = {key}").n or 0, [{**row, DELETED: True}])
        else:
            self.noted(self.table.update({"v": value}, f"key = {key}").n or 0, [row])

    def _restore(self, number: int) -> None:
        events = sorted({n for n, _, _ in self.records})
        if not events:
            return
        version = events[number % len(events)]
        self.table.restore(version=version)
        self.records = [each for each in self.records if each[0] <= version]


@contextmanager
def unrouted() -> Iterator[None]:
    """Let every write be too large to be routed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeding, "MOST_FEED_BYTES", 0)
        yield


@examples(8)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(STEPS), BATCH, st.integers(0, 3)), min_size=3, max_size=9
    ),
    later=st.booleans(),
)
def test_one_row_a_key_whatever_happened(
    steps: list[tuple[str, list[Row], int]],
    later: bool,  # noqa: FBT001
) -> None:
    """Whenever the index is current, also if it was created late."""
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEGTABLE_ZOOKEEPER", f"memory://{uuid4()}")
        history = History(new_table(place, index=not later))
        for at, (name, batch, number) in enumerate(steps):
            if later and at == len(steps) // 2:
                history.table.create_index(KEYS, "record_index")
                later = False
            if later and name in {"run", "rebuild"}:
                continue
            history.step(name, batch, number)
            current = [index.current for index in history.table.indexes().values()]
            if current == [True]:
                assert read(history.table) == history.expected()
        history.table.run_index(KEYS)
        assert read(history.table) == history.expected()
        assert not list(violations(history.table.state()))
