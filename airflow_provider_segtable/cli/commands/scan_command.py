"""``segtable table scan``: print rows, their number, their checksum, or how they are read."""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from airflow_provider_segtable.cli.display.drawing import captioned, grid
from airflow_provider_segtable.cli.display.output import out, print_json, show
from airflow_provider_segtable.cli.input.options import (
    IntervalOption,
    ZooKeeperOptions,
    option_groups,
    store_options,
)
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.reads.selection import ReadPlan
from airflow_provider_segtable.core.requests.read_request import ReadRequest, read_request

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_segtable.table.scan import Scan
    from airflow_provider_segtable.table.table import Table


ROWS_FOR_PEOPLE = 20


class Format(StrEnum):
    """Output format of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The rows to read, as options."""

    columns: Annotated[
        str | None, typer.Option(help="Only these, in this order.", metavar="A,B,...")
    ] = None
    where: Annotated[
        str | None,
        typer.Option(
            help="Only rows that match: SQL, as for `delete`; without Spark.", metavar="SQL"
        ),
    ] = None
    interval: IntervalOption = None
    version: Annotated[
        int | None, typer.Option(help="The table after this event number.", metavar="N")
    ] = None
    as_of: Annotated[
        str | None, typer.Option(help="The table as it was then, inclusive.", metavar="TIME")
    ] = None
    tag: Annotated[str | None, typer.Option(help="The table at this tag.", metavar="NAME")] = None
    since_version: Annotated[
        int | None,
        typer.Option(help="Only rows added after this event number.", metavar="N"),
    ] = None
    since: Annotated[
        str | None, typer.Option(help="Only rows added after this time.", metavar="TIME")
    ] = None
    consumer: Annotated[
        str | None,
        typer.Option(help="Only rows added after this consumer's position.", metavar="NAME"),
    ] = None
    changes: Annotated[
        bool,
        typer.Option("--changes", help="Instead of rows added, every change of a row since then."),
    ] = False
    rolled_up: Annotated[
        bool, typer.Option("--rolled-up", help="Of a rollup table, one row for each group.")
    ] = False
    base_only: Annotated[
        bool,
        typer.Option(
            "--base-only",
            help="Of a primary-key table, base files alone, without merging: faster, and older "
            "rows, as of each bucket's last semi-major compaction.",
        ),
    ] = False
    include_log: Annotated[
        bool,
        typer.Option(
            "--include-log",
            help="Also uncommitted records of log stores; needs ZooKeeper.",
        ),
    ] = False
    unchecked: Annotated[
        bool,
        typer.Option("--unchecked", help="Do not compare data files with their checksums."),
    ] = False

    def request(self) -> ReadRequest:
        """Return the read request."""
        return read_request(
            columns=self.columns or None,
            where=self.where,
            interval=self.interval or None,
            version=self.version,
            as_of=self.as_of or None,
            tag=self.tag,
            since_version=self.since_version,
            since=self.since or None,
            consumer=self.consumer,
            changes=self.changes,
            rolled_up=self.rolled_up,
            base_only=self.base_only,
            checked=not self.unchecked,
            include_log=self.include_log,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """The form of the answer, as options."""

    limit: Annotated[
        int | None,
        typer.Option(
            min=0, help=f"At most so many rows; default {ROWS_FOR_PEOPLE} as a table, else all."
        ),
    ] = None
    format_: Annotated[
        Format, typer.Option("--format", help="table, csv, or json (one object a line).")
    ] = Format.TABLE
    count: Annotated[bool, typer.Option("--count", help="Only the number of rows.")] = False
    checksum: Annotated[
        bool,
        typer.Option(
            "--checksum",
            help="Only rows and a checksum that does not depend on their order: equal before "
            "and after a compaction.",
        ),
    ] = False
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Read no rows: show the files to open, the savings of each step, and the bytes to "
            "read.",
        ),
    ] = False

    def check(self) -> None:
        """Refuse options about rows beside ``--explain``, which reads none."""
        given = {
            "--limit": self.limit is not None,
            "--format": self.format_ is not Format.TABLE,
            "--count": self.count,
            "--checksum": self.checksum,
        }
        some = " and ".join(name for name, is_given in given.items() if is_given)
        if self.explain and some:
            raise InvalidInput(
                f"--explain reads no rows, so {some} would do nothing: leave out one or the other"
            )


@option_groups
def scan(
    *,
    read: ReadOptions,
    answer: AnswerOptions,
    common: ZooKeeperOptions,
) -> None:
    """Print rows of the newest version, or of any earlier one.

    [green]segtable table scan ./flights --columns carrier,dest --limit 5[/]
    [green]segtable table scan ./flights --format csv --interval 2013-07-04/2013-07-05[/]
    [green]segtable table scan ./flights --where "carrier = 'AA'" --count[/]
    [green]segtable table scan ./flights --as-of 2026-01-31T12:00:00Z --count[/]
    [green]segtable table scan ./flights --version 3 --checksum[/]
    [green]segtable table scan ./flights --since-version 3 --changes[/]
    [green]segtable table scan ./daily --rolled-up --checksum[/]
    [green]segtable table scan ./orders --base-only --count[/]
    [green]segtable table scan ./clicks --include-log --count[/]
    [green]segtable table scan ./flights --where "carrier = 'AA'" --explain[/]
    """
    request = read.request()
    answer.check()
    found = _opened(request, common).read(request)
    as_json = common.as_json
    if answer.explain:
        _show_plan(found.explain(), as_json=as_json)
        return
    head = {"table": common.table, "version": found.version}
    if answer.count or answer.checksum:
        totals = _checksum(found) if answer.checksum else {"rows": found.count()}
        _answer({**head, **totals}, as_json=as_json)
        return
    people = answer.format_ is Format.TABLE and not as_json
    shown = ROWS_FOR_PEOPLE if answer.limit is None and people else answer.limit
    batches = replace(found, request=replace(found.request, limit=shown)).to_batches()
    if as_json:
        rows = [row for batch in batches for row in plain_rows(batch)]
        print_json({**head, "rows": rows})
    elif answer.format_ is Format.CSV:
        print_csv(batches, found.schema)
    elif answer.format_ is Format.JSON:
        for batch in batches:
            sys.stdout.writelines(json.dumps(row) + "\n" for row in plain_rows(batch))
    else:
        _print_table(batches, found, shown)


def _opened(request: ReadRequest, common: ZooKeeperOptions) -> "Table":
    """Open a table; ZooKeeper is asked only where log stores are read."""
    table, options = common.table, store_options(common.storage_options)
    if request.include_log:
        from airflow_provider_segtable.library.table import Table as Connected

        return Connected.open(table, zookeeper=common.zookeeper, storage_options=options)
    from airflow_provider_segtable.table.table import Table

    return Table.open(table, storage_options=options)


def _show_plan(plan: ReadPlan, *, as_json: bool) -> None:
    if as_json:
        print_json(plan.facts)
    else:
        sys.stdout.write(f"{plan}\n")


def _checksum(found: "Scan") -> Facts:
    from airflow_provider_segtable.data.row_checksum import checksum_of

    checksum = checksum_of(found.to_batches())
    return {"rows": checksum.rows, "checksum": checksum.hex}


def _answer(facts: Facts, *, as_json: bool) -> None:
    if as_json:
        print_json(facts)
    else:
        sys.stdout.write(" ".join(str(facts[k]) for k in ("rows", "checksum") if k in facts) + "\n")


def plain_rows(batch: "pa.RecordBatch") -> Iterator[dict[str, Any]]:
    """Yield rows as JSON values."""
    columns = {name: _values(batch.column(name)) for name in batch.schema.names}
    for row in zip(*columns.values(), strict=True):
        yield {name: plain(value) for name, value in zip(columns, row, strict=True)}


def _values(column: "pa.Array") -> list[Any]:
    """Return Python values; for a time with a zone Arrow would import pandas, half of a start."""
    import pyarrow as pa

    kind = column.type
    if not pa.types.is_timestamp(kind) or kind.tz != "UTC" or kind.unit == "ns":
        return list(column.to_pylist())
    naive = column.cast(pa.timestamp(kind.unit)).to_pylist()
    return [None if each is None else each.replace(tzinfo=UTC) for each in naive]


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


def print_csv(batches: Iterable["pa.RecordBatch"], schema: "pa.Schema") -> None:
    """Print rows as CSV.

    Raises:
        InvalidInput: a column is of a type that CSV cannot hold.
    """
    import pyarrow as pa
    from pyarrow import csv

    try:
        with csv.CSVWriter(sys.stdout.buffer, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"CSV cannot hold a column ({error}): use --format json") from error


def _print_table(batches: Iterator["pa.RecordBatch"], found: "Scan", limit: int | None) -> None:
    rows = [row for batch in batches for row in plain_rows(batch)]
    total = found.count()
    notes = [f"{counted(total, 'row')} at version {found.version}"]
    if limit is not None and total > limit:
        notes.append(f"--limit shows more than {limit}")
    show_rows(found.schema.names, rows, notes)


def show_rows(columns: list[str], rows: list[dict[str, Any]], notes: list[str]) -> None:
    """Print rows as a table of the columns that fit, with notes below it."""
    shown = _that_fit(columns, rows, out.width)
    table = grid("", *shown)
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in shown))
    if len(shown) < len(columns):
        notes = [*notes, f"{len(shown)} of {len(columns)} columns fit: --columns A,B,... chooses"]
    show(captioned(table, "; ".join(notes)))


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
