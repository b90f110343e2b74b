"""Primary-key tables: whatever is upserted, deleted, compacted and cleaned, readers find the model.

The model is a dictionary: of the records of a key, the highest ordering value wins, then the later
write, then the later row.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.read_request import COMPLETION_TIME
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.time import DAY_US, Granularity, Interval, moment
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.ports.job import Done, Job
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage.local import SystemClock
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.table import create_table
from airflow_provider_segtable.table.upsert import records_of, upsert
from tests.every_reader import READERS, Reader, Rows, Shown, by_turns, disagreements, filled
from tests.examples import examples
from tests.support.clock import FakeClock

FIRST_US = 1_356_998_400_000_000
SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("key", pa.int64()),
        ("seq", pa.int64()),
        ("text", pa.string()),
    ]
)
KEYS = 12
CUTS = [Granularity.HOUR, Granularity.DAY, Granularity.WEEK, Granularity.MONTH, Granularity.ALL]
AFTER = [FIRST_US + day * DAY_US for day in (1, 2, 3)]
GONE = "gone"


def keyed_table(place: str, kind: PrimaryKey, granularity: Granularity = Granularity.DAY) -> Table:
    """Create an empty table in a folder, coordinated in memory."""
    clock = SystemClock()
    context = replace(
        open_context(place), optional_coordinator=MemoryCoordinator(clock, MemoryService())
    )
    definition = TableDefinition(
        table_id="00000000-0000-0000-0000-000000000012",
        name="keyed",
        schema=from_arrow(SCHEMA),
        time_column="at",
        granularity=granularity,
    )
    create_table(context, of_kind(definition, kind))
    return Table(context)


def time_of(key: int) -> int:
    """Return the event time of a key's records."""
    return FIRST_US + key % 3 * DAY_US + 5


def batch(records: list[dict[str, Any]]) -> pa.Table:
    """Return records as rows to upsert; ``gone`` says which delete their key."""
    schema = SCHEMA.append(pa.field(GONE, pa.bool_()))
    rows = [{**one, "at": time_of(one["key"])} for one in records]
    return pa.Table.from_pylist(rows, schema=schema)


@dataclass
class World:
    """The table and the model, side by side."""

    draw: Random
    table: Table
    ordered: bool
    written: int = 0
    best: dict[int, tuple[Any, dict[str, Any]]] = field(default_factory=dict)
    seen: State | None = None
    past: dict[int, Rows] = field(default_factory=lambda: {0: Counter()})
    bests: dict[int, dict[int, Any]] = field(default_factory=dict)
    steps: int = 0
    bases: dict[int, dict[int, str]] = field(default_factory=dict)
    promised: dict[int, str] | None = field(default_factory=dict)

    def upsert(self) -> None:
        """Write a batch of records, some of them late, some of them deletes."""
        records = []
        for _ in range(self.draw.randint(1, 6)):
            self.written += 1
            record = {
                "key": self.draw.randrange(KEYS),
                "seq": self.draw.choice([None, *range(8)]),
                "text": f"v{self.written}",
                GONE: self.draw.random() < 0.25,
            }
            records.append(record)
            value = record["seq"] if self.ordered else None
            order = (value is not None, value or 0, self.written)
            if record["key"] not in self.best or order > self.best[record["key"]][0]:
                self.best[record["key"]] = (order, record)
        known = self.seen or self.table.state()
        upsert(
            self.table.ports,
            records_of(batch(records), known, GONE),
            commit_id=str(self.written),
            state=known,
        )
        self.note()
        self.seen = self.draw.choice([known, None])

    def delete(self) -> None:
        """Delete by a condition: the tombstones win over what they saw."""
        key = self.draw.randrange(KEYS)
        self.table.delete(f"key = {key}")
        if key in self.best and not self.best[key][1][GONE]:
            (known, value, _), record = self.best[key]
            self.written += 1
            self.best[key] = ((known, value, self.written), {**record, GONE: True})

    def update(self) -> None:
        """Update by a condition."""
        key = self.draw.randrange(KEYS)
        self.table.update(set={"text": "set"}, where=f"key = {key}")
        if key in self.best and not self.best[key][1][GONE]:
            (known, value, _), record = self.best[key]
            self.written += 1
            self.best[key] = ((known, value, self.written), {**record, "text": "set"})

    def compact(self) -> None:
        """Merge log files, or make base files."""
        with suppress(InvalidInput):  # there may be nothing to compact
            kind = self.draw.choice(["minor", "semi-major"])
            self.promised = None if kind == "minor" else self.found()
            self.table.compact(kind)

    def divide(self) -> None:
        """Write a new version, perhaps by other chunks or buckets, while others upsert."""
        granularity = self.draw.choice([None, *CUTS])
        day = self.draw.randrange(3)
        whole = self.draw.random() < 0.5
        ports, written = self.table.ports, self.written
        before = self.found() if whole else None
        with suppress(InvalidInput):  # there may be nothing to compact
            asked = request(
                ports,
                "major",
                interval=None if whole else Interval(FIRST_US + day * DAY_US, AFTER[day]),
                granularity=granularity,
                buckets=self.draw.choice([None, 1, 2, 3, 4, 6]),
            )
            done = compact(ports, [known.plan.id for known in asked], self.beside)
            assert [each.ended for each in done] == [Ended.COMPLETED] * len(asked), done
            one = len(asked) == 1  # later plans see what was written beside the first
            self.promised = before if one or self.written == written else None

    def beside(self, jobs: Sequence[Job]) -> Iterator[Done]:
        """Run jobs, and upsert in between."""
        for done in in_process()(jobs):
            if self.draw.random() < 0.3:
                self.upsert()
            yield done

    def clean(self) -> None:
        """Delete all versions but the newest few, and what they needed."""
        clean(self.table.ports, retention=Retention(hours=0, versions=2, orphan_hours=0))

    def settle(self) -> None:
        """Record which rows are shown."""
        self.table.settle()

    def restore(self) -> None:
        """Show the rows of an earlier version again."""
        state = self.table.state()
        kept = [n for n in self.bests if state.keeps(n)]
        n = self.draw.choice(kept or [state.n])
        if n in self.bests:
            self.table.restore(version=n)
            self.best = dict(self.bests[n])
            self.promised = self.bases.get(n)

    def note(self) -> int:
        """Note what the newest version shows; return its number."""
        n = self.table.state().n
        shown = (record for _, record in self.best.values() if not record[GONE])
        self.past[n] = Counter((r["key"], time_of(r["key"]), r["seq"], r["text"]) for r in shown)
        return n

    def step(self) -> None:
        """Do something, then compare readers by turns.

        The bases are those of the last compaction that made all of them: nothing else changes what
        is read of them alone, but a restore, which shows those of its version.
        """
        act = self.draw.choices(
            [
                *(self.upsert, self.delete, self.update),
                *(self.compact, self.divide, self.clean, self.restore, self.settle),
            ],
            [8, 1, 1, 4, 3, 1, 1, 4],
        )[0]
        since = self.table.state().n
        self.promised = self.bases.get(since, {})
        act()
        state = self.table.state()
        self.bests[self.note()] = dict(self.best)
        assert list(violations(state)) == []
        assert read_checkpoint(write_checkpoint(state)) == state
        self.steps += 1
        self.compare(by_turns(self.steps))
        self.bases[state.n] = self.found(base_only=True)
        assert self.promised in (None, self.bases[state.n])
        self.check_origins(self.oldest)

    def compare(self, readers: Sequence[Reader], again: int = 1) -> None:
        """Compare readers with the model; ``again`` is how many earlier versions are read."""
        shown = Shown(names=("key", "at", "seq", "text"), rows=filled(self.past), key="key")
        assert [*disagreements(self.table.ports, shown, readers, again=again)] == []

    def check_origins(self, since: int) -> None:
        """A row is in the window after a version if its completion time is later."""
        shown = self.table.scan(columns=["key", COMPLETION_TIME]).to_arrow().to_pylist()
        time = moment(self.table.ports.log.at(since).time)
        late = {row["key"] for row in shown if row[COMPLETION_TIME] > time}
        window = self.table.scan(columns=["key"], since_version=since).to_arrow()
        assert {*window.column("key").to_pylist()} == late

    @property
    def oldest(self) -> int:
        """Return the oldest version from which a window can be read."""
        return min(n for n in self.past if n >= self.table.state().retained_from)

    def found(self, **version: Any) -> dict[int, str]:
        """Return what readers see."""
        rows = self.table.scan(columns=["key", "text"], **version).to_arrow().to_pylist()
        found = {row["key"]: row["text"] for row in rows}
        assert len(found) == len(rows), "a key has two rows"
        return found


@examples(6)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["", "seq"]),
    st.sampled_from([Granularity.DAY, Granularity.ALL]),
)
def test_readers_find_the_model(seed: int, ordering: str, granularity: Granularity) -> None:
    """After every step, readers by turns, and at the end all, show who wins each key."""
    draw = Random(seed)
    kind = PrimaryKey(key=("key",), buckets=draw.randint(1, 3), ordering=ordering)
    with TemporaryDirectory() as place:
        world = World(draw, keyed_table(place, kind, granularity), bool(ordering))
        for _ in range(12):
            world.step()
        world.compare(READERS, again=3)


def test_filters_and_intervals_see_merged_rows(tmp_path: Path) -> None:
    """A record that does not match a condition still hides an older one that does."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), ordering="seq"))
    for seq, text in ((1, "old"), (2, "new")):
        table.upsert(
            batch([{"key": k, "seq": seq, "text": text, GONE: False} for k in range(6)]),
            deleted=GONE,
        )
    assert table.scan(where="text = 'old'").count() == 0
    assert table.scan(where="text = 'new' AND key < 2").count() == 2
    second = Interval(FIRST_US + DAY_US, FIRST_US + 2 * DAY_US)
    rows = table.scan(columns=["key"], interval=second).to_arrow()
    assert sorted(rows.column("key").to_pylist()) == [1, 4]


def test_a_clock_that_is_behind_deletes_what_it_saw(tmp_path: Path) -> None:
    """A delete wins over the row that it found, though the row's author had a later clock."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), ordering="seq"))
    table.upsert(batch([{"key": 1, "seq": 1, "text": "a", GONE: False}]), deleted=GONE)
    behind = FakeClock(SystemClock().now() - 50_000_000)
    Table(replace(table.ports, clock=behind)).delete("key = 1")
    assert table.scan().count() == 0


def test_null_keys_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The message names the column and the row."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",)))
    rows = pa.table(
        {"at": pa.array([FIRST_US], SCHEMA.field("at").type), "key": pa.array([None], pa.int64())}
    )
    with pytest.raises(InvalidInput, match="key"):
        table.upsert(rows)
    assert table.state().n == 0


def test_a_window_has_the_rows_with_new_records_also_after_compaction(tmp_path: Path) -> None:
    """Rows keep the root of their winning record, so that a merge hides none and adds none."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), ordering="seq"))

    def put(*records: tuple[int, int]) -> int:
        some = [{"key": k, "seq": s, "text": f"{k}-{s}", GONE: False} for k, s in records]
        return table.upsert(batch(some), deleted=GONE).n

    first = put((1, 5), (2, 5), (3, 5))
    second = put((2, 6), (3, 4))
    third = put((4, 1))
    for compacted in (False, True):
        if compacted:
            table.compact("semi-major")
        rows = table.scan(since_version=first, version=second).to_arrow()
        assert rows.column("text").to_pylist() == ["2-6"]
        rows = table.scan(since_version=second, version=third).to_arrow()
        assert rows.column("text").to_pylist() == ["4-1"]
        late = table.scan(since_version=first).to_arrow()
        assert sorted(late.column("text").to_pylist()) == ["2-6", "4-1"]
