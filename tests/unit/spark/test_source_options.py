"""Options of Spark's data source become requests, without Spark."""

import re
import zipfile
from pathlib import Path

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.reads.effects import BatchLimits
from airflow_provider_segtable.core.requests.overwrite import Touched
from airflow_provider_segtable.core.requests.read_request import ReadRequest, read_request
from airflow_provider_segtable.core.time import ALL_TIME
from airflow_provider_segtable.spark.driver.session import package_archive
from airflow_provider_segtable.spark.source.registration import register
from airflow_provider_segtable.spark.source.source_options import to_follow, to_read, to_write


def test_a_read_has_the_arguments_of_a_read_request() -> None:
    """Each option is one argument, whatever its case; the table's place is apart."""
    options = {
        "PATH": "s3://lake/trips",
        "asof": "2026-01-02",
        "Columns": "at, fare",
        "where": "fare > 1",
        "interval": "2026-01-01/2026-02-01",
        "sinceVersion": "3",
        "changes": "TRUE",
        "checked": "false",
        "storage.region": "eu",
    }
    place, request = to_read(options)
    assert (place.uri, place.zookeeper, place.storage_options) == (
        *("s3://lake/trips", None),
        {"region": "eu"},
    )
    assert request == read_request(
        as_of="2026-01-02",
        columns=("at", "fare"),
        where="fare > 1",
        interval="2026-01-01/2026-02-01",
        since_version=3,
        changes=True,
        checked=False,
    )
    assert to_read({"path": "t"})[1] == ReadRequest()
    assert to_read({"path": "file:/lake/t"})[0].uri == "file:///lake/t"


@pytest.mark.parametrize(
    ("options", "extent", "where"),
    [
        ({}, ALL_TIME, None),
        ({"where": "a = 1"}, None, "a = 1"),
        ({"interval": "2026-01-01/2026-02-01"}, "2026-01-01/2026-02-01", None),
        ({"partitionOverwriteMode": "DYNAMIC"}, Touched.CHUNKS, None),
        ({"partitionOverwriteMode": "static"}, ALL_TIME, None),
    ],
)
def test_what_an_overwrite_replaces(
    options: dict[str, str], extent: object, where: str | None
) -> None:
    """All rows, unless an option says which."""
    _, request = to_write({"path": "t", **options})
    assert (request.extent, request.where) == (extent, where)


def test_how_rows_are_written() -> None:
    """Sizes, patience and the commit id; what Spark itself reads is passed over."""
    options = {"rowsPerSegment": "7", "waitS": "1.5", "commitId": "x", "zookeeper": "a:1"}
    place, request = to_write({"path": "t", "checkpointLocation": "c", **options})
    assert (request.sizing.rows_per_segment, request.sizing.target_size) == (7, None)
    assert (request.wait_s, request.commit_id, place.zookeeper) == (1.5, "x", "a:1")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "the table's path is missing"),
        ({"path": "t", "rolledUp": "yes"}, "option rolledUp='yes' is not true or false"),
        ({"path": "t", "version": "one"}, "option version='one' is not a whole number"),
        ({"path": "t", "commitId": "x"}, "there is no option 'commitid' here; there are: version"),
    ],
)
def test_what_is_no_option_of_a_read(options: dict[str, str], said: str) -> None:
    """The message has the name, the value and what there is."""
    with pytest.raises(InvalidInput, match=re.escape(said)):
        to_read(options)


def test_a_stream_has_limits_and_may_begin_with_the_newest_version() -> None:
    """Beside the options of a read; another start contradicts ``latest``."""
    options = {"path": "t", "maxFilesPerTrigger": "9", "maxBytesPerTrigger": "5", "columns": "at"}
    _, request = to_follow(options)
    assert request.limits == BatchLimits(files=9, size=5)
    assert (request.read, request.latest) == (read_request(columns="at"), False)
    _, request = to_follow({"path": "t", "sinceVersion": "LATEST", "changes": "true"})
    assert (request.read.changes, request.latest) == (True, True)
    for wrong, said in (
        ({"sinceVersion": "newest"}, "sinceVersion='newest' is not a whole number or 'latest'"),
        ({"sinceVersion": "latest", "consumer": "c"}, "name a start each"),
        ({"maxVersionsPerTrigger": "0"}, "at most 0 versions: give at least 1"),
        ({"commitId": "x"}, "there is no option 'commitid' here"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(said)):
            to_follow({"path": "t", **wrong})
    with pytest.raises(InvalidInput, match="sinceVersion='latest' is not a whole number"):
        to_read({"path": "t", "sinceVersion": "latest"})


def test_what_is_no_option_of_a_write() -> None:
    """A size that is too low, a mode that Spark does not have, a number that is none."""
    for options, said in (
        ({"targetSize": "0"}, "target_size = 0 is too low"),
        ({"partitionOverwriteMode": "all"}, "'all' is neither static nor dynamic"),
        ({"waitS": "long"}, "option waitS='long' is not a number"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(said)):
            to_write({"path": "t", **options})


def test_a_session_of_spark_connect_is_refused() -> None:
    """Its driver is another process; the message says where to register."""
    with pytest.raises(InvalidInput, match=r"session of Spark Connect: .* register it there"):
        register(object())  # type: ignore[arg-type]


def test_the_archive_has_the_class_to_compile(tmp_path: Path) -> None:
    """A driver that runs from the archive, as in cluster mode, can register the source."""
    names = zipfile.ZipFile(package_archive(tmp_path)).namelist()
    assert "airflow_provider_segtable/spark/source/SegtableSource.java" in names
