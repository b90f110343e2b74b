"""Carry out ``segtable delete``, ``update`` and ``merge``, and print their results.

1. This process does simple changes itself, which saves Spark's start: simple SQL
   (``data.arrow.sql``), constant values to set, one local file that fits in memory. Spark does the
   others. ``--engine`` overrides the choice.
2. Errors for both engines (unknown column, missing file) are reported before Spark starts.
3. A dry run matches the rows of the newest version, and commits nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.text import Text

from airflow_provider_segtable.cli.display.output import Facts, note, print_json, progress, show
from airflow_provider_segtable.core.deletes.predicate import Compare, Compares
from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.planning.engine import Engine

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_segtable.table.changes.deleting import Deletes
    from airflow_provider_segtable.table.changes.merge_rows import Merges
    from airflow_provider_segtable.table.changes.row_change import ChangeResult
    from airflow_provider_segtable.table.changes.updating import Updates


class Matched(StrEnum):
    """Action on matched rows of the table."""

    UPDATE = "update"
    DELETE = "delete"
    IGNORE = "ignore"


class Unmatched(StrEnum):
    """Action on unmatched rows of the file."""

    INSERT = "insert"
    IGNORE = "ignore"


_DOING = {"delete": "deleting", "update": "updating", "merge": "merging"}
_DONE = {"delete": "deleted", "update": "updated", "merge": "merged"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A change from the command line; ``kind`` decides which fields apply."""

    kind: str
    where: str | None = None
    sets: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    on: tuple[str, ...] = ()
    matched: str = "update"
    unmatched: str = "insert"
    commit_id: str | None = None
    dry_run: bool = False

    @property
    def inserts(self) -> bool:
        """Return whether the change may append rows, which needs ZooKeeper."""
        words = (self.matched, self.unmatched)
        inserting = self.kind == "update" or (
            self.kind == "merge" and ("update" in words or "insert" in words)
        )
        return inserting and not self.dry_run


def changed(uri: str, table: Any, asked: Asked, engine: Engine, master: str | None) -> Facts:
    """Carry out a change, and return its result."""
    start = monotonic()
    if asked.inserts:
        _ = table.ports.coordinator  # fails first if there is no ZooKeeper
    state = table.state()
    before = asked.commit_id is not None and asked.commit_id in state.commits
    used = _engine(state, table.snapshot().schema, asked, engine)
    with progress() as bar:
        bar.add_task(_DOING[asked.kind], total=None)
        if used is Engine.LOCAL:
            result = _locally(table, asked)
        else:
            from airflow_provider_segtable.cli.on_spark import change_rows

            result = change_rows(table, asked, master)
    return {
        "table": uri,
        "version": result.state.n,
        "kind": asked.kind,
        "dry_run": asked.dry_run,
        "engine": used.value,
        "event": result.n,
        "matched": result.matched,
        "deleted": result.deleted,
        "inserted": result.inserted,
        "changed_before": before,
        "seconds": round(monotonic() - start, 3),
    }


def tell(facts: Facts, *, as_json: bool) -> None:
    """Print the result of a change."""
    if as_json:
        print_json(facts)
        return
    matched = f"{facts['matched']:,} {'row' if facts['matched'] == 1 else 'rows'} matched"
    if facts["dry_run"]:
        show(Text(matched))
        note("[dim]a dry run: nothing was written[/]")
    elif facts["event"] is None:
        show(Text(f"{matched}: nothing to {facts['kind']}, nothing was written"))
    else:
        moved = f", {facts['deleted'] or 0:,} deleted, {facts['inserted']:,} inserted"
        # a rollup table does not count deleted rows
        line = f": {matched}{'' if facts['deleted'] is None else moved}: event {facts['event']}"
        again = " before, under this name" if facts["changed_before"] else ""
        show(Text.assemble((f"{_DONE[facts['kind']]}{again}", "green"), line))


def _engine(state: Any, schema: "pa.Schema", asked: Asked, wanted: Engine) -> Engine:
    """Return the engine for a change.

    Raises:
        InvalidInput: only Spark can do the change, but the local engine is requested.
    """
    if wanted is Engine.SPARK:
        return wanted
    why = None if state.table.rollup else _why_spark(schema, asked)
    if why is None:
        return Engine.LOCAL
    if wanted is Engine.LOCAL:
        raise InvalidInput(f"--engine local cannot do this: {why}")
    note("[dim]with Spark, as this process alone cannot do it (--engine local says why)[/]")
    return Engine.SPARK


def _why_spark(schema: "pa.Schema", asked: Asked) -> str | None:
    """Return why a change needs Spark, or None.

    Raises:
        SchemaMismatch: there is no such column.
    """
    if asked.file:
        _check_there(asked.file)
        if _of_spark(asked.file):
            return f"{asked.file} is no single file on this machine"
        if asked.options:
            return "--option is for Spark's readers"
        if asked.where or asked.sets:
            return f"a file beside {'--where' if asked.where else '--set'} joins two tables"
    try:
        _check_words(schema, asked)
    except SchemaMismatch:
        raise
    except InvalidInput as error:
        return str(error)
    return None


def _check_words(schema: "pa.Schema", asked: Asked) -> None:
    """Refuse expressions and files that this process cannot read."""
    from airflow_provider_segtable.cli.input.sources import file_format
    from airflow_provider_segtable.data.arrow.sql import parse_predicate

    if asked.file:
        file_format(Path(asked.file), asked.format)
    if asked.where:
        parse_predicate(asked.where, schema)
    for name, text in asked.sets.items():
        _value(name, text, schema)


def _of_spark(name: str) -> bool:
    """Return whether a name is a URI, a pattern or a folder, which only Spark reads."""
    return "://" in name or any(mark in name for mark in "*?[{") or Path(name).is_dir()


def _check_there(name: str) -> None:
    if not (_of_spark(name) or Path(name).exists()):
        raise InvalidInput(f"there is no file {name}: check the path, or give a URI")


def _value(name: str, text: str, schema: "pa.Schema") -> "pa.Scalar | None":
    """Return the constant value of an SQL text, in a column's type.

    Raises:
        InvalidInput: it is an expression, or not a value of the column's type.
    """
    from airflow_provider_segtable.data.arrow.arrow_predicates import scalar
    from airflow_provider_segtable.data.arrow.sql import parse_predicate

    if name not in schema.names:
        raise SchemaMismatch(
            f"there is no column {name!r} to set: the table has {', '.join(schema.names)}"
        )
    if text.strip().lower() == "null":
        return None
    quoted = name.replace("`", "``")
    found = parse_predicate(f"`{quoted}` = {text}", schema)
    match found:
        case Compare(column=column, how=Compares.EQUAL, value=value) if column == name:
            return scalar(value, schema.field(name).type, name)
    raise InvalidInput(f"{text!r} is no plain value to set column {name!r} to")


def _locally(table: Any, asked: Asked) -> "ChangeResult":
    from airflow_provider_segtable.table.changes.row_change import ChangeKind, ChangeResult, change

    snapshot = table.snapshot()
    wanted = _wanted(snapshot.schema, asked)
    if asked.dry_run:
        found = wanted.find(snapshot)
        return ChangeResult(
            n=None, state=snapshot.state, matched=found.matched, deleted=0, inserted=0
        )
    name = asked.commit_id or table.ports.randomness.token()
    kind, reason = ChangeKind(asked.kind), str(wanted)
    return change(table.ports, wanted.find, kind=kind, reason=reason, commit_id=name)


def _wanted(schema: "pa.Schema", asked: Asked) -> "Deletes | Updates | Merges":
    from airflow_provider_segtable.table.changes.deleting import Deletes
    from airflow_provider_segtable.table.changes.merge_rows import Merges
    from airflow_provider_segtable.table.changes.updating import Updates

    if asked.kind == "update":
        values = {name: _value(name, text, schema) for name, text in asked.sets.items()}
        return Updates(set=values, where=asked.where or "")
    if asked.kind == "merge":
        return Merges.of(_rows(asked, schema), asked.on, asked.matched, asked.unmatched)
    if not asked.file:
        return Deletes(where=asked.where)
    rows = _rows(asked, schema)
    for name in asked.on:
        if name not in rows.column_names:
            raise SchemaMismatch(
                f"{asked.file} has no column {name!r}: it has {', '.join(rows.column_names)}"
            )
    return Deletes(rows=rows.select(list(asked.on)) if asked.on else rows)


def _rows(asked: Asked, schema: "pa.Schema") -> "pa.Table":
    """Read the columns that the file has, in the table's types."""
    import pyarrow as pa

    from airflow_provider_segtable.cli.input.sources import read_rows, schema_of

    path = Path(asked.file or "")
    names = schema_of(path, asked.format).names
    some = pa.schema([each for each in schema if each.name in names])
    return read_rows(path, some, asked.format)
