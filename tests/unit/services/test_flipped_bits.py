"""One flipped bit in any file of a table: its rows come out right, or a typed error does."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.log_paths import (
    LAST,
    checkpoint_path,
    event_path,
    expired_path,
    tag_path,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.schema import Metric, MetricKind
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.rollup_kind import Rollup, bound, stored_schema
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import Ended, PlanResult, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.log.sidecar_files import readable
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeRandomness
from tests.support.in_memory import context_in_memory
from tests.support.rooted import RootedFiles

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("carrier", pa.string()),
        ("tail", pa.string()),
        ("delay", pa.int64()),
        ("share", pa.float64()),
    ]
)
TURNS, ROWS = 3, 40
HISTORIES = ("append", "minor", "semi-major", "major", "rollup")


def batch(turn: int) -> pa.Table:
    """Return rows of one hour: words that repeat, words that do not, nulls, numbers."""
    some = range(turn * ROWS, (turn + 1) * ROWS)
    values = {
        "at": pa.array([n * 1_000_000 for n in some], SCHEMA.field("at").type),
        "carrier": [("AA", "UA", None)[n % 3] for n in some],
        "tail": [f"N{n:03d}" for n in some],
        "delay": [n * n if n % 5 else None for n in some],
        "share": [n / 7 for n in some],
    }
    return pa.table(values, SCHEMA)


def definition(*, rollup: bool) -> TableDefinition:
    schema, how = from_arrow(SCHEMA), Append()
    if rollup:
        total = Metric(name="total", kind=MetricKind.SUM, source="delay")
        most = Metric(name="most", kind=MetricKind.MAX, source="share")
        wish = Rollup(dimensions=("carrier", "tail"), metrics=(total, most))
        how = bound(wish, schema, time_column="at", granularity=Granularity.DAY)
        schema = stored_schema(how, schema, time_column="at")
    return TableDefinition(
        table_id="t",
        name="t",
        schema=schema,
        time_column="at",
        granularity=Granularity.DAY,
        properties={"compaction.min_segments": "2"},
        kind=how,
    )


@cache
def made(history: str) -> TableContext:
    """Return a table that was appended to, compacted and deleted from; never change it."""
    ports = context_in_memory()
    create_table(ports, definition(rollup=history == "rollup"))
    for turn in range(TURNS):
        columns = given_schema(Table(ports).state().table).names
        Table(ports).append(batch(turn).select(columns))
    if history not in {"append", "rollup"}:
        (result,) = compacted(ports, history)
        assert result.ended is Ended.COMPLETED
    if history != "rollup":
        Table(ports).delete("delay = 9")
        Table(ports).tag("kept")
    EventLog(ports.storage).checkpoint(Table(ports).state())
    return ports


def copied(ports: TableContext) -> TableContext:
    """Return an equal table that may be changed."""
    fresh, given, files = context_in_memory(), ports.storage, MemoryFiles()
    files.store.update(store(ports))
    for entry in given.list("_segtable"):
        fresh.storage.create(entry.path, given.read(entry.path))
    return replace(fresh, files=files, randomness=FakeRandomness(7))


def compacted(ports: TableContext, kind: str) -> tuple[PlanResult, ...]:
    """Run compactions of a kind."""
    plans = [known.plan.id for known in request(ports, kind)]
    return compact(ports, plans, in_process(ports.files))


def store(ports: TableContext) -> dict[str, bytes]:
    files: Any = ports.files
    found: dict[str, bytes] = files.store
    return found


def flips(data: bytes, count: int, seed: int = 1) -> Iterator[bytes]:
    """Yield the data with one bit flipped, at random places."""
    randomness = random.Random(seed)
    for _ in range(count):
        at = randomness.randrange(len(data))
        yield data[:at] + bytes([data[at] ^ 1 << randomness.randrange(8)]) + data[at + 1 :]


def rows(ports: TableContext, tag: str | None = None) -> list[dict[str, Any]]:
    found = Table(ports).snapshot(tag=tag).to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["at"], row["tail"]))


def right(look: Callable[[], object], expected: object) -> bool:
    """Return whether an answer came; a wrong one fails the test."""
    try:
        found = look()
    except SegtableError:
        return False
    assert found == expected
    return True


@pytest.mark.parametrize("history", HISTORIES)
def test_a_data_file_is_never_read_as_other_rows(history: str) -> None:
    """Whatever wrote it; every flip is noticed by a scan of all columns."""
    ports = copied(made(history))
    expected, files = rows(ports), store(ports)
    path = Table(ports).state().timeline.visible_segments()[0].path
    data = files[path]
    for flipped in flips(data, 60):
        files[path] = flipped
        assert not right(lambda: rows(ports), expected)
    files[path] = data
    assert rows(ports) == expected


def test_a_part_of_a_file_is_right_or_refused() -> None:
    """One column is read without the others, so a flip elsewhere may stay unseen."""
    ports = copied(made("semi-major"))
    table, files = Table(ports), store(ports)
    path = table.state().timeline.visible_segments()[0].path

    def look() -> pa.Table:
        return table.snapshot().to_arrow(columns=["delay"])

    expected, data = look(), files[path]
    for flipped in flips(data, 60, seed=2):
        files[path] = flipped
        right(look, expected)


@pytest.mark.parametrize("kind", ["minor", "semi-major", "major"])
@pytest.mark.parametrize("history", ["append", "rollup"])
def test_a_compaction_never_copies_damage_on(history: str, kind: str) -> None:
    """It fails and names the file, whose segment stays visible."""
    given = made(history)
    path = Table(given).state().timeline.visible_segments()[1].path
    for flipped in flips(store(given)[path], 8, seed=3):
        ports = copied(given)
        store(ports)[path] = flipped
        (result,) = compacted(ports, kind)
        assert (result.ended, path in result.message) == (Ended.FAILED, True)
        assert path in {s.path for s in Table(ports).state().timeline.visible_segments()}


def test_deep_verification_names_the_file() -> None:
    """A flip anywhere, pages and indexes included; the finding says what to do."""
    ports = copied(made("semi-major"))
    path = Table(ports).state().timeline.visible_segments()[0].path
    data = store(ports)[path]
    for flipped in flips(data, 25, seed=4):
        store(ports)[path] = flipped
        findings = verify(ports, deep=True).findings
        assert {each.where for each in findings} == {path}
        assert all(f"restore {path}" in each.do for each in findings)


def test_a_damaged_compacted_file_is_repaired_from_its_inputs() -> None:
    """As the finding says: it is moved away, and repair falls back."""
    ports = copied(made("minor"))
    path, expected = Table(ports).state().timeline.visible_segments()[0].path, rows(ports)
    for name, data in store(ports).items():
        ports.storage.create(name, next(flips(data, 1)) if name == path else data)
    ports = replace(ports, files=RootedFiles(ports.storage))
    (advice,) = {each.do for each in verify(ports, deep=True).findings}
    assert "move it away and fall back to its inputs" in advice
    ports.storage.delete(path)
    repair(ports, plan_repair(ports))
    assert verify(ports, deep=True).findings == ()
    assert rows(ports) == expected


def damaged_log(ports: TableContext, path: str, seed: int, count: int = 100) -> Iterator[None]:
    """Yield with one bit of a file of the log flipped, many times."""
    for flipped in flips(ports.storage.read(path), count, seed):
        ports.storage.replace(path, flipped)
        yield


def opened(ports: TableContext) -> Callable[[], State]:
    """Return what opens the table anew, without what this process remembers of its log."""
    return lambda: Table(replace(ports)).state()


@pytest.mark.parametrize("kept", ["whole", "expired"])
def test_a_checkpoint_is_refused_and_the_log_folded(kept: str) -> None:
    """Or, where the log's start expired, the table is not opened at all."""
    ports = copied(made("semi-major"))
    expected = Table(ports).state()
    if kept == "expired":
        ports.storage.create(expired_path(expected.n), b"")
        for n in range(expected.n):
            ports.storage.delete(event_path(n))
    assert readable(EventLog(ports.storage), expected.n)
    for _ in damaged_log(ports, checkpoint_path(expected.n), seed=5):
        assert right(opened(ports), expected) == (kept == "whole")
        assert not readable(EventLog(ports.storage), expected.n)


def test_a_hint_of_the_newest_checkpoint_is_but_a_hint() -> None:
    """The state is right, whatever it says."""
    ports = copied(made("append"))
    expected = Table(ports).state()
    for _ in damaged_log(ports, LAST, seed=6):
        assert right(opened(ports), expected)


def test_an_event_is_refused() -> None:
    """There is nothing to fall back on but a checkpoint behind it."""
    ports = copied(made("semi-major"))
    expected = Table(ports).state()
    ports.storage.delete(checkpoint_path(expected.n))
    for _ in damaged_log(ports, event_path(2), seed=7):
        assert not right(opened(ports), expected)


@pytest.mark.parametrize("kept", ["whole", "expired"])
def test_a_tag_is_right_or_refused(kept: str) -> None:
    """Its checkpoint is not needed while the log is whole."""
    ports = copied(made("semi-major"))
    expected, state = rows(ports, tag="kept"), Table(ports).state()
    if kept == "expired":
        for n in range(state.n):
            ports.storage.delete(event_path(n))
        ports.storage.create(expired_path(state.n), b"")
    for _ in damaged_log(ports, tag_path("kept", state.tags["kept"]), seed=8, count=30):
        assert right(lambda: rows(ports, tag="kept"), expected) == (kept == "whole")


@pytest.mark.parametrize("history", ["append", "semi-major"])
def test_deletion_vectors_are_refused(history: str) -> None:
    """A flip in a bitmap would show deleted rows, and hide others."""
    ports = copied(made(history))
    expected, files = rows(ports), store(ports)
    (path,) = (path for path in files if path.startswith("deletes/"))
    for flipped in flips(files[path], 60, seed=9):
        damaged = copied(ports)  # a table that was read keeps what its vectors say
        store(damaged)[path] = flipped
        assert not right(partial(rows, damaged), expected)
    assert {each.where for each in verify(damaged).findings} == {path}


def test_checking_can_be_switched_off_for_reads() -> None:
    """Then bytes are not compared, and damage may be read as data."""
    ports = copied(made("append"))
    segment = Table(ports).state().timeline.visible_segments()[0]
    files, footer = store(ports), segment.footer
    assert footer is not None
    data = bytearray(files[segment.path])
    data[footer.start] ^= 1  # of a page index, which this reader does not need
    files[segment.path] = bytes(data)
    with pytest.raises(SegtableError, match=segment.path):
        Table(ports).snapshot().to_arrow()
    assert Table(ports).snapshot(checked=False).to_arrow().num_rows == TURNS * ROWS - 1
