"""Which files a table adopts as they are: the decision, by what footers say."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    WidenColumn,
    evolved,
)
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.time import DAY_US, Granularity
from airflow_provider_segtable.data.adoption.decision import (
    Action,
    Decision,
    decide,
    folder_columns,
    once,
)
from airflow_provider_segtable.data.adoption.derivation import (
    derived_granularity,
    derived_schema,
    derived_time_column,
)
from airflow_provider_segtable.data.adoption.file_facts import (
    FileFacts,
    TimeBounds,
    file_facts,
    settle_file,
    with_times,
)
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.local_files import LocalFiles
from airflow_provider_segtable.data.parquet.table_file import files_columns
from airflow_provider_segtable.ports.storage import Entry

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("row", pa.int32(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("tags", pa.list_(pa.int64())),
    ]
)
TABLE = TableDefinition(
    table_id="t",
    name="t",
    schema=from_arrow(SCHEMA),
    time_column="at",
    granularity=Granularity.DAY,
)


def rows(**columns: pa.Array) -> pa.Table:
    """Return three rows of one day, with other columns if given."""
    found = {
        "at": pa.array([0, 5, 9], SCHEMA.field("at").type),
        "row": pa.array([1, 2, 3], pa.int32()),
        "name": pa.array(["a", None, "b"]),
        "tags": pa.array([[1], [], None], SCHEMA.field("tags").type),
    }
    return pa.table({**found, **columns})


def facts_of(place: Path, table: pa.Table, path: str = "a.parquet", **options: Any) -> FileFacts:
    """Write a file, and return what its footer says, with the bounds of its event time."""
    (place / path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, place / path, **options)
    return facts_at(place, path)


def facts_at(place: Path, path: str) -> FileFacts:
    files, size = LocalFiles(place), (place / path).stat().st_size
    found = file_facts(files, Entry(path=path, size=size, modified=0))
    return with_times(files, [found], "at", lambda _done, _total: None)[0]


def decided(facts: FileFacts, table: TableDefinition = TABLE, **options: Any) -> Decision:
    return decide(facts, table, table.layout(), **options)


def altered(*changes: ColumnChange) -> TableDefinition:
    """Return the table after some changes of its columns."""
    schema = evolved(TABLE.schema, (), changes, "at")
    return replace(TABLE, schema=schema, earlier=(TABLE.schema,))


def without(name: str) -> pa.Table:
    return rows().drop([name])


def test_a_plain_file_is_adopted(tmp_path: Path) -> None:
    """The decision knows its time chunk, and the first and last event time."""
    found = decided(facts_of(tmp_path, rows()))
    assert (found.action, found.reason, found.bounds) == (Action.ADOPT, "", TimeBounds(0, 9))
    assert found.chunk == Granularity.DAY.chunk(0)


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(rows().select(["tags", "name", "row", "at"]), id="another order"),
        pytest.param(without("name"), id="a nullable column is missing"),
        pytest.param(rows(name=rows()["name"].dictionary_encode()), id="a dictionary"),
        pytest.param(rows(name=rows()["name"].cast(pa.large_string())), id="long offsets"),
        pytest.param(rows().cast(files_columns(TABLE.schema, TABLE.kind)), id="the same ids"),
    ],
)
def test_files_with_the_same_values_are_adopted(tmp_path: Path, table: pa.Table) -> None:
    """How a program writes them down is no matter."""
    assert decided(facts_of(tmp_path, table)).action is Action.ADOPT


@pytest.mark.parametrize(
    ("table", "word"),
    [
        (rows(row=pa.array([1, 2, 3], pa.int64())), "'row' is int64, the table has int32"),
        (rows(at=pa.array([0, 5, 9], pa.timestamp("ns", "UTC"))), "'at' is timestamp.ns"),
        (rows(at=pa.array([0, 5, 9], pa.timestamp("us"))), "'at' is timestamp.us"),
        (rows(at=pa.array([0, 5, DAY_US], SCHEMA.field("at").type)), "in several time chunks"),
        (rows(name=pa.nulls(3)), "'name' is null"),
    ],
)
def test_what_can_be_read_otherwise_is_copied(tmp_path: Path, table: pa.Table, word: str) -> None:
    """The reason names the column, its type, and the table's."""
    found = decided(facts_of(tmp_path, table))
    assert found.action is Action.COPY, found.reason
    assert word.replace(".", "[") in found.reason.replace(".", "[")


@pytest.mark.parametrize(
    ("table", "word"),
    [
        (rows(extra=pa.array([1, 2, 3])), "--ignore-columns extra"),
        (without("at"), "no column 'at', the event time"),
        (without("row"), "no column 'row', which is not null"),
        (rows(row=pa.array([1, None, 3], pa.int32())), "'row' has nulls"),
        (rows(at=pa.array([0, None, 9], SCHEMA.field("at").type)), "'at' has nulls"),
        (rows(at=pa.array([0, 5, 10**18], SCHEMA.field("at").type)), "check the unit"),
        (rows(__segtable_x=pa.array([1, 2, 3])), "reserved name"),
    ],
)
def test_what_would_lose_something_is_refused(tmp_path: Path, table: pa.Table, word: str) -> None:
    """The reason has the way out."""
    found = decided(facts_of(tmp_path, table))
    assert (found.action, word in found.reason) == (Action.REFUSE, True), found.reason


def test_times_are_read_where_statistics_lack(tmp_path: Path) -> None:
    """The bounds are the same."""
    found = facts_of(tmp_path, rows(), write_statistics=False)
    assert found.times["at"] == TimeBounds(0, 9)
    assert decided(found).action is Action.COPY  # whether "row" has nulls is not known
    assert decided(found, altered(MakeNullable(name="row"))).action is Action.COPY


def test_int96_is_copied(tmp_path: Path) -> None:
    """It has no logical type, so readers take it for different ones."""
    found = decided(facts_of(tmp_path, rows(), use_deprecated_int96_timestamps=True))
    assert (found.action, "INT96" in found.reason) == (Action.COPY, True)


@pytest.mark.parametrize(("own", "ids"), [("at", 7), ("name", 1), ("tags", 3)])
def test_other_ids_are_copied(tmp_path: Path, own: str, ids: int) -> None:
    """Readers would take one column for another, or find none."""
    schema = files_columns(TABLE.schema, TABLE.kind)
    at = schema.get_field_index(own)
    wrong = schema.field(at).with_metadata({"PARQUET:field_id": str(ids)})
    found = decided(facts_of(tmp_path, rows().cast(schema.set(at, wrong))))
    assert (found.action, f"field id {ids}" in found.reason) == (Action.COPY, True), found.reason


def test_ids_within_a_column_count_too(tmp_path: Path) -> None:
    """Iceberg numbers the elements of lists in its own way."""
    schema = files_columns(TABLE.schema, TABLE.kind)
    at = schema.get_field_index("tags")
    element = pa.field("element", pa.int64(), metadata={"PARQUET:field_id": "5"})
    other = schema.field(at).with_type(pa.list_(element))
    assert decided(facts_of(tmp_path, rows().cast(schema.set(at, other)))).action is Action.COPY


def test_ignored_columns_are_left_out(tmp_path: Path) -> None:
    """Unless they have an id, by which a later column could be found."""
    some = rows(extra=pa.array([1, 2, 3]))
    assert decided(facts_of(tmp_path, some), ignored=["extra"]).action is Action.ADOPT
    schema = files_columns(TABLE.schema, TABLE.kind)
    numbered = schema.append(pa.field("extra", pa.int64(), metadata={"PARQUET:field_id": "5"}))
    found = decided(facts_of(tmp_path, some.cast(numbered)), ignored=["extra"])
    assert (found.action, "field id 5" in found.reason) == (Action.COPY, True)


def test_columns_of_folder_names_are_in_the_file_too(tmp_path: Path) -> None:
    """Or they are to be ignored."""
    found = facts_of(tmp_path, rows(), "day=2026-01-05/a.parquet")
    assert folder_columns(found.path) == ["day"]
    assert "--ignore-columns day" in decided(found).reason
    assert decided(found, ignored=["day"]).action is Action.ADOPT
    both = facts_of(tmp_path, rows(), "row=1/a.parquet")
    assert decided(both).action is Action.ADOPT


@pytest.mark.parametrize("path", ["a b.parquet", "day=1%3A00/a.parquet", "é.parquet"])
def test_paths_that_metadata_cannot_name_are_copied(tmp_path: Path, path: str) -> None:
    """Renaming such a file is the other way out."""
    found = decided(facts_of(tmp_path, rows(), path), ignored=["day"])
    assert (found.action, "its path" in found.reason) == (Action.COPY, True)


@pytest.mark.parametrize(
    ("change", "action"),
    [
        (RenameColumn(name="name", new="label"), Action.REFUSE),
        (AddColumn(name="more", type="int64"), Action.ADOPT),
        (DropColumn(name="name"), Action.REFUSE),
        (WidenColumn(name="row", type="int64"), Action.ADOPT),
        (MakeNullable(name="row"), Action.ADOPT),
    ],
)
def test_a_file_without_ids_has_the_first_columns(
    tmp_path: Path, change: ColumnChange, action: Action
) -> None:
    """Under their first names, with their first types: so all readers of files find them."""
    assert decided(facts_of(tmp_path, rows()), altered(change)).action is action


@pytest.mark.parametrize(
    ("change", "table"),
    [
        (
            RenameColumn(name="name", new="label"),
            rows().rename_columns(["at", "row", "label", "tags"]),
        ),
        (AddColumn(name="more", type="int64"), rows(more=pa.array([1, 2, 3]))),
        (WidenColumn(name="row", type="int64"), rows(row=pa.array([1, 2, 3]))),
        (DropColumn(name="row"), without("row")),
        (MakeNullable(name="row"), without("row")),
    ],
)
def test_a_file_with_the_present_columns_may_have_to_be_copied(
    tmp_path: Path, change: ColumnChange, table: pa.Table
) -> None:
    """Where they are not those of the creation."""
    assert decided(facts_of(tmp_path, table), altered(change)).action is Action.COPY


def test_a_name_of_two_columns_is_not_mistaken(tmp_path: Path) -> None:
    """The name that a renamed column left may be that of a later one, or of an ignored one."""
    swapped = altered(RenameColumn(name="name", new="label"), AddColumn(name="name", type="string"))
    assert decided(facts_of(tmp_path, rows()), swapped).action is Action.COPY
    renamed = altered(RenameColumn(name="name", new="label"))
    assert decided(facts_of(tmp_path, rows()), renamed, ignored=["name"]).action is Action.COPY


def test_a_table_with_hidden_columns_adopts_nothing(tmp_path: Path) -> None:
    """Files of a primary-key table have more than other programs write."""
    kind, _ = PrimaryKey(key=("row",)).bound(
        TABLE.schema, time_column="at", granularity=Granularity.DAY
    )
    assert decided(facts_of(tmp_path, rows()), replace(TABLE, kind=kind)).action is Action.COPY


def test_broken_files_are_refused(tmp_path: Path) -> None:
    """Also those that are still written, and those of segtable itself."""
    whole = facts_of(tmp_path, rows())
    (tmp_path / "torn.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    (tmp_path / "text.parquet").write_text("at,row\n")
    for name in ("torn.parquet", "text.parquet"):
        assert decided(facts_at(tmp_path, name)).action is Action.REFUSE
    files = LocalFiles(tmp_path)
    grows = file_facts(files, Entry(path="a.parquet", size=whole.size - 1, modified=0))
    assert "being written" in decided(grows).reason
    assert decided(replace(whole, descriptor=True)).action is Action.REFUSE


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    """Between the look at its footer and the commit."""
    found = facts_of(tmp_path, rows())
    assert settle_file(LocalFiles(tmp_path), found) == ""
    facts_of(tmp_path, rows(name=pa.array(["a", None, "c"])))
    assert "written again" in settle_file(LocalFiles(tmp_path), found)
    facts_of(tmp_path, rows(name=pa.array(["a", None, "c" * 99])))
    assert "bytes" in settle_file(LocalFiles(tmp_path), found)
    (tmp_path / "a.parquet").unlink()
    assert settle_file(LocalFiles(tmp_path), found)


@pytest.mark.parametrize(
    ("known", "recorded", "action"),
    [((), (), Action.ADOPT), (("a.parquet",), (), Action.SKIP), ((), ("a.parquet",), Action.COPY)],
)
def test_a_name_is_adopted_once(
    tmp_path: Path, known: tuple[str, ...], recorded: tuple[str, ...], action: Action
) -> None:
    """A later file of a name is copied: a cleaner may be about to delete the earlier one."""
    found = decided(facts_of(tmp_path, rows()))
    assert once(found, known=known, recorded=recorded).action is action


def test_columns_are_derived_from_all_files(tmp_path: Path) -> None:
    """The type of most files counts; a column of nulls has none."""
    files = [
        facts_of(tmp_path, rows(name=pa.nulls(3)), "a.parquet"),
        facts_of(tmp_path, rows(more=pa.array([1, 2, 3], pa.int64())), "b.parquet"),
        facts_of(tmp_path, rows(more=pa.array([1, 2, 3], pa.int32())), "c.parquet"),
        facts_of(tmp_path, rows(more=pa.array([1, 2, 3], pa.int32()).dictionary_encode())),
    ]
    found = derived_schema(files, ["tags"])
    assert found.names == ["at", "row", "name", "more"]
    assert (found.field("name").type, found.field("more").type) == (pa.string(), pa.int32())


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ((("a", pa.int64()), ("b", pa.timestamp("ms"))), "b"),
        ((("a", pa.date32()), ("b", pa.timestamp("ms"))), "b"),
        ((("a", pa.date32()), ("b", pa.string())), "a"),
        ((("a", pa.timestamp("s")), ("b", pa.timestamp("ms"))), "choose by --time-column"),
        ((("a", pa.int64()),), "no column is a timestamp"),
    ],
)
def test_the_event_time_is_the_only_time(
    columns: tuple[tuple[str, pa.DataType], ...], expected: str
) -> None:
    """Otherwise the choice is the user's."""
    if len(expected) == 1:
        assert derived_time_column(pa.schema(columns)) == expected
    else:
        with pytest.raises(InvalidInput, match=expected):
            derived_time_column(pa.schema(columns))


@pytest.mark.parametrize(
    ("split", "expected"),
    [(0, Granularity.HOUR), (1, Granularity.HOUR), (2, Granularity.DAY), (19, Granularity.DAY)],
)
def test_the_granularity_fits_nine_of_ten_files(split: int, expected: Granularity) -> None:
    """The finest one that does."""
    hour = DAY_US // 24
    bounds = [TimeBounds(0, (hour if each < split else hour - 1)) for each in range(19)]
    assert derived_granularity(bounds[:19]) is expected


def test_weeks_are_not_derived() -> None:
    """They lie in no month, so a later compaction could not join them into one."""
    monday = 4 * DAY_US
    assert derived_granularity([TimeBounds(monday, monday + 6 * DAY_US)]) is Granularity.MONTH


def test_without_rows_the_granularity_is_some_one() -> None:
    """There is nothing to adopt then."""
    assert derived_granularity([]) is Granularity.HOUR
