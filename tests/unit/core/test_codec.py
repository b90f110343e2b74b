"""Events on disk: golden files, round trips, and what is refused."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, get_args

import pytest

from airflow_provider_segtable.core.consumer import LogMark
from airflow_provider_segtable.core.deletion import PredicateDelete, VectorFile
from airflow_provider_segtable.core.errors import CorruptTable, UnsupportedFormat
from airflow_provider_segtable.core.indexes.index_kind import BloomFilter, ColumnStats, FileList
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexDefinition
from airflow_provider_segtable.core.locks import FencingToken
from airflow_provider_segtable.core.log import events
from airflow_provider_segtable.core.log.events import (
    KINDS,
    MOST_JOINED,
    Action,
    Event,
    _sealed,
    decode,
    decode_file,
    encode,
    encode_file,
    touched,
)
from airflow_provider_segtable.core.log.families.append_events import Adopted, Appended, Voided
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned, Swept
from airflow_provider_segtable.core.log.families.consumer_events import (
    ConsumerAdvanced,
    ConsumerDropped,
)
from airflow_provider_segtable.core.log.families.index_events import (
    FeedsJoined,
    IndexBuilt,
    IndexDropped,
    IndexForwarded,
    IndexRequested,
)
from airflow_provider_segtable.core.log.families.log_store_events import LogEpochBegun
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
)
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.families.settle_events import GroupsSettled
from airflow_provider_segtable.core.log.families.table_events import TableAltered, TableDropped
from airflow_provider_segtable.core.log.families.tag_events import Tagged, Untagged
from airflow_provider_segtable.core.log.index_plan import IndexPlan
from airflow_provider_segtable.core.log.joint_file import in_one_file
from airflow_provider_segtable.core.log.state import LoadPart
from airflow_provider_segtable.core.log_store.manifest import (
    BucketManifest,
    Lineage,
    LogRange,
    Position,
    Waypoint,
)
from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    Day,
    IsNull,
    Moment,
    Not,
)
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    FooterChecksum,
    Shard,
    replaced,
    roots_of,
    tombstone,
)
from airflow_provider_segtable.core.settlement import SettledGroup
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    RenameColumn,
    Reorder,
    evolved,
)
from airflow_provider_segtable.core.tables.rollup_kind import Metric, QueryGranularity, Rollup
from airflow_provider_segtable.core.time import Granularity, GranularityOverride, Interval
from tests.support.builders import (
    BASE,
    CHUNK,
    DEFINITION,
    first,
    major_plan,
    merged,
    minor_plan,
)
from tests.unit.core.keyed_actions import KEYED_ACTIONS

GOLDEN = Path(__file__).parents[2] / "golden" / "events"
BEFORE_BASES = GOLDEN.with_name("events_before_bases")
TWO = (first(0), first(1))
PLAN = minor_plan(TWO)

DAY = ChunkKey(Interval.parse("2013-01-01/2013-01-02"), BASE + 5)
MAJOR = replace(
    major_plan(TWO, granularity=Granularity.DAY, clustering="carrier"),
    id="major-20130101-1a2b3c4d5e6f",
    reason=PLAN.reason,
)
CORE = tuple(
    replace(
        first(p, chunk=DAY),
        shard=Shard.first_generation(p, core=2, base=2),
        events=25,
        clustering="carrier",
        replaces=() if p else replaced(TWO),
    )
    for p in range(2)
)
LATE = first(2).carried(DAY.segment(2), core=2)
REST = tombstone(ChunkKey(Interval.parse("2013-01-02/2013-02-01"), BASE + 5), BASE + 6)

VECTORS = VectorFile(
    path="deletes/00000000deadbeef.arrow",
    size=321,
    rows={CHUNK.segment(0): 2, DAY.segment(1): 1},
)
SORTED = replace(
    merged(32769, TWO),
    lineage=(),
    roots=roots_of(TWO),
    deletes_applied_through=12,
    clustering="carrier",
    rows=18,
)
CARRIED = replace(
    merged(32769, TWO),
    id=DAY.segment(3),
    shard=Shard.first_generation(3, core=2),
    origin=CHUNK.segment(32769),
)

RESTORED = replace(
    merged(32768, TWO),
    id=DAY.segment(0),
    shard=Shard.first_generation(0, core=2, base=1),
    origin=CHUNK.segment(32768),
)

ROLLED_UP = replace(
    DEFINITION,
    name="visits",
    schema=Schema(
        (
            Column(name="at", type="timestamp[us, tz=UTC]"),
            Column(name="page", type="string"),
            Column(name="visits", type="int64", nullable=False),
            Column(name="slowest", type="double"),
            Column(name="latest", type="double"),
            Column(name="users", type="binary"),
        )
    ),
    time_column="at",
    kind=Rollup(
        dimensions=("page",),
        metrics=tuple(
            map(
                Metric.parse,
                ("visits=count", "slowest=max(ms)", "latest=last(ms)", "users=hll(user,10)"),
            )
        ),
        query_granularity=QueryGranularity.FIFTEEN_MINUTE,
        sources=(Column(name="ms", type="double"), Column(name="user", type="int64")),
    ),
)

ALTERED = evolved(
    DEFINITION.schema,
    (),
    (
        RenameColumn(name="carrier", new="airline"),
        AddColumn(name="carrier", type="int32", default="7"),
        Reorder(names=("carrier",)),
    ),
    "time_hour",
)

_FILES = next(each for each in KEYED_ACTIONS if isinstance(each, Appended)).segments
ACTIONS: tuple[Action, ...] = (
    DEFINITION,
    Appended(segments=TWO),
    Voided(ids=(CHUNK.segment(2),), reason="no live writer holds them"),
    PlanRequested(plan=PLAN),
    PlanInflight(
        plan_id=PLAN.id,
        attempt="a1",
        token=FencingToken("epoch", 7),
        outputs=(CHUNK.segment(32768),),
    ),
    PlanCompleted(plan_id=PLAN.id, attempt="a1", segments=(merged(32768, TWO),)),
    PlanAborted(plan_id=PLAN.id, attempt="a1", reason="5 workers died over it"),
    PlanRequested(plan=MAJOR),
    PlanInflight(
        plan_id=MAJOR.id,
        attempt="a2",
        token=FencingToken("epoch", 8),
        outputs=(),
        inputs=MAJOR.inputs,
        version=BASE + 5,
    ),
    PlanCompleted(plan_id=MAJOR.id, attempt="a2", segments=(*CORE, LATE, REST)),
    PlanYielded(plan_id=MAJOR.id, attempt="a2", reason="revoked by append x"),
    Cleaned(retained_from=9, ids=(CHUNK.segment(0), CHUNK.segment(1)), tags={"audit": 3}),
    Swept(paths=tuple(segment.path for segment in TWO)),
    Tagged(name="audit", n=3),
    Untagged(name="audit"),
    ROLLED_UP,
    TableRepaired(
        segments=(LATE,),
        lost=(CHUNK.segment(32768),),
        voided=(CHUNK.segment(9),),
        overrides=(GranularityOverride(CHUNK.interval, Granularity.DAY),),
        reason="the log was torn; repaired",
    ),
    RowsChanged(
        kind="update",
        segments=(replace(first(4), rows=2),),
        vectors=(VECTORS,),
        seen=16,
        matched=2,
        reason="carrier = 'UA'",
    ),
    RowsChanged(
        kind="delete",
        predicate=AllOf(
            (
                AnyOf((Compare("page", Compares.UNEQUAL, "/"), IsNull("page"))),
                Not(Among("page", ("/a", 1, 2.5, True))),
                Compare("at", Compares.AT_LEAST, Moment(BASE)),
                Compare("day", Compares.LESS, Day(20_000)),
            )
        ),
        matched=7,
        reason="a page that is gone",
    ),
    PlanCompleted(plan_id=PLAN.id, attempt="a1", segments=(SORTED,)),
    Appended(segments=(CARRIED,)),
    TableRepaired(segments=(), vectors=(VECTORS,), reason="vectors that the log did not know"),
    TableAltered(after=0, set={"retention.hours": "72"}, unset=("compaction.min_segments",)),
    TableAltered(after=22, schema=ALTERED),
    Appended(segments=(replace(first(5), schema=1),)),
    TableRepaired(
        segments=(),
        table=replace(DEFINITION, schema=ALTERED, earlier=(DEFINITION.schema,), altered=23),
        reason="the log was torn; repaired",
    ),
    RowsChanged(kind="overwrite", seen=3, overwritten=(CHUNK.interval,), reason="a day again"),
    VersionRestored(
        version=3,
        segments=(replace(CARRIED, deletes_applied_through=25), REST),
        vectors=(replace(VECTORS, size=0, checksum="0123456789abcdef"),),
        overrides=(GranularityOverride(CHUNK.interval, Granularity.DAY),),
    ),
    TableDropped(table_id=DEFINITION.table_id, name="flights"),
    ConsumerAdvanced(name="billing", version=3, before=1),
    ConsumerDropped(name="billing"),
    Cleaned(retained_from=9, ids=(), consumers={"billing": 4}),
    *KEYED_ACTIONS,
    IndexRequested(index=IndexDefinition(name="a", id="a-1", kind=ColumnStats(columns=(1, 2)))),
    IndexRequested(
        index=IndexDefinition(name="b", id="b-2", kind=BloomFilter(columns=(2,), rate=0.05)),
        replaces="b-1",
    ),
    IndexRequested(index=IndexDefinition(name="c", id="c-1", kind=FileList())),
    IndexBuilt(
        index="a-1",
        interval=Interval(0, 3_600_000_000),
        through=7,
        plan_id="index-a",
        attempt="0123",
    ),
    IndexBuilt(index="a-1", interval=Interval(0, 3_600_000_000), through=7),
    IndexForwarded(index="a-1", through=9),
    IndexDropped(index="a-1"),
    PlanRequested(
        plan=IndexPlan(
            id="index-20130101-1a2b3c4d5e6f",
            chunk=CHUNK,
            inputs=(),
            outputs=0,
            rows=20,
            size=2000,
            reason="index a (column_stats) may lack 2 files of 2.0 KiB: it is not available yet",
            index="a-1",
            name="a",
            through=41,
            apart=(CHUNK.interval,),
        )
    ),
    LogEpochBegun(buckets=(0, 3), epoch=2, owner="host:7"),
    Appended(
        segments=(first(1),),
        log=(
            LogRange(bucket=0, epoch=2, start=40, end=50),
            LogRange(bucket=3, epoch=2, start=0, end=7),
        ),
    ),
    VersionRestored(
        version=3,
        segments=(),
        log_store={
            3: BucketManifest(
                epoch=4,
                owner="host:7",
                committed=Position(epoch=2, offset=50),
                lineage=Lineage(begins=(Position(epoch=1), Position(epoch=4, offset=50))),
                waypoints=(Waypoint(0, 5), Waypoint(40, 9, 7)),
            )
        },
    ),
    FeedsJoined(index="a-1", first=5, through=9, segments=_FILES),
    ConsumerAdvanced(
        name="tail",
        version=12,
        log={
            0: LogMark(position=Position(epoch=2, offset=70), through=11),
            4: LogMark(position=Position(epoch=1, offset=9), through=12),
        },
        log_before={0: Position(epoch=1, offset=50)},
    ),
    Appended(segments=(replace(first(2), events=0),)),
    Appended(
        segments=(first(3),),
        load=LoadPart(load="z/day.csv", start=2, end=12, total=20, checksum="0123456789abcdef"),
    ),
    VersionRestored(version=3, segments=(RESTORED, LATE)),
    VersionRestored(
        version=3,
        segments=(REST,),
        erased=(PredicateDelete(n=2, predicate=IsNull("carrier")),),
    ),
    Adopted(
        segments=(
            replace(first(4), path="month=2013-01/part-0.parquet", footer=FooterChecksum(900, 7)),
        )
    ),
    GroupsSettled(
        path="deletes/settled-k3.arrow",
        size=900,
        checksum="0123456789abcdef",
        groups=(
            SettledGroup(
                chunk=replace(CHUNK, bucket=2),
                files=(0, 1, 2, 5, 2**30),
                identity="fedcba9876543210",
                hidden=7,
                open=2,
            ),
        ),
        damaged=("deletes/settled-k2.arrow",),
    ),
)

_FEEDS: dict[type, tuple[Feed, ...]] = {
    IndexBuilt: (Feed(index="a-1", segments=_FILES), Feed(index="b-2")),
    FeedsJoined: (Feed(index="a-1", entries=b"entries"),),
}


def event(n: int) -> Event:
    action = ACTIONS[n]
    feeds = _FEEDS.get(type(action), ())
    if action == Appended(segments=(replace(first(2), events=0),)):
        feeds = (Feed(index="a-1", entries=b"entries", files=1),)
    return Event(
        n=n, time=BASE + n + 1, commit=f"c{n}", author="host:1", action=action, feeds=feeds
    )


def test_every_kind_of_action_has_its_json() -> None:
    """Each type of the union is a kind of its own name, and one of the golden files shows it."""
    types = [kind.type for kind in KINDS]
    assert set(types) == set(get_args(Action)) == set(map(type, ACTIONS))
    assert len(types) == len({kind.name for kind in KINDS}) == len(set(types))


def test_only_repairs_and_restores_may_change_the_whole_table() -> None:
    """All other kinds name the intervals they touch, so that a check of each event is cheap."""
    assert {type(each) for each in ACTIONS if touched(each) is None} == {
        TableRepaired,
        VersionRestored,
    }


def _joint(action: type) -> Event:
    return event(next(n for n, each in enumerate(ACTIONS) if type(each) is action))


JOINT = in_one_file(
    [
        replace(_joint(action), n=n, time=BASE + n, commit=f"c{n}")
        for n, action in enumerate((Appended, RowsChanged, Appended), 100)
    ]
)
"""Events that share a file."""


def test_golden_of_several_events() -> None:
    """A file of the kind Joined has its events whole, each with its own number and author."""
    golden = (GOLDEN / "joined.json").read_bytes()
    assert decode_file(golden, "golden") == JOINT
    assert encode_file(JOINT) == golden
    for many in (1, MOST_JOINED + 1):
        body = json.loads(golden)
        body["events"] = [body["events"][0]] * many
        del body["checksum"]
        with pytest.raises(CorruptTable, match="no list of events"):
            decode_file(_sealed(body), "golden")


@pytest.mark.parametrize("n", range(len(ACTIONS)))
def test_golden(n: int) -> None:
    """Format 1 is read and written byte for byte as the golden files have it."""
    golden = (GOLDEN / f"{n:020d}.json").read_bytes()
    assert decode(golden, "golden") == event(n)
    assert encode(event(n)) == golden


@pytest.mark.parametrize("path", sorted(BEFORE_BASES.iterdir()), ids=lambda path: path.stem[-2:])
def test_older_events_tell_what_is_a_base(path: Path) -> None:
    """Descriptors without the attribute are read as if what a compaction wrote had it."""
    assert b'"base":' not in path.read_bytes()
    assert decode(path.read_bytes(), "golden") == event(int(path.stem))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"format": 2}, UnsupportedFormat, "format 2"),
        ({"author": "mallory"}, CorruptTable, "checksum"),
        ({"n": 5}, CorruptTable, "checksum"),
    ],
)
def test_changed_event_is_refused(
    changes: dict[str, object], error: type[Exception], words: str
) -> None:
    """A newer format or a flipped field is refused, with the file's name."""
    body = json.loads(encode(event(1)))
    with pytest.raises(error, match=f"here.*{words}"):
        decode(json.dumps({**body, **changes}).encode(), "here")


def _leaves(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in JSON, those of objects and lists, too."""
    inside = body.items() if isinstance(body, dict) else enumerate(body)
    for key, value in inside:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from _leaves(value, (*path, key))


def _forged(body: Any, path: tuple[Any, ...], value: object) -> bytes:
    """Return an event with another value at a path, and a valid checksum."""
    changed = copy.deepcopy(body)
    reduce(lambda inside, key: inside[key], path[:-1], changed)[path[-1]] = value
    changed["checksum"] = events._checksum(events._canonical(changed))  # forging needs it
    return events._canonical(changed)


_ANY_TYPE = ("predicate", "root", "unset", "columns")
"""Fields that are read from values of several types."""


@pytest.mark.parametrize("n", range(len(ACTIONS)))
def test_a_field_of_another_type_is_refused(n: int) -> None:
    """With a valid checksum, too, each field must have its type, or the event is refused."""
    body = json.loads(encode(event(n)))
    del body["checksum"]
    for path in _leaves(body):
        old = reduce(lambda inside, key: inside[key], path, body)
        wrong = 0.5 if isinstance(old, str) else str(old)
        if not set(_ANY_TYPE).intersection(path):
            with pytest.raises((CorruptTable, UnsupportedFormat), match="here"):
                decode(_forged(body, path, wrong), "here")


def test_rows_as_text_are_refused_by_name() -> None:
    """A number that is a text names the event file, the field and the value."""
    body = json.loads(encode(event(1)))
    del body["checksum"]
    with pytest.raises(CorruptTable, match="here is not a valid Appended event"):
        decode(_forged(body, ("action", "segments", 0, "rows"), "1"), "here")


@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_torn_event_is_refused(length: int) -> None:
    """A torn event is an error, never taken for an absent one."""
    with pytest.raises(CorruptTable, match="here is not an event"):
        decode(encode(event(1))[:length], "here")


def test_unknown_kind_is_refused_by_name() -> None:
    """An event of a kind this version does not know is named, not skipped."""
    body = json.loads(encode(event(1)))
    body.pop("checksum")
    body["kind"] = "Teleported"
    body["checksum"] = events._checksum(events._canonical(body))  # forging needs it
    with pytest.raises(UnsupportedFormat, match="'Teleported'"):
        decode(events._canonical(body), "here")
