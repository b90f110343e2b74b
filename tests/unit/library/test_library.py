"""The library's ``Table``: services in this process, short values, and the ZooKeeper it finds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import airflow_provider_segtable
from airflow_provider_segtable.core.errors import (
    CoordinatorUnavailable,
    ExecutionFailed,
    InvalidInput,
    NotFound,
    SchemaMismatch,
)
from airflow_provider_segtable.core.requests.csv_format import CsvFormat
from airflow_provider_segtable.core.schema import Metric, MetricKind
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.library.table import Table
from tests.unit.table.conftest import SCHEMA, rows


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Six appends of ten rows, in two hours."""
    monkeypatch.setenv("SEGTABLE_ZOOKEEPER", f"memory://{uuid4()}")
    made = Table.create(
        str(tmp_path / "t"),
        schema=SCHEMA,
        time_column="at",
        granularity="hour",
        properties={"compaction.min_segments": "4", "retention.hours": "24"},
    )
    for turn in range(6):
        made.append(rows(range(turn * 10, turn * 10 + 10)))
    return made


def test_the_package_shows_it() -> None:
    """The library's class is the one that the package names."""
    assert airflow_provider_segtable.Table is Table


def test_the_policy_is_followed_until_nothing_is_left(table: Table) -> None:
    """Plans are made and carried out again and again; the rows stay."""
    done = table.compact()
    assert done.segments_in >= 12
    assert done.version == table.state().n
    assert table.compact().plans == ()
    assert table.scan().count() == 60


def test_a_kind_is_carried_out_where_it_is_asked_for(table: Table) -> None:
    """Only the chunks of the interval are compacted, whatever the policy."""
    done = table.compact("major", interval=("1970-01-01", "1970-01-01T01:00"))
    assert (done.segments_in, done.segments_out) == (6, 1)
    assert len(table.snapshot().segments()) == 7


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda table: table.compact(granularity="day"), "granularity=day was given without a"),
        (lambda table: table.compact("huge"), "'huge' is not a kind of compaction"),
        (lambda table: table.compact("minor", interval="2026"), "'2026' is not an interval"),
    ],
)
def test_a_wrong_request_says_so(table: Table, ask: Callable[[Table], object], said: str) -> None:
    """What is wrong with a request is said before anything is written."""
    with pytest.raises(InvalidInput, match=said):
        ask(table)
    assert table.state().n == 6


def test_an_index_is_built(table: Table, tmp_path: Path) -> None:
    """A damaged file fails the run, by its name; once it is sound again, a run builds the index."""
    table.create_index("names", "bloom_filter", "name")
    victim = next(path for path in sorted((tmp_path / "t" / "data").rglob("*.parquet")))
    whole = victim.read_bytes()
    victim.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    with pytest.raises(ExecutionFailed, match=f"index names of .* was not built: .*{victim.name}"):
        table.run_index("names")
    victim.write_bytes(whole)
    done = table.run_index("names", timeout=60)
    assert (done.files, done.left, table.index("names").current) == (12, 0, True)


def test_a_failed_plan_is_an_error(table: Table, tmp_path: Path) -> None:
    """A damaged input fails its plan, and the call; the error names the plan."""
    victim = next(path for path in sorted((tmp_path / "t" / "data").rglob("*.parquet")))
    damaged = bytearray(victim.read_bytes())
    damaged[40] ^= 1
    victim.write_bytes(bytes(damaged))
    with pytest.raises(ExecutionFailed, match=r"of 2 compaction plans of .* failed"):
        table.compact("major")
    assert not table.verify(deep=True).sound


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"primary_key": "row", "granularity": "all"},
        {
            "kind": Rollup(
                dimensions=("row", "name", "price"),
                metrics=(Metric(name="n", kind=MetricKind.COUNT),),
            )
        },
    ],
)
@pytest.mark.usefixtures("table")  # its coordinator
def test_an_append_without_rows_does_nothing(kind: dict[str, Any]) -> None:
    """No rows, no event, no error: the result says so, and names the newest version."""
    made = Table.create(f"memory://{uuid4()}", schema=SCHEMA, time_column="at", **kind)
    made.append(rows(range(3)))
    done = made.append(rows(range(0)), commit_id="hour-1")
    assert (done.n, done.rows, done.segments) == (made.state().n, 0, 0) == (1, 0, 0)
    assert "no rows: nothing was appended" in str(done)
    assert made.append(rows(range(3, 4)), commit_id="hour-1").n == 2
    with pytest.raises(SchemaMismatch):
        made.append(pa.table({"at": [], "unknown": []}))


def test_files_are_loaded(table: Table, tmp_path: Path) -> None:
    """Files are appended as by the command: their form, their load's id, bad rows set aside."""
    (tmp_path / "a.csv").write_text("at;row;name;price\n1970-01-01;900;NA;1\n;901;-;2\n")
    given: dict[str, Any] = {
        "csv": CsvFormat(delimiter=";", nulls=("-",)),
        "bad_rows": str(tmp_path / "aside.jsonl"),
        "commit_id": "z",
    }
    (done,) = table.ingest(str(tmp_path / "*.csv"), **given)
    assert (done.before, done.result.rows) == (False, 1)
    (again,) = table.ingest([str(tmp_path / "a.csv")], rows_per_append=1, **given)
    assert (again.before, again.result.n) == (True, done.result.n)
    assert table.scan(where="row = 900").to_arrow()["name"].to_pylist() == ["NA"]
    assert '"row": 1' in (tmp_path / "aside.jsonl").read_text()
    with pytest.raises(NotFound):
        table.ingest(str(tmp_path / "*.parquet"))


def test_history_is_newest_first(table: Table) -> None:
    """Events come as short values, with the rows that they add and delete."""
    table.delete("row < 3")
    table.update({"name": "x"}, "row = 5")
    table.compact("minor")
    told = [(entry.n, entry.what, entry.rows) for entry in table.history()]
    assert told[::-1][:2] == [(0, "table created", 0), (1, "appended", 10)]
    assert (7, "delete", -3) in told
    assert (8, "update", 0) in told
    assert {what for _, what, _ in told[:2]} <= {"plan completed", "plan inflight"}
    assert [entry.n for entry in table.history(2)] == [entry.n for entry in table.history()][:2]


def test_chosen_segments_are_joined(table: Table) -> None:
    """By id, whatever the policy says."""
    some = [segment.id for segment in table.state().timeline.visible_segments()][:2]
    assert (table.compact("minor", segments=some).segments_in) == 2
    with pytest.raises(InvalidInput, match="given without a kind"):
        table.compact(segments=some)


def test_cleaning_takes_what_is_not_kept(table: Table) -> None:
    """A dry run deletes nothing; then files that compactions replaced are gone."""
    table.compact("major")
    last = table.state().time
    while table.ports.check_storage_clock().theirs <= last:
        continue  # a file system's clock ticks every few milliseconds, and cleaning goes by it
    wish = {"retention_hours": 0.0, "retention_versions": 1, "orphan_hours": 1.0}
    planned = table.clean(**wish, dry_run=True)
    assert len(planned.segments) == 12
    assert table.clean(**wish).segments == planned.segments
    assert table.scan().count() == 60
    assert table.verify(deep=True).sound


def test_all_values_are_one_short_line(table: Table) -> None:
    """No value fills the screen with the table's contents."""
    scan = table.scan(columns=["row"], where="row < 3", interval=("1970-01-01", None))
    values: list[object] = [table, table.ports, table.state(), table.snapshot(), scan]
    values += [table.append(rows(range(5))), table.delete("row = 1"), table.compact("minor")]
    values += [table.clean(dry_run=True), table.verify(), table.history(1)]
    for value in values:
        assert len(repr(value)) < 250
        assert "\n" not in repr(value)
    assert repr(table) == f"Table({table.ports.uri!r})"


def test_its_definition_is_at_hand(table: Table) -> None:
    """Columns and properties are those of the newest version."""
    table.alter(unset=["retention.hours"])
    assert table.schema.names == SCHEMA.names
    assert table.schema.types == SCHEMA.types
    assert table.properties == {"compaction.min_segments": "4"}


def test_without_an_address_writing_says_how_to_give_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the environment nor an embedded server has one: reading works, writing does not."""
    monkeypatch.delenv("SEGTABLE_ZOOKEEPER", raising=False)
    monkeypatch.setenv("SEGTABLE_HOME", str(tmp_path / "home"))
    made = Table.create(str(tmp_path / "t"), schema=SCHEMA, time_column="at")
    assert made.scan().count() == 0
    with pytest.raises(CoordinatorUnavailable, match="segtable zookeeper start"):
        made.append(pa.table(rows(range(2))))
