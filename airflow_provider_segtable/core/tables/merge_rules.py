"""How rows of equal keys become one row: the definition, not the computation.

1. A *record* is one written row: an upsert or a delete (tombstone) of a key. *Record order* is
   total: the value of the ordering column (null lowest; none if the table has no such column), then
   the author's instant, log version and write token, then the position in the author's file. The
   author is named by its *root*, the partition that its commit was given.
2. Engine ``latest``: the highest record of a key is its row. If that is a tombstone, the key is
   absent.
3. Engine ``partial_update``: a row consists of *registers*, each of which keeps its own highest
   record and is deleted by tombstones that are higher in the register's order:

   ============  ===========================  ==================  ================================
   register      set by an upsert             ordered by          deleted by a tombstone
   ============  ===========================  ==================  ================================
   the row       always                       record order        always
   one column    if it is not null            record order        always
   a group       if its ordering column is    that column, then   if its ordering column is not
                 not null; nulls included     as record order     null in the tombstone
   ============  ===========================  ==================  ================================

   So the way to set a null is a group. A key is present while one of its registers is; a record
   after a tombstone brings back its own columns only.
4. Fixed columns never change for a key (that of its time chunk). Should they differ, the greatest
   value is kept; tombstones have them, too.
5. Every register is a maximum in a total order, and so is its deletion. Hence merging is
   associative, commutative and idempotent, as long as tombstones are kept.
6. Files have hidden columns after the table's own:

   - ``__segtable_op``: 0 upsert, 1 delete, 2 an upsert whose row register was deleted: only groups
     are left.
   - ``__segtable_root_partition``: the root; ``OWN`` in a file whose commit decides it. With
     ``partial_update`` it is the root of the row register; where ``op`` is 2, the greatest root.
   - ``__segtable_root_of_<column>`` (``partial_update``; for a group its ordering column): the
     register's root; null if its order is the row's own.
   - ``__segtable_at_of_<column>`` (also with an ordering column; not for groups): the value of the
     ordering column in the record that set the column, wherever ``root_of`` is not null.

   ``RootOrders`` knows instant, log version and write token of each root.
7. A file has at most one row a key; with ``partial_update`` a tombstone, then an upsert.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.schema import HIDDEN, Column, Schema, no_column

OP = HIDDEN + "op"
ROOT_PARTITION = HIDDEN + "root_partition"
ROOT_OF = HIDDEN + "root_of_"
AT_OF = HIDDEN + "at_of_"

UPSERT, DELETE, GROUPS_ONLY = 0, 1, 2
OWN = -1
"""Stands for the root of the file itself, which its commit decides."""

_KEY_TYPES = re.compile(
    r"int(8|16|32|64)|bool|(large_)?(string|binary)|date32\[day\]|decimal128\(.*\)"
    r"|timestamp\[(s|ms|us)(, .*)?\]"
)
KEY_TYPES = (
    "signed integers (int8 to int64), string, binary, bool, date32, decimal128, or timestamps of "
    "at most microseconds"
)
"""The types that a column of a key may have, in words."""
_INSTEAD = {
    "uint8": "; int16 has all its values",
    "uint16": "; int32 has all its values",
    "uint32": "; int64 has all its values",
    "uint64": "; int64 has those below 2^63, decimal128(20, 0) has all",
}
_NOT_ORDERED = re.compile(r"null|(large_|fixed_size_)?list<.*|struct<.*|map<.*")


class MergeEngine(Enum):
    """How the records of a key become its row."""

    LATEST = "latest"
    PARTIAL_UPDATE = "partial_update"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnGroup:
    """Columns that are set together, by the highest value of ``ordering``, a further column."""

    columns: tuple[str, ...]
    ordering: str

    @property
    def names(self) -> tuple[str, ...]:
        """Return all columns of the group; the ordering column is the first."""
        return (self.ordering, *self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """The rules by which a table's records are merged.

    Attributes:
        key: the columns of the primary key, in the order in which files are sorted.
        ordering: the ordering column; empty if the author's instant alone decides.
        engine: how the records of a key become its row.
        groups: column groups (``partial_update``).
        fixed: columns that never change for a key, beside the key's own; tombstones have them.
        divided_by: the columns of the key that decide the bucket; empty if all do.
    """

    key: tuple[str, ...]
    ordering: str = ""
    engine: MergeEngine = MergeEngine.LATEST
    groups: tuple[ColumnGroup, ...] = ()
    fixed: tuple[str, ...] = ()
    divided_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse columns with two roles, and groups that the engine would ignore."""
        named = list(self._roles())
        for name in named:
            if named.count(name) > 1:
                raise InvalidInput(
                    f"column {name!r} has two roles among key, ordering, groups and fixed columns: "
                    "leave one"
                )
        if not self.key:
            raise InvalidInput("the primary key is empty: name its columns")
        strange = [name for name in self.divided_by if name not in self.key]
        if strange:
            raise InvalidInput(
                f"column {strange[0]!r} is to decide the bucket, but is not part of the primary "
                f"key: choose among {', '.join(self.key)}"
            )
        if self.engine is MergeEngine.LATEST and self.groups:
            raise InvalidInput("engine 'latest' keeps whole rows: use 'partial_update' for groups")

    def _roles(self) -> Iterator[str]:
        yield from self.key
        if self.ordering:
            yield self.ordering
        for group in self.groups:
            yield from group.names
        yield from self.fixed

    @property
    def bucket_key(self) -> tuple[str, ...]:
        """Return the columns whose hash is a record's bucket."""
        return self.divided_by or self.key

    @property
    def partial(self) -> bool:
        """Return whether a row may consist of several records."""
        return self.engine is MergeEngine.PARTIAL_UPDATE

    def singles(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns that are registers of their own."""
        if not self.partial:
            return ()
        roles = {*self._roles()}
        return tuple(n for n in names if n not in roles and not n.startswith(HIDDEN))

    def hidden(self, schema: Schema) -> tuple[Column, ...]:
        """Return the hidden columns of a table's files, in order."""
        kind = next((c.type for c in schema.columns if c.name == self.ordering), "")
        singles = self.singles(schema.names)
        registers = (*singles, *(group.ordering for group in self.groups))
        return (
            Column(name=OP, type="int8", nullable=False),
            Column(name=ROOT_PARTITION, type="int64", nullable=False),
            *(Column(name=ROOT_OF + name, type="int64") for name in registers),
            *(Column(name=AT_OF + name, type=kind) for name in singles if kind),
        )

    def needed(self, names: Sequence[str], stored: Sequence[str]) -> tuple[str, ...]:
        """Return the stored columns that a read of some columns needs, in stored order.

        Args:
            names: the columns to be read.
            stored: all columns of a file, hidden ones included.
        """
        wanted = {*names}
        keep = {OP, ROOT_PARTITION, *self.key, self.ordering, *wanted}
        for group in self.groups:  # any group may keep a key present
            keep |= {group.ordering, ROOT_OF + group.ordering}
        keep |= {prefix + name for name in wanted for prefix in (ROOT_OF, AT_OF)}
        return tuple(name for name in stored if name in keep)

    def check(self, schema: Schema) -> None:
        """Refuse rules that do not fit a table's columns.

        Raises:
            SchemaMismatch: a column is missing or has a type that its role does not allow.
        """
        for name in self._roles():
            column = schema.find(name)
            if column is None:
                raise no_column(name, schema.names, "for the primary key, its order or a group")
            if name in self.key:
                _check_key(column)
            elif _NOT_ORDERED.fullmatch(column.type) and name in self._ordered():
                raise SchemaMismatch(
                    f"column {column} can not order rows: name one with numbers, text or times"
                )

    def _ordered(self) -> set[str]:
        return {self.ordering, *(group.ordering for group in self.groups), *self.fixed}


def _check_key(column: Column) -> None:
    if not _KEY_TYPES.fullmatch(column.type):
        raise SchemaMismatch(
            f"column {column} can not be part of a primary key: use {KEY_TYPES}"
            f"{_INSTEAD.get(column.type, '')}"
        )
