"""Schemas and options as people write them."""

import pyarrow as pa
import pytest

from airflow_provider_segtable.cli.input.options import pairs
from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.data.arrow_schema import parse_schema


def test_commas_inside_brackets_do_not_end_a_column() -> None:
    """Types with commas of their own are one type."""
    found = parse_schema(
        "at timestamp[us, tz=UTC] not null, price decimal128(9, 2), tags list<item: string>,"
        " point struct<x: double, y: double>"
    )
    assert found == pa.schema(
        [
            pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("price", pa.decimal128(9, 2)),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("point", pa.struct([("x", pa.float64()), ("y", pa.float64())])),
        ]
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("int", pa.int64()),
        ("text", pa.string()),
        ("float64", pa.float64()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("BOOLEAN", pa.bool_()),
        ("bigint", pa.int64()),
        ("DOUBLE", pa.float64()),
        ("double  precision", pa.float64()),
        ("varchar(20)", pa.string()),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("numeric(9)", pa.decimal128(9, 0)),
        ("timestamp(3) with time zone", pa.timestamp("us", "UTC")),
        ("timestamp without time zone", pa.timestamp("us")),
        ("timestamp[ms, UTC]", pa.timestamp("ms", "UTC")),
        ("list<bigint>", pa.list_(pa.int64())),
        ("array<varchar not null>", pa.list_(pa.field("item", pa.string(), nullable=False))),
        ("text[]", pa.list_(pa.string())),
        ("float[768]", pa.list_(pa.float32(), 768)),
        ("fixed_size_list<item: float>[3]", pa.list_(pa.float32(), 3)),
        ("duration[ms]", pa.duration("ms")),
        ("interval", pa.duration("us")),
        ("map<varchar, list<int>>", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("struct<a: int, B bytea>", pa.struct([("a", pa.int64()), ("B", pa.binary())])),
    ],
)
def test_everyday_names_of_types_are_understood(written: str, meant: pa.DataType) -> None:
    """People need not know Arrow's spelling."""
    assert parse_schema(f"a {written}").field("a").type == meant


def test_a_colon_may_stand_between_name_and_type() -> None:
    """What ``table describe`` of other tools prints is understood too."""
    assert parse_schema("a: int64, b : string").names == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a", "'a'"),
        ("a int64, a string", "'a' twice"),
        ("a money", "'money'"),
        ("a decimal(50, 2)", "38"),
        ("a map<text>", "'map<text>'"),
        ("", "no columns"),
    ],
)
def test_what_is_no_schema_is_named(text: str, named: str) -> None:
    """The message shows the column that cannot be understood."""
    with pytest.raises(SchemaMismatch, match=named):
        parse_schema(text)


def test_pairs_keep_what_follows_the_first_equals_sign() -> None:
    """A value may hold ``=``."""
    assert pairs(["a=b=c", " x = y "], "--property") == {"a": "b=c", "x": "y"}


@pytest.mark.parametrize("text", ["endpoint", "=value"])
def test_a_pair_without_key_or_equals_sign_is_refused(text: str) -> None:
    """The message shows the value and the form."""
    with pytest.raises(InvalidInput, match=text):
        pairs([text], "--storage-option")
