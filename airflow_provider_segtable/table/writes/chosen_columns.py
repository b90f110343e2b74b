"""The columns of a file that a table gets: ``segtable ingest --columns``, ``--deleted`` and more.

1. Without ``--columns`` a table gets what its kind needs: an append table all columns, so that none
   is left out silently; a rollup table its time, dimensions and sources of metrics.
2. ``--columns`` names the columns to take; ``NEW=OLD`` takes the file's OLD as the table's NEW.
3. ``--deleted`` names a further column of the file, of booleans: rows that delete their key in a
   primary-key table. It is always taken, and it is no column of the table.
4. Without ``--cast`` only types that hold the same values fit. With it texts become numbers and
   times, and numbers other numbers, as long as no value is lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.log.events import TableCreated
from airflow_provider_segtable.core.schema import split_outside, unquoted

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_segtable.data.files.bad_rows import BadRows
    from airflow_provider_segtable.data.files.input_files import InputFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """Which columns of a file to take, under which names, and whether to cast them.

    ``deleted`` says which rows delete their key; ``bad`` takes rows that do not fit.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    cast: bool = False
    deleted: str | None = None
    bad: "BadRows | None" = None

    @staticmethod
    def parse(
        columns: str | None,
        *,
        cast: bool,
        deleted: str | None = None,
        bad: "BadRows | None" = None,
    ) -> "FileColumns":
        """Parse ``A,NEW=OLD,...``.

        Raises:
            InvalidInput: a name is empty or given twice; the message names it.
        """
        names: dict[str, str] = {}
        for part in split_outside(columns, ",") if columns is not None else ():
            new, *olds = map(unquoted, split_outside(part, "="))
            old = "=".join(olds)
            if not new or new in names:
                fault = f"{new!r} twice" if new else "an empty name"
                raise InvalidInput(f"--columns {columns!r} has {fault}: write e.g. id,price=amount")
            names[new] = old or new
        if names and deleted is not None:
            names.setdefault(deleted, deleted)
        return FileColumns(names=names, cast=cast, deleted=deleted, bad=bad)

    def sources(self, found: Sequence[str], table: TableCreated) -> Mapping[str, str]:
        """Return the file's column for each column to append.

        Args:
            found: the file's columns.
            table: the table's definition.

        Raises:
            SchemaMismatch: the file does not have a column; the message names those it has.
        """
        for old in self.names.values():
            if old not in found:
                raise SchemaMismatch(
                    f"--columns names {old!r}, which the file does not have: it has "
                    f"{', '.join(found)}"
                )
        needed = table.kind.needed(found, table.time_column)
        return self.names or {name: name for name in needed}

    def in_file(self, schema: "pa.Schema") -> "pa.Schema":
        """Return the table's columns under the file's names, to read a text file by."""
        import pyarrow as pa

        names = self.names or {name: name for name in schema.names}
        some = {old: schema.field(new) for new, old in names.items() if new in schema.names}
        return pa.schema([each.with_name(old) for old, each in some.items()])

    def read(self, file: "InputFile", table: TableCreated) -> "pa.Table":
        """Return the rows of a file as rows to append, without those that are set aside.

        Raises:
            InvalidInput, SchemaMismatch: the file cannot be read, or its columns do not fit.
        """
        from airflow_provider_segtable.data.files.input_files import read_fitting, read_rows
        from airflow_provider_segtable.table.lifetime.definition import given_schema, needed_values

        schema = self.with_flag(given_schema(table))
        if self.bad is None:
            return self.taken(read_rows(file, self.in_file(schema)), schema, table)
        found, numbers = read_fitting(file, self.in_file(schema), self.bad)
        rows = self.taken(found, schema, table)
        return self.bad.complete(rows, numbers, needed_values(table), file.place)

    def with_flag(self, schema: "pa.Schema") -> "pa.Schema":
        """Return the columns to read: the table's, and the one that says what is deleted."""
        import pyarrow as pa

        if self.deleted is None or self.deleted in schema.names:
            return schema
        return schema.append(pa.field(self.deleted, pa.bool_()))

    def taken(self, rows: "pa.Table", schema: "pa.Schema", table: TableCreated) -> "pa.Table":
        """Return rows with the columns to take, cast if wanted.

        Raises:
            SchemaMismatch: a column is missing, or a value cannot be cast without loss.
        """
        sources = self.sources(rows.column_names, table)
        taken = rows.select(list(sources.values())).rename_columns(list(sources))
        return _cast(taken, schema) if self.cast else taken


def _cast(rows: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    for at, name in enumerate(rows.column_names):
        if name in schema.names and rows.schema.field(at).type != schema.field(name).type:
            column = _cast_column(rows.column(at), schema.field(name))
            rows = rows.set_column(at, name, column)
    return rows


def _cast_column(column: "pa.ChunkedArray", wanted: "pa.Field") -> "pa.ChunkedArray":
    import pyarrow as pa

    from airflow_provider_segtable.data.arrow.text_times import parsed_times

    try:
        if pa.types.is_timestamp(wanted.type) and pa.types.is_string(column.type):
            column = parsed_times(column, wanted.type.unit)
        return column.cast(wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(
            f"column {wanted.name!r} cannot be cast from {column.type} to {wanted.type}: {error}: "
            "correct the values, or leave the column out by --columns"
        ) from None
