"""Actions of a primary-key table, as golden files have them (``test_codec``)."""

from dataclasses import replace

from airflow_provider_segtable.core.log.events import Action
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted, PlanRequested
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.group_plans import SemiMajorPlan
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.segment import ChunkKey, Roots, Segment, Shard, tombstone
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import ColumnGroup, MergeEngine
from airflow_provider_segtable.core.time import Granularity, GranularityOverride
from tests.support.builders import BASE, CHUNK, DEFINITION, major_plan

BUCKET = ChunkKey(CHUNK.interval, BASE, 1)
DIVIDED = ChunkKey(CHUNK.interval, BASE + 7, 5)
PROVISIONAL = BUCKET.provisional("00000000deadbeef")

KIND, SCHEMA = PrimaryKey(
    key=("flight",),
    buckets=4,
    ordering="seen",
    merge=MergeEngine.PARTIAL_UPDATE,
    groups=(ColumnGroup(columns=("gate", "terminal"), ordering="gate_seen"),),
).bound(
    Schema(
        (
            Column(name="time_hour", type="timestamp[us, tz=UTC]", nullable=False),
            Column(name="flight", type="int64", nullable=False),
            *(Column(name=name, type="int32") for name in ("seen", "gate_seen")),
            *(Column(name=name, type="string") for name in ("carrier", "gate", "terminal")),
        )
    ),
    time_column="time_hour",
    granularity=Granularity.MONTH,
)
KEYED = replace(DEFINITION, name="boards", schema=SCHEMA, kind=KIND)


def log(chunk: ChunkKey, *, buckets: int = 0) -> Segment:
    """Return a log file, as its writer names it."""
    segment_id = chunk.provisional("00000000deadbeef")
    folder = f"data/{chunk.interval.name}"
    return Segment(
        id=segment_id,
        shard=Shard.first_generation(segment_id.partition),
        path=f"{folder}/{chunk.bucket}_{BASE}.log.0_00000000deadbeef.parquet",
        rows=3,
        size=700,
        row_groups=1,
        time_min=chunk.interval.start,
        time_max=chunk.interval.end - 1,
        created=BASE,
        buckets=buckets,
    )


PUBLISHED = log(BUCKET).carried(BUCKET.segment(2), core=0)
BASE_FILE = replace(
    log(BUCKET),
    id=BUCKET.segment(2**30),
    shard=Shard(partition=2**30, root_start=0, root_end=3, minor_version=1, group_size=1, base=3),
    path=f"data/{BUCKET.interval.name}/1_{2**30}-00000000deadbeef_{BASE}.parquet",
    clustering="flight",
    events=9,
)
CORE = replace(
    BASE_FILE,
    id=DIVIDED.segment(0),
    shard=Shard.first_generation(0, core=1, base=1),
    path=f"data/{BUCKET.interval.name}/5_0-00000000deadbeef_{BASE}.parquet",
    replaces=(
        Roots(chunk=BUCKET, spans=((0, 3), (PROVISIONAL.partition, PROVISIONAL.partition + 1))),
    ),
    buckets=8,
)
LATE = replace(log(DIVIDED, buckets=8).carried(DIVIDED.segment(1), core=1), rows=1)
MAJOR = replace(major_plan((BASE_FILE, PUBLISHED)), id="major-20130101-8b", buckets=8)

KEYED_ACTIONS: tuple[Action, ...] = (
    KEYED,
    Appended(segments=(PUBLISHED, LATE)),
    PlanRequested(
        plan=SemiMajorPlan(
            id="semi-major-20130101-1b",
            chunk=BUCKET,
            inputs=(PUBLISHED.id,),
            root_start=0,
            root_end=3,
            outputs=1,
            rows=3,
            size=700,
            reason="3 log files",
            clustering="flight",
        )
    ),
    PlanCompleted(plan_id="semi-major-20130101-1b", attempt="a3", segments=(BASE_FILE,)),
    PlanRequested(plan=MAJOR),
    PlanCompleted(
        plan_id=MAJOR.id,
        attempt="a4",
        segments=(CORE, LATE, tombstone(ChunkKey(CHUNK.interval, BASE + 7, 1), BASE + 8)),
        late=(PUBLISHED.id,),
    ),
    TableRepaired(
        segments=(replace(LATE, completed=BASE + 9),),
        overrides=(GranularityOverride(CHUNK.interval, Granularity.DAY, 8),),
        reason="the log was torn; repaired",
    ),
)
