"""Kinds of index: one object decides the entries of an index.

1. An index keeps *entries* about data files, so that readers need not open the files. As
   files never change, an entry is right for as long as its file exists.
2. Entries are the rows of a primary-key table of their own (``index_table``). A kind says which
   columns that table has; ``data.indexes`` computes the entries.
3. Other code asks the kind, and never which kind it is. A kind is one class in ``core.indexes``,
   one in ``data.indexes``, and a line in the registry of each.
4. Indexed columns are named by their ids, so a column may be renamed.
5. Most kinds are ``AboutFiles``: an entry names its file. Entries of other kinds are about records,
   which stay the same when a compaction writes them to other files: it has nothing to feed.
6. Three kinds about files are here: ``files`` (the files of each time chunk, with sizes and numbers
   of rows), ``column_stats`` (bounds, nulls and distinct values of columns in each row group) and
   ``bloom_filter`` (which values a file certainly does not have).

Source of the idea: Hudi's metadata table and its partitions (RFC-15, RFC-45).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from airflow_provider_segtable.core.column_types import TYPES, base_name
from airflow_provider_segtable.core.errors import InvalidInput
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


class IndexKind(Protocol):
    """The kind of an index: its entries, and their use.

    Attributes:
        name: the kind's name in the registries, in JSON and in commands.
        settings: the choices of a user (``index_state.chosen_kind``), with the defaults.
        about_files: whether each entry is about one data file, which it names.
        reads_rows: whether entries are computed from the rows of files.
        common: the columns that entries of such kinds begin with.
        buckets: the number of buckets of the entries.
        divided_by: the columns of the key that decide the bucket; empty if all do.
        columns: the ids of the indexed columns; empty if the kind needs none.
    """

    name: ClassVar[str]
    settings: ClassVar[Mapping[str, Any]]
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
        """Return the settings as JSON."""
        ...

    @classmethod
    def decoded(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encoded``."""
        ...


_WIDER = {Granularity.HOUR: Granularity.MONTH, Granularity.DAY: Granularity.YEAR}
START_COLUMN = Column(name=START, type="timestamp[us, tz=UTC]", nullable=False)


class AboutFiles:
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


def ids_of(body: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the ids of indexed columns as JSON records them."""
    return tuple(int(number) for number in body["columns"])


# The index of files
END = "end"
BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList(AboutFiles):
    """One entry a file: its time chunk, size and number of rows."""

    name: ClassVar[str] = "files"
    settings: ClassVar[Mapping[str, Any]] = {}
    reads_rows: ClassVar[bool] = False
    columns: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """Return the path."""
        return (FILE,)

    def check(self, table: TableDefinition) -> None:
        """Accept every table."""

    def entry_columns(self, table: TableDefinition) -> tuple[Column, ...]:
        """Return the end of the chunk, and the size."""
        del table
        return (
            Column(name=END, type="timestamp[us, tz=UTC]"),
            Column(name=BYTES, type="int64"),
        )

    def encoded(self) -> dict[str, Any]:
        """Return nothing: there are no settings."""
        return {}

    @classmethod
    def decoded(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encoded``."""
        del body
        return cls()


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

    name: ClassVar[str] = "column_stats"
    settings: ClassVar[Mapping[str, Any]] = {"columns": ()}
    columns: tuple[int, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Return the path and the row group."""
        return (FILE, ROW_GROUP)

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

    def encoded(self) -> dict[str, Any]:
        """Return the columns."""
        return {"columns": [*self.columns]}

    @classmethod
    def decoded(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encoded``."""
        return cls(columns=ids_of(body))


# The index of Bloom filters
DEFAULT_RATE = 0.01


def bits(number: int) -> str:
    """Return the column with the filter of an indexed column."""
    return f"bloom_{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilter(AboutFiles):
    """One entry a file, with a filter for each column.

    Attributes:
        columns: the ids of the indexed columns.
        rate: the share of absent values that a filter lets pass, above 0 and below 1.
    """

    name: ClassVar[str] = "bloom_filter"
    settings: ClassVar[Mapping[str, Any]] = {"columns": (), "rate": DEFAULT_RATE}
    columns: tuple[int, ...]
    rate: float = DEFAULT_RATE

    def __post_init__(self) -> None:
        """Refuse a rate out of range."""
        if not 0 < self.rate < 1:
            raise InvalidInput(
                f"a false-positive rate of {self.rate} is not between 0 and 1: write e.g. 0.01"
            )

    @property
    def key(self) -> tuple[str, ...]:
        """Return the path."""
        return (FILE,)

    def check(self, table: TableDefinition) -> None:
        """Refuse columns of types that are not compared for equality."""
        for column in known_columns(self.columns, table):
            check_type(column, [each.name for each in TYPES.values() if each.hashed], self.name)

    def entry_columns(self, table: TableDefinition) -> tuple[Column, ...]:
        """Return the filter of each column."""
        found = known_columns(self.columns, table)
        return tuple(Column(name=bits(column.id), type="binary") for column in found)

    def encoded(self) -> dict[str, Any]:
        """Return the columns and the rate."""
        return {"columns": [*self.columns], "rate": self.rate}

    @classmethod
    def decoded(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encoded``."""
        return cls(columns=ids_of(body), rate=body["rate"])
