"""The options of ``segtable table create`` that choose the kind of a table.

1. Without any of them the table is an append table, which keeps rows as they are.
2. ``RollupOptions`` make a rollup table, ``KeyOptions`` a table with a primary key; not both.
3. A table that is created like a file takes the file's columns that its kind needs.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_segtable.cli.input.options import pairs
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.schema import split_names
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.keyed_kind import (
    DEFAULT_BUCKETS,
    MOST_BUCKETS,
    PrimaryKey,
)
from airflow_provider_segtable.core.tables.merge_rules import ColumnGroup, MergeEngine
from airflow_provider_segtable.core.tables.rollup_kind import Metric, QueryGranularity, Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind

if TYPE_CHECKING:
    import pyarrow as pa


ROLLUP = "Rollup tables: one row for each group"
KEYED = "Primary-key tables: one row for each key"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupOptions:
    """The options of a rollup table."""

    dimensions: Annotated[
        list[str] | None,
        typer.Option(
            "--dimension",
            help="Roll up by this column; repeat.",
            metavar="COLUMN",
            rich_help_panel=ROLLUP,
        ),
    ] = None
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="A metric of rolled-up rows: sum, min, max, first, last, hll, theta or kll of "
            "a column, or count; repeat.",
            metavar="NAME=KIND[(COLUMN[,ARG])]",
            rich_help_panel=ROLLUP,
        ),
    ] = None
    query_granularity: Annotated[
        str | None,
        typer.Option(
            help="Precision of event times in rolled-up rows: none, minute, hour...",
            rich_help_panel=ROLLUP,
        ),
    ] = None

    @property
    def given(self) -> bool:
        """Return whether any option is given."""
        return bool(self.dimensions or self.metrics or self.query_granularity is not None)

    def kind(self) -> Rollup:
        """Return the rollup.

        Raises:
            InvalidInput, InvalidName: an option is wrong; the message names its value.
        """
        none = QueryGranularity.NONE.value
        return Rollup(
            dimensions=tuple(self.dimensions or ()),
            metrics=tuple(map(Metric.parse, self.metrics or ())),
            query_granularity=QueryGranularity.parse(self.query_granularity or none),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOptions:
    """The options of a table with a primary key."""

    primary_key: Annotated[
        str | None,
        typer.Option(
            help="Keep one row for each value of these columns; `segtable ingest` upserts by them.",
            metavar="COLUMN,...",
            rich_help_panel=KEYED,
        ),
    ] = None
    buckets: Annotated[
        int | None,
        typer.Option(
            help=f"Number of buckets of a time chunk, 1 to {MOST_BUCKETS}: about one for each "
            f"256 MiB; {DEFAULT_BUCKETS} if left out.",
            metavar="N",
            rich_help_panel=KEYED,
        ),
    ] = None
    ordering: Annotated[
        str | None,
        typer.Option(
            help="Of rows with one key the highest value of this column wins, whenever written; "
            "the latest write if left out.",
            metavar="COLUMN",
            rich_help_panel=KEYED,
        ),
    ] = None
    merge: Annotated[
        MergeEngine | None,
        typer.Option(
            help="latest: the winning row replaces the others. partial_update: each column has "
            "its newest value that is not null.",
            show_default=False,
            rich_help_panel=KEYED,
        ),
    ] = None
    groups: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            help="With partial_update: columns that are set together, nulls included, by the "
            "highest value of their own ORDERING column; repeat.",
            metavar="ORDERING=COLUMN,...",
            rich_help_panel=KEYED,
        ),
    ] = None

    @property
    def given(self) -> bool:
        """Return whether the table has a primary key.

        Raises:
            InvalidInput: another option needs one.
        """
        given = {
            "--buckets": None if self.buckets is None else str(self.buckets),
            "--ordering": self.ordering,
            "--merge": self.merge and self.merge.value,
            "--group": " ".join(self.groups or ()),
        }
        others = [f"{name} {value}" for name, value in given.items() if value]
        if others and not self.primary_key:
            raise InvalidInput(
                f"{', '.join(others)}: rows are merged only by a primary key: add --primary-key "
                "COLUMN,..., or leave this out"
            )
        return self.primary_key is not None

    def kind(self) -> PrimaryKey:
        """Return the primary key.

        Raises:
            InvalidInput: an option is wrong; the message names its value.
        """
        groups = pairs(self.groups, "--group")
        if len(groups) < len(self.groups or ()):
            raise InvalidInput(
                f"--group {' --group '.join(self.groups or ())}: an ordering column has one group: "
                "name all its columns there"
            )
        return PrimaryKey(
            key=_columns(self.primary_key or "", "--primary-key"),
            buckets=DEFAULT_BUCKETS if self.buckets is None else self.buckets,
            ordering=self.ordering or "",
            merge=self.merge or MergeEngine.LATEST,
            groups=tuple(
                ColumnGroup(columns=_columns(names, f"--group {by}="), ordering=by)
                for by, names in groups.items()
            ),
        )


def chosen_kind(rollup: RollupOptions, key: KeyOptions) -> TableKind:
    """Return the kind of table that the options describe; without options an append table.

    Raises:
        InvalidInput, InvalidName: an option is wrong; the message names its value.
    """
    if rollup.given and key.given:
        raise InvalidInput(
            f"--primary-key {key.primary_key} keeps one row for each key, --dimension and --metric "
            "one row for each group: choose one of them"
        )
    if key.given:
        return key.kind()
    return rollup.kind() if rollup.given else Append()


def needed(schema: "pa.Schema", time: str, kind: TableKind) -> "pa.Schema":
    """Return the columns of a schema that a kind of table needs."""
    import pyarrow as pa

    names = set(kind.needed(schema.names, time))
    return pa.schema([field for field in schema if field.name in names])


def _columns(text: str, option_name: str) -> tuple[str, ...]:
    names = split_names(text)
    if not all(names):
        raise InvalidInput(f"{option_name} {text!r} has an empty name: write e.g. id,region")
    return names
