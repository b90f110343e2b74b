"""Change requests: delete, update or merge rows, as one value each.

1. ``Table``, the command line, the operators and the Spark application make the same requests;
   ``table.changes.run_change`` carries them out with a row engine (Arrow or Spark).
2. A request is checked when it is made; ``check_fits`` compares it with a table's columns. Both
   name the refused value and the way out. A limit of one engine is refused by that engine.
3. Rows come as a file that is not read yet (``FileRows``), or as an engine holds them
   (``GivenRows``): an Arrow table or a DataFrame, which this module does not look into.
4. A condition is SQL text, or a ``pyarrow.compute.Expression`` for the Arrow engine. A new value is
   ``Sql`` text, or for the Arrow engine a plain value or an expression.
5. Requests are also arguments of the Spark application, in both directions. ``arguments_of`` and
   ``request_of`` are inverse: the application makes the request that the operator made. Rows are
   named as files; credentials among the reader's options are left out and go by the environment.
6. Each value is one argument ``--name=value``, checked for control characters
   (``core.arguments``).
7. Arguments of another kind of change are refused, instead of being ignored.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias, TypeVar

from airflow_provider_segtable.core.arguments import option, pair, plain, shown
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.schema import Schema, no_column, split_names
from airflow_provider_segtable.core.secret import is_secret_name

WAIT_S = 60.0
"""How long a change waits for the coordinator."""

Where: TypeAlias = str | Any
"""A condition: SQL, or a ``pyarrow.compute.Expression``."""


class ChangeKind(StrEnum):
    """The kinds of change."""

    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"
    OVERWRITE = "overwrite"


class Matched(StrEnum):
    """The action for a table row whose key is in the source."""

    UPDATE = "update"
    DELETE = "delete"
    IGNORE = "ignore"


class Unmatched(StrEnum):
    """The action for a source row whose key is not in the table."""

    INSERT = "insert"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Sql:
    """A value or a condition as SQL text, in distinction to a text value."""

    text: str

    def __str__(self) -> str:
        """Return the text."""
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """Rows of a file, folder or pattern; ``options`` are Spark's reader's."""

    path: str
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Refuse an empty path."""
        if not self.path:
            raise InvalidInput("the path of the rows is empty: name a file, folder or pattern")

    def __str__(self) -> str:
        """Return the path."""
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRows:
    """Rows as an engine holds them, with their column names, and their number where known."""

    rows: Any
    columns: tuple[str, ...]
    count: int | None = None

    def __post_init__(self) -> None:
        """Refuse rows without columns, and columns with equal names."""
        if not self.columns:
            raise InvalidInput(
                "the given rows have no columns to compare with: give rows with columns"
            )
        if len({*self.columns}) < len(self.columns):
            raise SchemaMismatch(
                f"the given rows have columns {', '.join(self.columns)}: rename those given twice"
            )

    def __str__(self) -> str:
        """Return the number of rows, where known."""
        return "a table" if self.count is None else str(self.count)


RowsToMatch: TypeAlias = FileRows | GivenRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete the rows that match a condition, equal others, or have given addresses.

    Attributes:
        where: the condition; ``"true"`` selects all rows.
        rows: selects rows that equal one of these; null equals null. With ``where``, both must
            hold.
        on: the columns to compare with ``rows``; all of them by default.
        addresses: the rows' root addresses, alone.
        commit_id: equal ids change once; random by default.
        dry_run: only count.
    """

    kind: ClassVar = ChangeKind.DELETE
    appends: ClassVar = False
    where: Where | None = None
    rows: RowsToMatch | None = None
    on: tuple[str, ...] = ()
    addresses: GivenRows | None = None
    commit_id: str | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Require one selection of rows."""
        _check_selection(self.where, self.rows, self.on, self.addresses)

    def __str__(self) -> str:
        """Return the request as the log records it."""
        if self.addresses is not None:
            count = self.addresses.count
            return "given addresses" if count is None else f"{count} addresses"
        return _selection(self.where, self.rows, self.on)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Set columns of the selected rows; attributes as in ``Delete``.

    Attributes:
        set: new values by column, over the old row.
    """

    kind: ClassVar = ChangeKind.UPDATE
    set: Mapping[str, Sql | Any]
    where: Where | None = None
    rows: RowsToMatch | None = None
    on: tuple[str, ...] = ()
    commit_id: str | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Require new values and a selection of rows."""
        if not self.set:
            raise InvalidInput(
                "set is empty: name a column and its new value (--set COLUMN=EXPRESSION)"
            )
        _check_selection(self.where, self.rows, self.on, None)

    @property
    def appends(self) -> bool:
        """Return whether rows may be appended, which needs the coordinator."""
        return not self.dry_run

    def __str__(self) -> str:
        """Return the request as the log records it."""
        return f"set {_assigned(self.set)} {_selection(self.where, self.rows, self.on)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Merge source rows into the table.

    Attributes:
        source: the source rows.
        on: the key columns, which both have (null equals nothing), or a condition over
            ``target.*`` and ``source.*``.
        matched: the action on table rows with a match.
        unmatched: the action on source rows without one.
        set: new values of updated rows; by default the source's other columns.
        commit_id: equal ids change once; random by default.
        dry_run: only count.
    """

    kind: ClassVar = ChangeKind.MERGE
    source: RowsToMatch
    on: tuple[str, ...] | Sql
    matched: Matched = Matched.UPDATE
    unmatched: Unmatched = Unmatched.INSERT
    set: Mapping[str, Sql | Any] | None = None
    commit_id: str | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Require a key and something to do, and new values only for updated rows."""
        keys = self.keys
        if not (keys or isinstance(self.on, Sql)) or len({*keys}) < len(keys):
            raise InvalidInput(f"on={keys}: name the columns to join by (--on), each once")
        if (self.matched, self.unmatched) == (Matched.IGNORE, Unmatched.IGNORE):
            raise InvalidInput(
                "matched and unmatched are both 'ignore': there is nothing to do; choose another "
                "action for one of them"
            )
        if self.set is not None and self.matched is not Matched.UPDATE:
            raise InvalidInput(
                f"set is given, and matched rows are not updated but matched={self.matched.value!r}"
                ": leave out one of them"
            )
        if self.set is not None and not self.set:
            raise InvalidInput("set is empty: name a column and its new value")

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the columns to join by; empty if ``on`` is a condition."""
        return () if isinstance(self.on, Sql) else self.on

    @property
    def appends(self) -> bool:
        """Return whether rows may be appended, which needs the coordinator."""
        writes = self.matched is Matched.UPDATE or self.unmatched is Unmatched.INSERT
        return writes and not self.dry_run

    def __str__(self) -> str:
        """Return the request as the log records it."""
        rows = self.source.count if isinstance(self.source, GivenRows) else None
        merge = "merge" if rows is None else f"merge {counted(rows, 'row')}"
        by = ", ".join(self.keys) or self.on
        does = f"{self.matched.value} (set {_assigned(self.set)})" if self.set else self.matched
        return f"{merge} on {by}: matched {does}, unmatched {self.unmatched.value}"


ChangeRequest: TypeAlias = Delete | Update | Merge

Action = TypeVar("Action", Matched, Unmatched)


def action(known: type[Action], word: str) -> Action:
    """Return the action of this name.

    Raises:
        InvalidInput: there is none; the message names the known ones.
    """
    if word not in tuple(known):
        choices = ", ".join(known)
        raise InvalidInput(f"{known.__name__.lower()}={word!r}: choose one of {choices}")
    return known(word)


def selected(where: str | None, rows: RowsToMatch | None, *, every_row: bool) -> str | None:
    """Return the condition of a change; every row needs a word of its own.

    Args:
        where: a condition; an empty one, as a template may render it, never selects all rows.
        rows: rows to match.
        every_row: whether the user asked for every row (``all_rows=True``, ``--all``).

    Raises:
        InvalidInput: no rows are selected, or ``every_row`` is combined with a selection.
    """
    some = bool((where or "").strip()) or rows is not None
    if some and every_row:
        raise InvalidInput(
            f"where = {where!r}, matches = {rows and str(rows)!r} and all_rows (--all) select twice"
            ": leave out where and matches, or all_rows"
        )
    if not some and not every_row:
        raise InvalidInput(
            f"where = {where!r} and matches = None select no rows: give where or matches (--where "
            "SQL, --matches FILE); all_rows=True (--all) selects every row"
        )
    return "true" if every_row else where or None


def with_rows(request: ChangeRequest, read: Callable[[FileRows], GivenRows]) -> ChangeRequest:
    """Return the request with the rows of its file, if it names one.

    Raises:
        SchemaMismatch: the file has no column to compare.
    """
    if isinstance(request, Merge):
        source = request.source
        return replace(request, source=read(source)) if isinstance(source, FileRows) else request
    if not isinstance(request.rows, FileRows):
        return request
    found = read(request.rows)
    missing = [name for name in request.on if name not in found.columns]
    if missing:
        raise SchemaMismatch(
            f"{request.rows} has no column {missing[0]!r}: it has {', '.join(found.columns)}"
        )
    return replace(request, rows=found)


def held(rows: RowsToMatch) -> GivenRows:
    """Return rows that an engine holds.

    Raises:
        InvalidInput: they are still in a file.
    """
    if isinstance(rows, FileRows):
        raise InvalidInput(f"the rows of {rows} were not read: use with_rows first")
    return rows


# Checks against the columns of a table
def check_fits(request: ChangeRequest, schema: Schema, time_column: str) -> None:
    """Compare a request, whose rows are read, with the columns of a table.

    Raises:
        SchemaMismatch: a column is missing; the message names it.
    """
    if isinstance(request, Merge):
        _check_source(request, held(request.source).columns, schema, time_column)
    elif request.rows is not None:
        compared = request.on or held(request.rows).columns
        _check_known(compared, schema, "to compare with")
    if not isinstance(request, Delete):
        _check_known(request.set or (), schema, "to set")


def _check_known(names: Sequence[str] | Mapping[str, Any], schema: Schema, use: str) -> None:
    known = {*schema.names}
    for name in names:
        if name not in known:
            raise no_column(name, schema.names, use)


def _check_source(merge: Merge, columns: tuple[str, ...], schema: Schema, time_column: str) -> None:
    known, given = {*schema.names}, {*columns}
    for name in merge.keys:
        if name not in given or name not in known:
            where, has = ("the table", schema.names) if name in given else ("the source", columns)
            raise SchemaMismatch(f"{where} has no column {name!r} to join by: it has {has}")
    strange = [name for name in columns if name not in known]
    if strange and merge.set is None and merge.keys:
        raise SchemaMismatch(
            f"the source has a column {strange[0]!r}, which the table lacks: drop it, or use it "
            "in set"
        )
    if merge.unmatched is Unmatched.INSERT:
        for column in schema.columns:
            needed = not column.nullable or column.name == time_column
            if needed and column.name not in given:
                raise SchemaMismatch(
                    f"the source has no column {column.name!r}, which no row of the table can do "
                    "without: add it, or give unmatched='ignore'"
                )


def _check_selection(
    where: Where | None,
    rows: RowsToMatch | None,
    on: tuple[str, ...],
    addresses: GivenRows | None,
) -> None:
    given = sum(each is not None for each in (where, rows, addresses))
    if not given:
        raise InvalidInput(
            "0 of where, rows and addresses are given: select rows (--where, --matches); "
            "where='true' selects every row"
        )
    if addresses is not None and given > 1:
        raise InvalidInput(
            f"{given} of where, rows and addresses are given: give addresses alone, or leave them "
            "out"
        )
    if isinstance(where, str) and not where.strip():
        raise InvalidInput(f"where={where!r} is empty: where='true' selects every row")
    if on and rows is None:
        raise InvalidInput(f"on={on} compares with rows, and none are given: leave it out")
    if len({*on}) < len(on):
        raise InvalidInput(f"on={on}: name the columns to compare, each once")


def _selection(where: Where | None, rows: RowsToMatch | None, on: tuple[str, ...]) -> str:
    said = [f"where {where}"] if where is not None else []
    if rows is not None:
        columns = on or (rows.columns if isinstance(rows, GivenRows) else ())
        said.append(f"rows that equal one of {rows}{' in ' if columns else ''}{', '.join(columns)}")
    return " and ".join(said)


def _assigned(given: Mapping[str, Sql | Any] | None) -> str:
    return ", ".join(f"{name} = {value}" for name, value in (given or {}).items())


# Arguments of the Spark application
KINDS = (ChangeKind.DELETE.value, ChangeKind.UPDATE.value, ChangeKind.MERGE.value)
"""The changes that the application ``change`` makes; ``ingest`` overwrites."""


def arguments_of(request: ChangeRequest) -> tuple[str, ...]:
    """Return the kind of change and its options.

    Raises:
        InvalidInput: a value is no text, or has control characters; rows are not in a file.
    """
    return (request.kind.value, *_options(request))


def _options(request: ChangeRequest) -> Iterator[str]:
    match request:
        case Merge(source=source, matched=matched, unmatched=unmatched):
            yield option("source", _file(source).path)
            if not request.keys:
                raise InvalidInput(f"on={request.on} is a condition: name columns to join by")
            yield from _columns(request.keys)
            yield from (f"--matched={matched}", f"--unmatched={unmatched}")
            yield from _sets(request.set)
            yield from _reading(_file(source))
        case Update() | Delete():
            yield from _sets(request.set) if isinstance(request, Update) else ()
            if request.where is not None:
                yield option("where", request.where, sql=True)
            if request.rows is not None:
                file = _file(request.rows)
                yield option("matches", file.path)
                yield from _columns(request.on)
                yield from _reading(file)
    if request.commit_id:
        yield option("commit-id", request.commit_id)
    if request.dry_run:
        yield "--dry-run"


def _file(rows: RowsToMatch) -> FileRows:
    if not isinstance(rows, FileRows):
        raise InvalidInput("rows in memory are no arguments: write them to a file")
    return rows


def _columns(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if "," in plain("on", name):
            raise InvalidInput(f"on names the column {shown(name)}, which has a comma: rename it")
    if names:
        yield option("on", ",".join(names))


def _sets(given: Mapping[str, Sql | Any] | None) -> Iterator[str]:
    for name, value in (given or {}).items():
        text = plain("set", value.text if isinstance(value, Sql) else value, sql=True)
        yield option("set", f"{_name('a column of set', name)}={text}", sql=True)


def _reading(file: FileRows) -> Iterator[str]:
    if file.format:
        yield option("format", file.format)
    for key, value in file.options.items():
        if not is_secret_name(key):
            yield option("option", f"{_name('an option', key)}={value}")


def _name(title: str, name: str) -> str:
    """Return the name part of ``name=value``, checked."""
    if not plain(title, name) or "=" in name:
        raise InvalidInput(f"{title} is called {name!r}: give a name without '='")
    return name


def add_change_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that ``request_of`` reads."""
    add = parser.add_argument
    add("kind", choices=KINDS, help="the kind of change")
    add("--where", metavar="CONDITION", help="rows to select, in SQL; 'true' selects all")
    add("--set", type=pair, action="append", default=[], metavar="COLUMN=EXPRESSION")
    add("--matches", metavar="PATH", help="file of rows to match")
    add("--source", metavar="PATH", help="the rows to merge")
    add("--on", help="columns to compare: COLUMN,COLUMN; of --matches all if not given")
    add("--matched", choices=list(Matched), default=Matched.UPDATE)
    add("--unmatched", choices=list(Unmatched), default=Unmatched.INSERT)
    add("--format", help="of --matches or --source: by default from the suffix")
    add(
        "--option",
        type=pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of Spark's reader, e.g. nullValue=NA",
    )
    add("--commit-id", help="commit id: the change is made once under it")
    add(
        "--dry-run", action="store_true", help="report how many rows it would change, write nothing"
    )


def request_of(given: argparse.Namespace) -> ChangeRequest:
    """Return the request that parsed arguments describe.

    Raises:
        InvalidInput: arguments are missing, contradict each other, or belong to another kind.
    """
    kind = ChangeKind(given.kind)
    _check_kind(given, kind)
    sets = {name: Sql(text) for name, text in given.set}
    if len(sets) < len(given.set):
        names = [name for name, _ in given.set]
        raise InvalidInput(f"columns {', '.join(names)}: one is set more than once: leave one")
    common: dict[str, Any] = {"commit_id": given.commit_id, "dry_run": given.dry_run}
    on = columns_in(given.on)
    if kind is ChangeKind.MERGE:
        return Merge(
            source=_named(given, given.source or ""),
            on=on,
            matched=Matched(given.matched),
            unmatched=Unmatched(given.unmatched),
            set=sets or None,
            **common,
        )
    rows = None if given.matches is None else _named(given, given.matches)
    if kind is ChangeKind.UPDATE:
        return Update(set=sets, where=given.where, rows=rows, on=on, **common)
    return Delete(where=given.where, rows=rows, on=on, **common)


def columns_in(text: str | None) -> tuple[str, ...]:
    """Return the names in ``COLUMN,COLUMN``."""
    return tuple(name for name in split_names(text or "") if name)


def _named(given: argparse.Namespace, path: str) -> FileRows:
    return FileRows(path=path, format=given.format, options=dict(given.option))


def _check_kind(given: argparse.Namespace, kind: ChangeKind) -> None:
    own = {
        "--where": (given.where is not None, kind is not ChangeKind.MERGE),
        "--matches": (given.matches is not None, kind is not ChangeKind.MERGE),
        "--set": (bool(given.set), kind is not ChangeKind.DELETE),
        "--source": (given.source is not None, kind is ChangeKind.MERGE),
    }
    for name, (is_given, fits) in own.items():
        if is_given and not fits:
            raise InvalidInput(f"{name} has no meaning for a {kind.value}: leave it out")
