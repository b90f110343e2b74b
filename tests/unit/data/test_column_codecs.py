"""Columns of numbers that do not shrink are stored as they are, others compressed."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.time import DAY_US, parse_instant
from airflow_provider_segtable.data.jobs.column_codecs import PIECE, codec_options, incompressible
from airflow_provider_segtable.data.jobs.segment_writer import FEW, write_segment
from airflow_provider_segtable.data.jobs.sorted_writer import writer
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.sort_keys import Keying
from tests.unit.data.making import VERSION, get, segment_id

ROWS = 3 * FEW
Chunks = list[pq.ColumnChunkMetaData]


def rows(count: int = ROWS) -> pa.Table:
    """Make columns; one begins with zeros, and of one a quarter is null."""
    chance = np.random.default_rng(7)
    at = parse_instant("2013-01-01") + np.arange(count) * (DAY_US // count // 2)
    real, whole = chance.random(count), chance.integers(-(2**62), 2**62, count)
    return pa.table(
        {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "real": real,
            "single": real.astype(np.float32),
            "whole": whole,
            "half": pa.array(real, mask=whole % 4 == 0),
            "zeros first": np.where(np.arange(count) < count // 2, 0, whole),
            "cents": np.round(real * 1000, 2),
            "small": pa.array(whole % 30_000, pa.int16()),
            "empty": pa.nulls(count, pa.int64()),
            "text": pa.array(real.astype(str)),
            "nested": pa.array([{"n": n} for n in whole.tolist()]),
        }
    )


RANDOM = {"real", "single", "whole", "half"}
NUMBERS = [*RANDOM, "at", "zeros first", "cents", "small", "empty"]


def codecs(chunks: Chunks) -> dict[str, str]:
    return {chunk.path_in_schema: chunk.compression for chunk in chunks}


def first_generation(given: pa.Table) -> tuple[bytes, Chunks]:
    """Write it as an append does."""
    files = MemoryFiles()
    segment = write_segment(
        files,
        given,
        segment_id=segment_id(7),
        time_column="at",
        created=VERSION,
        token="0" * 16,
    )
    return _opened(get(files, segment.path))


def sorted_rows(given: pa.Table) -> tuple[bytes, Chunks]:
    """Write it as a sort does."""
    out = pa.BufferOutputStream()
    keying = Keying(columns=("at",), order=0, time_column="at", intervals=())
    with writer(out, given.schema, keying, {"text", "nested.n"}, given) as parquet:
        parquet.write_table(given)
    return _opened(out.getvalue().to_pybytes())


def _opened(stored: bytes) -> tuple[bytes, Chunks]:
    group = pq.read_metadata(pa.BufferReader(stored)).row_group(0)
    return stored, [group.column(number) for number in range(group.num_columns)]


def test_what_shrinks() -> None:
    """Random numbers of 32 bits or more do not shrink by an eighth; a piece that does, decides."""
    assert incompressible(rows(), NUMBERS) == RANDOM


def test_few_values_prove_nothing() -> None:
    """A small first row group of a sort, or a column that is null but for a few values."""
    assert incompressible(rows(PIECE // 4), NUMBERS) == frozenset()
    times = rows()["at"].combine_chunks()
    rare = pc.if_else(pa.array(np.arange(ROWS) % 700 == 0), times, None)
    assert incompressible(rows().append_column("rare", rare), ["rare"]) == frozenset()


@pytest.mark.parametrize("write", [first_generation, sorted_rows])
def test_files(write: Callable[[pa.Table], tuple[bytes, Chunks]]) -> None:
    """A file has the codec of each column in its footer, and the rows that were written."""
    stored, chunks = write(rows())
    found = codecs(chunks)
    assert {name for name, codec in found.items() if codec == "UNCOMPRESSED"} == RANDOM
    assert {codec for name, codec in found.items() if name not in RANDOM} == {"ZSTD"}
    sizes = {chunk.path_in_schema: chunk.total_uncompressed_size for chunk in chunks}
    assert sizes["real"] >= 8 * ROWS
    assert pq.read_table(pa.BufferReader(stored)).select(rows().column_names).equals(rows())


def test_options_without_random_numbers() -> None:
    """All columns have one codec, and nobody asks for their paths."""

    def asked() -> list[str]:
        raise AssertionError

    assert codec_options((), asked) == {"compression": "zstd", "compression_level": 1}
    assert set(codecs(first_generation(rows(FEW))[1]).values()) == {"ZSTD"}
