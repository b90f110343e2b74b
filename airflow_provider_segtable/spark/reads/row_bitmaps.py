"""Mark many rows of many files by bits that Spark looks up in its own code.

1. A frame names its rows by two columns: a text, the root in hidden columns or a place, and a
   number; or two numbers, of the file and of the row in it.
2. Bits become a table of one row per text, as words of 64 bits, which is broadcast and joined; a
   row's bit is then one array access. Nothing is sorted, shuffled, or passed to Python, and
   filters and column selection still reach the Parquet reader.
3. If all possible texts are known and their hashes are distinct, the join is by hash: Spark looks
   up numbers several times as fast as texts.
4. Rows that are known by their numbers in a file need no join unless they are very many
   (``native_files``). A file whose rows are named by hidden columns, such as a sorted one, gets
   numbers if the driver reads these two columns: once, as the bits of the rows are kept in memory.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.segment import ROOT, ROW, Segment
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import stored_columns
from airflow_provider_segtable.data.row_filter import Flags, RowFilter, flags_of
from airflow_provider_segtable.table.snapshot import Snapshot

Words: TypeAlias = npt.NDArray[np.int64]

_NAME, _WORDS = "__segtable_name", "__segtable_words"


def words_of(flags: Flags) -> Words:
    """Return flags as words of 64 bits, least first, up to the last set flag."""
    packed = np.packbits(np.trim_zeros(flags, "b"), bitorder="little")
    return np.pad(packed, (0, -len(packed) % 8)).view("<i8")


def united(one: Words, other: Words) -> Words:
    """Return the union of two bit sets."""
    short, long = sorted((one, other), key=len)
    both = long.copy()
    both[: len(short)] |= short
    return both


def by_root(given: Iterable[tuple[Segment, RowFilter]]) -> dict[str, Words]:
    """Return the united bits of all segments by root; a delete may be applied twice harmlessly."""
    bitmaps: dict[str, Words] = {}
    for bits, root in {(bits, root) for _, s in given for root, bits in s.deleted.items()}:
        words = words_of(flags_of(bits))
        bitmaps[root] = united(bitmaps[root], words) if root in bitmaps else words
    return bitmaps


def marks_of(snapshot: Snapshot, segment: Segment, row_filter: RowFilter) -> Flags:
    """Return flags of the deleted rows of a file whose hidden columns name its rows.

    Raises:
        NotFound, ChecksumMismatch, CorruptTable: as of any read of the file.
    """
    ports, deleted = snapshot.ports, tuple(sorted(row_filter.deleted.items()))
    key = ("marks", segment.path, segment.size, deleted, snapshot.checked)

    def made() -> tuple[npt.NDArray[np.uint8], int]:
        packed = np.packbits(_marks(snapshot, segment, row_filter))
        return packed, packed.nbytes

    return np.unpackbits(ports.entries.view(key, made), count=segment.rows).view(np.bool_)


def _marks(snapshot: Snapshot, segment: Segment, row_filter: RowFilter) -> Flags:
    table = snapshot.state.table
    reading = SegmentRead(
        snapshot.ports.files,
        segment,
        schema=stored_columns(table.schema),
        time_column=table.time_column,
        columns=(),
        addressed=True,
        checked=snapshot.checked,
    )
    by_address = replace(row_filter, predicates=())  # Spark evaluates these
    found, first = [np.zeros(0, np.bool_)], 0
    for batch in reading.batches():
        kept = by_address.kept(batch, first)
        found.append(np.zeros(batch.num_rows, np.bool_) if kept is None else ~kept)
        first += batch.num_rows
    return np.concatenate(found)


def unmarked(frame: DataFrame, bitmaps: Mapping[str, Words], texts: Iterable[str]) -> DataFrame:
    """Return the rows of a frame that are not marked.

    Args:
        frame: rows named by the columns ``ROOT`` and ``ROW``.
        bitmaps: bits of the marked rows, by text.
        texts: all possible values of ``ROOT``.
    """
    if not bitmaps:
        return frame
    hashes = _hashes(frame.sparkSession, sorted({*texts, *bitmaps}))
    if hashes is None:
        joined = _joined(frame, bitmaps, F.col(ROOT), "left")
    else:
        by_hash = {hashes[text]: words for text, words in bitmaps.items()}
        joined = _joined(frame, by_hash, F.xxhash64(F.col(ROOT)), "left")
    return joined.where(_bit() == 0).drop(_NAME, _WORDS)


def unmarked_numbers(
    frame: DataFrame, bitmaps: Mapping[int, Words], name: str, row: str
) -> DataFrame:
    """Return the rows of a frame that are not marked, as named by the columns ``name`` and ``row``.

    All values of ``name`` have a bitmap.
    """
    joined = _joined(frame, bitmaps, F.col(name), "inner")
    return joined.where(_bit(row) == 0).drop(_NAME, _WORDS)


def _hashes(spark: SparkSession, texts: list[str]) -> dict[str, int] | None:
    """Return Spark's hash of each text, computed without a job; None if two hashes are equal."""
    named = spark.createDataFrame(pa.table({_NAME: pa.array(texts, pa.string())}))
    found = [row[0] for row in named.select(F.xxhash64(_NAME)).collect()]
    return dict(zip(texts, found, strict=True)) if len(set(found)) == len(texts) else None


def marked(frame: DataFrame, bitmaps: Mapping[str, Words]) -> DataFrame:
    """Return the marked rows of a frame; ``ROOT`` and ``ROW`` name them."""
    return _joined(frame, bitmaps, F.col(ROOT), "inner").where(_bit() == 1).drop(_NAME, _WORDS)


def _joined(
    frame: DataFrame, bitmaps: Mapping[str, Words] | Mapping[int, Words], name: Column, how: str
) -> DataFrame:
    table = frame.sparkSession.createDataFrame(_table(bitmaps))
    return frame.join(F.broadcast(table), name == F.col(_NAME), how)


def _table(bitmaps: Mapping[str, Words] | Mapping[int, Words]) -> pa.Table:
    ends = np.cumsum([0, *map(len, bitmaps.values())])
    words = pa.array(np.concatenate([np.zeros(0, np.int64), *bitmaps.values()]))
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), words)
    return pa.table({_NAME: pa.array(list(bitmaps)), _WORDS: lists})


def _bit(row: str = ROW) -> Column:
    """Return the bit of a row number; 0 if the words are absent or too short."""
    word = F.get(F.col(_WORDS), F.shiftright(F.col(row), 6).cast("int"))
    at = F.col(row).bitwiseAND(63).cast("int")
    return F.coalesce(F.call_function("bit_get", word, at), F.lit(0))
