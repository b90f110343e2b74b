"""Random alterations beside appends, deletes and compactions, against rows by column id.

The oracle is a list of rows, each a dict from column id to value: a column added later has its
default, a dropped one is not asked for, and nothing else ever changes.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from tests.every_reader import READERS, Reader, Shown, disagreements
from tests.examples import examples
from tests.unit.table.conftest import MemoryService, new_table

WIDER = {"int32": "int64", "float": "double", "int64": "int64"}
STEPS = ("append", "append", "append", "add", "drop", "rename", "widen", "reorder")
MORE = ("delete", "minor", "semi-major", "major")


class Model:
    """The table and its oracle; ``columns`` maps a present name to its id."""

    def __init__(self) -> None:
        self.table = new_table(MemoryService())
        self.rows: list[dict[int, Any]] = []
        self.defaults: dict[int, Any] = {}
        self.versions: dict[int, list[dict[str, Any]]] = {}
        self.ids: dict[int, dict[str, int]] = {}
        self.clock = self.names = 0

    @property
    def columns(self) -> dict[str, int]:
        """Return the ids of the present columns, by name."""
        return {column.name: column.id for column in self.table.state().table.schema.numbered}

    def free(self) -> list[str]:
        """Return the columns that may be altered."""
        return [name for name in self.columns if name not in ("at", "row")]

    def play(self, step: str, pick: int) -> None:
        """Do one step; ``pick`` decides the rest."""
        free = self.free()
        if step == "append":
            self.append(1 + pick % 3)
        elif step == "add":
            self.add(pick)
        elif step == "reorder":
            self.alter(
                Reorder(names=tuple(sorted(self.columns, key=lambda n: (len(n) * pick) % 7)))
            )
        elif step == "delete":
            gone = pick % 5
            self.table.delete(f"row in ({gone}, {gone + 5})")
            key = self.columns["row"]
            self.rows = [row for row in self.rows if row[key] not in (gone, gone + 5)]
        elif step in MORE:
            self.compact(step)
        elif free:
            name = free[pick % len(free)]
            kind = self.table.state().table.schema.find(name).type  # type: ignore[union-attr]
            if step == "drop":
                self.alter(DropColumn(name=name))
            elif step == "rename":
                self.names += 1
                taken = {"price", "name"} - set(self.columns)
                self.alter(RenameColumn(name=name, new=min(taken, default=f"r{self.names}")))
            elif kind in WIDER:
                self.alter(WidenColumn(name=name, type=WIDER[kind]))

    def alter(self, *changes: Any) -> None:
        """Alter the columns."""
        self.table.alter(columns=changes)

    def add(self, pick: int) -> None:
        """Add a column, sometimes under a name that another one had."""
        self.names += 1
        gone = {"price", "name"} - set(self.columns)
        name = min(gone) if gone and pick % 2 else f"c{self.names}"
        kind, text, value = (
            ("int32", "7", 7),
            ("float", "0.5", 0.5),
            ("string", "x", "x"),
            ("string", None, None),
        )[pick % 4]
        self.alter(AddColumn(name=name, type=kind, default=text))
        self.defaults[self.columns[name]] = value

    def append(self, count: int) -> None:
        """Append rows, and note them by column id."""
        schema = self.table.snapshot().schema
        made = []
        for _ in range(count):
            at, self.clock = self.clock, self.clock + 1
            made.append({field.name: _value(field, at) for field in schema})
        self.table.append(pa.Table.from_pylist(made, schema))
        ids = self.columns
        self.rows += [
            {**dict.fromkeys(self.defaults), **{ids[name]: v for name, v in row.items()}}
            for row in pa.Table.from_pylist(made, schema).to_pylist()
        ]

    def compact(self, kind: str) -> None:
        """Compact what there is to compact."""
        try:
            plans = [known.plan.id for known in request(self.table.ports, kind)]
        except InvalidInput:
            return  # nothing to compact
        compact(self.table.ports, plans, in_process(self.table.ports.files))

    def shown(self) -> list[dict[str, Any]]:
        """Return the rows of the oracle under the present names."""
        ids = self.columns.items()
        return [{n: row.get(i, self.defaults.get(i)) for n, i in ids} for row in self.rows]

    def check(self, readers: Sequence[Reader] = ()) -> None:
        """Note the rows of the newest version; compare these readers, or one by turns."""
        state, columns = self.table.state(), self.columns
        self.versions[state.n], self.ids[state.n] = _sorted(self.shown()), columns
        assert tuple(self.table.snapshot().schema.names) == tuple(columns)
        names = tuple(sorted(columns, key=lambda name: name != "row"))
        same = [n for n, ids in self.ids.items() if columns.items() <= ids.items()]
        shown = Shown(names=names, rows={n: _rows(self.versions[n], names) for n in same})
        some = readers or (READERS[len(self.versions) % len(READERS)],)
        assert [*disagreements(self.table.ports, shown, some)] == []


def _rows(rows: list[dict[str, Any]], names: Sequence[str]) -> Counter[tuple[Any, ...]]:
    timed = ({**row, "at": round(row["at"].timestamp() * 1_000_000)} for row in rows)
    return Counter(tuple(row[name] for name in names) for row in timed)


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["row"])


def _value(field: "pa.Field[Any]", at: int) -> Any:
    if field.name == "at":
        return at * 900_000_000
    if field.name != "row" and at % 4 == 3:
        return None
    return f"s{at % 3}" if field.type == pa.string() else at


@examples(25)
@given(st.lists(st.tuples(st.sampled_from(STEPS + MORE), st.integers(0, 11)), max_size=14))
def test_rows_survive_every_chain_of_changes(steps: list[tuple[str, int]]) -> None:
    """Every version shows the rows and columns of its time, whatever was altered or compacted."""
    model = Model()
    for step in (("append", 2), *steps, ("append", 1)):
        model.play(*step)
        model.check()
    model.check(READERS)
    for n, rows in model.versions.items():
        assert _sorted(model.table.snapshot(version=n).to_arrow().to_pylist()) == rows


@pytest.mark.parametrize("kind", ["minor", "semi-major", "major"])
def test_each_compaction_joins_files_of_all_schemas(kind: str) -> None:
    """A name that moves to another column never takes the other one's values along."""
    model = Model()
    model.append(3)
    model.alter(DropColumn(name="name"))
    model.alter(RenameColumn(name="price", new="name"))
    model.append(3)
    model.add(0)
    model.play("delete", 1)
    model.append(3)
    model.compact(kind)
    model.check(READERS)
    columns = ["name", "row"]
    some = model.table.scan(columns=columns, where="name >= 2").to_arrow().to_pylist()
    wanted = [{name: row[name] for name in columns} for row in model.shown()]
    assert _sorted(some) == _sorted([row for row in wanted if (row["name"] or 0) >= 2])
