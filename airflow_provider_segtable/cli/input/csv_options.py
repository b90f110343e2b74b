"""The options that say how CSV files are written."""

from dataclasses import dataclass
from typing import Annotated

import typer

from airflow_provider_segtable.core.requests.csv_format import CsvFormat

CSV = "CSV files"


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvOptions:
    """The form of CSV files, as options."""

    delimiter: Annotated[
        str | None,
        typer.Option(
            help="What separates fields: one character, or tab. A comma by default, in *.tsv a "
            "tab.",
            metavar="CHARACTER",
            show_default=False,
            rich_help_panel=CSV,
        ),
    ] = None
    encoding: Annotated[
        str,
        typer.Option(help="Encoding of the text, e.g. latin-1.", rich_help_panel=CSV),
    ] = "utf-8"
    header: Annotated[
        bool,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line names the columns. If not, they are the table's (or "
            "those of --columns), in this order.",
            rich_help_panel=CSV,
        ),
    ] = True
    null_text: Annotated[
        list[str] | None,
        typer.Option(
            help="A text that stands for null, e.g. NA; repeat. An empty field without quotes "
            "always does.",
            metavar="TEXT",
            show_default=False,
            rich_help_panel=CSV,
        ),
    ] = None

    def form(self) -> CsvFormat:
        """Return the form.

        Raises:
            InvalidInput: the delimiter or the encoding is not one.
        """
        return CsvFormat(
            delimiter=self.delimiter,
            encoding=self.encoding,
            header=self.header,
            nulls=tuple(self.null_text or ()),
        )
