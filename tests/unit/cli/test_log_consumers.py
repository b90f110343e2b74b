"""``segtable consumers list`` shows how far consumer groups have read the log store."""

import os

from airflow_provider_segtable.library.table import Table
from tests.unit.cli.conftest import Facts, Run, trips


def test_a_group_is_listed_with_its_positions(run: Run, facts: Facts, table: str) -> None:
    """By bucket, with the number of committed rows that it has yet to read."""
    opened = Table.open(table, zookeeper=os.environ["SEGTABLE_ZOOKEEPER"])
    with opened.log_writer(automatic=False) as log:
        log.append(trips(3))
        log.checkpoint()
        log.append(trips(2, 3))
    with opened.log_reader("earliest", group="billing") as reader:
        assert reader.read(60)
        reader.store()
    (known,) = facts("consumers", "list", table)["consumers"]
    assert known["log"] == [{"bucket": 0, "epoch": 1, "offset": 3, "behind": 2}]
    assert "bucket 0 at 3, 2 behind" in " ".join(run("consumers", "list", table).stdout.split())
