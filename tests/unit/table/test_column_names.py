"""Columns that cannot work are refused when they are named; those that a table has are renamed."""

from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput, InvalidName, SchemaMismatch
from airflow_provider_segtable.core.schema import (
    Column,
    Order,
    Schema,
    joined_names,
    no_column,
    split_names,
)
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import AddColumn, RenameColumn, WidenColumn
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table.table import create_table

pytestmark = pytest.mark.usefixtures("memory_zookeeper")

AT = ("at", pa.timestamp("us", "UTC"))


def _create(*columns: tuple[str, pa.DataType], **given: str) -> Table:
    schema = pa.schema([AT, *columns])
    return Table.create(f"memory://{uuid4()}", schema=schema, time_column="at", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "*", " a", "a ", "__segtable_x"])
def test_names_that_cannot_work(name: str) -> None:
    """A name is refused wherever it is given: at creation, addition and renaming."""
    with pytest.raises(InvalidName, match="choose another"):
        _create((name, pa.int64()))
    made = _create(("a", pa.int64()))
    for change in (AddColumn(name=name, type="int64"), RenameColumn(name="a", new=name)):
        with pytest.raises(InvalidName, match="choose another"):
            made.alter(columns=[change])


@pytest.mark.parametrize("name", ["", "*"])
def test_a_table_that_has_such_a_name_renames_it(name: str) -> None:
    """A table of an earlier segtable is read, deleted from and compacted after a rename."""
    columns = (Column(name="at", type=str(AT[1])), Column(name=name, type="int64"))
    made = TableDefinition(
        table_id=str(uuid4()),
        name="old",
        schema=Schema(columns),
        time_column="at",
        granularity=Granularity.DAY,
    )
    ports = Table.connect(f"memory://{uuid4()}", None, None, None)
    table = Table(create_table(ports, replace(made)).ports)
    for n in range(3):
        table.append(pa.table([pa.array([0], AT[1]), [n]], names=["at", name]))
    table.alter(columns=[RenameColumn(name=name, new="n")])
    table.delete("n = 1")
    table.compact("semi-major")
    assert sorted(table.scan(columns=["n"]).to_arrow()["n"].to_pylist()) == [0, 2]


def test_names_with_commas_work() -> None:
    """A name with a comma or parentheses is in quotes in lists, and is sorted by."""
    names = ("price, net", "x (EUR)", 'a"b', "plain")
    assert split_names(joined_names(names)) == names
    assert Order.parse(str(Order(columns=names, curve="zorder"))).columns == names
    columns = [(name, pa.int64()) for name in names]
    made = _create(*columns)
    rows = [pa.array([0, 0], AT[1]), *([2, 1] for _ in names)]
    made.append(pa.table(rows, names=["at", *names]))
    made.compact("semi-major", clustering='"price, net","x (EUR)"')
    assert made.scan(columns=["price, net"]).to_arrow().to_pydict() == {"price, net": [1, 2]}
    with pytest.raises(InvalidInput):
        Order.parse("a(b)")


def test_a_quote_that_does_not_end_is_a_part_of_a_name() -> None:
    """What earlier segtables stored as a list is read as it was."""
    assert split_names('a"b, "c') == ('a"b', '"c')
    assert split_names(" a ,,b") == ("a", "", "b")


@pytest.mark.parametrize(
    "kind",
    [pa.decimal128(5, -2), pa.list_(pa.decimal128(5, -2)), pa.decimal128(3, 5), pa.struct([])],
)
def test_types_that_parquet_cannot_store(kind: pa.DataType) -> None:
    """They are refused at creation and addition, with the column and its type."""
    with pytest.raises(SchemaMismatch, match="column 'd' has type"):
        _create(("d", kind))
    with pytest.raises(SchemaMismatch, match="'d'"):
        _create().alter(columns=[AddColumn(name="d", type=str(kind))])


def test_dictionaries_and_views_are_stored_as_their_values() -> None:
    """As the guide says: rows of such types are appended, and come back as plain values."""
    coded = pa.dictionary(pa.int8(), pa.string())
    made = _create(("d", coded), ("v", pa.string_view()), ("r", pa.list_(coded)))
    assert [str(field.type) for field in made.schema][1:] == [
        "string",
        "string",
        "list<item: string>",
    ]
    made.append(
        pa.table(
            {
                "at": pa.array([0], AT[1]),
                "d": pa.array(["a"]).dictionary_encode(),
                "v": pa.array(["b"], pa.string_view()),
                "r": pa.array([["c"]]),
            }
        )
    )
    assert made.scan(columns=["d", "v", "r"]).to_arrow().to_pylist() == [
        {"d": "a", "v": "b", "r": ["c"]}
    ]


def test_types_are_written_in_either_way() -> None:
    """A column is added, and widened, by a type as Arrow or SQL writes it; else it is said how."""
    made = _create(("n", pa.decimal128(5, 2)))
    made.alter(columns=[AddColumn(name="d", type="decimal(10,2)")])
    made.alter(columns=[WidenColumn(name="n", type="numeric(12, 2)")])
    assert [str(f.type) for f in made.schema][1:] == ["decimal128(12, 2)", "decimal128(10, 2)"]
    with pytest.raises(SchemaMismatch, match=r"decimal\(10, 2\)"):
        made.alter(columns=[AddColumn(name="e", type="money")])


def test_no_number_becomes_infinite() -> None:
    """A number that is too large for a narrower type is refused with its row; infinity stays."""
    made = _create(("x", pa.float32()))
    at = pa.array([0, 0], AT[1])
    with pytest.raises(SchemaMismatch, match=r"1e\+300 in row 1 \(from 0\)"):
        made.append(pa.table([at, pa.array([float("inf"), 1e300])], names=["at", "x"]))
    made.append(pa.table([at, pa.array([float("inf"), 1.5])], names=["at", "x"]))
    assert made.scan().to_arrow()["x"].to_pylist() == [float("inf"), 1.5]


@pytest.mark.parametrize("child", ["item", "element", "thing"])
def test_items_of_lists_keep_their_name(child: str) -> None:
    """However rows name the items of a list, readers see the table's name, in every type."""
    kind = pa.list_(pa.field("item", pa.int64()))
    made = _create(("l", kind), ("s", pa.struct([("a", kind)])))
    given = pa.list_(pa.field(child, pa.int64()))
    nested = pa.array([{"a": [2]}], pa.struct([("a", given)]))
    rows = [pa.array([0], AT[1]), pa.array([[1]], given), nested]
    for _ in range(2):
        made.append(pa.table(rows, names=["at", "l", "s"]))
    for _ in ("before", "after"):
        found = made.scan().to_arrow()
        for column in (*found.columns, *(batch.column(1) for batch in found.to_batches())):
            assert child == "item" or child not in str(column.type)
        made.compact("semi-major")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("fair", "fare"),
        ("FARE", "fare"),
        ("rider_i", "Rider_ID"),
        ("tips", None),
        ("zebra", None),
        ("", None),
    ],
)
def test_a_name_that_is_almost_right_is_answered_with_the_right_one(
    name: str, meant: str | None
) -> None:
    """The nearest column is proposed, as it is spelled, if it is near; all are listed anyway."""
    message = str(no_column(name, ["at", "fare", "Rider_ID"], "to set"))
    proposed = f"did you mean {meant!r}? " if meant else ""
    assert message == (
        f"there is no column {name!r} to set: {proposed}the table has at, fare, Rider_ID"
    )
