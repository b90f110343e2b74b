"""Primary-key tables: one row is kept for each key; the definition, not the computation.

1. Each written row is a *record*: an upsert or a delete of its key. Records are never changed or
   deleted by address: readers and compactions merge the records of a key (``merge_rules``).
2. A key lives in one bucket of one time chunk: the hash of its columns (of those in ``divided_by``,
   if any) modulo the number of ``buckets``, and the chunk of its event time. So the event time of a
   key must not change, unless the table has granularity ``all`` or an index that follows keys from
   chunk to chunk (``core.indexes.record_index``). Keys are unique in a time chunk.
3. A *log file* has the records of one write in one bucket, sorted by key. Its id is given by the
   event that publishes it, so writers lock nothing, never wait, and never conflict.
4. A *base file* has the merged rows of all files before it: it begins at the first root. Minor
   compaction merges log files into one log file, semi-major compaction makes a new base file, major
   compaction makes base files of other time chunks or of another number of buckets. Files that
   complete meanwhile get later roots, so no compaction ever excludes a writer.
5. All files are sorted by key, and the property ``compaction.clustering`` names the key, so that
   the planner sees how much of a bucket is in log files.
6. Columns outside the key and the event time are nullable: a record may lack them. They may be
   changed (rules 7 to 10). With ``partial_update`` the default of a column that was added is
   shown where no record has set it: records themselves have nulls there, which set nothing.

Changes of columns:

7. The columns that decide where a record is kept and which record wins stay as they are: the key,
   the ordering column, the ordering columns of groups, the event time. All others may be added,
   renamed, dropped, widened and reordered.
8. A column that is added joins the group that its author names. Otherwise it follows the default
   rule of the engine: a part of the row (``latest``), a register of its own (``partial_update``).
9. A column of a group has no default: a group is set as a whole, nulls included, so a null there
   says that a record set it to null.
10. A register keeps its hidden columns under the id that they have, whatever it is called.

Changes of rows:

11. A change reads one version, and writes a record for each row that it changes: a tombstone, or an
    upsert. So it may set any column but the key and the event time, which decide where a row is.
12. A merge joins by the columns of the primary key: then each source row has one row of the table
    at most in a time chunk, and the key of an inserted row identifies it.
13. With ``partial_update`` a record sets the columns that the change sets, and the groups that they
    are in; the others stay with their own records. A null sets nothing outside a group, so a change
    that would set one is refused.

Source of the idea: Apache Hudi RFC-66 (non-blocking concurrency control), Apache Paimon's primary
key tables (merge engines, sequence groups).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.requests.change_request import ChangeRequest, Merge, Update
from airflow_provider_segtable.core.schema import (
    Column,
    Order,
    Schema,
    decode_columns,
    encode_columns,
)
from airflow_provider_segtable.core.segment import Roots, Segment
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    WidenColumn,
)
from airflow_provider_segtable.core.tables.field_ids import hidden_ids, id_beside
from airflow_provider_segtable.core.tables.merge_rules import (
    AT_OF,
    ROOT_OF,
    ColumnGroup,
    MergeEngine,
    MergeRules,
)
from airflow_provider_segtable.core.tables.table_kind import DeletionForm, TableKind
from airflow_provider_segtable.core.time import Granularity, Instant

# Changes of columns
_OWNED = (ROOT_OF, AT_OF)


def check_changes(rules: MergeRules, changes: Sequence[ColumnChange], table: str) -> None:
    """Refuse changes of columns that decide which record wins, and groups that do not exist.

    Raises:
        InvalidInput: with the column, its role and the way out.
    """
    for change in changes:
        if isinstance(change, AddColumn):
            _check_addition(change, rules, table)
            continue
        name, done = _touched(change)
        role = _role(rules, name)
        if role:
            raise InvalidInput(
                f"column {name!r} of {table} cannot be {done}: it is {role}, by which files of "
                "before were written; create a table with the columns wanted, and upsert the rows "
                "there"
            )


def _role(rules: MergeRules, name: str) -> str:
    """Return the role of a column that stays as it is; empty for any other."""
    if name in rules.key:
        return "part of the primary key, which decides where a record is kept"
    if name and name == rules.ordering:
        return "the ordering column, which decides which record wins"
    if name in (group.ordering for group in rules.groups):
        return "the ordering column of a group, which decides which record sets the group"
    return ""


def _touched(change: ColumnChange) -> tuple[str, str]:
    """Return the column that a change touches, and the participle; empty if it touches none."""
    match change:
        case DropColumn(name=name):
            return name, "dropped"
        case RenameColumn(name=name):
            return name, "renamed"
        case WidenColumn(name=name):
            return name, "changed in type"
        case MakeNullable(name=name):
            return name, "made nullable"
        case _:
            return "", ""


def _check_addition(change: AddColumn, rules: MergeRules, table: str) -> None:
    known = [group.ordering for group in rules.groups]
    if change.group and change.group not in known:
        raise InvalidInput(
            f"column {change.name!r} is to join the group {change.group!r}, which {table} does not "
            f"have: its groups are {', '.join(known) or 'none'}; leave the group out"
        )
    if change.group and change.default is not None:
        raise InvalidInput(
            f"column {change.name!r} joins the group {change.group!r}, so it has no default "
            f"({change.default!r}): a group is set as a whole, nulls included; leave the default "
            "out, or the group"
        )


def groups_after(
    groups: Sequence[ColumnGroup], changes: Sequence[ColumnChange]
) -> tuple[ColumnGroup, ...]:
    """Return the column groups after changes that were checked."""
    members = {group.ordering: list(group.columns) for group in groups}
    for change in changes:
        match change:
            case AddColumn(name=name, group=group) if group:
                members[group].append(name)
            case DropColumn(name=name):
                members = {by: [n for n in some if n != name] for by, some in members.items()}
            case RenameColumn(name=name, new=new):
                members = {
                    by: [new if n == name else n for n in some] for by, some in members.items()
                }
            case _:
                pass
    return tuple(ColumnGroup(columns=tuple(some), ordering=by) for by, some in members.items())


def records_after(
    records: Sequence[Column], wanted: Sequence[Column], before: Schema, after: Schema
) -> tuple[Column, ...]:
    """Return hidden columns with their ids.

    Args:
        records: the hidden columns before.
        wanted: the hidden columns by the rules after the change.
        before: the table's columns before.
        after: its columns after the change.
    """
    old, new = _ids(before), _ids(after)
    kept = {_owned(name, old): number for name, number in hidden_ids(records).items()}
    found = []
    for column in wanted:
        owned = _owned(column.name, new)
        number = kept.get(owned) or id_beside(owned[1], _OWNED.index(owned[0]))
        found.append(
            Column(name=column.name, type=column.type, nullable=column.nullable, id=number)
        )
    return tuple(found)


def _ids(schema: Schema) -> Mapping[str, int]:
    return {column.name: column.id for column in schema.numbered}


def _owned(name: str, ids: Mapping[str, int]) -> tuple[str, int]:
    """Return the prefix of a hidden column, and the id of the column that it is about (0: none)."""
    for prefix in _OWNED:
        if name.startswith(prefix):
            return prefix, ids[name.removeprefix(prefix)]
    return name, 0


# Changes of rows
def check_request(rules: MergeRules, time_column: str, request: ChangeRequest, uri: str) -> None:
    """Refuse a merge by other columns than the key, and new values of key or event time.

    Raises:
        InvalidInput: with the columns and the way out.
    """
    if isinstance(request, Merge) and {*request.keys} != {*rules.key}:
        on = ", ".join(request.keys) or str(request.on)
        raise InvalidInput(
            f"{uri} has the primary key {', '.join(rules.key)}, and the merge joins on {on}: join "
            "on the key; or upsert whole rows (segtable ingest, Table.upsert), or update the rows "
            "that match (segtable update --matches, Table.update)"
        )
    if isinstance(request, Merge | Update):
        for name in request.set or ():
            if name in (*rules.key, time_column):
                raise InvalidInput(
                    f"column {name!r} of {uri} decides where a row is kept, so it cannot be set: "
                    "delete the row, and upsert it anew"
                )


def unset(rules: MergeRules, names: Iterable[str], given: Collection[str]) -> tuple[str, ...]:
    """Return the columns that are null in a record which sets some columns.

    Args:
        rules: the table's rules.
        names: all columns of the table.
        given: the columns that are set.
    """
    if not rules.partial:
        return ()
    keep = {*rules.key, rules.ordering, *rules.fixed, *given}
    for group in rules.groups:
        if not keep.isdisjoint(group.names):
            keep.update(group.names)
    return tuple(name for name in names if name not in keep)


def lost_null(name: str, rows: str) -> str:
    """Return why a column cannot be set to null (``rows`` says in which rows)."""
    return (
        f"column {name!r} would be set to null in {rows}: with merge='partial_update' a null "
        "outside a column group sets nothing, so the old value would stay; set another value, or "
        "delete the row and upsert it anew"
    )


# The kind of table itself
DEFAULT_BUCKETS = 4
BUCKET_BYTES = 256 * 1024 * 1024
"""About so much of a time chunk should be in a bucket."""
MOST_BUCKETS = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryKey:
    """A table that keeps one row for each key; methods as of ``TableKind``.

    Attributes:
        key: the columns of the primary key.
        buckets: the number of buckets of a time chunk.
        ordering: the column whose highest value wins; empty if the latest writer wins.
        merge: how the records of a key become its row.
        groups: columns that are set together (``partial_update``).
        divided_by: the columns of the key that decide the bucket; empty if all do.
        time_column: the event time; filled in by ``bound``.
        records: the hidden columns of the files; filled in by ``bound``.
    """

    key: tuple[str, ...]
    buckets: int = DEFAULT_BUCKETS
    ordering: str = ""
    merge: MergeEngine = MergeEngine.LATEST
    groups: tuple[ColumnGroup, ...] = ()
    divided_by: tuple[str, ...] = ()
    time_column: str = ""
    records: tuple[Column, ...] = ()

    name: ClassVar[str] = "primary_key"
    deletion: ClassVar[DeletionForm] = DeletionForm.TOMBSTONES
    merges: ClassVar[bool] = False
    shows_base: ClassVar[bool] = True
    major_tidies: ClassVar[bool] = False
    unmerged: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Refuse a number of buckets out of range, and columns with two roles."""
        _check_number(self.buckets)
        _ = self.rules

    @property
    def rules(self) -> MergeRules:
        """Return the rules of merging."""
        roles = {*self.key, self.ordering, *(n for group in self.groups for n in group.names)}
        fixed = self.time_column and self.time_column not in roles
        return MergeRules(
            key=self.key,
            ordering=self.ordering,
            engine=self.merge,
            groups=self.groups,
            fixed=(self.time_column,) if fixed else (),
            divided_by=self.divided_by,
        )

    @property
    def order(self) -> Order:
        """Return the order of all files: by key."""
        return Order(columns=self.key)

    @property
    def hidden(self) -> tuple[Column, ...]:
        """Return the hidden columns of the files, in order."""
        return self.records

    def bound(
        self, schema: Schema, *, time_column: str, granularity: Granularity
    ) -> "tuple[PrimaryKey, Schema]":
        """Check the rules against the columns; all but key and event time become nullable."""
        del granularity
        kind = replace(self, time_column=time_column)
        kind.rules.check(schema)
        fixed = {*self.key, time_column}
        shown = Schema(
            tuple(
                column if column.name in fixed else replace(column, nullable=True)
                for column in schema.columns
            ),
            schema.number,
        )
        return replace(kind, records=kind.rules.hidden(shown)), shown

    def encoded(self) -> dict[str, Any]:
        """Return the kind's name, and the settings in a field of that name."""
        return {"kind": self.name, self.name: _encoded(self)}

    @staticmethod
    def decoded(body: Mapping[str, Any]) -> "PrimaryKey":
        """Parse the output of ``encoded``."""
        return _decoded(body[PrimaryKey.name])

    def facts(self) -> Mapping[str, str | list[str]]:
        """Return the key, the number of buckets and how records are merged."""
        groups = [f"{', '.join(group.columns)} by {group.ordering}" for group in self.groups]
        return {
            "primary_key": list(self.key),
            "buckets": str(self.buckets),
            "merge": self.merge.value,
            **({"ordering": self.ordering} if self.ordering else {}),
            **({"groups": groups} if groups else {}),
        }

    @property
    def properties(self) -> Mapping[str, str]:
        """Return the clustering: the key."""
        return {"compaction.clustering": str(self.order)}

    def needed(self, names: Sequence[str], time_column: str) -> Sequence[str]:
        """Return all columns."""
        del time_column
        return names

    def input_schema(self, stored: Schema, time_column: str) -> Schema:
        """Return the columns that readers see, as records have them: a null may set nothing."""
        del time_column
        if not self.rules.partial:
            return stored
        bare = (replace(column, default=None) for column in stored.columns)
        return Schema(tuple(bare), stored.number)

    def identity(self, names: Sequence[str], time_column: str) -> Sequence[str]:
        """Return the key."""
        del names, time_column
        return self.key

    def check_columns(self, changes: Sequence[ColumnChange], table: str) -> None:
        """Refuse changes of the columns that decide which record wins."""
        check_changes(self.rules, changes, table)

    def with_columns(
        self, changes: Sequence[ColumnChange], before: Schema, after: Schema
    ) -> "PrimaryKey":
        """Return the kind with the groups and the hidden columns of the new columns."""
        kind = replace(self, groups=groups_after(self.groups, changes))
        wanted = kind.rules.hidden(after)
        return replace(kind, records=records_after(self.records, wanted, before, after))

    def placed(self, segment: Segment, n: int, *, renamed: bool) -> Segment:
        """Return the segment: records name their file, not their place."""
        del n, renamed
        return segment

    def published(self, segment: Segment, at: Instant) -> Segment:
        """Return the segment with its completion time, by which old tombstones are dropped."""
        return replace(segment, completed=at)

    def roots(self, inputs: Sequence[Segment]) -> tuple[Roots, ...]:
        """Return none: records name their log file in a hidden column of their own."""
        del inputs
        return ()

    def unaccounted(self, inputs: Sequence[Segment], outputs: Sequence[Segment]) -> Iterable[str]:
        """Yield an excess of rows over the inputs; only the files show the number of keys."""
        rows, most = sum(s.rows for s in outputs), 2 * sum(s.rows for s in inputs)
        if rows > most:
            yield f"rows: expected at most {most}, found {rows}"

    def misplaced(self, inputs: Sequence[Segment], outputs: Sequence[Segment]) -> Iterable[str]:
        """Yield nothing: merged rows have no order of their own."""
        del inputs, outputs
        return ()

    def doubled(self, segments: Iterable[Segment]) -> Iterator[str]:
        """Yield nothing: the log does not record keys."""
        del segments
        return iter(())

    def tie_columns(self, time_column: str) -> tuple[str, ...]:
        """Return none: the key is unique."""
        del time_column
        return ()

    def check_order(self, order: Order, time_column: str, table: str) -> None:
        """Refuse any order but that of the key."""
        del time_column
        if order != self.order:
            raise InvalidInput(
                f"{table} can not be sorted by {str(order) or 'event time'}: it has a primary key, "
                f"so it is sorted by that: {self.order}"
            )

    def check_granularity(self, granularity: Granularity, table: str) -> None:
        """Accept any: a major compaction divides rows by their event times."""
        del granularity, table

    def check_buckets(self, buckets: int, table: str) -> None:
        """Refuse a number of buckets out of range."""
        del table
        _check_number(buckets)

    @property
    def only_spark(self) -> str:
        """Return nothing: Arrow can."""
        return ""

    def check_degree(self, degree: str, table: str) -> None:
        """Refuse: rows are not rolled up."""
        raise InvalidInput(
            f"{table} is not a rollup table, so {degree} rollup is impossible: leave it out"
        )

    def check_addresses(self, uri: str) -> None:
        """Refuse: a row may consist of several records."""
        raise InvalidInput(f"rows of a primary-key table have no addresses ({uri})")

    def check_window(self, uri: str) -> None:
        """Accept: records keep their root through all merges."""

    def check_change(self, request: ChangeRequest, uri: str) -> None:
        """Refuse merges by other columns than the key, and new values of key and event time."""
        check_request(self.rules, self.time_column, request, uri)

    def check_predicate(self, predicate: Predicate, time_column: str) -> None:
        """Accept any predicate: it is evaluated once, and the log files name the keys."""

    def unpublished(self, stored: Schema, unmerged: Iterable[str]) -> str:
        """Return which default readers see in the place of nulls that files have."""
        del unmerged
        columns = stored.columns if self.rules.partial else ()
        for column in (column for column in columns if column.default is not None):
            return (
                f"column {column.name!r} has the default {column.default!r}, which is shown where "
                "no record has set it, and files have null there: drop the column, or add one "
                "without a default"
            )
        return ""


def _check_number(buckets: int) -> None:
    if not 1 <= buckets <= MOST_BUCKETS:
        raise InvalidInput(
            f"{buckets} buckets: choose 1 to {MOST_BUCKETS}, about one for each 256 MiB of a time "
            "chunk"
        )


def kind_of(
    kind: TableKind | None,
    primary_key: Sequence[str] | str | None,
    *,
    buckets: int,
    ordering: str,
    merge: str | MergeEngine,
    groups: Mapping[str, Sequence[str]] | None,
) -> TableKind:
    """Return the kind of a table, from a user's arguments.

    Raises:
        InvalidInput: a kind and a primary key are given, or settings of a key that is not given.
    """
    if primary_key is None:
        if ordering or groups:
            raise InvalidInput(
                f"ordering={ordering!r} and groups={groups!r} say how rows of a key are merged: "
                "name the key, primary_key=[...]"
            )
        return kind or Append()
    if kind is not None:
        raise InvalidInput(
            f"a {kind.name} table has no primary key: leave out kind, or primary_key={primary_key}"
        )
    return PrimaryKey(
        key=(primary_key,) if isinstance(primary_key, str) else tuple(primary_key),
        buckets=buckets,
        ordering=ordering,
        merge=engine_named(merge),
        groups=tuple(
            ColumnGroup(columns=tuple(columns), ordering=by)
            for by, columns in (groups or {}).items()
        ),
    )


def engine_named(name: str | MergeEngine) -> MergeEngine:
    """Return the merge engine of a name.

    Raises:
        InvalidInput: there is none.
    """
    try:
        return MergeEngine(name)
    except ValueError:
        known = ", ".join(engine.value for engine in MergeEngine)
        raise InvalidInput(f"merge={name!r} is unknown: choose one of {known}") from None


def _encoded(kind: PrimaryKey) -> dict[str, Any]:
    body = {
        "key": list(kind.key),
        "buckets": kind.buckets,
        "ordering": kind.ordering,
        "merge": kind.merge.value,
        "groups": [{"columns": list(g.columns), "ordering": g.ordering} for g in kind.groups],
        "divided_by": list(kind.divided_by),
        "time_column": kind.time_column,
        "records": encode_columns(Schema(kind.records)),
    }
    return {name: value for name, value in body.items() if value}


def _decoded(body: Mapping[str, Any]) -> PrimaryKey:
    return PrimaryKey(
        key=tuple(body["key"]),
        buckets=body["buckets"],
        ordering=body.get("ordering", ""),
        merge=MergeEngine(body["merge"]),
        groups=tuple(
            ColumnGroup(columns=tuple(group["columns"]), ordering=group["ordering"])
            for group in body.get("groups", ())
        ),
        divided_by=tuple(body.get("divided_by", ())),
        time_column=body["time_column"],
        records=decode_columns(body["records"]).columns,
    )
