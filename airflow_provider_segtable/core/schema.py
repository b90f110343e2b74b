"""Table schemas, without a library: columns, their names, metrics of rollup tables, and orders.

1. A column has a name, a type as text, nullability and an id. Types have Arrow's names (``int64``,
   ``timestamp[us, tz=UTC]``, ``list<int32>``, ``struct<a: int64, b: string>``);
   ``data.arrow_schema`` converts them to Arrow and back.
2. A column is known by its id, which is never used again; its name may change. Files carry the ids
   of their columns. The columns of a creation have the ids 1, 2, ... by position.
3. A table's schemas are numbered from 0, the creation's. A segment records the number of the one
   that its file was written with.
4. Files without ids (of older segtables) have the columns of schema 0, by their names.
5. Metrics of rollup tables have a kind, a stored type and a text form. ``core.tables.rollup_kind``,
   rule 2, defines them: a metric is a function of the *set* of rows of a group, so it can be
   computed in parts, in any order.
6. A name is not empty, begins and ends without a space, is not ``*`` (all columns), and does not
   begin like hidden columns. A table of an earlier segtable may have another one: it is renamed.
7. In a list names are separated by commas. A name with a comma or parentheses is written in double
   quotes, in which ``""`` is a quote: ``carrier,"price, net"``.
8. An *order* names the columns by which the rows of a segment are sorted. It is a list of columns,
   compared one after another (``carrier,origin``), or the *z-order* of two to four columns, which
   gives them equal weight (``zorder(carrier,origin)``). Names are written as in rule 7.
9. Sorting is ascending, nulls first (Spark's default), NaN after all other numbers, text by its
   UTF-8 bytes. Rows with equal columns are sorted by event time.
10. The empty order sorts by event time alone.
11. A segment's ``clustering`` holds the text form, so equal orders have equal texts.

Source of the idea: Hilbert/z-order clustering as in Hudi and Delta Lake; Orenstein & Merrett, "A
class of data structures for associative searching" (1984).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Literal

from airflow_provider_segtable.core.column_types import type_named
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, InvalidName, SchemaMismatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table.

    Attributes:
        name: its name.
        type: its type, as Arrow prints it.
        nullable: whether it may be null.
        id: its id; 0 for the id of its position in the schema.
        first_name: its name in files without ids; empty if it was added after the creation, None
            if it is still ``name``.
        default: its value, as text, in rows of files that lack it, and of writers that leave it
            out; None for null.
    """

    name: str
    type: str
    nullable: bool = True
    id: int = 0
    first_name: str | None = None
    default: str | None = None

    def __str__(self) -> str:
        """Return ``name: type [not null]``."""
        return f"{self.name}: {self.type}{'' if self.nullable else ' not null'}"

    @property
    def old_name(self) -> str:
        """Return its name in files without ids; empty if they lack it."""
        return self.name if self.first_name is None else self.first_name


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table, in order; ``number`` counts the table's schemas from 0."""

    columns: tuple[Column, ...]
    number: int = 0

    def __post_init__(self) -> None:
        """Leave out ids that are positions, so that equal schemas are equal values."""
        if any(column.id == at for at, column in enumerate(self.columns, start=1)):
            columns = (
                replace(column, id=0) if column.id == at else column
                for at, column in enumerate(self.columns, start=1)
            )
            object.__setattr__(self, "columns", tuple(columns))

    def __str__(self) -> str:
        """Return the columns, separated by commas."""
        return ", ".join(map(str, self.columns))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the column names, in order."""
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """Return the column of this name, or None."""
        return next((column for column in self.columns if column.name == name), None)

    @property
    def numbered(self) -> tuple[Column, ...]:
        """Return the columns with their ids, also where the id is the position."""
        return tuple(
            column if column.id else replace(column, id=at)
            for at, column in enumerate(self.columns, start=1)
        )

    def names_of(self, ids: Collection[int]) -> dict[int, str]:
        """Return the names of the columns that have some ids, in the schema's order."""
        return {
            column.id or at: column.name
            for at, column in enumerate(self.columns, start=1)
            if (column.id or at) in ids
        }


def encode_columns(schema: Schema) -> list[dict[str, Any]]:
    """Return the columns of a schema as JSON; an id that is the position is left out."""
    return [_encode_column(column) for column in schema.columns]


def decode_columns(body: Iterable[Mapping[str, Any]], number: int = 0) -> Schema:
    """Parse the output of ``encode_columns``; ``number`` is the schema's."""
    return Schema(tuple(Column(**column) for column in body), number)


def _encode_column(column: Column) -> dict[str, Any]:
    rarely = {
        **({"id": column.id} if column.id else {}),
        **({} if column.first_name is None else {"first_name": column.first_name}),
        **({} if column.default is None else {"default": column.default}),
    }
    return {"name": column.name, "type": column.type, "nullable": column.nullable, **rarely}


HIDDEN = "__segtable_"
"""The name prefix of columns that are hidden from readers."""


# Metrics of rollup tables
class MetricKind(StrEnum):
    """The function that a metric computes."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    COUNT = "count"
    FIRST = "first"
    LAST = "last"
    HLL = "hll"
    THETA = "theta"
    KLL = "kll"

    @property
    def sketch(self) -> bool:
        """Return whether the metric is one of Spark's sketches."""
        return self in _ARGUMENTS

    @property
    def timed(self) -> bool:
        """Return whether the exact event time of its value is stored beside it."""
        return self in {MetricKind.FIRST, MetricKind.LAST}


_ARGUMENTS = {
    MetricKind.HLL: ("lgConfigK", range(4, 22), 12),
    MetricKind.THETA: ("lgNomEntries", range(4, 27), 12),
    MetricKind.KLL: ("k", range(8, 65536), 200),
}
_DECIMAL = re.compile(r"decimal128\(\d+, (\d+)\)")
_METRIC = re.compile(r"([^=]+)=\s*(\w+)\s*(?:\((.*)\))?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric; ``argument`` is the size of a sketch."""

    name: str
    kind: MetricKind
    source: str | None = None
    argument: int | None = None

    def __post_init__(self) -> None:
        """Refuse metrics whose source or argument does not fit their kind."""
        if self.kind is MetricKind.COUNT and self.source is not None:
            raise InvalidInput(
                f"metric {self.name!r}: count counts rows, so it takes no column, "
                f"but was given {self.source!r}: write {self.name}=count"
            )
        if self.kind is not MetricKind.COUNT and not self.source:
            raise InvalidInput(f"metric {self.name!r}: {self.kind} of which column? {_FORM}")
        self._check_argument()

    def _check_argument(self) -> None:
        if self.argument is None:
            return
        if not self.kind.sketch:
            raise InvalidInput(
                f"metric {self.name!r}: {self.kind} takes no argument, but was given "
                f"{self.argument}: leave it out"
            )
        title, legal, _ = _ARGUMENTS[self.kind]
        if self.argument not in legal:
            raise InvalidInput(
                f"metric {self.name!r}: {title} = {self.argument} is outside "
                f"{legal.start} to {legal.stop - 1}"
            )

    def __str__(self) -> str:
        """Return the text form, which ``parse`` reads."""
        inside = [str(part) for part in (self.source, self.argument) if part is not None]
        return f"{self.name}={self.kind}" + (f"({','.join(inside)})" if inside else "")

    @staticmethod
    def parse(text: str) -> "Metric":
        """Parse ``NAME=KIND``, ``NAME=KIND(COLUMN)`` or ``NAME=KIND(COLUMN,ARGUMENT)``.

        Raises:
            InvalidInput: with the text or part that is invalid.
        """
        match = _METRIC.fullmatch(text)
        if not match:
            raise InvalidInput(f"{text!r} is not a metric. {_FORM}")
        name, word, inside = match.groups()
        kind = _kind(word)
        source, comma, last = (inside or "").rpartition(",")
        if not (kind.sketch and comma and re.fullmatch(r"\s*-?\d+\s*", last)):
            return Metric(name=name.strip(), kind=kind, source=(inside or "").strip() or None)
        return Metric(name=name.strip(), kind=kind, source=source.strip(), argument=int(last))

    def encoded(self) -> dict[str, Any]:
        """Return the metric as JSON."""
        body = {
            "name": self.name,
            "kind": self.kind.value,
            "source": self.source,
            "argument": self.argument,
        }
        return {name: value for name, value in body.items() if value is not None}

    @staticmethod
    def decoded(body: Mapping[str, Any]) -> "Metric":
        """Parse the output of ``encoded``."""
        return Metric(**{**body, "kind": MetricKind(body["kind"])})

    @property
    def size(self) -> int:
        """Return the sketch's size parameter; Spark's default if none was given."""
        return self.argument if self.argument is not None else _ARGUMENTS[self.kind][2]

    @property
    def at(self) -> str:
        """Return the hidden column for the exact time of a first or last value."""
        return f"{HIDDEN}at_{self.name}"

    def stored(self, source: Column | None) -> Column:
        """Return the metric's column in the table, derived from its source column.

        Raises:
            SchemaMismatch: if the metric does not support the source's type.
        """
        if source is None:
            return Column(name=self.name, type="int64", nullable=False)
        kind = _stored_type(self.kind, source.type)
        if kind is None:
            raise SchemaMismatch(
                f"metric {self}: column {source.name!r} has type {source.type}, of which there "
                f"is no {self.kind}: use {_WORKS_ON[self.kind]}"
            )
        return Column(name=self.name, type=kind)


ORDERLY = "a number, decimal, text, bytes, boolean, date or timestamp"
_FORM = "Write NAME=KIND(COLUMN), e.g. delay=sum(arr_delay), flights=count, planes=hll(tailnum,12)"
_WORKS_ON = dict.fromkeys(MetricKind, ORDERLY)
_WORKS_ON[MetricKind.SUM] = "an integer (up to int64 and uint32), float, double or decimal128"
_WORKS_ON[MetricKind.HLL] = "an integer (up to int64 and uint32), text or bytes"
_WORKS_ON[MetricKind.THETA] = _WORKS_ON[MetricKind.HLL] + ", float or double"
_WORKS_ON[MetricKind.KLL] = "an integer (up to int64 and uint32), float or double"


def orderly(kind: str) -> bool:
    """Return whether values of a type can be compared, and so grouped."""
    found = type_named(kind)
    return bool(_DECIMAL.fullmatch(kind) or (found and found.ordered))


def _kind(word: str) -> MetricKind:
    try:
        return MetricKind(word.lower())
    except ValueError:
        choices = ", ".join(MetricKind)
        raise InvalidInput(f"{word!r} is not a kind of metric: choose one of {choices}") from None


def _stored_type(kind: MetricKind, source: str) -> str | None:
    found, decimal = type_named(source), _DECIMAL.fullmatch(source)
    match kind:
        case MetricKind.SUM if decimal:
            return f"decimal128(38, {decimal[1]})"
        case MetricKind.SUM:
            return (found and found.summed) or None
        case MetricKind.MIN | MetricKind.MAX | MetricKind.FIRST | MetricKind.LAST:
            return source if orderly(source) else None
        case _:
            return "binary" if found and kind.value in found.sketches else None


# Names of columns, and lists of them
ALL = "*"
"""Stands for all columns in a list."""


def check_name(name: str) -> None:
    """Refuse a name that a new column cannot have.

    Raises:
        InvalidName: with the name and the reason.
    """
    if not name or name != name.strip() or name.startswith(HIDDEN):
        raise InvalidName(f"column name {name!r} is empty or reserved: choose another")
    if name == ALL:
        raise InvalidName(f"column name {name!r} stands for all columns in reads: choose another")


def no_column(
    name: str, known: Iterable[str], use: str = "", of: str = "the table"
) -> SchemaMismatch:
    """Return the error for a column that is not there.

    Args:
        name: the name.
        known: the columns that are there.
        use: the use of the column, e.g. ``to set``.
        of: the owner of the columns.
    """
    names = list(known)
    for_use = f" {use}" if use else ""
    return SchemaMismatch(
        f"there is no column {name!r}{for_use}: {did_you_mean(name, names)}{of} has "
        f"{', '.join(names)}"
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question for the known name that is nearest to another one; empty if none is."""
    lower = {each.lower(): each for each in reversed([*known])}
    near = get_close_matches(name.lower(), lower, n=1, cutoff=0.75)
    return f"did you mean {lower[near[0]]!r}? " if near else ""


def split_names(text: str) -> tuple[str, ...]:
    """Return the names of a list, stripped; an empty text has one empty name."""
    return tuple(map(unquoted, split_outside(text, ",")))


def split_outside(text: str, separator: str) -> list[str]:
    """Return the parts of a text between separators that are not in quotes."""
    parts, start, quoted = [], 0, False
    for at, char in enumerate(text):
        if char == '"' and (quoted or not text[start:at].strip(" =") or text[at - 1] == "="):
            quoted = not quoted
        elif char == separator and not quoted:
            parts.append(text[start:at])
            start = at + 1
    if quoted:  # the quote is a part of a name
        return text.split(separator)
    return [*parts, text[start:]]


def unquoted(name: str) -> str:
    """Return a name of a list, stripped and without its quotes."""
    name = name.strip()
    inside = re.fullmatch(r'"((?:[^"]|"")+)"', name)
    return inside[1].replace('""', '"') if inside else name


def joined_names(names: Iterable[str]) -> str:
    """Return the list of names that ``split_names`` reads."""
    return ",".join(
        '"' + name.replace('"', '""') + '"' if re.search(r'[,()]|^"', name) else name
        for name in names
    )


# Orders of rows
Curve = Literal["lexicographic", "zorder"]
ZORDER_COLUMNS = range(2, 5)
"""The number of columns of a z-order; with more, row ranges narrow down none of them."""

_NAMES = r'(?:"(?:[^"]|"")*"|[^()])*'
_ORDER = re.compile(rf"\s*(?:(?P<curve>zorder)\s*\((?P<inside>{_NAMES})\)|(?P<plain>{_NAMES}))\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of a segment's rows; ``columns`` may be empty (event time alone)."""

    columns: tuple[str, ...] = ()
    curve: Curve = "lexicographic"

    def __post_init__(self) -> None:
        """Refuse column names without a text form, repeated columns and invalid z-orders."""
        for name in self.columns:
            if not name or name != name.strip():
                raise InvalidInput(
                    f"{name!r} in an order is not a column name: write columns with commas, "
                    "e.g. carrier,origin or zorder(carrier,origin)"
                )
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if twice:
            raise InvalidInput(f"order {self} names {', '.join(twice)} twice: name columns once")
        if self.curve == "zorder" and len(self.columns) not in ZORDER_COLUMNS:
            raise InvalidInput(
                f"{self} is over {counted(len(self.columns), 'column')}: a z-order takes "
                f"{ZORDER_COLUMNS.start} to {ZORDER_COLUMNS.stop - 1}; "
                "for one column write just its name"
            )

    def __str__(self) -> str:
        """Return the text form, which ``parse`` reads."""
        names = joined_names(self.columns)
        return f"zorder({names})" if self.curve == "zorder" else names

    @staticmethod
    def given(clustering: object) -> "Order":
        """Return the order that a user gives as text, or as a list of columns.

        Raises:
            InvalidInput: with the value, if it is neither.
        """
        if isinstance(clustering, str):
            return Order.parse(clustering)
        if isinstance(clustering, Sequence) and all(isinstance(name, str) for name in clustering):
            return Order(columns=tuple(clustering))
        raise InvalidInput(
            f"clustering {clustering!r} is not an order: write columns as text or as a list, "
            "e.g. 'carrier,origin', ['carrier', 'origin'] or 'zorder(carrier,origin)'"
        )

    @staticmethod
    def parse(text: str) -> "Order":
        """Parse ``a,b`` or ``zorder(a,b)``; the empty text is the order by event time.

        Raises:
            InvalidInput: with the text, if it has another form.
        """
        match = _ORDER.fullmatch(text)
        if not match:
            raise InvalidInput(
                f"{text!r} is not an order: write e.g. carrier,origin or zorder(carrier,origin)"
            )
        inside = match["inside"] if match["curve"] else match["plain"]
        if not match["curve"] and not inside.strip():
            return Order()
        try:
            return Order(
                columns=split_names(inside),
                curve="zorder" if match["curve"] else "lexicographic",
            )
        except InvalidInput as error:
            raise InvalidInput(f"{text!r} is not an order: {error}") from None
