"""The options that choose what an index keeps."""

from dataclasses import dataclass
from typing import Annotated

import typer

from airflow_provider_segtable.core.indexes.index_kind import DEFAULT_RATE, ColumnStats
from airflow_provider_segtable.core.indexes.index_state import KINDS
from airflow_provider_segtable.core.schema import split_names

IndexName = Annotated[
    str, typer.Argument(metavar="NAME", help="The index's name.", show_default=False)
]

IndexNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Indexes; all of them if left out.", show_default=False),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOptions:
    """The kind of an index, and its settings."""

    kind: Annotated[
        str, typer.Option(help=f"What it keeps: {', '.join(sorted(KINDS))}.", metavar="KIND")
    ] = ColumnStats.name
    columns: Annotated[
        str | None,
        typer.Option(
            help="The columns to index; none for files and record_index.", metavar="A,B,..."
        ),
    ] = None
    rate: Annotated[
        float | None,
        typer.Option(
            help="For bloom_filter: the share of absent values that a filter lets pass; "
            f"{DEFAULT_RATE:g} by default."
        ),
    ] = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(name for name in split_names(self.columns or "") if name)
