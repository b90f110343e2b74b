"""Checkpoints of a log store beside alterations, with marks of deletes, and with given ids."""

from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import Fenced, InvalidInput, OffsetGap
from airflow_provider_segtable.core.tables.evolution import AddColumn, DropColumn, RenameColumn
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.ports.log_store import Cut
from airflow_provider_segtable.table.log_store.checkpointing import (
    DELETED,
    begin_epoch,
    commit_cut,
    deleted_column,
    log_schema,
    refused,
)
from airflow_provider_segtable.table.table import Table
from tests.unit.table.logged import Logged, bucket_cut

KEYED = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("value", pa.string()),
    ]
)


@pytest.fixture
def logged(table: Table) -> Logged:
    """A service that has taken buckets 0 and 1."""
    made = Logged(table)
    made.begin(0, 1)
    return made


@pytest.fixture
def keyed() -> Table:
    """A primary-key table; of records with one key the later write wins."""
    return Table.create(
        f"memory://{uuid4()}",
        schema=KEYED,
        time_column="at",
        granularity="all",
        primary_key="id",
        buckets=2,
    )


def keyed_rows(*records: tuple[int, str | None, bool | None]) -> pa.Table:
    given = [{"at": 1, "id": id_, "value": v, DELETED: gone} for id_, v, gone in records]
    return pa.Table.from_pylist(given, KEYED.append(pa.field(DELETED, pa.bool_())))


def test_alterations_are_not_in_the_way_of_a_running_store(logged: Logged) -> None:
    """Records of the old columns are committed, and read in the table's present ones."""
    table = logged.table
    columns, before = table.state(), table.scan().to_arrow().num_rows
    cut = logged.cut(b0=3)
    table.alter(
        columns=[
            AddColumn(name="note", type="string", default="none"),
            RenameColumn(name="name", new="title"),
            DropColumn(name="price"),
        ]
    )
    assert commit_cut(table.ports, cut, columns=columns)
    found = table.scan().to_arrow()
    assert found.column_names == ["at", "row", "title", "note"]
    assert found.num_rows == before + 3
    read = {(each["row"], each["title"], each["note"]) for each in found.to_pylist()}
    assert {(n, f"n{n}", "none") for n in range(3)} <= read


def test_marked_records_delete_their_key_and_null_is_no_mark(keyed: Table) -> None:
    """The log's schema has one column more, which is not stored."""
    state = keyed.state()
    schema = log_schema(state)
    assert schema == keyed_rows().schema
    begun = begin_epoch(keyed.ports, [0], owner="me")
    rows = keyed_rows((1, "a", None), (2, "b", False), (3, "c", False), (3, None, True))
    cut = Cut(buckets={0: bucket_cut(0, begun.epoch, 0, rows)})
    assert commit_cut(keyed.ports, cut, deleted=deleted_column(state))
    assert keyed.scan().to_arrow().sort_by("id").column("value").to_pylist() == ["a", "b"]


def test_of_a_key_in_two_buckets_the_higher_bucket_wins(keyed: Table) -> None:
    """Whatever the tokens of the files are; a writer that routes by key never does this."""
    begun = begin_epoch(keyed.ports, [0, 1], owner="me")
    for turn in range(4):
        cut = Cut(
            buckets={
                n: bucket_cut(n, begun.epoch, turn, keyed_rows((7, f"{turn} in {n}", False)))
                for n in (1, 0)
            }
        )
        commit_cut(keyed.ports, cut, deleted=DELETED)
        assert keyed.scan().to_arrow().column("value").to_pylist() == [f"{turn} in 1"]


def test_a_rollup_table_is_refused_with_its_reason() -> None:
    """Before anything starts."""
    table = Table.create(
        f"memory://{uuid4()}",
        schema=pa.schema([("at", pa.timestamp("us", "UTC")), ("host", pa.string())]),
        time_column="at",
        kind=Rollup(dimensions=("host",)),
    )
    with pytest.raises(InvalidInput, match=r"cannot have a log store: .* a row stands for many"):
        log_schema(table.state(), table.ports.uri)


def test_a_given_id_commits_once_and_stands_for_its_records(logged: Logged) -> None:
    """A repetition has the same result; other records under the same id are refused."""
    ports, cut = logged.table.ports, logged.cut(b0=2)
    done = [commit_cut(ports, cut, commit_id="batch-7") for _ in range(2)]
    assert done[0]
    assert done[1]
    assert done[0].n == done[1].n == logged.table.state().commits["batch-7"]
    logged.ends[0] = 2
    with pytest.raises(InvalidInput, match="'batch-7' stands for event"):
        commit_cut(ports, logged.cut(b0=1), commit_id="batch-7")


def test_the_log_names_the_buckets_that_it_refuses(logged: Logged, other: Table) -> None:
    """One was taken by another service, one does not follow, one is right."""
    logged.begin(0, 1, 2)
    logged.ends[1] = 5
    cut = logged.cut(b0=1, b1=1, b2=1)
    begin_epoch(other.ports, [0], owner="another")
    found = refused(other.state(), cut)
    assert {bucket: type(why) for bucket, why in found.items()} == {0: Fenced, 1: OffsetGap}
    rest = replace(cut, buckets={2: cut.buckets[2]})
    assert commit_cut(logged.table.ports, rest)


def test_a_writer_goes_on_only_in_its_own_epoch(logged: Logged, other: Table) -> None:
    """After a failure it does not fence another writer that has replaced it meanwhile."""
    first = begin_epoch(logged.table.ports, [0], owner="me").epoch
    mine = begin_epoch(logged.table.ports, [0], owner="me", after=first)
    assert mine.epoch == first + 1
    assert begin_epoch(logged.table.ports, [0], owner="me", after=first).epoch == first + 2
    begin_epoch(other.ports, [0], owner="another")
    before = other.state().n
    with pytest.raises(Fenced, match="begun by another; this writer's was"):
        begin_epoch(logged.table.ports, [0], owner="me", after=first + 2)
    assert other.state().n == before
