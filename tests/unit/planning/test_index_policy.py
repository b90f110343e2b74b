"""The index policy in a table's properties."""

import re
from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import (
    BloomFilter,
    ColumnStats,
    FileList,
    IndexKind,
    column_ids,
)
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.planning.properties import IndexSettings, wished_indexes
from airflow_provider_segtable.table.property_checks import check_properties

TABLE = TableDefinition(
    table_id="t",
    name="t",
    schema=Schema(
        (
            Column(name="at", type="timestamp[us, tz=UTC]", id=1),
            Column(name="a", type="int64", id=2),
            Column(name="b", type="string", id=3),
            Column(name="c", type="list<element: int64>", id=4),
        )
    ),
    time_column="at",
    granularity=Granularity.DAY,
    properties={},
)
A, B = column_ids(("a", "b"), TABLE)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("files", FileList()),
        (" column_stats(a) ", ColumnStats(columns=(A,))),
        ("column_stats ( b, a )", ColumnStats(columns=(B, A))),
        ("bloom_filter(b)", BloomFilter(columns=(B,))),
        ("bloom_filter(a, b; rate = 0.001)", BloomFilter(columns=(A, B), rate=0.001)),
    ],
)
def test_a_property_names_an_index(text: str, kind: IndexKind) -> None:
    """Its key has the name, its value the kind and the settings."""
    (wish,) = wished_indexes({"index.x": text, "index.min_files": "3", "compaction.major": "off"})
    assert (wish.name, wish.key) == ("x", "index.x")
    assert wish.bound(TABLE) == kind


@pytest.mark.parametrize(
    ("key", "text", "found"),
    [
        ("index.x", "column_stat(a)", "'column_stat(a)' is not an index: write e.g. files"),
        ("index.x", "column_stats(a", "'column_stats(a' is not an index"),
        ("index.x", "column_stats(a) b", "is not an index"),
        ("index.min_file", "3", "settings are index.min_files"),
        ("index.a/b", "files", "'index.a/b' names no index"),
        ("index.x", "column_stats(nope)", "column_stats(nope)': there is no column 'nope'"),
        ("index.x", "column_stats(a, a)", "named twice"),
        ("index.x", "column_stats", "index.x = 'column_stats'"),
        ("index.x", "column_stats(c)", "'c' is list"),
        ("index.x", "column_stats(a; rate=0.1)", "rate"),
        ("index.x", "bloom_filter(a; rate=often)", "rate 'often' is not a number"),
        ("index.x", "bloom_filter(a; rate=2)", "false-positive rate of 2"),
        ("index.x", "files(a)", "files has no columns"),
        ("index.min_files", "few", "index.min_files = 'few' is not a whole number"),
        ("index.timeout_minutes", "-1", "index.timeout_minutes = -1.0 is too low"),
    ],
)
def test_anything_else_is_refused_when_it_is_set(key: str, text: str, found: str) -> None:
    """The message names the property, its value and the way out."""
    with pytest.raises(InvalidInput, match=re.escape(found)):
        check_properties(replace(TABLE, properties={key: text}), [key])


def test_a_policy_that_fits_is_accepted() -> None:
    """With the settings beside it."""
    given = {"index.x": "bloom_filter(b)", "index.min_bytes": "5", "index.timeout_minutes": "0.5"}
    check_properties(replace(TABLE, properties=given), given)
    assert IndexSettings.read(given) == IndexSettings(min_bytes=5, timeout_minutes=0.5)
