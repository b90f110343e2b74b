"""Findings about buckets: log files that outweigh a base, too many and too few buckets."""

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.timeline import slices
from airflow_provider_segtable.planning.findings import index_findings
from airflow_provider_segtable.planning.findings.health_findings import Observed
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import Planned
from airflow_provider_segtable.planning.table_plan import plan_all
from airflow_provider_segtable.services.compact_table import compact_table
from airflow_provider_segtable.table.table import Table

SCHEMA = pa.schema([("key", pa.int64()), ("day", pa.date32())])
IDLE = Planned(chosen=(), skipped=())


def seen(place: Path, *, writes: int, buckets: int = 1, planned: bool = False) -> Observed:
    """Return what the doctor sees of a table after some writes."""
    table = Table.create(
        str(place),
        schema=SCHEMA,
        time_column="day",
        granularity="all",
        primary_key="key",
        buckets=buckets,
    )
    for _ in range(writes):
        table.upsert(pa.table([[*range(buckets * 8)], [0] * buckets * 8], schema=SCHEMA))
    state, policy = table.state(), Policy(min_segments=4)
    now = state.time
    found = plan_all(state, policy, now) if planned else IDLE
    return Observed(table="t", state=state, now=now, policy=policy, planned=found)


def codes(observed: Observed) -> list[str]:
    """Return the findings' codes."""
    return [each.code for each in index_findings.keyed_findings(observed)]


def test_a_bucket_of_log_files_is_reported_unless_it_is_planned(tmp_path: Path) -> None:
    """A few small log files are nothing; many are, with the compaction that ends it."""
    assert codes(seen(tmp_path / "few", writes=3)) == []
    (found,) = index_findings.keyed_findings(seen(tmp_path / "many", writes=4))
    assert (found.code, found.where[-8:]) == ("log-heavy-bucket", "bucket 0")
    assert "4 log files" in found.what
    assert "--kind semi-major" in found.do
    assert codes(seen(tmp_path / "planned", writes=4, planned=True)) == []


def test_buckets_far_from_the_size_of_a_chunk_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding names a better number."""
    many = seen(tmp_path / "many", writes=1, buckets=40)
    (found,) = index_findings.keyed_findings(many)
    assert (found.code, found.do.endswith(" --buckets 1")) == ("many-buckets", True)
    few = seen(tmp_path / "few", writes=1)
    (each,) = slices(few.state.timeline)
    monkeypatch.setattr(index_findings, "BUCKET_BYTES", each.size // 10)
    (found,) = index_findings.keyed_findings(few)
    assert (found.code, found.do.endswith(" --buckets 11")) == ("few-buckets", True)
    monkeypatch.setattr(index_findings, "BUCKET_BYTES", each.size // 7)
    assert codes(few) == []


def test_a_chunk_that_was_divided_anew_is_judged_by_its_own_buckets(tmp_path: Path) -> None:
    """The command that a finding names ends the finding."""
    table = Table.create(
        str(tmp_path),
        schema=SCHEMA,
        time_column="day",
        granularity="all",
        primary_key="key",
        buckets=40,
        zookeeper=f"memory://{uuid4()}",
    )
    table.upsert(pa.table([[*range(320)], [0] * 320], schema=SCHEMA))
    before = seen(tmp_path / "other", writes=0)
    assert codes(replace(before, state=table.state())) == ["many-buckets"]
    compact_table(table.ports, kind="major", buckets=1)
    assert codes(replace(before, state=table.state())) == []


def test_other_tables_have_no_buckets(tmp_path: Path) -> None:
    """An append table is never reported."""
    table = Table.create(str(tmp_path), schema=SCHEMA, time_column="day", granularity="all")
    empty = seen(tmp_path / "keyed", writes=0)
    assert codes(replace(empty, state=table.state())) == codes(empty) == []
