"""The index ``record_index``: where the records of each key are, in the whole table.

1. An entry is about one record: its key, its event time (``START``), its order among the records of
   the key (the ordering value, then instant, log version and write token of its log file), and
   whether it deletes its key.
2. Entries never change, because records never do: every writer computes the same entry of a record.
   A compaction writes known records to other files, so it feeds nothing.
3. An entry may be about a record that was merged away, or undone by a restore. While the index
   lacks nothing, no live record is without its entry.
4. The hash of the table's key alone decides the bucket, so a look-up of a key reads one bucket.
5. The table must keep whole rows (``latest``): of a row whose columns have several records, a part
   would be lost when its key moves to another time chunk.

Source of the idea: Hudi's record-level index (RFC-54, "Record Level Index").
"""

from dataclasses import replace
from typing import ClassVar, Self

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import (
    START_COLUMN,
    DeclaredKind,
    known_columns,
)
from airflow_provider_segtable.core.schema import Column
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.merge_rules import OP, ROOT_PARTITION, MergeRules
from airflow_provider_segtable.core.time import Granularity

ORDERING = "ordering"
"""The record's value of the ordering column, if the table has one."""
INSTANT = "instant"
"""When the author of the record began, in µs."""
LOG_VERSION = "log_version"
"""The version of the record's log file."""
TOKEN = "write_token"  # noqa: S105  # the name of a column
"""The write token of the record's log file, which no other file has."""
DELETED = "deleted"
"""Whether the record deletes its key."""


def key_column(number: int) -> str:
    """Return the column of entries with the values of a key column."""
    return f"key_{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIndex(DeclaredKind):
    """One entry a record.

    Attributes:
        columns: the ids of the columns of the table's key.
    """

    name: ClassVar[str] = "record_index"
    keeps: ClassVar[str] = (
        "one row for each key of a primary-key table, whichever time chunks its records are in"
    )
    made_by: ClassVar[str] = "airflow_provider_segtable.data.indexes.records.RecordEntries"
    takes_columns: ClassVar[bool] = False
    about_files: ClassVar[bool] = False
    reads_rows: ClassVar[bool] = True
    common: ClassVar[tuple[Column, ...]] = (START_COLUMN,)
    buckets: ClassVar[int] = 4
    columns: tuple[int, ...] = ()

    @property
    def divided_by(self) -> tuple[str, ...]:
        """Return the columns of the table's key."""
        return tuple(map(key_column, self.columns))

    @property
    def key(self) -> tuple[str, ...]:
        """Return the columns of the table's key, and the token: a file has one record a key."""
        return (*self.divided_by, TOKEN)

    def for_table(self, table: TableDefinition) -> Self:
        """Return the index of the table's key.

        Raises:
            InvalidInput: it has none.
        """
        rules = rules_of(table)
        known = {column.name: column.id for column in table.schema.numbered}
        return replace(self, columns=tuple(known[name] for name in rules.key))

    def sources(self, table: TableDefinition) -> tuple[str, ...]:
        """Return the columns of the key, and of the order and place of its records."""
        rules = rules_of(table)
        ordering = (rules.ordering,) if rules.ordering else ()
        return (*rules.key, *ordering, table.time_column, OP, ROOT_PARTITION)

    def granularity(self, table: TableDefinition) -> Granularity:
        """Return that of all time: a key may be anywhere."""
        del table
        return Granularity.ALL

    def check(self, table: TableDefinition) -> None:
        """Refuse tables without a key, and those whose rows have several records."""
        rules = rules_of(table)
        if rules.partial:
            raise InvalidInput(
                f"{table.name} has merge='partial_update', where a row consists of several "
                "records, and a record_index moves whole rows: use it with merge='latest', or a "
                "table of granularity 'all', which keeps one row for each key without an index"
            )
        key = tuple(column.name for column in known_columns(self.columns, table))
        if key != rules.key:
            raise InvalidInput(
                f"a record_index of {', '.join(key)} does not fit {table.name}, whose key is "
                f"{', '.join(rules.key)}: leave the columns out"
            )

    def entry_columns(self, table: TableDefinition) -> tuple[Column, ...]:
        """Return the columns of the key, and of the order of its records."""
        ordering = table.schema.find(rules_of(table).ordering)
        return (
            *(
                Column(name=key_column(column.id), type=column.type, nullable=False)
                for column in known_columns(self.columns, table)
            ),
            *(() if ordering is None else (Column(name=ORDERING, type=ordering.type),)),
            Column(name=INSTANT, type="int64"),
            Column(name=LOG_VERSION, type="int32"),
            Column(name=TOKEN, type="string", nullable=False),
            Column(name=DELETED, type="bool"),
        )


def rules_of(table: TableDefinition) -> MergeRules:
    """Return how the records of a table's key become its row.

    Raises:
        InvalidInput: it has no key.
    """
    rules = table.kind.rules
    if rules is None:
        raise InvalidInput(
            f"{table.name} has no primary key, so there are no records to index: a record_index "
            "keeps keys unique in the whole of a primary-key table; for look-ups of single values "
            "choose bloom_filter"
        )
    return rules
