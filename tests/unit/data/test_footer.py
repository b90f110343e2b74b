"""Footers: what is garbled is refused with the file's name, never with a crash."""

import random

import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import (
    CorruptTable,
    SegtableError,
    UnsupportedFormat,
)
from airflow_provider_segtable.data.jobs.concat import read_input
from airflow_provider_segtable.data.jobs.passthrough import examined
from airflow_provider_segtable.data.open_files import MemorySource
from airflow_provider_segtable.data.parquet import thrift
from airflow_provider_segtable.data.parquet.footer import read_footer
from tests.unit.data.making import parquet, plain, rich

FILE = parquet(rich(50), bloom_filter_options={"number": True})


def test_a_footer_says_what_pyarrow_says() -> None:
    """Rows, sizes, offsets and metadata are those that pyarrow reads."""
    footer = read_footer(MemorySource("f", FILE))
    meta = pq.read_metadata(__import__("io").BytesIO(FILE))
    assert (footer.rows, footer.group_count) == (meta.num_rows, meta.num_row_groups)
    assert dict(footer.metadata) == meta.metadata
    assert footer.created_by.decode() == meta.created_by
    for number, column in enumerate(footer.groups[0].columns):
        expected = meta.row_group(0).column(number)
        assert column["data"][2] == expected.data_page_offset
        assert column["size"][2] == expected.total_compressed_size
        dictionary = column["dictionary"][2] if "dictionary" in column else None
        assert dictionary == expected.dictionary_page_offset


def test_a_known_schema_is_stepped_over() -> None:
    """Reading with another file's footer at hand gives the same."""
    one = read_footer(MemorySource("f", FILE))
    other = read_footer(MemorySource("g", parquet(plain(5))))
    assert read_footer(MemorySource("f", FILE), like=one) == one
    assert read_footer(MemorySource("f", FILE), like=other) == one


@pytest.mark.parametrize("kept", [0, 3, 4, 11, 12, 100, len(FILE) - 1])
def test_truncated_files_are_corrupt(kept: int) -> None:
    """A file that ends too early is corrupt, and the message names it."""
    with pytest.raises(CorruptTable, match=r"some/file\.parquet"):
        read_footer(MemorySource("some/file.parquet", FILE[:kept]))


def test_an_encrypted_footer_is_not_supported() -> None:
    """A wholly encrypted file is told from a corrupt one."""
    with pytest.raises(UnsupportedFormat, match="encrypted"):
        read_footer(MemorySource("f", FILE[:-4] + b"PARE"))


@pytest.mark.parametrize("seed", range(20))
def test_garbage_never_crashes(seed: int) -> None:
    """Whatever is flipped in the footer or the indexes, a file is read, or refused by name."""
    randomness = random.Random(seed)
    refused = 0
    for _ in range(100):
        data = bytearray(FILE)
        for _ in range(randomness.choice([1, 1, 5, 50])):
            data[randomness.randrange(len(data) - 6000, len(data))] = randomness.randrange(256)
        try:
            read_input(MemorySource("some/file.parquet", bytes(data)))
        except SegtableError as error:
            assert "some/file.parquet" in str(error)  # noqa: PT017 - most do not raise
            refused += 1
    assert refused


def test_deep_nesting_is_refused() -> None:
    """Structs nested without end are broken, not a stack overflow."""
    with pytest.raises(thrift.BrokenThrift, match="deep"):
        thrift.skip(bytes([thrift.STRUCT | 1 << 4]) * 5000, 0, thrift.STRUCT)


def test_files_with_column_encryption_are_foreign() -> None:
    """A row group with encrypted columns can be read of, but not moved."""
    footer = read_footer(MemorySource("f", FILE))
    group = footer.groups[0]
    column = group.columns[0]
    # The field behind column_index_length (7) of the first column becomes crypto_metadata (8).
    at = column["column_index_length"][1]
    data = footer.data[:at] + b"\x1c\x00" + footer.data[at:]
    length = len(data).to_bytes(4, "little")
    source = MemorySource("f", FILE[: footer.start] + data + length + b"PAR1")
    found = read_footer(source)
    assert (found.rows, found.group_count, found.groups) == (50, 1, ())
    assert examined(source, found) == "row group 0: field 8 is not supported"


@pytest.mark.parametrize("value", [0, 1, -1, 63, -64, 64, 127, 300, -(2**31), 2**62, -(2**63)])
def test_numbers_come_back(value: int) -> None:
    """Signed numbers survive their encoding."""
    data = thrift.number(value)
    assert thrift.read_number(data, 0) == (value, len(data))
