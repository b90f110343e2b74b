"""What is moved, what is rewritten, and that the rows are the same either way."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.data.jobs.concat import Grain, read_input
from airflow_provider_segtable.data.jobs.segment_writer import PARQUET
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.footer import read_footer
from tests.unit.data.making import MOVE, REWRITE, get, merged, parquet, plain, put, rich


def table_of(files: MemoryFiles, path: str) -> pa.Table:
    return pq.read_table(pa.BufferReader(get(files, path)))


def groups_of(files: MemoryFiles, path: str) -> list[int]:
    meta = pq.read_metadata(pa.BufferReader(get(files, path)))
    return [meta.row_group(n).num_rows for n in range(meta.num_row_groups)]


def put_all(files: MemoryFiles, *tables: pa.Table, **options: Any) -> list[str]:
    options = {**PARQUET, **options}
    return [put(files, f"{n}.parquet", parquet(t, **options)) for n, t in enumerate(tables)]


def test_small_files_become_one_row_group() -> None:
    """Small files are rewritten together, in order, nested types and nulls included."""
    files = MemoryFiles()
    tables = [rich(100, seed) for seed in range(5)]
    out = merged(files, put_all(files, *tables), grain=REWRITE)
    assert groups_of(files, out) == [500]
    got = table_of(files, out)
    assert got.schema == tables[0].schema
    assert got.equals(pa.concat_tables(tables))


def test_large_and_small_are_mixed_in_order() -> None:
    """Runs of small files are rewritten while the large ones beside them are moved."""
    files = MemoryFiles()
    tables = [plain(n, n) for n in (10, 11, 5000, 12, 6000, 13, 14, 15)]
    out = merged(files, put_all(files, *tables), grain=Grain(rows=1000, size=1 << 40))
    assert groups_of(files, out) == [21, 5000, 12, 6000, 42]
    assert table_of(files, out).equals(pa.concat_tables(tables))


def test_bytes_alone_make_a_group_large() -> None:
    """Few but wide rows are moved too."""
    files = MemoryFiles()
    paths = put_all(files, plain(10), plain(10))
    out = merged(files, paths, grain=Grain(rows=1000, size=50))
    assert groups_of(files, out) == [10, 10]


def test_rewriting_bounds_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is rewritten comes as row groups of full size, not of one size for all."""
    monkeypatch.setattr("airflow_provider_segtable.data.jobs.passthrough.GROUP_ROWS", 250)
    files = MemoryFiles()
    tables = [plain(100, seed) for seed in range(6)]
    out = merged(files, put_all(files, *tables), grain=REWRITE)
    assert groups_of(files, out) == [300, 300]
    assert table_of(files, out).equals(pa.concat_tables(tables))


def test_equal_meaning_in_other_types_is_rewritten() -> None:
    """Files whose types differ from the first's only in width get the first's types."""
    files = MemoryFiles()
    first, other = plain(20, 1), plain(20, 2)
    narrow = other.set_column(1, "number", pa.array(range(20), pa.int8()))
    out = merged(files, put_all(files, first, narrow, first), grain=MOVE)
    got = table_of(files, out)
    assert got.schema == first.schema
    assert got.column("number").to_pylist()[20:40] == list(range(20))
    assert groups_of(files, out) == [20, 20, 20]


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (plain(5).set_column(1, "number", pa.array(["1"] * 5)), "'number': expected int64, found"),
        (plain(5).drop_columns(["word"]), "'word' is missing"),
        (plain(5).append_column("more", pa.array(range(5))), "'more' .* not in the table"),
    ],
)
def test_other_columns_are_refused(other: pa.Table, found: str) -> None:
    """A file that does not fit the first one's columns is an error that names the column."""
    files = MemoryFiles()
    with pytest.raises(SchemaMismatch, match=found):
        merged(files, put_all(files, plain(5), other))
    assert "out.parquet" not in files.store


def test_metadata_is_chosen() -> None:
    """Of the inputs' metadata only Arrow's schema stays; ours is added."""
    files = MemoryFiles()
    table = plain(5).replace_schema_metadata({"pandas": "{}", "segtable": "old"})
    for grain in (MOVE, REWRITE):
        paths = put_all(files, table, table)
        out = merged(files, paths, grain=grain, metadata={b"segtable": b"new"})
        found = pq.read_metadata(pa.BufferReader(get(files, out))).metadata
        assert sorted(found) == [b"ARROW:schema", b"segtable"]
        assert found[b"segtable"] == b"new"
        files.store.clear()


def test_dictionaries_of_the_inputs_are_kept_out_of_the_types() -> None:
    """Rewriting reads words as dictionaries, but the output's type is the input's."""
    files = MemoryFiles()
    tables = [plain(50, seed) for seed in range(3)]
    got = table_of(files, merged(files, put_all(files, *tables), grain=REWRITE))
    assert got.schema.field("word").type == pa.string()
    column = pq.read_metadata(pa.BufferReader(get(files, "out.parquet"))).row_group(0).column(2)
    assert "RLE_DICTIONARY" in column.encodings
    assert "PLAIN" in column.encodings  # the dictionary page itself
    assert column.has_dictionary_page


def test_dictionary_columns_stay_dictionaries() -> None:
    """A column that readers see as a dictionary is one afterwards, moved or rewritten."""
    files = MemoryFiles()
    tables = [
        plain(50, seed).set_column(2, "word", plain(50, seed).column("word").dictionary_encode())
        for seed in range(2)
    ]
    for grain in (MOVE, REWRITE):
        got = table_of(files, merged(files, put_all(files, *tables), grain=grain))
        assert got.schema == tables[0].schema
        expected = [word for table in tables for word in table.column("word").to_pylist()]
        assert got.column("word").to_pylist() == expected
        files.store.clear()


def test_old_writers_statistics_are_not_laundered() -> None:
    """Pages by a writer whose statistics readers distrust are not moved under another name."""
    files = MemoryFiles()
    new, old = put_all(files, plain(20, 1), plain(20, 2))
    mark = b"parquet-cpp-arrow version " + pa.__version__.encode()
    fake = b"parquet-mr version 1.8.1 (x)".ljust(len(mark), b")")
    files.store[old] = files.store[old].replace(mark, fake)
    with files.open(old) as source:
        assert read_footer(source).created_by == fake
    out = merged(files, [new, old], grain=MOVE)
    meta = pq.read_metadata(pa.BufferReader(get(files, out)))
    assert (meta.num_row_groups, meta.created_by) == (1, "segtable version 0.1.0")
    alone = merged(files, [old, old], "alone", grain=MOVE)
    meta = pq.read_metadata(pa.BufferReader(get(files, alone)))
    assert (meta.num_row_groups, meta.created_by) == (2, fake.decode())


def test_foreign_files_are_decoded() -> None:
    """A file whose row groups must not be moved still merges, by decoding."""
    files = MemoryFiles()
    paths = put_all(files, plain(20, 1), plain(20, 2))
    with files.open(paths[1]) as source:
        footer = read_footer(source)
    data = footer.data[:-1] + b"\x85\0\0"  # a number as field 15 of FileMetaData
    files.store[paths[1]] = b"".join(
        (files.store[paths[1]][: footer.start], data, len(data).to_bytes(4, "little"), b"PAR1")
    )
    with files.open(paths[1]) as source:
        assert "field 15 is not known" in str(read_input(source).file)
    out = merged(files, paths, grain=MOVE)
    assert table_of(files, out).equals(pa.concat_tables([plain(20, 1), plain(20, 2)]))
