"""Marks: many row numbers of many files, as bits that Spark looks up without leaving its own code.

1. A frame names its rows by two columns, a text and a number. The text is a root, as in hidden
   columns, or a file.
2. Bits become a table of one row a text, words of 64 bits each, which is broadcast and joined; a
   row's bit is then one array access. Nothing is sorted, shuffled, or handed to Python, and the
   filters and columns asked for still reach the Parquet reader.
"""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.segment import ROOT, ROW
from airflow_provider_segtable.data.bits import Flags

Words: TypeAlias = npt.NDArray[np.int64]

_NAME, _WORDS = "__segtable_name", "__segtable_words"


def words_of(flags: Flags) -> Words:
    """Return flags as words of 64 bits, least first, up to the last one that is set."""
    packed = np.packbits(np.trim_zeros(flags, "b"), bitorder="little")
    return np.pad(packed, (0, -len(packed) % 8)).view("<i8")


def united(one: Words, other: Words) -> Words:
    """Return the bits that at least one of them has."""
    short, long = sorted((one, other), key=len)
    both = long.copy()
    both[: len(short)] |= short
    return both


def unmarked(frame: DataFrame, marks: Mapping[str, Words], name: str = ROOT) -> DataFrame:
    """Return the rows of a frame that are not marked; ``name`` and ``ROW`` say which they are."""
    if not marks:
        return frame
    return _joined(frame, marks, name, "left").where(_bit() == 0).drop(_NAME, _WORDS)


def marked(frame: DataFrame, marks: Mapping[str, Words]) -> DataFrame:
    """Return the rows of a frame that are marked; ``ROOT`` and ``ROW`` say which they are."""
    return _joined(frame, marks, ROOT, "inner").where(_bit() == 1).drop(_NAME, _WORDS)


def _joined(frame: DataFrame, marks: Mapping[str, Words], name: str, how: str) -> DataFrame:
    table = frame.sparkSession.createDataFrame(_table(marks))
    return frame.join(F.broadcast(table), F.col(name) == F.col(_NAME), how)


def _table(marks: Mapping[str, Words]) -> pa.Table:
    ends = np.cumsum([0, *map(len, marks.values())])
    words = pa.array(np.concatenate([np.zeros(0, np.int64), *marks.values()]))
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), words)
    return pa.table({_NAME: pa.array(list(marks), pa.string()), _WORDS: lists})


def _bit() -> Column:
    """Return a row's bit; 0 where the words end before it, or there are none."""
    word = F.get(F.col(_WORDS), F.shiftright(F.col(ROW), 6).cast("int"))
    at = F.col(ROW).bitwiseAND(63).cast("int")
    return F.coalesce(F.call_function("bit_get", word, at), F.lit(0))
