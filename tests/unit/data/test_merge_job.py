"""Base compaction: words as dictionaries, rows merged beside the writing, and what is written."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.data.files_ahead import HELD, made_beside
from airflow_provider_segtable.data.jobs.segment_writer import of_used_words
from airflow_provider_segtable.data.jobs.sorted_writer import SORTED_ROWS
from airflow_provider_segtable.data.open_files import MemoryFiles, open_files
from airflow_provider_segtable.library.table import Table

ROWS = SORTED_ROWS + 10_000
"""Rows of two row groups, so that they are merged beside the writing."""


def records(keys: np.ndarray, words: list[str], seq: int) -> pa.Table:
    texts = [words[key % len(words)] for key in keys.tolist()]
    return pa.table(
        {
            "id": keys,
            "at": pa.array(np.full(len(keys), seq), pa.timestamp("us", "UTC")),
            "word": pa.array(texts, pa.string(), mask=keys % 7 == 0),
        }
    )


def made(uri: str) -> tuple[Table, dict[int, str | None]]:
    """Return a table of a base file and log files, and what its rows are."""
    layers = [
        (np.arange(ROWS), ["old", "red", "green"], 1),
        (np.arange(0, ROWS, 3), ["red", "blue"], 2),  # the only rows with "old" are replaced
        (np.arange(ROWS - 500, ROWS + 500), ["new"], 3),
    ]
    schema = records(np.arange(1), ["a"], 0).schema
    table = Table.create(
        uri,
        schema=schema,
        time_column="at",
        granularity="all",
        primary_key="id",
        buckets=1,
        ordering="at",
        zookeeper="memory://merge-job",
    )
    model: dict[int, str | None] = {}
    for keys, words, seq in layers:
        rows = records(keys, words, seq)
        table.upsert(rows)
        if not model:
            table.compact("semi-major")
        model |= dict(zip(keys.tolist(), rows.column("word").to_pylist(), strict=True))
    return table, model


def test_a_base_file_has_the_words_of_its_rows_and_no_other() -> None:
    """Text of few values is merged as dictionaries; the file has plain types and no old word."""
    uri = "memory://words-of-a-base"
    table, model = made(uri)
    table.compact("semi-major")
    (base,) = (segment for segment in table.snapshot().segments() if segment.rows)
    files = open_files(uri, {})
    assert isinstance(files, MemoryFiles)
    data = files.store[base.path]
    parquet = pq.ParquetFile(pa.BufferReader(data))
    assert parquet.num_row_groups == 2
    assert parquet.schema_arrow.field("word").type == pa.string()
    rows = parquet.read(columns=["id", "word"])
    assert dict(zip(*(column.to_pylist() for column in rows.columns), strict=True)) == model
    assert rows.column("id").to_pylist() == sorted(model)
    held = pq.ParquetFile(pa.BufferReader(data), read_dictionary=["word"]).read_row_group(0)
    assert sorted(held.column("word").chunk(0).dictionary.to_pylist()) == ["blue", "green", "red"]


def test_words_that_no_row_has_are_left_out() -> None:
    """Nulls and the order of the words stay; a dictionary of which all is used is not copied."""
    word = pa.DictionaryArray.from_arrays(pa.array([2, None, 0], pa.int32()), ["a", "b", "c"])
    rows = pa.table({"word": word, "n": [1, 2, 3]})
    found = of_used_words(rows)
    assert found.column("word").chunk(0).dictionary.to_pylist() == ["a", "c"]
    assert found.to_pylist() == rows.to_pylist()
    again = of_used_words(found).column("word").chunk(0)
    assert (
        again.indices.buffers()[1].address
        == found.column("word").chunk(0).indices.buffers()[1].address
    )


def test_what_is_made_beside_comes_in_order_and_its_error_where_it_is_used() -> None:
    """All that was made before an error is used first."""

    def rows() -> Iterator[int]:
        yield from range(5)
        raise ValueError("torn")

    with made_beside(rows(), lambda _: HELD) as some:
        assert [next(some) for _ in range(5)] == [*range(5)]
        with pytest.raises(ValueError, match="torn"):
            next(some)


def test_making_ends_with_its_use() -> None:
    """A user that stops early waits for one more at most; what is made stays within the bound."""
    count = 0

    def rows() -> Iterator[int]:
        nonlocal count
        while True:
            count += 1
            yield count

    with made_beside(rows(), lambda _: HELD // 4) as some:
        assert next(some) == 1
    assert count <= 7
