"""The feed of a stream, without Spark: where batches end, and what each one reads."""

from typing import Any

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.spark.source.source_options import FollowRequest, to_follow
from airflow_provider_segtable.spark.source.source_reading import SourceFeed
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import rows, table
from tests.unit.table.test_windows import cleaned, compacted

__all__ = ["table"]


def follow(**options: str) -> FollowRequest:
    """Return what a stream's options ask for."""
    return to_follow({"path": "t", **options})[1]


def feed(table: Table, **options: str) -> SourceFeed:
    """Return the feed of a stream; its driver is not needed."""
    context: Any = None
    return SourceFeed.of(context, table.ports, follow(**options))


def batches(found: SourceFeed, after: str = "") -> list[list[int]]:
    """Return the rows of all batches after a version."""
    read = []
    while (end := found.next(after, found.newest(), True)) not in (None, after):
        asked = found.batch(after, end).asked
        request = asked.request
        window = {"version": request.version, "since_version": request.since_version}
        scan = Table(asked.ports).scan(columns=["row"], **window)
        read.append(sorted(scan.to_arrow()["row"].to_pylist()))
        after = end
    return read


def test_batches_end_before_the_version_for_which_there_is_no_room(table: Table) -> None:
    """Each row is in one batch; versions that change no row are in none."""
    table.tag("t")
    every = [[*range(n * 10, n * 10 + 10)] for n in range(4)]
    assert batches(feed(table, sinceVersion="0", maxVersionsPerTrigger="1")) == every
    two = [every[0] + every[1], every[2] + every[3]]
    assert batches(feed(table, sinceVersion="0", maxVersionsPerTrigger="2")) == two
    assert batches(feed(table)) == [[*range(40)]]
    assert batches(feed(table, sinceVersion="latest")) == [[]]
    assert batches(feed(table, sinceVersion="4")) == []


def test_a_stream_that_is_started_again_needs_no_expired_version(table: Table) -> None:
    """Neither the start of its first batch nor that of its last one; only where it goes on from."""
    options = {"sinceVersion": "1", "maxVersionsPerTrigger": "1"}
    compacted(table, "major")
    end = table.state().n
    cleaned(table)
    assert not table.state().keeps(3)
    table.append(rows(range(40, 44)))
    again = feed(table, **options)
    again.batch("3", str(end))  # Spark asks for it, and does not read it
    assert batches(again, str(end)) == [[40, 41, 42, 43]]


def test_a_consumer_advances_to_what_was_processed(table: Table) -> None:
    """Spark asks for the batch after a version when the one before is done."""
    table.advance_consumer("c", 1)
    assert batches(feed(table, consumer="c", maxVersionsPerTrigger="2")) == [
        [*range(10, 30)],
        [*range(30, 40)],
    ]
    assert table.scan(consumer="c").count() == 0


def test_a_stream_names_no_version() -> None:
    """It has no end; the error names the options of its start."""
    context: Any = None
    request = FollowRequest(
        read=read_request(version=1), latest=False, limits=follow(columns="at").limits
    )
    with pytest.raises(InvalidInput, match="a stream has no end: give sinceVersion"):
        SourceFeed.of(context, context, request)
