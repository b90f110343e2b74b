"""Merges into primary-key tables, and what the records of a change set."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator
from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark, SchemaMismatch
from airflow_provider_segtable.core.requests.change_request import Merge, Sql
from airflow_provider_segtable.core.tables.evolution import AddColumn
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table.changes.arrow_engine import arrow_rows, why_spark
from tests.unit.table.conftest import MemoryService, new_table

DAY_US = 86_400_000_000
NOW = 1_356_998_400_000_000
SCHEMA = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        ("at", pa.timestamp("us", "UTC")),
        ("seq", pa.int64()),
        ("text", pa.string()),
        ("count", pa.int64()),
    ]
)


def table(place: Any, **more: Any) -> Table:
    """Create a table with three keys of ``seq`` 5, without a coordinator."""
    given = {"primary_key": "key", "buckets": 2, "ordering": "seq", "granularity": "day", **more}
    made = Table.create(str(place), schema=SCHEMA, time_column="at", **given)
    made.upsert(rows(*({"key": key, "seq": 5, "text": "old", "count": key} for key in range(3))))
    return made


def rows(*given: dict[str, Any], at: int = NOW) -> pa.Table:
    """Return rows with the columns that one of them has."""
    names = {"at", *(name for row in given for name in row)}
    fields = [each for each in SCHEMA if each.name in names]
    extra = [pa.field(name, pa.int64()) for name in sorted(names - {*SCHEMA.names})]
    return pa.Table.from_pylist([{"at": at, **row} for row in given], pa.schema([*fields, *extra]))


def found(made: Table, *names: str) -> dict[int, Any]:
    """Return columns of the rows, by key; of one column its values."""
    read = made.scan(columns=["key", *names]).to_arrow().to_pylist()
    each = {row["key"]: tuple(row[name] for name in names) for row in read}
    assert len(each) == len(read)
    return {key: each[key] if len(names) > 1 else each[key][0] for key in sorted(each)}


def test_a_merge_updates_what_it_meets_and_inserts_the_rest(tmp_path: Any) -> None:
    """One event, no lock; other columns of a matched row stay."""
    made = table(tmp_path)
    before = made.state().n
    done = made.merge(rows({"key": 1, "seq": 6, "text": "b"}, {"key": 7, "text": "c"}), on="key")
    assert (done.n, done.matched, done.deleted, done.inserted) == (before + 1, 1, 1, 2)
    assert found(made, "seq", "text", "count") == {
        0: (5, "old", 0),
        1: (6, "b", 1),
        2: (5, "old", 2),
        7: (None, "c", None),
    }
    again = made.merge(rows({"key": 1, "text": "b"}), on="key", commit_id="once")
    twice = made.merge(rows({"key": 2, "text": "x"}), on="key", commit_id="once")
    assert (twice.n, twice.matched, twice.deleted) == (again.n, 1, None)
    assert found(made, "text")[2] == "old"


@pytest.mark.parametrize(
    ("matched", "unmatched", "expected"),
    [
        ("delete", "ignore", {0: "old", 2: "old"}),
        ("delete", "insert", {0: "old", 2: "old", 7: "new"}),
        ("update", "ignore", {0: "old", 1: "new", 2: "old"}),
        ("ignore", "insert", {0: "old", 1: "old", 2: "old", 7: "new"}),
    ],
)
def test_each_action_writes_its_records(
    tmp_path: Any, matched: str, unmatched: str, expected: dict[int, str]
) -> None:
    """A dry run counts what the run does, and writes nothing."""
    made = table(tmp_path)
    source = rows({"key": 1, "seq": 9, "text": "new"}, {"key": 7, "seq": 1, "text": "new"})
    asked: dict[str, Any] = {"on": ["key"], "matched": matched, "unmatched": unmatched}
    dry, n = made.merge(source, **asked, dry_run=True), made.state().n
    done = made.merge(source, **asked)
    counts = (1, 0 if matched == "ignore" else 1, (matched == "update") + (unmatched == "insert"))
    assert (dry.matched, dry.deleted, dry.inserted) == counts
    assert (done.matched, done.deleted, done.inserted) == counts
    assert (dry.n, done.n) == (None, n + 1)
    assert found(made, "text") == expected


def test_new_values_are_computed_from_both_rows(tmp_path: Any) -> None:
    """Values of ``set`` may name the row and its source row; other columns stay."""
    made = table(tmp_path)
    made.merge(
        rows({"key": 2, "more": 40}),
        on="key",
        set={"count": Sql("target.count + source.more")},
        unmatched="ignore",
    )
    assert found(made, "seq", "text", "count")[2] == (5, "old", 42)


def test_order_decides_between_a_merge_and_other_writers(tmp_path: Any) -> None:
    """A source row that is older than the row changes nothing; a later higher one wins over it."""
    made = table(tmp_path)
    made.merge(
        rows({"key": 0, "seq": 4, "text": "late"}, {"key": 1, "seq": 7, "text": "m"}), on="key"
    )
    made.upsert(rows({"key": 1, "seq": 6, "text": "late"}, {"key": 2, "seq": 9, "text": "new"}))
    assert found(made, "text") == {0: "old", 1: "m", 2: "new"}
    made.merge(rows({"key": 2}), on="key", matched="delete", unmatched="ignore")
    made.upsert(rows({"key": 2, "seq": 8, "text": "late"}))
    assert found(made, "text") == {0: "old", 1: "m"}
    made.upsert(rows({"key": 2, "seq": 10, "text": "again"}))
    assert found(made, "text")[2] == "again"


def test_two_merges_that_insert_one_key_leave_one_row(tmp_path: Any) -> None:
    """Both found no row; of their records the higher one is the row."""
    made = table(tmp_path)
    source = [rows({"key": 9, "seq": seq, "text": str(seq)}) for seq in (2, 1)]
    for given in source:
        made.merge(given, on="key", matched="ignore")
    first = Table.open(str(tmp_path))
    assert found(first, "text")[9] == "2"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"on": ["text"]}, "primary key key, and the merge joins on text: join on the key; or"),
        ({"on": ["key", "seq"]}, "joins on key, seq"),
        ({"set": {"key": 1}}, "column 'key' .* cannot be set"),
        ({"set": {"at": NOW}}, "column 'at' .* cannot be set"),
        ({"twice": True}, "2 rows of the source have key = 1, .* ambiguous"),
        ({"at": NOW + DAY_US}, "source row of key = 1 has the event time 2013-01-02"),
        ({"key": None}, "column 'key' is not null in the table"),
    ],
)
def test_what_a_merge_cannot_mean_is_refused(
    tmp_path: Any, asked: dict[str, Any], says: str
) -> None:
    """Nothing is written, and the message says what to do instead."""
    made = table(tmp_path)
    before = made.state().n
    asked = {"on": ["key"], **asked}
    one = {"key": asked.pop("key", 1), "seq": 6, "text": "b"}
    source = rows(*[one] * (2 if asked.pop("twice", False) else 1), at=asked.pop("at", NOW))
    with pytest.raises((InvalidInput, SchemaMismatch), match=says):
        made.merge(source, **asked)
    assert made.state().n == before


def test_a_time_chunk_of_all_time_takes_any_event_time(tmp_path: Any) -> None:
    """With granularity ``all`` a merge may set the event time, as an upsert may."""
    made = table(tmp_path, granularity="all")
    made.merge(rows({"key": 1, "seq": 6, "text": "b"}, at=NOW + DAY_US), on="key")
    assert made.scan(where="key = 1").to_arrow()["at"].cast(pa.int64()).to_pylist() == [
        NOW + DAY_US
    ]


def test_a_change_sets_only_its_columns_where_records_fill_each_other(tmp_path: Any) -> None:
    """What another writer sets meanwhile in other columns stays, in an update and in a merge."""
    schema = pa.schema([*SCHEMA, ("seen", pa.int64()), ("page", pa.string())])
    made = Table.create(
        str(tmp_path),
        schema=schema,
        time_column="at",
        granularity="all",
        primary_key="key",
        buckets=1,
        merge="partial_update",
        groups={"seen": ["page"]},
    )

    def put(**columns: Any) -> pa.Table:
        given = pa.schema([each for each in schema if each.name in ("at", *columns)])
        return pa.Table.from_pylist([{"at": NOW, **columns}], given)

    made.upsert(put(key=1, seq=1, text="a", count=1, seen=1, page="/"))
    made.update({"text": "u"}, "key = 1")
    made.merge(put(key=1, count=2), on="key")
    made.update({"page": None}, "key = 1")
    state = made.state()
    files = [s for s in state.timeline.visible_segments() if s.path]
    recorded = [
        pq.read_table(f"{tmp_path}/{s.path}", columns=["seq", "text", "count", "seen"])
        for s in sorted(files, key=lambda s: s.shard.root_start)
    ]
    assert [tuple(each.to_pylist()[0].values()) for each in recorded] == [
        *((1, "a", 1, 1), (None, "u", None, None), (None, None, 2, None)),
        (None, None, None, 1),  # a group is set as a whole
    ]
    assert found(made, "seq", "text", "count", "seen", "page") == {1: (1, "u", 2, 1, None)}
    with pytest.raises(InvalidInput, match="'text' would be set to null in 1 row"):
        made.update({"text": None}, "key = 1")
    made.alter(columns=[AddColumn(name="plan", type="string", default="free")])
    with pytest.raises(InvalidInput, match="'plan' would be set to null"):
        made.merge(put(key=1), on="key", set={"plan": None})
    made.update({"plan": "paid"}, "key = 1")
    assert found(made, "plan") == {1: "paid"}


def test_a_merge_by_a_condition_is_refused_before_spark_is_asked_for(tmp_path: Any) -> None:
    """No engine joins a primary-key table by a condition, so the error does not name one."""
    made = table(tmp_path)
    wanted = Merge(source=arrow_rows(rows({"key": 1})), on=Sql("target.key < source.key"))
    with pytest.raises(InvalidInput, match="the merge joins on target") as error:
        why_spark(wanted, made.snapshot())
    assert not isinstance(error.value, NeedsSpark)


@pytest.mark.parametrize("merge", ["latest", "partial_update"])
@pytest.mark.parametrize("left", ["in the only file", "after a semi-major", "in a log file"])
def test_a_deleted_key_is_inserted_whatever_file_has_its_tombstone(
    tmp_path: Any, merge: str, left: str
) -> None:
    """A key is there if a reader finds its row, not if a file has a record of it."""
    made = table(tmp_path, buckets=1, merge=merge)
    if left == "in the only file":
        made = Table.create(
            str(tmp_path / "other"),
            schema=SCHEMA,
            time_column="at",
            primary_key="key",
            buckets=1,
            merge=merge,
        )
        gone = rows({"key": 1, "text": "old"}, {"key": 2, "text": "old"})
        flags = pa.array([False, True])
        made.upsert(gone.append_column("gone", flags), deleted="gone")
    else:
        made.delete("key = 2")
    if left == "after a semi-major":
        clock = made.ports.clock
        coordinator = MemoryCoordinator(clock, MemoryService())
        Table(replace(made.ports, optional_coordinator=coordinator)).compact("semi-major")
    source = rows({"key": 2, "seq": 6, "text": "again"}, {"key": 1, "seq": 6, "text": "new"})
    for dry_run in (True, False):
        done = made.merge(source, on="key", dry_run=dry_run)
        assert (done.matched, done.deleted, done.inserted) == (1, 1, 2)
    assert {key: text for key, text in found(made, "text").items() if key} == {1: "new", 2: "again"}


@pytest.mark.parametrize("kind", ["append", "latest", "partial_update"])
def test_an_inserted_row_has_the_defaults_of_columns_that_the_source_lacks(
    tmp_path: Any, kind: str
) -> None:
    """All kinds of table have one rule, also with ``set``; an explicit null is a null."""
    if kind == "append":
        made = new_table(MemoryService())
        one = {"at": 0, "row": 1, "name": "a", "price": 1.0}
        made.append(pa.Table.from_pylist([one], made.snapshot().schema))
    else:
        made = table(tmp_path, merge=kind)
    added = [AddColumn(name="plan", type="string", default="free")]
    made.alter(columns=[*added, AddColumn(name="note", type="string")])
    key = "row" if kind == "append" else "key"
    schema = made.snapshot().schema
    own = {name: schema.field(name) for name in ("at", key, "plan")}

    def merged(number: int, **more: Any) -> None:
        given = {"at": NOW, key: number, **more.pop("given", {})}
        source = pa.Table.from_pylist([given], pa.schema([own[name] for name in given]))
        made.merge(source, on=key, **more)

    merged(7)
    merged(8, set={"plan": "paid"})
    merged(9, given={"plan": None})
    merged(1, set={"plan": "paid"})
    read = made.scan(columns=[key, "plan", "note"]).to_arrow().to_pylist()
    plans = {row[key]: row["plan"] for row in read}
    shown = None if kind != "partial_update" else "free"  # a null sets nothing there
    assert {each: plans[each] for each in (1, 7, 8, 9)} == {
        1: "paid",
        7: "free",
        8: "free",
        9: shown,
    }
    assert {row["note"] for row in read} == {None}
