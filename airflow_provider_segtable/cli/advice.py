"""Lines of advice on a new table.

1. Its granularity does not fit its rows (``granularity_advice``): when a table is made like a
   Parquet file, whose rows are taken as an example, and after the first ingest.
2. Columns may be null although they were given as not null: in a table with a primary key.
3. Columns are texts because a text of the CSV file that it is made like stands for null.
"""

from shlex import quote
from typing import TYPE_CHECKING

from rich.markup import escape

from airflow_provider_segtable.cli.display.output import note
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.planning.granularity_advice import Advice, granularity_advice

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_segtable.data.files.input_files import InputFile


def advise_like(file: "InputFile", time_column: str, granularity: str) -> None:
    """Advise on a new table by the rows of the file that it is made like."""
    from airflow_provider_segtable.data.files.input_files import event_times

    now = Granularity(granularity)
    times = event_times(file, time_column)
    if times is None:
        return
    starts = {now.chunk(at).start for at in times}
    advice = granularity_advice(now, starts, file.size())
    if advice is not None:
        _advise(
            advice, f"create the table with --granularity {advice.better} if its rows are alike"
        )


def advise_nulls(file: "InputFile", schema: "pa.Schema") -> None:
    """Advise on columns that are texts only because a text stands for null in them."""
    from airflow_provider_segtable.data.files.input_files import nulls_in_texts

    for text, names in nulls_in_texts(file, schema).items():
        columns = f"column {names[0]} is" if len(names) == 1 else f"columns {', '.join(names)} are"
        option = f"--null-text {quote(text)}"
        way = f"if it stands for null, create the table with {option}, and ingest with it"
        note(f"[yellow]advice:[/] {escape(f'{columns} string because of the text {text}; {way}')}")


def advise_nullable(given: "pa.Schema", made: State) -> None:
    """Advise on columns that may be null although they were given as not null."""
    kept = {field.name for field in given if not field.nullable}
    names = [each.name for each in made.table.schema.columns if each.nullable and each.name in kept]
    if names:
        which = f"column{'s' if len(names) > 1 else ''} {', '.join(names)}"
        why = "a record of a key may lack it, so only the key and the event time are not null"
        note(f"[yellow]advice:[/] {escape(f'{which} may be null: {why}')}")


def advise_filled(uri: str, state: State) -> None:
    """Advise on a table by the rows that it has."""
    shown = state.timeline.visible_summaries()
    starts = {chunk.interval.start for chunk, summary in shown.items() if summary.rows}
    size = sum(summary.size for summary in shown.values())
    advice = granularity_advice(state.layout.granularity, starts, size)
    if advice is not None:
        way = f"segtable compact {quote(uri)} --kind major --granularity {advice.better}"
        _advise(advice, f"{way} changes the present rows, a new table also later ones")


def _advise(advice: Advice, way_out: str) -> None:
    note(f"[yellow]advice:[/] {escape(f'{advice}; {way_out}')}")
