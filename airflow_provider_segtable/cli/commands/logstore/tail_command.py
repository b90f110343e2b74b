"""``segtable logstore tail``: the rows of a table as they are written."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_segtable.cli.commands.rows.scan_command import plain
from airflow_provider_segtable.cli.commands.tables.table_commands import writable_table
from airflow_provider_segtable.cli.display.output import note
from airflow_provider_segtable.cli.input.durations import seconds_of
from airflow_provider_segtable.cli.input.options import StorageOptions, TableUri, ZooKeeper

if TYPE_CHECKING:
    from airflow_provider_segtable.library.log_reader import LogItem, TableLogReader
    from airflow_provider_segtable.table.log_store.tail import LogRecords

Line = Mapping[str, Any]


class Form(StrEnum):
    """How rows are printed."""

    TEXT = "text"
    JSON = "json"


def tail(  # noqa: PLR0913 - each is an option
    table: TableUri,
    *,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="latest, earliest, the number of a version, or a time.",
            metavar="START",
        ),
    ] = "latest",
    bucket: Annotated[
        list[int] | None,
        typer.Option(help="Only this bucket. Repeatable.", metavar="N", show_default=False),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Read as a member of this consumer group, and keep its positions.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="End after so many rows.", metavar="N", show_default=False)
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(
            help="End when nothing has come for so long: 90s, 15m.",
            metavar="TIME",
            show_default=False,
        ),
    ] = None,
    form: Annotated[
        Form, typer.Option("--format", help="text, or json (one object a line).")
    ] = Form.TEXT,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
) -> None:
    """Print the rows of a table's log store as they are written, before they are committed.

    [green]segtable logstore tail ./trips[/]
    [green]segtable logstore tail ./trips --from earliest --format json | jq .row[/]
    [green]segtable logstore tail ./trips --group billing --idle 1m[/]

    It reads the table's files when it is far behind, and the services near the end.
    Each line has the bucket, the offset and the row. After a "reset" line, forget the rows
    of this bucket from its offset on: their writer was replaced before they were
    committed. In primary-key tables committed rows come merged, without offsets.
    """
    idle_s = None if idle is None else seconds_of(idle, "--idle")
    with writable_table(table, storage_options, zookeeper) as opened:
        reader = _reader(opened.ports, start, bucket, group)
        with closing(reader):
            _print(reader, form, limit, idle_s, keeps=group is not None)


def _reader(
    ports: Any, start: str, buckets: list[int] | None, group: str | None
) -> "TableLogReader":
    from airflow_provider_segtable.library.table import Table

    begin = int(start) if start.isdecimal() else start
    return Table(ports).log_reader(begin, buckets=buckets, group=group)


def _print(
    reader: "TableLogReader", form: Form, limit: int | None, idle_s: float | None, *, keeps: bool
) -> None:
    left = sys.maxsize if limit is None else limit
    while left > 0 and (item := reader.read(idle_s)) is not None:
        for line in lines_of(item):
            if "row" in line and left <= 0:
                return
            left -= "row" in line
            sys.stdout.write((json.dumps(line) if form is Form.JSON else text_of(line)) + "\n")
        sys.stdout.flush()
        if keeps:
            reader.store()
    note(f"ended at {_ends(reader)}")


def lines_of(item: "LogItem") -> Iterator[Line]:
    """Return what is printed of an item: rows, or that records were discarded or cleaned."""
    from airflow_provider_segtable.table.log_store.tail import LogRecords

    match item:
        case LogRecords():
            yield from _rows(item)
        case _:
            kind = "reset" if hasattr(item, "offset") else "expired"
            yield {"bucket": item.bucket, kind: item.position.offset}


def _rows(records: "LogRecords") -> Iterator[Line]:
    is_merged = records.committed and records.deleted is not None
    for n, row in enumerate(records.rows.to_pylist()):
        deleted = records.deleted is not None and bool(records.deleted[n])
        yield {
            "bucket": records.bucket,
            "offset": None if is_merged else records.first + n,
            "committed": records.committed,
            **({"deleted": True} if deleted else {}),
            "row": {name: plain(value) for name, value in row.items()},
        }


def text_of(line: Line) -> str:
    """Return a line for people: bucket, offset, and the values with tabs between them."""
    if "row" not in line:
        kind = "reset" if "reset" in line else "expired"
        return f"{line['bucket']}\t{line[kind]}\t({kind})"
    offset = "-" if line["offset"] is None else line["offset"]
    mark = ["(deleted)"] if line.get("deleted") else []
    values = ("" if value is None else str(value) for value in line["row"].values())
    return "\t".join([str(line["bucket"]), str(offset), *mark, *values])


def _ends(reader: "TableLogReader") -> str:
    return ", ".join(f"{at.offset} of bucket {n}" for n, at in sorted(reader.positions.items()))
