"""Python in the guides that changes a table."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from airflow_provider_segtable.library.table import Table
from tests.guides import blocks

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        ("carrier", pa.string()),
        ("tailnum", pa.string()),
        ("order_id", pa.int64()),
    ]
)


def flights(*carriers: str, order_id: int = 0) -> pa.Table:
    """Return rows of 2013-01-02."""
    at = datetime(2013, 1, 2, tzinfo=UTC)
    columns = [[at] * len(carriers), carriers, ["N328AA"] * len(carriers)]
    return pa.table([*columns, range(order_id, order_id + len(carriers))], schema=SCHEMA)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Table]:
    """Return what runs the ``table.`` block of a guide over a table of four rows."""
    monkeypatch.chdir(tmp_path)
    address = f"memory://{uuid4()}"
    table = Table.create(
        "flights", schema=SCHEMA, time_column="at", granularity="day", zookeeper=address
    )
    table.append(flights("AA", "HP", "UA").set_column(2, "tailnum", pa.array(["a", "b", "c"])))
    table.append(flights("UA", order_id=3))

    def execute(guide: str, **names: object) -> Table:
        (block,) = (text for text in blocks(guide, "python") if "\ntable." in f"\n{text}")
        given = {"table": table, "pa": pa, "Table": Table, **names}
        exec(block.replace("127.0.0.1:2181", address), given)  # noqa: S102 - ours
        return table

    return execute


def test_changes(run: Callable[..., Table]) -> None:
    """AA and N328AA are gone, HP is US, and the corrections are merged in."""
    table = run("deletes.md", corrections=flights("DL", order_id=2))
    found = table.scan().to_arrow().sort_by("order_id")
    assert found.column("carrier").to_pylist() == ["US", "DL"]


def test_overwrites(run: Callable[..., Table]) -> None:
    """The day's rows are replaced by those given."""
    table = run("loading-again.md", rows=flights("AA"))
    assert table.scan().to_arrow().column("carrier").to_pylist() == ["AA"]
    assert [entry.what for entry in table.history(3)] == ["overwrite"] * 3
