"""Schema evolution: what changes give, what is refused and how; ids are given once."""

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, InvalidName, SchemaMismatch
from airflow_provider_segtable.core.schema import Column, Schema, decode_columns, encode_columns
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    Reorder,
    WidenColumn,
    column_histories,
    evolved,
    widens,
)

FIRST = Schema(
    (
        Column(name="at", type="timestamp[us]", nullable=False),
        Column(name="n", type="int32", nullable=False),
        Column(name="who", type="string"),
    )
)


def after(*changes: ColumnChange) -> Schema:
    return evolved(FIRST, (), changes, "at")


def test_ids_follow_their_columns_and_are_never_given_again() -> None:
    """Whatever is dropped, renamed or moved; also over several alterations."""
    second = after(
        DropColumn(name="who"),
        RenameColumn(name="n", new="who"),
        AddColumn(name="n", type="double", default="0.5"),
        Reorder(names=("n", "who")),
    )
    assert [(c.name, c.id, c.old_name) for c in second.numbered] == [
        ("n", 4, ""),
        ("who", 2, "n"),
        ("at", 1, "at"),
    ]
    third = evolved(second, (FIRST,), [DropColumn(name="n")], "at")
    fourth = evolved(
        third, (FIRST, second), [AddColumn(name="n", type="int8"), MakeNullable(name="who")], "at"
    )
    assert [(c.name, c.id, c.nullable) for c in fourth.numbered] == [
        ("who", 2, True),
        ("at", 1, False),
        ("n", 5, True),
    ]
    assert [s.number for s in (FIRST, second, third, fourth)] == [0, 1, 2, 3]
    for schema in (FIRST, second, third, fourth):
        assert decode_columns(encode_columns(schema), schema.number) == schema


def test_a_name_may_change_in_case_alone() -> None:
    """To Spark both are one name, but a column is not in its own way."""
    assert after(RenameColumn(name="who", new="Who")).names == ("at", "n", "Who")


def test_a_schema_as_created_is_written_as_ever() -> None:
    """Ids that are positions are left out, so the first event's bytes stay the same."""
    assert [sorted(column) for column in encode_columns(FIRST)] == [
        ["name", "nullable", "type"]
    ] * 3
    assert [column.id for column in FIRST.numbered] == [1, 2, 3]


@pytest.mark.parametrize(
    ("old", "new", "right"),
    [
        ("int8", "int64", True),
        ("int64", "int32", False),
        ("uint8", "int64", False),
        ("uint8", "uint32", True),
        ("halffloat", "double", True),
        ("double", "float", False),
        ("int32", "double", False),
        ("decimal128(9, 2)", "decimal128(12, 2)", True),
        ("decimal128(9, 2)", "decimal128(12, 3)", False),
        ("decimal128(9, 2)", "decimal128(8, 2)", False),
        ("string", "int64", False),
        ("string", "string", True),
    ],
)
def test_types_become_wider_only(old: str, new: str, right: bool) -> None:  # noqa: FBT001
    """A wider type holds every value of the narrower one."""
    assert widens(old, new) is right


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (DropColumn(name="at"), InvalidInput, "'at' is the event time.*cannot be dropped"),
        (RenameColumn(name="at", new="t"), InvalidInput, "cannot be renamed"),
        (WidenColumn(name="at", type="date32[day]"), InvalidInput, "cannot be changed in type"),
        (MakeNullable(name="at"), InvalidInput, "cannot be made nullable"),
        (WidenColumn(name="n", type="int8"), SchemaMismatch, "'n' cannot become int8.*int64"),
        (DropColumn(name="x"), SchemaMismatch, "no column 'x': the table has at, n, who"),
        (AddColumn(name="WHO", type="int8"), InvalidName, "there is a column 'who'"),
        (AddColumn(name="", type="int8"), InvalidName, "empty or reserved"),
        (RenameColumn(name="n", new="__segtable_n"), InvalidName, "empty or reserved"),
        (RenameColumn(name="n", new="who"), InvalidName, "drop or rename that column first"),
        (Reorder(names=("n", "n")), InvalidInput, "occurs 2 times"),
        (Reorder(names=("x",)), SchemaMismatch, "no column 'x'"),
    ],
)
def test_wrong_changes_are_refused(
    change: ColumnChange, error: type[Exception], words: str
) -> None:
    """The message names the column and the way out."""
    with pytest.raises(error, match=words):
        after(change)


def test_a_column_has_the_history_of_its_id() -> None:
    """Each change with the schema that it led to; dropped columns come last."""
    second = after(RenameColumn(name="n", new="count"), WidenColumn(name="count", type="int64"))
    third = evolved(second, (FIRST,), [MakeNullable(name="count"), DropColumn(name="who")], "at")
    added = AddColumn(name="who", type="double", default="0.5")
    fourth = evolved(third, (FIRST, second), [added], "at")
    found = column_histories((FIRST, second, third, fourth))
    assert [(each.column.name, each.dropped, each.changes) for each in found] == [
        ("at", False, ()),
        (
            "count",
            False,
            ((1, "renamed from n"), (1, "widened from int32"), (2, "made nullable")),
        ),
        ("who", False, ((3, "added as who: double, 0.5 in rows of before"),)),
        ("who", True, ((2, "dropped"),)),
    ]
    assert column_histories(()) == ()
