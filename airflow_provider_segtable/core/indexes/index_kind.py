"""Kinds of index: one object decides the entries of an index.

1. An index keeps *entries* about data files, so that readers need not open the files. As
   files never change, an entry is right for as long as its file exists.
2. Entries are the rows of a primary-key table of their own (``index_table``). A kind says which
   columns that table has; ``data.indexes`` computes the entries.
3. Other code asks the kind, and never which kind it is. A kind is one class in ``core.indexes``,
   one in ``data.indexes``, which the former names (``made_by``), and an entry of ``KINDS``
   (``index_state``). ``table.indexes`` has the steps.
4. The fields of a kind are what is stored of it: the indexed columns, and its *settings*. A
   setting is declared once, by ``setting``: its type, default, check and help text. The Python
   API, the command line, the operator, the properties of tables and the JSON take it from there.
5. Indexed columns are named by their ids, so a column may be renamed.
6. Most kinds are ``AboutFiles``: an entry names its file. Entries of other kinds are about records,
   which stay the same when a compaction writes them to other files: it has nothing to feed.
7. Three kinds about files are here: ``files`` (the files of each time chunk, with sizes and numbers
   of rows), ``column_stats`` (bounds, nulls and distinct values of columns in each row group) and
   ``bloom_filter`` (which values a file certainly does not have).

Source of the idea: Hudi's metadata table and its partitions (RFC-15, RFC-45).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, Self

from airflow_provider_segtable.core.column_types import TYPES, base_name
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes import DEFAULT_KIND
from airflow_provider_segtable.core.schema import Column, no_column
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Granularity

# Kinds in general
FILE = "file"
"""The column with the path of the data file that an entry is about."""
CHECKSUM = "checksum"
"""The column with the checksum of that file's footer: an entry of another file is not used."""
START = "start"
"""The event time of an entry: the start of the time chunk that the file was written for."""
ROWS = "rows"
"""The column with the number of rows that the entry is about."""

COLUMNS = "columns"
"""The field of a kind with the ids of the indexed columns."""


class IndexKind(Protocol):
    """The kind of an index: its entries, and their use.

    Attributes:
        name: the kind's name in the registry, in JSON and in commands.
        keeps: its entries and their use, in a sentence for users.
        made_by: the class below ``data`` that makes and compares its entries.
        takes_columns: whether users name the indexed columns.
        about_files: whether each entry is about one data file, which it names.
        reads_rows: whether entries are computed from the rows of files.
        common: the columns that entries of such kinds begin with.
        buckets: the number of buckets of the entries.
        divided_by: the columns of the key that decide the bucket; empty if all do.
        columns: the ids of the indexed columns; empty if the kind needs none.
    """

    name: ClassVar[str]
    keeps: ClassVar[str]
    made_by: ClassVar[str]
    takes_columns: ClassVar[bool]
    about_files: ClassVar[bool]
    reads_rows: ClassVar[bool]
    common: ClassVar[tuple[Column, ...]]
    buckets: ClassVar[int]

    @property
    def divided_by(self) -> tuple[str, ...]:
        """Return the columns of the key that decide the bucket."""
        ...

    @property
    def columns(self) -> tuple[int, ...]:
        """Return the ids of the indexed columns."""
        ...

    def for_table(self, table: TableDefinition) -> Self:
        """Return the kind bound to the columns of a table."""
        ...

    def sources(self, table: TableDefinition) -> tuple[str, ...]:
        """Return the columns of a table's files that entries are computed from, by their names."""
        ...

    def granularity(self, table: TableDefinition) -> Granularity:
        """Return the granularity of the entries of a table."""
        ...

    def check(self, table: TableDefinition) -> None:
        """Refuse a table that cannot be indexed so.

        Raises:
            InvalidInput: with the column, its type and the way out.
        """
        ...

    @property
    def key(self) -> tuple[str, ...]:
        """Return the primary key of the entries."""
        ...

    def entry_columns(self, table: TableDefinition) -> tuple[Column, ...]:
        """Return the kind's own columns of the entries."""
        ...

    def encoded(self) -> dict[str, Any]:
        """Return the columns and settings as JSON."""
        ...

    @classmethod
    def decoded(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encoded``."""
        ...


# Settings of kinds
@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting of a kind of index.

    Attributes:
        name: its name in arguments, options, properties and JSON.
        type: ``int``, ``float`` or ``str``.
        default: its value if the user gives none.
        check: refuses a value with ``InvalidInput``.
        help: what it decides, in a sentence for users.
    """

    name: str
    type: type[Any]
    default: Any
    check: Callable[[Any], None]
    help: str

    def value(self, given: object) -> Any:
        """Return a value that a user gives, as itself or as text.

        Raises:
            InvalidInput: it is of another type.
        """
        number, what = _FORMS[self.type]
        if isinstance(given, bool) or not isinstance(given, str | number):
            raise self._refused(given, what)
        try:
            return self.type(given.strip() if isinstance(given, str) else given)
        except ValueError:
            raise self._refused(given, what) from None

    def _refused(self, given: object, what: str) -> InvalidInput:
        return InvalidInput(f"{self.name} {given!r} is not {what}: write e.g. {self.default}")


_FORMS: Mapping[type, tuple[type, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a text"),
}
"""For each type of settings, the type of the values that it takes, and its name."""

_SETTING = "setting"


def setting(default: Any, *, check: Callable[[Any], None], help: str) -> Any:  # noqa: A002 - as in Typer
    """Return a field of a kind that users may set; its name and type are those of the field."""
    return field(default=default, metadata={_SETTING: {"check": check, "help": help}})


def settings_of(kind: type[IndexKind]) -> tuple[Setting, ...]:
    """Return the settings that a kind declares, in order."""
    return tuple(
        Setting(name=each.name, type=each.type, default=each.default, **each.metadata[_SETTING])
        for each in _fields(kind)
        if _SETTING in each.metadata
    )


def _fields(kind: Any) -> tuple[Any, ...]:
    return fields(kind)


class DeclaredKind:
    """The checks and the JSON of a kind, both by its fields."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        for each in settings_of(type(self)):  # type: ignore[arg-type]
            each.check(getattr(self, each.name))

    def encoded(self) -> dict[str, Any]:
        """Return the columns and settings as JSON."""
        found = {each.name: getattr(self, each.name) for each in _fields(self)}
        return found | ({COLUMNS: [*found[COLUMNS]]} if COLUMNS in found else {})

    @classmethod
    def decoded(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encoded``; a setting that is not there has its default."""
        values = {each.name: body[each.name] for each in _fields(cls) if each.name in body}
        if COLUMNS in values:
            values[COLUMNS] = tuple(map(int, values[COLUMNS]))
        return cls(**values)


# Kinds about files
_WIDER = {Granularity.HOUR: Granularity.MONTH, Granularity.DAY: Granularity.YEAR}
FILE_ENTRIES = "airflow_provider_segtable.data.indexes.file_entries"
START_COLUMN = Column(name=START, type="timestamp[us, tz=UTC]", nullable=False)


class AboutFiles(DeclaredKind):
    """Common methods of kinds whose entries are about data files."""

    __slots__ = ()
    about_files: ClassVar[bool] = True
    reads_rows: ClassVar[bool] = True
    common: ClassVar[tuple[Column, ...]] = (
        Column(name=FILE, type="string", nullable=False),
        START_COLUMN,
        Column(name=CHECKSUM, type="string"),
        Column(name=ROWS, type="int64"),
    )
    buckets: ClassVar[int] = 1

    @property
    def divided_by(self) -> tuple[str, ...]:
        """Return none: the whole key decides."""
        return ()

    def for_table(self, table: TableDefinition) -> Self:
        """Return the kind: users name all that it has."""
        del table
        return self

    def granularity(self, table: TableDefinition) -> Granularity:
        """Return a wider one than the table's, so that the entries have few files."""
        return _WIDER.get(table.granularity, Granularity.ALL)


def known_columns(ids: Sequence[int], table: TableDefinition) -> tuple[Column, ...]:
    """Return the indexed columns of a table.

    Raises:
        InvalidInput: none is named, or the table has none of such an id.
    """
    known = {column.id: column for column in table.schema.numbered}
    missing = [number for number in ids if number not in known]
    if missing or not ids:
        found = f"column {missing[0]} is gone" if missing else "no column is named"
        raise InvalidInput(
            f"the index of {table.name} cannot be built: {found}; name some of "
            f"{', '.join(table.schema.names)}"
        )
    return tuple(known[number] for number in ids)


def column_names(ids: Sequence[int], table: TableDefinition) -> tuple[str, ...]:
    """Return the names of the indexed columns that the table still has."""
    return tuple(table.schema.names_of(ids).values())


def column_ids(names: Sequence[str], table: TableDefinition) -> tuple[int, ...]:
    """Return the ids of columns that a user names.

    Raises:
        InvalidInput: a column is named twice, or the table does not have it.
    """
    known = {column.name: column.id for column in table.schema.numbered}
    for name in names:
        if name not in known:
            raise no_column(name, known, "to index", of=table.name)
        if names.count(name) > 1:
            raise InvalidInput(f"column {name!r} is named twice: name it once")
    return tuple(known[name] for name in names)


def check_type(column: Column, kinds: Sequence[str], title: str) -> None:
    """Refuse a column of another type than these, whatever its unit, zone or digits are.

    Raises:
        InvalidInput: with the types that are possible.
    """
    if base_name(column.type) not in kinds:
        raise InvalidInput(
            f"column {column.name!r} is {column.type}, which {title} does not cover: it covers "
            f"{', '.join(kinds)}; leave the column out"
        )


# The index of files
END = "end"
BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList(AboutFiles):
    """One entry a file: its time chunk, size and number of rows."""

    name: ClassVar[str] = "files"
    keeps: ClassVar[str] = "sizes and numbers of rows of files, for other programs"
    made_by: ClassVar[str] = f"{FILE_ENTRIES}.FileEntries"
    takes_columns: ClassVar[bool] = False
    reads_rows: ClassVar[bool] = False

    @property
    def columns(self) -> tuple[int, ...]:
        """Return none."""
        return ()

    @property
    def key(self) -> tuple[str, ...]:
        """Return the path."""
        return (FILE,)

    def sources(self, table: TableDefinition) -> tuple[str, ...]:
        """Return none: the log has all that it keeps."""
        del table
        return ()

    def check(self, table: TableDefinition) -> None:
        """Accept every table."""

    def entry_columns(self, table: TableDefinition) -> tuple[Column, ...]:
        """Return the end of the chunk, and the size."""
        del table
        return (
            Column(name=END, type="timestamp[us, tz=UTC]"),
            Column(name=BYTES, type="int64"),
        )


# The index of column statistics
ROW_GROUP = "row_group"
"""The number of the row group in its file, from 0."""


def low(number: int) -> str:
    """Return the column with the least value of an indexed column."""
    return f"low_{number}"


def high(number: int) -> str:
    """Return the column with the greatest value of an indexed column."""
    return f"high_{number}"


def nulls(number: int) -> str:
    """Return the column with the number of nulls of an indexed column."""
    return f"nulls_{number}"


def nan(number: int) -> str:
    """Return the column that says whether a value of an indexed column may be NaN."""
    return f"nan_{number}"


def distinct(number: int) -> str:
    """Return the column with the sketch of an indexed column's distinct values."""
    return f"distinct_{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats(AboutFiles):
    """One entry a row group; the columns of a bound are null if there is none to rely on.

    Attributes:
        columns: the ids of the indexed columns.
    """

    name: ClassVar[str] = DEFAULT_KIND
    keeps: ClassVar[str] = (
        "bounds and nulls of columns in each row group, for ranges and for values that lie together"
    )
    made_by: ClassVar[str] = f"{FILE_ENTRIES}.StatsEntries"
    takes_columns: ClassVar[bool] = True
    columns: tuple[int, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Return the path and the row group."""
        return (FILE, ROW_GROUP)

    def sources(self, table: TableDefinition) -> tuple[str, ...]:
        """Return the indexed columns."""
        return column_names(self.columns, table)

    def check(self, table: TableDefinition) -> None:
        """Refuse columns without an order to rely on."""
        for column in known_columns(self.columns, table):
            check_type(column, [each.name for each in TYPES.values() if each.bounded], self.name)

    def entry_columns(self, table: TableDefinition) -> tuple[Column, ...]:
        """Return the row group, and the statistics of each column."""
        found = [Column(name=ROW_GROUP, type="int32", nullable=False)]
        for column in known_columns(self.columns, table):
            found += [
                Column(name=low(column.id), type=column.type),
                Column(name=high(column.id), type=column.type),
                Column(name=nulls(column.id), type="int64"),
                Column(name=nan(column.id), type="bool"),
                Column(name=distinct(column.id), type="binary"),
            ]
        return tuple(found)


# The index of Bloom filters
_HASHED_TYPES = (
    *("int8", "int16", "int32", "int64", "bool", "string", "large_string", "binary"),
    *("date32", "timestamp", "decimal128"),
)


def bits(number: int) -> str:
    """Return the column with the filter of an indexed column."""
    return f"bloom_{number}"


def _check_rate(rate: float) -> None:
    if not 0 < rate < 1:
        raise InvalidInput(
            f"a false-positive rate of {rate} is not between 0 and 1: write e.g. 0.01"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilter(AboutFiles):
    """One entry a file, with a filter for each column.

    Attributes:
        columns: the ids of the indexed columns.
        rate: the share of absent values that a filter lets pass, above 0 and below 1.
    """

    name: ClassVar[str] = "bloom_filter"
    keeps: ClassVar[str] = (
        "which values a file certainly does not have, for single values that are spread over all "
        "files"
    )
    made_by: ClassVar[str] = f"{FILE_ENTRIES}.BloomEntries"
    takes_columns: ClassVar[bool] = True
    columns: tuple[int, ...]
    rate: float = setting(
        0.01, check=_check_rate, help="the share of absent values that a filter lets pass"
    )

    @property
    def key(self) -> tuple[str, ...]:
        """Return the path."""
        return (FILE,)

    def sources(self, table: TableDefinition) -> tuple[str, ...]:
        """Return the indexed columns."""
        return column_names(self.columns, table)

    def check(self, table: TableDefinition) -> None:
        """Refuse columns of types that are not compared for equality."""
        for column in known_columns(self.columns, table):
            check_type(column, [each.name for each in TYPES.values() if each.hashed], self.name)

    def entry_columns(self, table: TableDefinition) -> tuple[Column, ...]:
        """Return the filter of each column."""
        found = known_columns(self.columns, table)
        return tuple(Column(name=bits(column.id), type="binary") for column in found)
