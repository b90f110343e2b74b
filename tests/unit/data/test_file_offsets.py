"""The offsets of a file's records, in its footer."""

import base64
import json

import numpy as np
import pytest
from pyroaring import BitMap

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.data.file_offsets import (
    KEY,
    FileOffsets,
    bitmap_numbers,
    decode_offsets,
)
from airflow_provider_segtable.data.written_offsets import encode_offsets


@pytest.mark.parametrize(
    "numbers",
    [[0], [*range(100_000)], [*range(5, 90), *range(200, 260)], [*range(0, 99, 2)], [3, 70_000]],
)
def test_runs_are_written_as_single_offsets_are(numbers: list[int]) -> None:
    """However a bitmap is made, its bytes are the same, and so are the offsets."""
    one = FileOffsets(bucket=2, offsets=np.array(numbers, np.int64) + 1000)
    entry = encode_offsets([one], {2: 1000})
    (found,) = decode_offsets(entry)
    assert found.bucket == 2
    assert found.offsets is not None
    assert found.offsets.tolist() == [n + 1000 for n in numbers]
    plain = BitMap(numbers)
    plain.run_optimize()
    assert base64.b64decode(json.loads(entry[KEY])[0]["offsets"]) == plain.serialize()


@pytest.mark.parametrize("seed", range(12))
def test_bitmaps_are_read_without_their_library(seed: int) -> None:
    """Sparse, dense and run containers, few and many of them, optimized for runs or not."""
    chance = np.random.default_rng(seed)
    pieces = [
        chance.integers(0, 1 << 19, 2000),
        np.arange(100_000, 100_000 + chance.integers(1, 90_000)),
        (3 << 16) + np.flatnonzero(chance.random(1 << 16) < 0.4),
        np.array([65_535, 65_536, (1 << 32) - 1]),
    ]
    numbers = np.unique(np.concatenate(pieces[seed % 4 :][: 1 + seed % 3]))
    bitmap = BitMap(numbers.astype(np.uint32))
    for optimized in (False, True):
        if optimized:
            bitmap.run_optimize()
        data = bitmap.serialize()
        assert np.array_equal(bitmap_numbers(data), numbers)
        for broken in (data[:-1], b"", b"abcd" + data[4:]):
            with pytest.raises(CorruptTable, match="no roaring bitmap"):
                bitmap_numbers(broken)
    assert bitmap_numbers(BitMap().serialize()).tolist() == []
