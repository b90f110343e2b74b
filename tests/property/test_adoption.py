"""Random files of other programs, adopted or copied between alterations, deletes and compactions.

The oracle of ``test_columns`` knows nothing of files: whatever a file of the folder is like, its
rows are there once, with the default or null in columns that it lacks. So are they after a
cleaning, and after the log is rebuilt from the records of adoptions.
"""

import io
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.data.adoption.decision import Action
from airflow_provider_segtable.health.delete_recovery import Verdict
from airflow_provider_segtable.health.repair import Decisions, plan_repair, repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table.adoption import AdoptionRequest, adopt
from airflow_provider_segtable.table.table import create_table
from tests.every_reader import READERS
from tests.examples import examples
from tests.property.test_columns import MORE, Model, _value
from tests.support.in_memory import context_in_memory, defined_by, in_another_process
from tests.unit.table.conftest import SCHEMA

STEPS = ("adopt", "adopt", "adopt", "append", "add", "drop", "rename", "widen", "reorder", *MORE)
NOW = Retention(hours=0, versions=1, orphan_hours=0)


class Lake(Model):
    """A table over a folder to which other programs add files."""

    def __init__(self) -> None:
        super().__init__()
        self.table = create_table(context_in_memory(rooted=True), defined_by(SCHEMA))
        self.files = 0
        self.foreign: dict[str, bytes] = {}
        self.actions: set[Action] = set()

    def play(self, step: str, pick: int) -> None:
        """Do one step; ``pick`` decides the rest."""
        match step:
            case "adopt":
                self.adopt(Random(pick))
            case "clean":
                clean(self.table.ports, retention=NOW)
                self.versions, self.ids = {}, {}
            case _:
                super().play(step, pick % 12)

    def adopt(self, draw: Random) -> None:
        """Put some files, adopt or copy each, and note their rows by column id."""
        ports, ids = self.table.ports, self.columns
        for _ in range(draw.randint(1, 3)):
            rows = self.made(draw)
            self.put(draw, rows)
            self.rows += [
                {**dict.fromkeys(self.columns.values()), **self.defaults, **known}
                for row in rows.to_pylist()
                for known in [{ids[name]: value for name, value in row.items()}]
            ]
        done = adopt(ports, AdoptionRequest(copy_rest=True))
        self.actions |= {each.action for each in done.decisions}
        assert not done.those(Action.REFUSE)
        for path in done.copied:
            self.foreign[path] = ports.storage.read(path)

    def made(self, draw: Random) -> pa.Table:
        """Return rows in some of the present columns, of one hour or of several."""
        schema = self.table.snapshot().schema
        kept = [f for f in schema if not f.nullable or f.name == "row" or draw.random() < 0.8]
        draw.shuffle(kept)
        some = []
        for _ in range(draw.randint(1, 3)):
            at, self.clock = self.clock, self.clock + 1
            some.append({field.name: _value(field, at) for field in kept})
        return pa.Table.from_pylist(some, pa.schema(kept))

    def put(self, draw: Random, rows: pa.Table) -> None:
        """Write a file as one of many programs does."""
        self.files += 1
        for at, field in enumerate(rows.schema):
            if pa.types.is_string(field.type) and draw.random() < 0.3:
                other = draw.choice((pa.large_string(), pa.dictionary(pa.int32(), pa.string())))
                rows = rows.set_column(at, field.name, rows.column(at).cast(other))
        options: dict[str, Any] = {
            "store_schema": draw.random() < 0.7,
            "row_group_size": draw.randint(1, 3),
            "write_statistics": draw.random() < 0.8,
            "compression": draw.choice(("none", "snappy", "zstd")),
            "write_page_index": draw.random() < 0.5,
            "version": draw.choice(("2.4", "2.6")),
        }
        stream = io.BytesIO()
        pq.write_table(rows, stream, **options)
        place = draw.choice(("", "in/", "a/b/"))
        self.table.ports.storage.replace(f"{place}{self.files}.parquet", stream.getvalue())

    def untouched(self) -> bool:
        """Return whether the files that were not adopted are as they were."""
        storage = self.table.ports.storage
        return all(storage.read(path) == data for path, data in self.foreign.items())

    def rebuilt(self) -> None:
        """Lose the log, and rebuild it."""
        ports = self.table.ports
        for place in ("timeline", "checkpoints"):
            for entry in [*ports.storage.list(f"_segtable/{place}")]:
                ports.storage.delete(entry.path)
        fresh = in_another_process(ports, MemoryService())
        plan = plan_repair(fresh, Decisions(deletes=Verdict.APPLY))
        assert not plan.blocking
        repair(fresh, plan)
        self.table = type(self.table)(fresh)
        self.versions, self.ids = {}, {}


@examples(25)
@given(
    st.lists(
        st.tuples(st.sampled_from((*STEPS, "clean")), st.integers(0, 2**32)),
        max_size=12,
    )
)
def test_rows_of_other_programs_are_there_once(steps: list[tuple[str, int]]) -> None:
    """Whatever their files are like, and whatever happens to the table."""
    lake = Lake()
    for step in (("adopt", 2), *steps, ("adopt", 1)):
        lake.play(*step)
        lake.check()
    lake.check(READERS)
    assert verify(lake.table.ports, deep=True).sound
    assert lake.untouched()
    lake.rebuilt()
    lake.check(READERS)
    assert verify(lake.table.ports, deep=True).sound
    lake.play("clean", 0)
    lake.check()
    assert lake.untouched()


def test_files_are_both_adopted_and_copied() -> None:
    """The property would say little if all files had one fate."""
    lake = Lake()
    for pick in range(20):
        lake.play("adopt", pick)
    assert lake.actions >= {Action.ADOPT, Action.COPY}
    lake.check(READERS)
