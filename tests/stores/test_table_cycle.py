"""A whole life of a table on real servers, from its creation to its verification."""

from datetime import UTC, datetime

import pyarrow as pa

from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.storage import open_storage
from tests.stores.servers import Server

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def rows(first: int, number: int = 500) -> pa.Table:
    """Return rows of one day; ``x`` counts them."""
    start = int(DAY.timestamp() * 1_000_000)
    times = pa.array([start + n * 1_000_000 for n in range(first, first + number)])
    return pa.table(
        {"at": times.cast(pa.timestamp("us", "UTC")), "x": range(first, first + number)}
    )


def test_a_table_is_created_filled_compacted_cleaned_and_verified(server: Server, uri: str) -> None:
    """Create, append, delete, minor, major, scan, clean and verify leave the same rows."""
    reach = {"zookeeper": f"memory://{uri}", "storage_options": server.options}
    made = Table.create(uri, schema=rows(0).schema, time_column="at", **reach)
    for n in range(6):
        made.append(rows(n * 500))
    made.compact("minor")
    made.delete("x < 100")
    made.compact("major")
    made.append(rows(3000))
    expected = list(range(100, 3500))
    opened = Table.open(uri, **reach)
    assert sorted(opened.scan().to_arrow()["x"].to_pylist()) == expected
    before = len(list(open_storage(uri, server.options).list("data")))
    opened.clean(retention_hours=0, retention_versions=1, orphan_hours=0)
    after = len(list(open_storage(uri, server.options).list("data")))
    assert after < before
    assert opened.verify(deep=True, all_versions=True).findings == ()
    assert sorted(Table.open(uri, **reach).scan().to_arrow()["x"].to_pylist()) == expected
    made.ports.coordinator.close()
    opened.ports.coordinator.close()
