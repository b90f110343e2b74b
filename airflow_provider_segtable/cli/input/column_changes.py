"""Changes of columns as texts: the options of ``segtable table alter``."""

import re
from collections.abc import Iterator
from typing import Annotated

import typer

from airflow_provider_segtable.core.dataclass import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOptions:
    """The changes of columns, as options."""

    add: Annotated[
        list[str] | None,
        typer.Option(
            help='Add a column: "NAME TYPE", "NAME TYPE default VALUE" or "NAME TYPE group '
            'COLUMN"; repeat.',
            metavar="COLUMN",
        ),
    ] = None
    drop: Annotated[
        list[str] | None, typer.Option(help="Drop a column; repeat.", metavar="NAME")
    ] = None
    rename: Annotated[
        list[str] | None, typer.Option(help="Rename a column; repeat.", metavar="OLD=NEW")
    ] = None
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="Widen a column's type; repeat.", metavar="NAME=TYPE"),
    ] = None
    nullable: Annotated[
        list[str] | None, typer.Option(help="Allow nulls in a column; repeat.", metavar="NAME")
    ] = None
    order: Annotated[
        str | None, typer.Option(help="Put these columns first.", metavar="NAME,NAME...")
    ] = None

    def changes(self) -> tuple[ColumnChange, ...]:
        """Return changes in their order: drop, rename, change types, add, reorder.

        So a dropped name can be given to another column in the same command.

        Raises:
            InvalidInput: a text has another form; the message shows the right one.
            SchemaMismatch: a type is unknown.
        """
        return tuple(self._changes())

    def _changes(self) -> Iterator[ColumnChange]:
        yield from (DropColumn(name=name.strip()) for name in self.drop or ())
        for text in self.rename or ():
            old, new = _pair(text, "--rename", "OLD=NEW", unnamed=True)
            yield RenameColumn(name=old, new=new)
        for text in self.types or ():
            name, kind = _pair(text, "--type", "NAME=TYPE")
            yield WidenColumn(name=name, type=_type_of(f"{name} {kind}"))
        yield from (MakeNullable(name=name.strip()) for name in self.nullable or ())
        yield from map(_addition, self.add or ())
        if self.order is not None:
            yield Reorder(names=split_names(self.order))


def _pair(text: str, option: str, form: str, *, unnamed: bool = False) -> tuple[str, str]:
    """Return both sides; the first may be empty if a column of an old table may be ``unnamed``."""
    first, equals, second = (part.strip() for part in text.partition("="))
    if not (equals and (first or unnamed) and second):
        raise InvalidInput(
            f"{option} {text!r} is not {form}: write e.g. {option} {_EXAMPLE[option]}"
        )
    return first, second


_EXAMPLE = {"--rename": "amount=price", "--type": "count=int64"}


def _type_of(definition: str) -> str:
    from airflow_provider_segtable.data.arrow_schema import parse_schema

    return str(parse_schema(definition).field(0).type)


def _addition(text: str) -> AddColumn:
    """Parse ``name type [group column] [default value]``."""
    definition, default, group = text, None, ""
    match = re.fullmatch(r"(.+?)\s+default\s+(.*)", text, re.IGNORECASE | re.DOTALL)
    if match:
        definition, default = match[1], _unquoted(match[2])
    match = re.fullmatch(r"(.+?)\s+group\s+(\S.*)", definition, re.IGNORECASE)
    if match:
        definition, group = match[1], match[2].strip()
    from airflow_provider_segtable.data.arrow_schema import parse_schema

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
