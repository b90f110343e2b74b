"""The index of records: a fact about each record of a primary-key table, and no other table."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_state import index_table
from airflow_provider_segtable.core.indexes.record_index import RecordIndex
from airflow_provider_segtable.core.log.events import decode, encode
from airflow_provider_segtable.core.tables.definition import decode_kind
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.planning.properties import wished_indexes
from airflow_provider_segtable.services.attempt import Done, Job, in_process
from airflow_provider_segtable.services.index_run import run_index
from airflow_provider_segtable.table.committer import forward_feeds
from tests.unit.table.test_keyed_merge import NOW, SCHEMA, rows
from tests.unit.table.test_keyed_merge import table as keyed_table

pytestmark = pytest.mark.usefixtures("memory_zookeeper")

DAY = 86_400_000_000


def facts(made: Table) -> list[tuple[Any, ...]]:
    """Return the facts, by key: the key, the ordering value, the day, whether it deletes."""
    found = made.index_entries("keys")
    days = ((at - NOW) // DAY for at in found["start"].cast(pa.int64()).to_pylist())
    names = ("key_1", "ordering", "deleted")
    columns = [found[name].to_pylist() for name in names]
    return sorted(zip(columns[0], columns[1], days, columns[2], strict=True))


def test_a_build_and_a_feed_find_a_fact_about_each_record(tmp_path: Any) -> None:
    """Users name no columns; a delete is a fact, too, and a compaction has nothing to feed."""
    made = keyed_table(tmp_path)
    made.create_index("keys", "record_index")
    assert facts(made) == []
    made.upsert(rows({"key": 9, "seq": 1}))
    assert made.run_index("keys").left == 0
    assert facts(made) == [(0, 5, 0, False), (1, 5, 0, False), (2, 5, 0, False), (9, 1, 0, False)]
    made.delete("key = 1")
    assert (1, 5, 0, True) in facts(made)
    known = facts(made)
    made.compact(kind="semi-major")
    assert made.index("keys").current
    assert facts(made) == known
    made.rebuild_index("keys")
    made.run_index("keys")
    assert facts(made) == [fact for fact in known if fact != (1, 5, 0, False)]


def test_records_of_files_that_were_cleaned_before_the_build_read_them(tmp_path: Any) -> None:
    """They are in outputs of compactions, which lack in no index of records: these are read."""
    made = keyed_table(tmp_path)
    made.upsert(rows({"key": 0, "seq": 4}, {"key": 1, "seq": 4}))
    made.upsert(rows({"key": 1, "seq": 6}, at=NOW + DAY))
    made.create_index("keys", "record_index")
    work = [
        lambda: made.clean(retention_hours=0, retention_versions=1),
        lambda: made.compact("semi-major"),
    ]

    def meanwhile(jobs: Sequence[Job]) -> Iterator[Done]:
        while work:
            work.pop()()
        return in_process(made.ports.files)(jobs)

    done = run_index(made.ports, "keys", meanwhile)
    assert (done.left, done.settled) == (0, 1)
    assert {fact[:3] for fact in facts(made)} >= {(0, 5, 0), (1, 6, 1), (2, 5, 0)}
    assert sorted(made.scan(columns=["key"]).to_arrow()["key"].to_pylist()) == [0, 1, 2]


def test_the_key_alone_decides_the_bucket_of_a_fact(tmp_path: Any) -> None:
    """So a look-up of a key reads one bucket; the setting is in the log only where it is used."""
    made = keyed_table(tmp_path)
    made.create_index("keys", "record_index")
    definition = made.index("keys").definition
    kind = index_table(definition, made.state().table).kind
    assert isinstance(kind, PrimaryKey)
    assert (kind.key, kind.divided_by, kind.buckets) == (("key_1", "write_token"), ("key_1",), 4)
    assert decode_kind(kind.encoded()) == kind
    assert "divided_by" not in str(made.state().table.kind.encoded())
    for event in made.ports.log.events(0):
        assert decode(encode(event), "here") == event
    for seq in range(6, 9):
        made.upsert(rows({"key": 1, "seq": seq}))
    forward_feeds(made.ports, made.state())
    own = made.ports.within(f"_segtable/indexes/{definition.id}").log.load()
    fed = [segment for _, feed in made.index("keys").feeds for segment in feed.segments]
    assert len({segment.id.bucket for segment in [*own.timeline.each_visible(), *fed]}) == 1


def test_a_bucket_is_decided_by_columns_of_the_key() -> None:
    """Others are not known of a delete."""
    with pytest.raises(InvalidInput, match="'b' is to decide the bucket, but is not part of the"):
        MergeRules(key=("a",), divided_by=("b",))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"primary_key": None, "ordering": "", "buckets": 4}, "has no primary key"),
        ({"merge": "partial_update"}, "use it with merge='latest', or a table of granularity"),
    ],
)
def test_a_table_that_cannot_have_one_is_refused(
    tmp_path: Any, more: dict[str, Any], said: str
) -> None:
    """Before anything is written, with the way out."""
    given = {"primary_key": "key", "ordering": "seq", "granularity": "day", **more}
    made = Table.create(str(tmp_path), schema=SCHEMA, time_column="at", **given)
    with pytest.raises(InvalidInput, match=said):
        made.create_index("keys", "record_index")
    with pytest.raises(InvalidInput, match="record_index has no columns: leave it out"):
        made.create_index("keys", "record_index", ["key"])
    assert made.state().n == 0


def test_an_index_of_other_columns_than_the_key_is_refused(tmp_path: Any) -> None:
    """Whoever wrote its request: a look-up by part of a key would find other records."""
    definition = keyed_table(tmp_path).state().table
    RecordIndex(columns=(1,)).check(definition)
    with pytest.raises(InvalidInput, match=r"does not fit .*, whose key is key: leave the columns"):
        RecordIndex(columns=(1, 2)).check(definition)


def test_a_policy_asks_for_one_by_its_name(tmp_path: Any) -> None:
    """A table that cannot have one refuses the property."""
    made = keyed_table(tmp_path)
    made.alter(set={"index.keys": "record_index"})
    (wish,) = wished_indexes(made.state().table.properties)
    assert wish.bound(made.state().table) == RecordIndex(columns=(1,))
    other = Table.create(str(tmp_path / "other"), schema=SCHEMA, time_column="at")
    with pytest.raises(InvalidInput, match=r"property index.keys = 'record_index': .* no primary"):
        other.alter(set={"index.keys": "record_index"})
