"""Bases: what readers see who merge nothing, after all that gives segments other ids."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput, SegmentsRefused
from airflow_provider_segtable.core.log import events
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.schema import Metric, MetricKind
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.core.timeline import Timeline, slices
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.planning.findings.health_findings import Observed
from airflow_provider_segtable.planning.findings.index_findings import keyed_findings
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import Planned
from airflow_provider_segtable.planning.table_plan import plan_all
from airflow_provider_segtable.storage.local import SystemClock
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.publishing.publisher import Refused
from tests.property.published_readers import NEWEST, READERS
from tests.property.published_world import new_table as published_table
from tests.property.test_keyed_tables import FIRST_US, SCHEMA, keyed_table
from tests.unit.services.test_other_buckets import put, texts

Rows = dict[int, str]
Change = Callable[[Table], Any]
COMPACTIONS: Mapping[str, Mapping[str, Any]] = {
    "semi-major": {"kind": "semi-major"},
    "major": {"kind": "major"},
    "coarser": {"kind": "major", "granularity": "month"},
    "finer": {"kind": "major", "granularity": "hour"},
    "more buckets": {"kind": "major", "buckets": 5},
    "one bucket": {"kind": "major", "buckets": 1},
}


KEYS = 12
SOME = ("semi-major", "more buckets")


def new_table(place: Path) -> Table:
    """Return a table with a primary key and two buckets, in which some rows were merged."""
    table = keyed_table(str(place), PrimaryKey(key=("key",), buckets=2))
    put(table, "old", range(KEYS))
    put(table, "new", range(0, KEYS, 2))
    return table


def unmerged(table: Table) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the rows that each reader finds who merges nothing."""
    yield "base_only", table.scan(base_only=True).to_arrow().to_pylist()
    root = Path(table.ports.uri)
    refused = [each for each in table.publish(formats=[*READERS]) if isinstance(each, Refused)]
    assert not refused, refused
    for name, readers in READERS.items():
        for read in readers:
            yield read.__name__, read(root, NEWEST[name](root)).to_pylist()


def check(table: Table, base: Rows) -> None:
    """Every way of reading agrees: with the newest rows, or with those of the bases."""
    assert list(violations(table.state())) == []
    newest = texts(table)
    assert table.scan().count() == len(newest)
    for name, rows in unmerged(table):
        assert len(rows) == len(base), name
        assert {row["key"]: row["text"] for row in rows} == base, name


@pytest.mark.parametrize("how", COMPACTIONS)
def test_every_compaction_that_merges_a_bucket_makes_a_base(tmp_path: Path, how: str) -> None:
    """It shows the rows as of the compaction, until the next one."""
    table = new_table(tmp_path)
    merged = texts(table)
    table.compact(**COMPACTIONS[how])
    put(table, "late", range(9))
    check(table, merged)
    if how != "semi-major":
        table.compact("semi-major")
        check(table, merged | dict.fromkeys(range(9), "late"))


@pytest.mark.parametrize("how", SOME)
def test_a_restore_keeps_the_bases(tmp_path: Path, how: str) -> None:
    """Of what it shows again, the same is merged; a semi-major compaction merges the rest."""
    table = new_table(tmp_path)
    merged = texts(table)
    table.compact(**COMPACTIONS[how])
    put(table, "late", range(9))
    wanted, version = texts(table), table.state().n
    put(table, "gone", range(KEYS, KEYS + 9))
    for _ in range(2):
        table.restore(version=version)
        assert texts(table) == wanted
        put(table, "other", range(KEYS))
    check(table, merged)
    table.compact("semi-major")
    check(table, dict.fromkeys(range(KEYS), "other"))


@pytest.mark.parametrize("how", SOME)
def test_files_alone_tell_the_bases(tmp_path: Path, how: str) -> None:
    """A repair without the log finds them in the footers."""
    table = new_table(tmp_path)
    merged = texts(table)
    table.compact(**COMPACTIONS[how])
    put(table, "late", range(9))
    rmtree(tmp_path / "_segtable")
    repair(table.ports, plan_repair(table.ports))
    assert texts(table) == merged | dict.fromkeys(range(9), "late")
    check(table, merged)


@pytest.mark.parametrize("how", SOME)
def test_a_lost_base_falls_back_to_the_one_below(tmp_path: Path, how: str) -> None:
    """A repair by the log shows that again, and the log files above it."""
    table = new_table(tmp_path)
    merged = texts(table)
    table.compact(**COMPACTIONS[how])
    before = {segment.path for segment in table.state().timeline.visible_segments()}
    put(table, "late", range(KEYS))
    table.compact("semi-major")
    made = {segment.path for segment in table.state().timeline.visible_segments()} - before
    for path in made:
        (tmp_path / path).unlink()
    repair(table.ports, plan_repair(table.ports))
    assert texts(table) == dict.fromkeys(range(KEYS), "late")
    check(table, merged)


def test_a_bucket_that_was_empty_gets_a_base(tmp_path: Path) -> None:
    """Its tombstone of the major compaction is replaced with the log files that came after it.

    Old markers of deleted keys leave with them.
    """
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=8))
    table.alter(set={"retention.tombstone_hours": "0"})
    put(table, "old", range(3))
    table.delete("true")
    table.compact("major", granularity="month")
    put(table, "first", range(3))
    table.compact("major", granularity="day", buckets=3)
    put(table, "late", range(KEYS))
    table.delete("key = 1")
    check(table, dict.fromkeys(range(3), "first"))
    table.compact("semi-major")
    check(table, {key: "late" for key in range(KEYS) if key != 1})
    shown = table.state().timeline.lookup()
    assert all(len(found.segments) == 1 and found.group.root_start == 0 for found in shown)
    assert sum(found.segments[0].rows for found in shown) == KEYS - 1


def test_a_base_is_made_once(tmp_path: Path) -> None:
    """A major compaction's outputs are merged already; so are they after a restore."""
    table = new_table(tmp_path)
    table.compact("major")
    version = table.state().n
    put(table, "gone", range(KEYS))
    table.restore(version=version)
    with pytest.raises(InvalidInput, match="sorted by key already, all in one piece"):
        table.compact("semi-major")


def rollup_table(place: Path) -> Table:
    """Return a table that sums a value by day."""
    schema = pa.schema([SCHEMA.field("at"), SCHEMA.field("key"), SCHEMA.field("seq")])
    kind = Rollup(
        dimensions=("key",), metrics=(Metric(name="n", kind=MetricKind.SUM, source="seq"),)
    )
    return published_table(place, schema, granularity="day", kind=kind)


def sums(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Return the groups, each as often as it has a row."""
    return sorted((row["key"], row["n"]) for row in rows)


def add(table: Table) -> None:
    """Append a value to each of three groups."""
    rows = [{"at": FIRST_US, "key": key, "seq": 1} for key in range(3)]
    schema = pa.schema([SCHEMA.field(name) for name in ("at", "key", "seq")])
    table.append(pa.Table.from_pylist(rows, schema))


def rolled(table: Table) -> list[tuple[int, int]]:
    """Return the groups that readers of other formats see, who agree."""
    root = Path(table.ports.uri)
    refused = [each for each in table.publish(formats=[*READERS]) if isinstance(each, Refused)]
    assert not refused, refused
    seen = [
        sums(read(root, NEWEST[name](root)).to_pylist())
        for name, readers in READERS.items()
        for read in readers
    ]
    assert all(each == seen[0] for each in seen)
    return seen[0]


def test_a_restored_rollup_is_as_perfect_as_it_was(tmp_path: Path) -> None:
    """What was appended beside a major compaction stays unmerged, and is planned for."""
    table = rollup_table(tmp_path)
    add(table)
    table.compact("major")
    perfect = table.state().n
    add(table)
    loose = table.state().n
    table.restore(version=perfect)
    assert rolled(table) == [(key, 1) for key in range(3)]
    table.restore(version=loose)
    refused = table.publish(formats=["delta"])[0]
    assert isinstance(refused, Refused)
    assert "1 of 2 segments" in refused.reason
    assert planned(table) == {"major"}
    assert found(table) == ["restored-not-rolled-up"]
    table.compact("major")
    assert rolled(table) == [(key, 2) for key in range(3)]
    again = table.state().n
    add(table)
    table.restore(version=again)
    assert rolled(table) == [(key, 2) for key in range(3)]


def planned(table: Table) -> set[str]:
    """Return the kinds of the plans that are due when all is cold."""
    policy = replace(Policy.read(table.state().table.properties), major_after_minutes=0.0)
    return {plan.kind for plan in plan_all(table.state(), policy, SystemClock().now()).chosen}


def found(table: Table) -> list[str]:
    """Return the findings about what is not merged."""
    state, idle = table.state(), Planned(chosen=(), skipped=())
    seen = Observed(table="t", state=state, now=state.time, policy=Policy(), planned=idle)
    return [each.code for each in keyed_findings(seen)]


def forgotten(table: Table) -> Table:
    """Return the table as a checkpoint of an older segtable has it, without its bases."""
    state = table.state()
    bare = (replace(s, shard=replace(s.shard, base=0)) for s in state.timeline.segments())
    timeline = Timeline.empty().with_changes(add=bare)
    EventLog(table.ports.storage).checkpoint(replace(state, timeline=timeline))
    return Table(replace(table.ports))


@pytest.mark.parametrize("late", [False, True])
def test_a_bucket_that_lost_its_base_gets_one(tmp_path: Path, late: bool) -> None:  # noqa: FBT001
    """The planner sees it in the newest version, however little it has; so does the doctor."""
    table = new_table(tmp_path)
    table.compact("major", granularity="month")
    if late:
        put(table, "late", range(9))
    assert planned(table) == set()
    assert found(table) == []
    harmed = forgotten(table)
    assert list(violations(harmed.state())) == []
    check(harmed, {})
    assert planned(harmed) == {"semi-major"}
    assert found(harmed) == ["bucket-without-base"]
    assert {each.code for each in harmed.verify().findings} == {"published-empty"}
    harmed.compact()
    check(harmed, texts(harmed))
    assert found(harmed) == []


def without_bases(root: Path) -> None:
    """Rewrite a log as an older segtable would have written it."""
    rmtree(root / "_segtable" / "checkpoints", ignore_errors=True)
    for path in (root / "_segtable" / "timeline").glob("*.json"):
        body = json.loads(path.read_bytes())
        for segment in body["action"].get("segments", ()):
            segment.pop("base", None)
        body.pop("checksum")
        body["checksum"] = events._checksum(events._canonical(body))  # as its writer did
        path.write_bytes(events._canonical(body))


def segments(state: State) -> dict[str, Any]:
    """Return all present segments, by their ids."""
    return {str(segment.id): segment for segment in state.timeline.segments()}


@pytest.mark.parametrize("how", SOME)
def test_an_older_log_has_the_same_bases(tmp_path: Path, how: str) -> None:
    """Events tell them with the state before, so a table that showed nothing shows them at once."""
    table = new_table(tmp_path)
    table.compact(**COMPACTIONS[how])
    put(table, "late", range(9))
    version = table.state().n
    put(table, "gone", range(KEYS))
    table.restore(version=version)
    put(table, "late", range(9))
    table.compact("semi-major", interval="2013-01-01/2013-01-02")
    wanted = segments(table.state())
    without_bases(tmp_path)
    assert segments(Table.open(str(tmp_path)).state()) == wanted


def test_an_older_rollup_has_the_same_bases(tmp_path: Path) -> None:
    """Restored segments beside a base are known; so is what a compaction made inside one."""
    table = rollup_table(tmp_path)
    add(table)
    table.compact("major")
    table.compact("semi-major", clustering="key")
    add(table)
    version = table.state().n
    add(table)
    table.restore(version=version)
    wanted = segments(table.state())
    assert {segment.shard.base for segment in wanted.values()} > {0}
    without_bases(tmp_path)
    assert segments(Table.open(str(tmp_path)).state()) == wanted


def test_a_lost_file_falls_back_only_if_a_compaction_made_it(tmp_path: Path) -> None:
    """The advice goes by what wrote a file: not each first-generation id of a version is alike."""
    table = new_table(tmp_path)
    table.compact("major", granularity="month")
    put(table, "late", [1])
    version = table.state().n
    put(table, "gone", [1])
    table.restore(version=version)
    visible = table.state().timeline.visible_segments()
    late = [segment.path for segment in visible if ".log." in segment.path]
    made = [segment.path for segment in visible if segment.path not in late]
    for path in (*late, made[0]):
        (tmp_path / path).unlink()
    advice = {found.where: found.do for found in table.verify().findings}
    assert len(late) == 1
    assert advice[late[0]].endswith("--accept-loss")
    assert "fall back to its inputs" in advice[made[0]]


def test_a_base_of_several_files_is_one_run(tmp_path: Path) -> None:
    """Each key is in one of them; a restore keeps their order, and no compaction takes some."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=1), Granularity.ALL)
    table.alter(set={"compaction.target_size": "2000"})
    put(table, "new", range(600))
    table.compact("major")
    merged = texts(table)
    put(table, "late", [1])
    version = table.state().n
    put(table, "gone", range(9))
    table.restore(version=version)
    (each,) = slices(table.state().timeline)
    assert each.base_files > 1
    assert (each.log_files, each.runs) == (1, 2)
    check(table, merged)
    *base, log = table.state().timeline.visible_segments()
    some = [segment.id for segment in (*base[1:], log) if segment.rows]
    with pytest.raises(SegmentsRefused, match="a part of the base of their bucket"):
        table.compact("minor", segments=some)
    table.compact("semi-major")
    check(table, merged | {1: "late"})
