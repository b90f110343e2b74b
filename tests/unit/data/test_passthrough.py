# ruff: noqa: S608 - queries of our own files
"""Row groups moved undecoded: bytes stay, every offset is right, engines read the same rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import (
    DeltaTable,
    QueryBuilder,
    WriterProperties,
    convert_to_deltalake,
    write_deltalake,
)

from airflow_provider_segtable.data.open_files import LocalFiles, MemoryFiles
from airflow_provider_segtable.data.parquet import footer
from airflow_provider_segtable.data.parquet.footer import (
    FieldSpans,
    Footer,
    chunk_start,
    read_footer,
)
from airflow_provider_segtable.data.parquet.source_file import SourceFile
from airflow_provider_segtable.ports.files import DataFiles
from tests.unit.data.making import get, merged, parquet, plain, put, rich

Page = tuple[bytes, int]


def footer_of(files: DataFiles, path: str) -> Footer:
    with files.open(path) as source:
        return read_footer(source)


def columns_of(files: DataFiles, path: str) -> list[FieldSpans]:
    return [c for group in footer_of(files, path).groups for c in group.columns]


def pages(data: bytes, column: FieldSpans) -> list[Page]:
    """Return each page's bytes and first row, found through the offset index."""
    at = column["offset_index"][2]
    _, _, at = footer.read_field(data, at, 0)
    count, _, at = footer.read_list(data, at)
    found = []
    for _ in range(count):
        spans: dict[str, footer.Span] = {}
        at = footer.scan(data, at, {1: "offset", 2: "size", 3: "row"}, spans)
        start = spans["offset"][2]
        found.append((data[start : start + spans["size"][2]], spans["row"][2]))
    return found


def index_bytes(data: bytes, column: FieldSpans, name: str) -> bytes:
    start = column[name][2]
    return data[start : start + column[f"{name}_length"][2]]


def three(files: DataFiles, **options: Any) -> tuple[list[str], pa.Table]:
    """Write three files of several row groups and pages."""
    tables = [rich(700, seed) for seed in range(3)]
    options = {"row_group_size": 300, "max_rows_per_page": 100, **options}
    paths = [put(files, f"{n}.parquet", parquet(t, **options)) for n, t in enumerate(tables)]
    return paths, pa.concat_tables(tables)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
def test_rows_and_types_stay(compression: str, page_version: str) -> None:
    """Whatever the codec and the page version, pyarrow reads the same rows and types."""
    files = MemoryFiles()
    options = {"compression": compression, "data_page_version": page_version}
    paths, expected = three(files, **options)
    data = get(files, merged(files, paths))
    got = pq.read_table(pa.BufferReader(data))
    assert got.schema == expected.schema
    assert got.equals(expected)
    assert pq.read_metadata(pa.BufferReader(data)).num_row_groups == 9


def test_pages_are_the_same_bytes() -> None:
    """Through the moved offset indexes one finds the very pages of the inputs, row by row."""
    files = MemoryFiles()
    paths, _ = three(files)
    before = [
        p for path in paths for c in columns_of(files, path) for p in pages(get(files, path), c)
    ]
    out = merged(files, paths)
    after = [p for c in columns_of(files, out) for p in pages(get(files, out), c)]
    assert after == before
    assert len(after) > 100


def test_chunks_are_the_same_bytes() -> None:
    """Data and dictionary page offsets lead to the chunks of the inputs."""
    files = MemoryFiles()

    def chunks(path: str) -> list[bytes]:
        data = get(files, path)
        starts = [(chunk_start(c), c["size"][2]) for c in columns_of(files, path)]
        return [data[start : start + size] for start, size in starts]

    paths, _ = three(files)
    assert chunks(merged(files, paths)) == [chunk for path in paths for chunk in chunks(path)]


def test_column_indexes_are_the_same_bytes() -> None:
    """Column indexes hold no offsets, and arrive unchanged."""
    files = MemoryFiles()

    def indexes(path: str) -> list[bytes]:
        data = get(files, path)
        return [index_bytes(data, c, "column_index") for c in columns_of(files, path)]

    paths, _ = three(files)
    assert indexes(merged(files, paths)) == [ix for path in paths for ix in indexes(path)]


def test_without_page_indexes_there_are_none() -> None:
    """Files without page indexes give a file without, not one with wrong ones."""
    files = MemoryFiles()
    paths, expected = three(files, write_page_index=False)
    out = merged(files, paths)
    assert not any("offset_index" in c or "column_index" in c for c in columns_of(files, out))
    assert pq.read_table(pa.BufferReader(get(files, out))).equals(expected)


def test_merging_what_was_merged_changes_nothing() -> None:
    """A merged file is an input like any other, through many generations."""
    files = MemoryFiles()
    paths, expected = three(files)
    left = merged(files, paths[:2], "left")
    out = merged(files, [left, paths[2]], "out")
    assert get(files, out) == get(files, merged(files, paths, "at once"))
    again = merged(files, [out], "again")
    assert get(files, again) == get(files, out)
    assert pq.read_table(pa.BufferReader(get(files, again))).equals(expected)


def test_statistics_stay() -> None:
    """Each column chunk's statistics are those of its input."""
    files = MemoryFiles()
    paths, _ = three(files)

    def statistics(path: str) -> list[Any]:
        meta = pq.read_metadata(pa.BufferReader(get(files, path)))
        every = [meta.row_group(g).column(c) for g in range(meta.num_row_groups) for c in range(17)]
        return [c.statistics.to_dict() if c.statistics else None for c in every]

    assert statistics(merged(files, paths)) == [s for path in paths for s in statistics(path)]


def test_row_groups_are_numbered_anew(tmp_path: Path) -> None:
    """Where a writer (here arrow-rs) numbers row groups, they count through the whole output."""
    options = WriterProperties(max_row_group_size=1000)
    for n in range(2):
        write_deltalake(str(tmp_path / str(n)), plain(2500, n), writer_properties=options)
    files = LocalFiles(tmp_path)
    paths = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.glob("?/*.parquet"))]
    groups = footer_of(files, merged(files, paths)).groups
    assert [group.spans["ordinal"][2] for group in groups] == list(range(6))
    assert [group.spans["file_offset"][2] for group in groups] == [g.extent[0] for g in groups]
    expected = pa.concat_tables([plain(2500, 0), plain(2500, 1)])
    assert pq.read_table(tmp_path / "out.parquet").cast(expected.schema).equals(expected)


def test_bloom_filters_answer_as_before(tmp_path: Path) -> None:
    """A bloom filter that pyarrow wrote still excludes what is not there, and only that."""
    files = LocalFiles(tmp_path)
    options = {"number": {"ndv": 1000, "fpp": 0.001}}
    tables = [plain(1000, seed) for seed in range(2)]
    paths = [
        put(files, f"{n}.parquet", parquet(t, bloom_filter_options=options))
        for n, t in enumerate(tables)
    ]
    out = tmp_path / merged(files, paths)
    assert all("bloom" in c for c in columns_of(files, "out.parquet")[1::3])
    for group, table in enumerate(tables):
        for value in (*table.column("number").to_pylist()[:50], -1, -2, -3):
            probe = f"SELECT * FROM parquet_bloom_probe('{out}', 'number', {value})"
            excluded = duckdb.sql(probe).fetchall()[group][-1]
            assert excluded == (value < 0)


def test_duckdb_files_pass_through(tmp_path: Path) -> None:
    """Files by DuckDB, with its bloom filters among the data, are moved and read the same."""
    files = LocalFiles(tmp_path)
    for n in range(2):
        rows = plain(5000, n)  # noqa: F841 - DuckDB finds it by name
        duckdb.sql(f"COPY rows TO '{tmp_path}/{n}.parquet' (ROW_GROUP_SIZE 2048)")
    out = merged(files, ["0.parquet", "1.parquet"])
    assert_moved(files, ["0.parquet", "1.parquet"], out)
    expected = pa.concat_tables([plain(5000, 0), plain(5000, 1)])
    assert pq.read_table(tmp_path / out).cast(expected.schema).equals(expected)
    probe = f"SELECT * FROM parquet_bloom_probe('{tmp_path / out}', 'word', 'no such')"
    assert all(row[-1] for row in duckdb.sql(probe).fetchall())


def test_polars_files_pass_through(tmp_path: Path) -> None:
    """Files by Polars are moved and read the same."""
    files = LocalFiles(tmp_path)
    for n in range(2):
        pl.from_arrow(plain(5000, n)).write_parquet(tmp_path / f"{n}.parquet", row_group_size=2000)
    out = merged(files, ["0.parquet", "1.parquet"])
    assert_moved(files, ["0.parquet", "1.parquet"], out)
    expected = pl.from_arrow(pa.concat_tables([plain(5000, 0), plain(5000, 1)]))
    assert pl.read_parquet(tmp_path / out).equals(expected)


def assert_moved(files: DataFiles, paths: Sequence[str], out: str) -> None:
    counts = [len(footer_of(files, path).groups) for path in paths]
    assert len(footer_of(files, out).groups) == sum(counts)
    assert footer_of(files, out).created_by == footer_of(files, paths[0]).created_by


def test_engines_agree(tmp_path: Path) -> None:
    """DuckDB and Polars read the merged file as they read the inputs."""
    files = LocalFiles(tmp_path)
    paths, _ = three(files)
    out = tmp_path / merged(files, paths)
    inputs = [str(tmp_path / path) for path in paths]
    assert pl.read_parquet(out).equals(pl.concat([pl.read_parquet(path) for path in inputs]))
    both = [
        duckdb.sql(f"SELECT * FROM read_parquet({source!r})").to_arrow_table()
        for source in ([str(out)], inputs)
    ]
    assert both[0].equals(both[1])


@pytest.mark.parametrize("low", [0, 99, 100, 350, 640, 699])
def test_filters_by_page_index_find_all_rows(tmp_path: Path, low: int) -> None:
    """DataFusion, which skips pages by the indexes, finds what a full scan finds."""
    files = LocalFiles(tmp_path / "in")
    tables = [plain(700, seed) for seed in range(3)]
    for n, table in enumerate(tables):
        put(files, f"{n}", parquet(table, row_group_size=300, max_rows_per_page=50))
    (tmp_path / "out").mkdir()
    whole = merged(files, ["0", "1", "2"])
    (tmp_path / "in" / whole).rename(tmp_path / "out" / "part.parquet")
    convert_to_deltalake(str(tmp_path / "out"))
    query = QueryBuilder().register("t", DeltaTable(str(tmp_path / "out")))
    at = f"TIMESTAMP '2013-01-01T00:00:00Z' + INTERVAL '{low} seconds'"
    found = query.execute(f"SELECT number FROM t WHERE at = {at} ORDER BY number").read_all()
    expected = sorted(table.column("number")[low].as_py() for table in tables)
    assert pa.table(found).column("number").to_pylist() == expected


def test_empty_row_groups_are_left_out() -> None:
    """A file with an empty row group is merged without it."""
    files = MemoryFiles()
    table = plain(10)
    made = pa.BufferOutputStream()
    with pq.ParquetWriter(made, table.schema) as writer:
        for part in (table.slice(0, 0), table.slice(0, 4), table.slice(0, 0), table.slice(4)):
            writer.write_table(part)
    put(files, "a", made.getvalue().to_pybytes())
    put(files, "empty", parquet(table.slice(0, 0)))
    out = merged(files, ["empty", "a", "empty"])
    assert [group.rows for group in footer_of(files, out).groups] == [4, 6]
    with files.open(out) as source:
        assert pq.read_table(SourceFile(source)).equals(table)


def test_unknown_fields_survive_or_stop() -> None:
    """An unknown field in a row group makes a file foreign, because it might be an offset."""
    found: dict[str, footer.Span] = {}
    field_20 = bytes([footer.I64 | 15 << 4, 2, footer.I64 | 5 << 4, 4, 0])
    with pytest.raises(footer.UnknownField, match="field 20"):
        footer.scan(field_20, 0, {15: "known"}, found)
    assert found == {"known": (1, 2, 1)}
