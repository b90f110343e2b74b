"""Any rows, cut into any files, by any grain: the kernel gives the same rows and lineage."""

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.segment import concatenated
from airflow_provider_segtable.data.jobs.concat import Grain
from airflow_provider_segtable.data.jobs.minor_job import run_minor
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.descriptor import read_descriptor
from tests.examples import examples
from tests.unit.data.making import content, job, merged, parquet, put, rich, written

grains = st.builds(
    Grain,
    rows=st.sampled_from([1, 20, 60, 1 << 40]),
    size=st.sampled_from([1, 3000, 1 << 60]),
)
options = st.fixed_dictionaries(
    {
        "row_group_size": st.integers(1, 80),
        "max_rows_per_page": st.integers(1, 40),
        "compression": st.sampled_from(["none", "snappy", "zstd"]),
        "use_dictionary": st.booleans(),
        "write_page_index": st.booleans(),
        "write_statistics": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
    }
)


@examples(50)
@given(
    sizes=st.lists(st.integers(1, 80), min_size=1, max_size=8),
    seed=st.integers(0, 99),
    grain=grains,
    outputs=st.integers(1, 4),
)
def test_any_cut_gives_the_same_rows(
    sizes: list[int], seed: int, grain: Grain, outputs: int
) -> None:
    """Rows, order, types and root lineage survive; each output's descriptor tells the truth."""
    files = MemoryFiles()
    tables = [rich(size, seed + number) for number, size in enumerate(sizes)]
    segments = written(files, tables)
    outputs = min(outputs, sum(sizes))
    results = run_minor(job(segments, outputs, grain), files)
    got = content(files, results)
    assert got.schema == tables[0].schema
    assert got.equals(pa.concat_tables(tables))
    assert concatenated(results) == concatenated(segments)
    assert sum(result.rows for result in results) == sum(sizes)
    assert [read_descriptor(files, result.path) for result in results] == list(results)


@examples(50)
@given(
    parts=st.lists(st.tuples(st.integers(0, 80), options), min_size=1, max_size=5),
    seed=st.integers(0, 99),
    grain=grains,
)
def test_any_writer_options_give_the_same_rows(
    parts: list[tuple[int, dict[str, object]]], seed: int, grain: Grain
) -> None:
    """Files of any row groups, pages, codecs and encodings merge in order, empty ones included."""
    files = MemoryFiles()
    tables = [rich(rows, seed + number) for number, (rows, _) in enumerate(parts)]
    paths = [
        put(files, f"{number}", parquet(table, **how))
        for number, (table, (_, how)) in enumerate(zip(tables, parts, strict=True))
    ]
    out = merged(files, paths, grain=grain)
    got = pq.read_table(pa.BufferReader(files.store[out]))
    assert got.equals(pa.concat_tables(tables))
