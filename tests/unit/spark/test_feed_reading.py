"""Pieces of a feed as tasks read them: each by itself, pickled, in any order."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.data.keyed.file_groups import Comparison, FeedPiece, Stretch
from airflow_provider_segtable.spark.tasks.reading import FeedReading, ReadTask
from airflow_provider_segtable.table.windows import KeyedFeed
from tests.property.test_keyed_tables import GONE, batch, keyed_table


@dataclass(frozen=True)
class Sent:
    """Pieces as they arrive in an executor."""

    value: Sequence[FeedPiece]


def test_tasks_read_the_feed_of_the_library(tmp_path: Path) -> None:
    """The pieces of a window have its changes, whichever task reads them."""
    kind = PrimaryKey(key=("key",), buckets=3, ordering="seq")
    table = keyed_table(str(tmp_path), kind)

    def upserted(seq: int, keys: range, *, gone: bool = False) -> None:
        rows = [{"key": key, "seq": seq, "text": f"v{seq}", GONE: gone} for key in keys]
        table.upsert(batch(rows), deleted=GONE)

    upserted(2, range(12))
    start = table.ports.log.load()
    upserted(3, range(6, 18))
    upserted(1, range(9))  # late
    upserted(4, range(4), gone=True)
    table.compact("semi-major")
    upserted(5, range(2))
    table.restore(version=start.n)
    upserted(6, range(3))
    state = table.ports.log.load()
    groups = [*KeyedFeed(table.ports.log).pieces(start, state)]
    pieces = pickle.loads(pickle.dumps([piece for some in groups for piece in some]))  # noqa: S301
    assert {type(piece) for piece in pieces} == {Stretch, Comparison}
    assert all(piece.size > 0 for piece in pieces)

    wanted = table.scan(since_version=start.n, changes=True).to_arrow()
    task = ReadTask(
        uri=table.ports.uri,
        storage_options={},
        work=Sent(pieces),
        reading=FeedReading(table=state.table, rules=kind.rules, interval=None),
        target=wanted.schema,
        time_column=state.table.time_column,
    )
    numbers = [pa.record_batch([pa.array([n])], names=["id"]) for n in reversed(range(len(pieces)))]
    found = [rows for each in numbers for rows in task.read_in_task([each])]
    order = [(name, "ascending") for name in ("_segtable_version", "_segtable_change", "key")]
    read = pa.Table.from_batches(found, wanted.schema)
    assert read.sort_by(order).to_pylist() == wanted.sort_by(order).to_pylist()
    versions = wanted["_segtable_version"].to_pylist()
    assert versions == sorted(versions)
    assert len({*versions}) >= 4
