"""Verify and the doctor compare what is published with what a scan of its version returns."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from airflow_provider_segtable.core.publishing import Changes
from airflow_provider_segtable.core.recovery.diagnosis import Severity
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.publishing import publisher, revising
from airflow_provider_segtable.table.publishing.publisher import AlreadyPublished
from airflow_provider_segtable.table.table import Table, create_table
from tests.unit.formats.test_damaged_targets import DEFINITION, new_table, publish, seen, shown
from tests.unit.publishing.published_rows import compacted
from tests.unit.services.repairing import ports_at
from tests.unit.table.conftest import rows

CODES = {"damaged-published", "published-files", "published-rows", "published-empty"}


@pytest.fixture(params=["delta", "iceberg"])
def name(request: pytest.FixtureRequest) -> str:
    """Each format."""
    return str(request.param)


def found_in(table: Table, *, deep: bool = False) -> list[str]:
    """Return the codes of what a verification finds about what is published."""
    findings = verify(table.ports, deep=deep).findings
    return [each.code for each in findings if each.code in CODES]


def examined(table: Table) -> list[str]:
    return [each.code for each in examine(table.ports).findings if each.code in CODES]


@pytest.mark.parametrize("damage", ["lost", "torn", "flipped"])
def test_what_a_version_refers_to_is_read(tmp_path: Path, name: str, damage: str) -> None:
    """A lost or broken file of hidden rows is found, and mended by publishing in full."""
    table = new_table(tmp_path, name)
    publish(table, name)
    assert found_in(table, deep=True) == examined(table) == []
    folder = tmp_path / ("dv" if name == "delta" else "_iceberg/deletes")
    (path,) = folder.iterdir()
    data = path.read_bytes()
    path.unlink()
    if damage != "lost":
        flipped = data[:20] + bytes([data[20] ^ 4]) + data[21:]
        path.write_bytes(data[:-3] if damage == "torn" else flipped)
    assert isinstance(publish(table, name), AlreadyPublished)
    assert found_in(table) == examined(table) == ["damaged-published"]
    publish(table, name, full=True)
    assert found_in(table, deep=True) == []
    assert seen(table, name) == shown(table)


@pytest.mark.parametrize(("hides", "deep"), [(None, False), (0, True)])
def test_other_rows_are_found(
    tmp_path: Path, name: str, hides: int | None, monkeypatch: pytest.MonkeyPatch, *, deep: bool
) -> None:
    """Rows that should be hidden are found by their number, another one in their place by sums."""
    table = new_table(tmp_path, name)

    def wrong(*given: Any) -> dict[str, BitMap]:
        right: Callable[..., dict[str, BitMap]] = hidden_rows
        found = right(*given)
        return {} if hides is None else {path: BitMap([hides]) for path in found}

    hidden_rows = revising.hidden_rows
    monkeypatch.setattr(revising, "hidden_rows", wrong)
    publish(table, name)
    assert found_in(table) == ([] if deep else ["published-rows"])
    assert found_in(table, deep=True) == ["published-rows"]
    (finding,) = [e for e in verify(table.ports, deep=True).findings if e.code in CODES]
    assert finding.severity is Severity.CRITICAL
    assert "1 time chunk differ" in finding.what


def test_files_that_are_not_published_are_found(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version that lacks a file of its event is told apart from one that lags."""
    table = new_table(tmp_path, name)
    publish(table, name)
    table.append(rows(range(80, 90)))
    assert found_in(table) == []
    monkeypatch.setattr(publisher, "differing", lambda *_: Blind())
    publish(table, name)
    assert found_in(table) == ["published-files"]


class Blind(Changes):
    """A difference that misses what was added."""

    def __bool__(self) -> bool:
        """Return that something differs."""
        return True


def keyed(folder: Path) -> Table:
    """Return a published primary-key table with records, which no compaction has merged."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.int64())])
    definition = replace(DEFINITION, schema=from_arrow(schema))
    kind = PrimaryKey(key=("row",), buckets=2)
    table = create_table(ports_at(folder), of_kind(definition, kind))
    table.append(rows(range(10)).select(["at", "row"]))
    return table


def test_a_publication_without_rows_of_a_table_with_rows(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that wait for their first compaction are a remark, merged ones without a base not."""
    table = keyed(tmp_path)
    publish(table, name)
    assert found_in(table) == examined(table) == ["published-empty"]
    assert verify(table.ports).sound
    compacted(table, "semi-major")
    publish(table, name)
    assert found_in(table, deep=True) == examined(table) == []
    monkeypatch.setattr(Timeline, "base", lambda *_: ())  # as it was after a restore
    assert found_in(table) == examined(table) == ["published-empty"]
    assert not verify(table.ports).sound
