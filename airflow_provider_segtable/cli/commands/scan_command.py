"""``segtable table scan``: print rows, their number, or their checksum."""

import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from airflow_provider_segtable.cli.display.drawing import captioned, grid
from airflow_provider_segtable.cli.display.output import Facts, out, print_json, show
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    StorageOptions,
    TableUri,
    store_options,
)
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time.interval import Interval, parse_instant

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_segtable.table.snapshot import Snapshot

ROWS_FOR_PEOPLE = 20


class Format(StrEnum):
    """Output format of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def scan(  # noqa: PLR0913 - each is an option
    table: TableUri,
    *,
    columns: Annotated[
        str | None, typer.Option(help="Only these, in this order.", metavar="A,B,...")
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(help="Only this event time, ISO 8601 start/end.", metavar="START/END"),
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="The table after this event number.", metavar="N")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(help="The table as it was then, inclusive.", metavar="TIME")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, help=f"At most so many rows; default {ROWS_FOR_PEOPLE} as a table, else all."
        ),
    ] = None,
    format_: Annotated[
        Format, typer.Option("--format", help="table, csv, or json (one object a line).")
    ] = Format.TABLE,
    count: Annotated[bool, typer.Option("--count", help="Only the number of rows.")] = False,
    checksum: Annotated[
        bool,
        typer.Option(
            "--checksum",
            help="Only rows and a checksum that does not depend on their order: equal before "
            "and after a compaction.",
        ),
    ] = False,
    rolled_up: Annotated[
        bool, typer.Option("--rolled-up", help="Of a rollup table, one row for each group.")
    ] = False,
    unchecked: Annotated[
        bool,
        typer.Option("--unchecked", help="Do not compare data files with their checksums."),
    ] = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Print rows of the newest version, or of any earlier one.

    [green]segtable table scan ./flights --columns carrier,dest --limit 5[/]
    [green]segtable table scan ./flights --format csv --interval 2013-07-04/2013-07-05[/]
    [green]segtable table scan ./flights --as-of 2026-01-31T12:00:00Z --count[/]
    [green]segtable table scan ./flights --version 3 --checksum[/]
    [green]segtable table scan ./daily --rolled-up --checksum[/]
    """
    snapshot = _snapshot(table, storage_options, version, as_of, checked=not unchecked)
    wanted = _columns(snapshot, columns)
    clip = Interval.parse(interval) if interval else None
    head = {"table": table, "version": snapshot.version}
    if count or checksum:
        _answer(
            {**head, **_totals(snapshot, wanted, clip, rolled_up=rolled_up, checksum=checksum)},
            as_json=as_json,
        )
        return
    shown = ROWS_FOR_PEOPLE if limit is None and format_ is Format.TABLE and not as_json else limit
    batches = _limited(_rows(snapshot, wanted, clip, rolled_up=rolled_up), shown)
    if as_json:
        rows = [row for batch in batches for row in _plain(batch)]
        print_json({**head, "rows": rows})
    elif format_ is Format.CSV:
        _print_csv(batches, snapshot, wanted)
    elif format_ is Format.JSON:
        for batch in batches:
            sys.stdout.writelines(json.dumps(row) + "\n" for row in _plain(batch))
    else:
        _print_table(batches, snapshot, wanted, shown)


def _snapshot(
    uri: str,
    storage_options: list[str] | None,
    version: int | None,
    as_of: str | None,
    *,
    checked: bool,
) -> "Snapshot":
    from airflow_provider_segtable.table.table import Table

    if version is not None and as_of is not None:
        raise InvalidInput("give one of --version and --as-of")
    time = parse_instant(as_of) if as_of else None
    options = store_options(storage_options)
    opened = Table.open(uri, storage_options=options)
    return opened.snapshot(version=version, as_of=time, checked=checked)


def _columns(snapshot: "Snapshot", text: str | None) -> list[str]:
    have = snapshot.schema.names
    wanted = [name.strip() for name in text.split(",")] if text else list(have)
    for name in wanted:
        if name not in have:
            raise InvalidInput(f"there is no column {name!r}: the table has {', '.join(have)}")
    return wanted


def _rows(
    snapshot: "Snapshot", columns: list[str], clip: Interval | None, *, rolled_up: bool
) -> Iterator["pa.RecordBatch"]:
    if rolled_up:
        return iter(snapshot.rolled_up(columns=columns, interval=clip).to_batches())
    return snapshot.batches(columns=columns, interval=clip)


def _totals(
    snapshot: "Snapshot",
    columns: list[str],
    clip: Interval | None,
    *,
    rolled_up: bool,
    checksum: bool,
) -> Facts:
    if checksum:
        from airflow_provider_segtable.cli.display.checksum import checksum_of

        found = checksum_of(_rows(snapshot, columns, clip, rolled_up=rolled_up))
        return {"rows": found.rows, "checksum": found.hex}
    if clip is None and not rolled_up:
        return {"rows": snapshot.count()}
    time = [snapshot.state.table.time_column]
    batches = _rows(snapshot, time, clip, rolled_up=rolled_up)
    return {"rows": sum(batch.num_rows for batch in batches)}


def _answer(facts: Facts, *, as_json: bool) -> None:
    if as_json:
        print_json(facts)
    else:
        sys.stdout.write(" ".join(str(facts[k]) for k in ("rows", "checksum") if k in facts) + "\n")


def _limited(batches: Iterator["pa.RecordBatch"], limit: int | None) -> Iterator["pa.RecordBatch"]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows


def _plain(batch: "pa.RecordBatch") -> Iterator[dict[str, Any]]:
    for row in batch.to_pylist():
        yield {name: plain(value) for name, value in row.items()}


def plain(value: Any) -> Any:
    """Return a JSON value: times as ISO 8601, bytes as hexadecimal digits."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.hex()
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _ if hasattr(value, "isoformat"):
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return str(value)


def _print_csv(
    batches: Iterator["pa.RecordBatch"], snapshot: "Snapshot", columns: list[str]
) -> None:
    import pyarrow as pa
    from pyarrow import csv

    schema = pa.schema([snapshot.schema.field(name) for name in columns])
    try:
        with csv.CSVWriter(sys.stdout.buffer, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"CSV cannot hold a column ({error}): use --format json") from error


def _print_table(
    batches: Iterator["pa.RecordBatch"],
    snapshot: "Snapshot",
    columns: list[str],
    limit: int | None,
) -> None:
    rows = [row for batch in batches for row in _plain(batch)]
    shown = _that_fit(columns, rows, out.width)
    table = grid("", *shown)
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in shown))
    total = snapshot.count()
    told = [f"{total:,} rows at version {snapshot.version}"]
    if limit is not None and total > limit:
        told.append(f"--limit shows more than {limit}")
    if len(shown) < len(columns):
        told.append(f"{len(shown)} of {len(columns)} columns fit: --columns A,B,... chooses")
    show(captioned(table, "; ".join(told)))


def _that_fit(columns: list[str], rows: list[dict[str, Any]], width: int) -> list[str]:
    """Return the first columns that fit side by side, at least one."""
    fitting: list[str] = []
    for name in columns:
        width -= max(len(name), *(len(str(row[name])) for row in rows), 4) + 3
        if width < 0 and fitting:
            break
        fitting.append(name)
    return fitting


def _cell(value: Any) -> Text:
    return Text("null", style="dim") if value is None else Text(str(value))
