"""Change requests as arguments of the Spark application, in both directions.

1. ``arguments_of`` and ``request_of`` are inverse: the application makes the request that the
   operator made. Rows are named as files; credentials among the reader's options are left out and
   go by the environment.
2. Each value is one argument ``--name=value``, checked for control characters
   (``core.arguments``).
3. Arguments of another kind of change are refused, instead of being ignored.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_segtable.core.arguments import option, plain, shown
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.change_request import (
    ChangeKind,
    ChangeRequest,
    Delete,
    FileRows,
    Matched,
    Merge,
    RowsToMatch,
    Sql,
    Unmatched,
    Update,
)
from airflow_provider_segtable.core.secret import is_secret_name
from airflow_provider_segtable.core.tables.column_names import split_names

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


def _name(what: str, name: str) -> str:
    """Return the name part of ``name=value``, checked."""
    if not plain(what, name) or "=" in name:
        raise InvalidInput(f"{what} is called {name!r}: give a name without '='")
    return name


def add_change_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that ``request_of`` reads."""
    add = parser.add_argument
    add("kind", choices=KINDS, help="what to do")
    add("--where", metavar="CONDITION", help="rows to select, in SQL; 'true' selects all")
    add("--set", type=_pair, action="append", default=[], metavar="COLUMN=EXPRESSION")
    add("--matches", metavar="PATH", help="file of rows to match")
    add("--source", metavar="PATH", help="the rows to merge")
    add("--on", help="columns to compare: COLUMN,COLUMN; of --matches all if not given")
    add("--matched", choices=list(Matched), default=Matched.UPDATE)
    add("--unmatched", choices=list(Unmatched), default=Unmatched.INSERT)
    add("--format", help="of --matches or --source: by default from the suffix")
    add(
        "--option",
        type=_pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of Spark's reader, e.g. nullValue=NA",
    )
    add("--commit-id", help="commit id: the change is made once under it")
    add(
        "--dry-run", action="store_true", help="report how many rows it would change, write nothing"
    )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


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
