"""Changes of columns as texts: the options of ``segtable table alter``."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.schema import split_names
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.data.arrow_schema import parse_schema

if TYPE_CHECKING:
    pass


def parse_changes(
    *,
    add: Iterable[str] | None,
    drop: Iterable[str] | None,
    rename: Iterable[str] | None,
    types: Iterable[str] | None,
    nullable: Iterable[str] | None,
    order: str | None,
) -> tuple[ColumnChange, ...]:
    """Return changes in the order in which they are made: drop, rename, change, add, reorder.

    So a name that is given up may be given to another column in one command.

    Raises:
        InvalidInput: a text has another form; the message shows the right one.
        SchemaMismatch: a type is unknown.
    """
    return tuple(_changes(add or (), drop or (), rename or (), types or (), nullable or (), order))


def _changes(
    add: Iterable[str],
    drop: Iterable[str],
    rename: Iterable[str],
    types: Iterable[str],
    nullable: Iterable[str],
    order: str | None,
) -> Iterator[ColumnChange]:
    yield from (DropColumn(name=name.strip()) for name in drop)
    for text in rename:
        old, new = _pair(text, "--rename", "OLD=NEW", unnamed=True)
        yield RenameColumn(name=old, new=new)
    for text in types:
        name, kind = _pair(text, "--type", "NAME=TYPE")
        yield WidenColumn(name=name, type=str(parse_schema(f"{name} {kind}").field(0).type))
    yield from (MakeNullable(name=name.strip()) for name in nullable)
    yield from map(_addition, add)
    if order is not None:
        yield Reorder(names=split_names(order))


def _pair(text: str, option: str, form: str, *, unnamed: bool = False) -> tuple[str, str]:
    """Return both sides; the first may be empty if a column of an old table may be ``unnamed``."""
    first, equals, second = (part.strip() for part in text.partition("="))
    if not (equals and (first or unnamed) and second):
        raise InvalidInput(
            f"{option} {text!r} is not {form}: write e.g. {option} {_EXAMPLE[option]}"
        )
    return first, second


_EXAMPLE = {"--rename": "amount=price", "--type": "count=int64"}


def _addition(text: str) -> AddColumn:
    """Parse ``name type [group column] [default value]``."""
    definition, default, group = text, None, ""
    match = re.fullmatch(r"(.+?)\s+default\s+(.*)", text, re.IGNORECASE | re.DOTALL)
    if match:
        definition, default = match[1], _unquoted(match[2])
    match = re.fullmatch(r"(.+?)\s+group\s+(\S.*)", definition, re.IGNORECASE)
    if match:
        definition, group = match[1], match[2].strip()
    field = parse_schema(definition).field(0)
    if not field.nullable:
        raise InvalidInput(
            f"--add {text!r}: a column that is added is null in rows that do not have it, so it "
            "cannot be not null: leave that out, and give a default for the rows there are"
        )
    return AddColumn(name=field.name, type=str(field.type), default=default, group=group)


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] == "'"
    return text[1:-1].replace("''", "'") if quoted else text
