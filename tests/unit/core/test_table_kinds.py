"""Kinds of table: each survives its encoding, and one that is not known is refused by name."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, UnsupportedFormat
from airflow_provider_segtable.core.log.families.table_events import decode_table, encode_table
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.definition import KINDS, TableDefinition
from airflow_provider_segtable.core.tables.keyed_kind import MOST_BUCKETS, PrimaryKey, kind_of
from airflow_provider_segtable.core.tables.merge_rules import MergeEngine
from airflow_provider_segtable.core.tables.rollup_kind import Metric, Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.parquet.descriptor import decode_definition, encode_definition
from airflow_provider_segtable.data.table_kinds import ARROW_KINDS, arrow_kind_of

GIVEN = Schema((Column(name="at", type="timestamp[us]"), Column(name="n", type="int64")))
EACH: tuple[TableKind, ...] = (
    Append(),
    Rollup(metrics=(Metric.parse("total=sum(n)"),)),
    PrimaryKey(key=("n",), ordering="at"),
)


def table(kind: TableKind) -> TableDefinition:
    """Return the definition of a table of a kind, with the columns of ``GIVEN`` as input."""
    found, schema = kind.bound(GIVEN, time_column="at", granularity=Granularity.DAY)
    return TableDefinition(
        table_id="t",
        name="t",
        schema=schema,
        time_column="at",
        granularity=Granularity.DAY,
        kind=found,
    )


def test_each_kind_is_in_every_registry_under_its_name() -> None:
    """A kind that can be decoded also has a part for Arrow, made from its pure part."""
    assert {kind.name for kind in EACH} == set(KINDS) == set(ARROW_KINDS)
    assert [arrow_kind_of(kind).kind for kind in EACH] == list(EACH)


@pytest.mark.parametrize("kind", EACH, ids=lambda kind: kind.name)
def test_a_kind_survives_its_encoding(kind: TableKind) -> None:
    """Events and footers give back the kind, and rows are given in the input schema again."""
    made = table(kind)
    assert decode_table(encode_table(made)) == made
    assert decode_definition(encode_definition(made, 7), "file") == (made, 7)
    assert made.kind.input_schema(made.schema, "at") == GIVEN
    json.dumps(made.kind.facts())


@pytest.mark.parametrize(
    ("ordering", "groups"), [("at", None), ("", {"at": ("n",)}), ("at", {"at": ("n",)})]
)
def test_settings_of_a_key_need_the_key(
    ordering: str, groups: Mapping[str, Sequence[str]] | None
) -> None:
    """Without one they would do nothing."""
    with pytest.raises(InvalidInput, match="name the key"):
        kind_of(None, None, buckets=4, ordering=ordering, merge="latest", groups=groups)
    assert kind_of(None, None, buckets=4, ordering="", merge="latest", groups=None) == Append()


def test_a_number_of_buckets_has_bounds() -> None:
    """For a new table, and for the buckets that a compaction makes."""
    kind = PrimaryKey(key=("n",))
    for possible in (1, MOST_BUCKETS):
        kind.check_buckets(possible, "t")
        assert replace(kind, buckets=possible).buckets == possible
    for wrong in (0, MOST_BUCKETS + 1):
        with pytest.raises(InvalidInput, match=f"{wrong} buckets: choose 1 to {MOST_BUCKETS}"):
            kind.check_buckets(wrong, "t")
        with pytest.raises(InvalidInput, match=f"{wrong} buckets"):
            replace(kind, buckets=wrong)


def test_only_a_default_keeps_a_partial_table_from_being_published() -> None:
    """Files have null where readers see it; with whole rows they have the default itself."""
    columns = (*GIVEN.columns, Column(name="mark", type="string", default="m"))
    whole = PrimaryKey(key=("n",))
    partial = replace(whole, merge=MergeEngine.PARTIAL_UPDATE)
    assert partial.unpublished(Schema(columns), ()).startswith("column 'mark' has the default 'm'")
    assert (partial.unpublished(GIVEN, ()), whole.unpublished(Schema(columns), ())) == ("", "")


def test_the_facts_of_a_key_are_what_was_chosen() -> None:
    """Settings that were left out are not there."""
    bare = {"primary_key": ["n"], "buckets": "4", "merge": "latest"}
    assert PrimaryKey(key=("n",)).facts() == bare
    assert PrimaryKey(key=("n",), ordering="at").facts() == {**bare, "ordering": "at"}


def test_an_unknown_kind_is_refused_by_its_name() -> None:
    """A table that keeps something else is never read as rows that came so."""
    body = {**encode_table(table(Append())), "kind": "heap", "heap": {}}
    with pytest.raises(UnsupportedFormat, match="kind 'heap', this segtable knows append, rollup"):
        decode_table(body)
    footer = json.dumps({**body, "format": 1, "base_version": 7}).encode()
    with pytest.raises(UnsupportedFormat, match="upgrade segtable"):
        decode_definition(footer, "file")
