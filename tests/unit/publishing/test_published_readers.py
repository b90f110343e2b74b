"""Readers of other projects: their rows in the types of the table, and what they cannot do."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.memory import InMemoryCatalog

from airflow_provider_segtable.data.row_checksum import checksum_of
from airflow_provider_segtable.health.published_readers import (
    READERS,
    PublishedPlace,
    PublishedReader,
    Unlike,
    comparable,
    duckdb_secret,
    fileio_options,
    refuses,
)

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
ROWS = pa.table(
    {
        "at": pa.array([NOON, None, NOON], pa.timestamp("us", "UTC")),
        "local": pa.array([NOON.replace(tzinfo=None), None, None], pa.timestamp("us")),
        "day": pa.array([date(2013, 1, 1), None, date(1969, 1, 1)]),
        "text": pa.array(["ä", "", None]),
        "raw": pa.array([b"\x00\xff", b"", None]),
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal128(12, 2)),
        "f": pa.array([float("nan"), -0.0, None]),
        "f32": pa.array([float("nan"), 0.1, None], pa.float32()),
        "n": pa.array([1, None, -(2**31)], pa.int32()),
        "ok": pa.array([True, False, None]),
        "list": pa.array([[1.5, float("nan"), None], [], None]),
        "times": pa.array([[NOON], [None], []], pa.list_(pa.timestamp("us", "UTC"))),
        "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "deep": pa.array([{"a": [{"b": "x"}]}, {"a": []}, None]),
    }
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PublishedPlace]:
    """The rows as a table of each format."""
    root = tmp_path_factory.mktemp("formats")
    write_deltalake(root / "delta", ROWS)
    catalog = InMemoryCatalog("here", warehouse=root.as_uri())
    catalog.create_namespace("n")
    made = catalog.create_table("n.t", ROWS.schema)
    made.append(ROWS)
    metadata = Path(made.metadata_location.removeprefix("file://"))
    metadata.rename(metadata.parent / "v1.metadata.json")
    return {
        "delta": PublishedPlace(address=(root / "delta").as_uri(), number=0),
        "iceberg": PublishedPlace(address=metadata.parents[1].as_uri(), number=1),
    }


def usable() -> Iterator[tuple[str, PublishedReader]]:
    """Yield the readers of this machine, with their formats."""
    for name, readers in READERS.items():
        yield from ((name, each) for each in readers if not each.lacking())


@pytest.mark.filterwarnings("ignore:Iceberg scan planning")  # Polars' advice to install more
@pytest.mark.parametrize(
    ("name", "reader"), [pytest.param(*each, id=f"{each[0]}-{each[1].name}") for each in usable()]
)
def test_every_reader_gives_the_same_values(
    places: dict[str, PublishedPlace], name: str, reader: PublishedReader
) -> None:
    """NaN, nulls, nested values, time zones and decimals are equal, whoever reads them."""
    seen = checksum_of(comparable(reader.batches(places[name]), ROWS.schema))
    expected = checksum_of(comparable(ROWS.to_batches(), ROWS.schema))
    assert (seen, seen.differing(expected)) == (expected, ())


def test_a_library_that_is_there_but_lacks_an_extension_is_missing() -> None:
    """DuckDB's extensions are never downloaded, so it says which are not installed."""
    lacking = {name: readers[-1].lacking() for name, readers in READERS.items()}
    assert all("extension" in each or not each for each in lacking.values())


def test_other_columns_are_no_table_of_ours() -> None:
    """A column too many or too few, and a value that does not fit, are named."""
    batches = ROWS.select(["n", "text"]).to_batches()
    for schema, said in (
        (ROWS.select(["n"]).schema, "shows the columns n, text, the table has n"),
        (pa.schema([("n", pa.int8()), ("text", pa.string())]), "column n is of type int32"),
    ):
        with pytest.raises(Unlike, match=said):
            list(comparable(batches, schema))


def test_what_is_not_supported_is_no_damage() -> None:
    """Texts with which libraries refuse a table are told from those of a lost file."""
    feature = "The table has set these reader features: {'deletionVectors'} but these are not yet"
    assert refuses(ValueError(f"{feature} supported by the deltalake reader."))
    assert refuses(NotImplementedError("no"))
    assert not refuses(FileNotFoundError("data/x.parquet"))


def test_options_of_the_store_are_translated() -> None:
    """Pyiceberg and DuckDB get S3's options under their own names; a secret is quoted."""
    options = {"aws_access_key_id": "a", "SECRET_ACCESS_KEY": "b'c", "endpoint": "http://[::1]:9"}
    place = PublishedPlace(address="s3://lake/t", number=0, options=options)
    assert fileio_options(place) == {
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b'c",
        "s3.endpoint": "http://[::1]:9",
    }
    said = duckdb_secret(place)
    assert "SECRET 'b''c'" in said
    assert "ENDPOINT '[::1]:9', URL_STYLE 'path', USE_SSL 'false'" in said
    assert not duckdb_secret(PublishedPlace(address="/lake/t", number=0))
