"""The offsets of a file's records, in its footer."""

import base64
import json

import numpy as np
import pytest
from pyroaring import BitMap

from airflow_provider_segtable.data.file_offsets import (
    KEY,
    FileOffsets,
    decode_offsets,
    encode_offsets,
)


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
