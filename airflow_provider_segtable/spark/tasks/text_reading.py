"""Make values of the texts of CSV files, in tasks: by the rule of the local engine.

Spark only separates the fields. So a text has one meaning whatever engine reads it
(``data.files.text_values``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.data.files.text_values import text_faults, typed, without_nulls

_REPLACED = "\ufffd"
"""What Spark puts in place of bytes that are not in the file's encoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReader:
    """Turns batches of texts into batches of values.

    Attributes:
        place: the source, for messages.
        columns: names and types of the columns that are no texts, by position.
        shown: the columns as Spark expects them.
        nulls: texts that are null.
        fitting: whether rows that do not fit are left out, instead of refusing all.
    """

    place: str
    columns: Mapping[int, "pa.Field[pa.DataType]"]
    shown: pa.Schema
    nulls: tuple[str, ...]
    fitting: bool = False

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the values of batches.

        Raises:
            SchemaMismatch: a text is no value of its column's type.
        """
        for batch in batches:
            texts = self._texts(batch)
            if self.fitting:
                bad = self._faults(texts)
                texts = texts.take(pa.array([n for n in range(len(texts)) if n not in bad]))
            rows = [self._values(at, each) for at, each in enumerate(texts.columns)]
            yield from pa.table(rows, schema=self.shown).to_batches()

    def aside(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the texts of rows that do not fit, each with the reason as its last column."""
        for batch in batches:
            texts = self._texts(batch)
            bad = self._faults(texts)
            some = texts.take(pa.array(list(bad), pa.int64()))
            yield from some.append_column("reason", [list(bad.values())]).to_batches()

    def _faults(self, texts: pa.Table) -> dict[int, str]:
        known = texts.select(list(self.columns))
        schema = pa.schema(list(self.columns.values()))
        return dict(sorted(text_faults(known.rename_columns(schema.names), schema).items()))

    def _texts(self, batch: pa.RecordBatch) -> pa.Table:
        found = [self._text(each) for each in batch.columns]
        return pa.table(found, names=batch.schema.names)

    def _text(self, texts: "pa.Array[pa.StringScalar]") -> pa.ChunkedArray:
        given = without_nulls(pa.chunked_array([texts.cast(pa.string())]), self.nulls)
        if pc.any(pc.match_substring(given, _REPLACED)).as_py():
            raise SchemaMismatch(
                f"{self.place}: a text has the character U+FFFD, which Spark puts in place of "
                "bytes that are not in the encoding: give the encoding (--encoding, encoding=), "
                "or use the local engine"
            )
        return given

    def _values(self, at: int, given: pa.ChunkedArray) -> pa.ChunkedArray:
        column = self.columns.get(at)
        if column is None:
            return given.cast(self.shown.field(at).type)
        try:
            return typed(given, column.name, column.type, first=-1).cast(self.shown.field(at).type)
        except SchemaMismatch as error:
            raise SchemaMismatch(f"{self.place}: {error}") from None
        except pa.ArrowInvalid as error:
            raise SchemaMismatch(
                f"{self.place}: column {column.name!r} has values that Spark cannot hold "
                f"({error}): use the local engine"
            ) from None
