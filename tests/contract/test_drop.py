"""A dropped table on real adapters: ZooKeeper, a local disk, an object store."""

from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from kazoo.client import KazooClient

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.errors import TableGone
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.storage import open_storage
from tests.support.s3 import LoopbackS3

_names = count()
ROWS = pa.table({"at": pa.array([0, 1], pa.timestamp("us", "UTC")), "x": [1, 2]})


@pytest.mark.zookeeper
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_nothing_is_left_but_the_marker(
    kind: str, zookeeper: EmbeddedZooKeeper, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Neither a node in ZooKeeper, nor a file, nor a folder; an open table says that it is gone."""
    name = f"drop-{next(_names)}"
    uri, options = str(tmp_path / name), {}
    if kind == "s3":
        server: LoopbackS3 = request.getfixturevalue("s3")
        uri, options = server.uri(name), server.storage_options
    reach = {"zookeeper": f"{zookeeper.hosts}/{name}", "storage_options": options}
    made = Table.create(uri, schema=ROWS.schema, time_column="at", **reach)
    made.append(ROWS)
    made.delete("x = 1")
    made.compact("major")
    made.tag("kept")
    Table.drop(uri, **reach)
    left = [entry.path for entry in open_storage(uri, options).list("")]
    assert left == [f"_segtable/expired/{8:020d}"]
    assert {path.name for path in tmp_path.rglob("*") if path.is_dir()} <= {
        *(name, "_segtable", "expired")
    }
    admin = KazooClient(zookeeper.hosts)
    admin.start()
    assert admin.get_children(f"/{name}/tables") == []
    with pytest.raises(TableGone):
        made.append(ROWS)
    assert admin.get_children(f"/{name}/tables") == []
    admin.stop()
    admin.close()
