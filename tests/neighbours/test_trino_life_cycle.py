"""Trino reads a published table at every stage of its life, and its earlier versions."""

import json
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from tests.neighbours.life import FORMATS, REFUSED_BY_DELTA, SCHEMA, STAGES, Life, batch
from tests.neighbours.trino_reader import TrinoReader
from tests.property.published_readers import metadata
from tests.property.published_values import rows
from tests.property.published_world import new_table

MICROS = timedelta(microseconds=123_456)
FILTERS = (
    "at >= TIMESTAMP '2026-01-31 05:00:00 UTC'",
    "at = TIMESTAMP '2026-01-31 05:00:00 UTC'",
    "local < TIMESTAMP '2026-01-31 05:00:00'",
    "row BETWEEN 20 AND 30",
    "label = 'n2'",
    "price >= 100",
)


@pytest.mark.parametrize("stage", [name for name in STAGES if name not in REFUSED_BY_DELTA])
def test_delta_has_the_rows_of_each_stage(life: Life, trino: TrinoReader, stage: str) -> None:
    """Each version is read by its number."""
    number = life.number("delta", stage)
    assert rows(trino.delta_rows(life.root, number)) == life.rows(stage)


@pytest.mark.parametrize("stage", STAGES)
def test_iceberg_has_the_rows_of_each_stage(life: Life, trino: TrinoReader, stage: str) -> None:
    """Each version is registered by its metadata."""
    number = life.number("iceberg", stage)
    assert rows(trino.iceberg_rows(life.root, number)) == life.rows(stage)


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_filters_find_the_rows_that_have_the_values(
    life: Life, trino: TrinoReader, format_: str
) -> None:
    """Files and row groups that a filter skips have no such rows."""
    name = getattr(trino, format_)(life.root)
    for test in FILTERS:
        counts = f"SELECT count_if({test}) a FROM {name}", f"SELECT count(*) a FROM {name} WHERE "  # noqa: S608
        every, found = trino.sql(counts[0]), trino.sql(counts[1] + test)
        assert every == found, test
        assert every["a"][0].as_py() > 0, test


def test_iceberg_travels_to_a_snapshot(life: Life, trino: TrinoReader) -> None:
    """One metadata file has the snapshots before it, such as that of a tagged version."""
    number = life.number("iceberg", "tagged")
    snapshot = json.loads(Path(metadata(life.root, number)).read_text())["current-snapshot-id"]
    asked = f"SELECT * FROM {trino.iceberg(life.root)} FOR VERSION AS OF {snapshot}"  # noqa: S608
    schema = life.table.snapshot(version=life.events["tagged"]).schema
    assert rows(trino.sql(asked, schema)) == life.rows("tagged")


def test_delta_travels_by_the_times_of_events(life: Life, trino: TrinoReader) -> None:
    """It goes by in-commit timestamps, which are the times of events."""
    number = life.number("delta", "minor")
    lines = (life.root / f"_delta_log/{number:020d}.json").read_text().splitlines()
    stamp = json.loads(lines[0])["commitInfo"]["inCommitTimestamp"]
    at = f"from_unixtime_nanos({stamp * 1_000_000})"
    asked = f"SELECT * FROM {trino.delta(life.root)} FOR TIMESTAMP AS OF {at}"  # noqa: S608
    schema = life.table.snapshot(version=life.events["minor"]).schema
    assert rows(trino.sql(asked, schema)) == life.rows("minor")


def test_trino_shows_instants_of_delta_in_milliseconds(tmp_path: Path, trino: TrinoReader) -> None:
    """Those of Iceberg, and times without a zone of both, have microseconds."""
    table = new_table(tmp_path / "t", SCHEMA, granularity="day", properties=FORMATS)
    made = batch(table, 0, 1).to_pylist()[0]
    odd = {"at": made["at"] + MICROS, "local": made["local"] + MICROS}
    table.append(pa.Table.from_pylist([{**made, **odd}], SCHEMA))
    asked = "SELECT at, local FROM {} WHERE row = 0"
    (delta,) = trino.sql(asked.format(trino.delta(tmp_path / "t"))).to_pylist()
    (iceberg,) = trino.sql(asked.format(trino.iceberg(tmp_path / "t"))).to_pylist()
    assert delta == {"at": made["at"] + timedelta(milliseconds=123), "local": odd["local"]}
    assert iceberg == odd
