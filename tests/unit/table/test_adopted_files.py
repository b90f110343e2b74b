"""The records of adoptions: their golden file, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_segtable.core.errors import CorruptTable, UnsupportedFormat
from airflow_provider_segtable.core.segment import FooterChecksum
from airflow_provider_segtable.data.parquet.descriptor import decode_definition, encode_definition
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.adopted_files import (
    AdoptionRecord,
    adopted_by_path,
    decode_record,
    record_path,
)
from tests.support.builders import BASE, DEFINITION, first

GOLDEN = Path(__file__).parents[2] / "golden" / "adopted" / "record.json"
FILES = tuple(
    replace(first(n), path=f"month=2013-01/part-{n}.parquet", footer=FooterChecksum(900 + n, n))
    for n in range(2)
)
RECORD = AdoptionRecord(
    commit_id="adopt-0123456789abcdef",
    segments=FILES,
    definition=encode_definition(DEFINITION, BASE),
)


def test_golden() -> None:
    """Format 1 is read and written byte for byte as the golden file has it."""
    golden = GOLDEN.read_bytes()
    assert decode_record(golden, "golden") == RECORD
    assert RECORD.encoded() == golden
    assert decode_definition(decode_record(golden, "golden").definition, "x") == (DEFINITION, BASE)


@pytest.mark.parametrize("at", range(0, len(RECORD.encoded()), 97))
def test_a_flipped_bit_is_noticed(at: int) -> None:
    """Wherever it is."""
    data = bytearray(RECORD.encoded())
    data[at] ^= 1
    with pytest.raises((CorruptTable, UnsupportedFormat), match="here"):
        decode_record(bytes(data), "here")


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b'{"format": 1}', b"\xff"])
def test_other_files_are_refused(data: bytes) -> None:
    """A torn record, and what is none."""
    with pytest.raises(CorruptTable, match="here"):
        decode_record(data, "here")


def test_a_newer_format_is_refused_by_its_number() -> None:
    """The way out is a newer segtable."""
    body = {**json.loads(RECORD.encoded()), "format": 2}
    with pytest.raises(UnsupportedFormat, match=r"format 2.*upgrade"):
        decode_record(json.dumps(body).encode(), "here")


def test_a_torn_record_hides_no_other() -> None:
    """A recovery reads those that are left."""
    storage = MemoryStorage()
    storage.create(record_path(0), RECORD.encoded())
    storage.create(record_path(1), b"torn")
    storage.create(record_path(0).replace("json", "gone"), b"")
    assert [*adopted_by_path(storage)] == [each.path for each in FILES]
