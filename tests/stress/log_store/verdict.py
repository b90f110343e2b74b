"""What must hold at the end of a soak, and what was seen during it.

1. The committed records of a bucket, read from the first offset on, have each number once. Of each
   block they have a first part without a gap, which begins at the offset that its writer was given.
2. What a writer was told is committed is there, at its offset.
3. The table has the committed records of all buckets, once each; it verifies.
4. Each committed record was given to some member of the group.
5. The copies of readers begin with all committed records: what was ever uncommitted came again, or
   was taken away by a reset.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.file_reader import RangeRecords, read_committed
from airflow_provider_segtable.table.table import Table
from tests.stress.log_store.worker import BLOCK, BUCKETS

Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Names:
    """The workers of a table: patterns of writers and members, and its reader."""

    writers: str
    reader: str
    members: str


def notes(folder: Path, kind: str, name: str = "*") -> list[dict[str, Any]]:
    """Return the notes of a kind; a killed worker may leave half a line."""
    found = []
    for path in sorted(folder.glob(f"{name}.{kind}")):
        for line in path.read_text().splitlines():
            if line.startswith("{") and line.endswith("}"):
                found.append({**json.loads(line), "name": path.stem})
    return found


def verdict(
    ports: TableContext, folder: Path, names: Names, summary: dict[str, Any]
) -> Iterator[str]:
    """Yield what is wrong with a table, and note its figures in the summary."""
    committed = {bucket: committed_numbers(ports, bucket) for bucket in range(BUCKETS)}
    summary["committed_rows"] = {str(b): len(each) for b, each in committed.items()}
    blocks = {note["block"]: note for note in notes(folder, "blocks", names.writers)}
    for bucket, numbers in committed.items():
        yield from _wrong_blocks(bucket, numbers, blocks)
    yield from _lost(committed, folder, names.writers, blocks)
    yield from _wrong_table(ports, committed)
    yield from _wrong_copies(committed, folder, names.reader)
    yield from _not_given(committed, folder, names.members)


def committed_numbers(ports: TableContext, bucket: int) -> Numbers:
    """Return the numbers of a bucket's committed records, by offset."""
    parts = [np.empty(0, np.int64)]
    for found in read_committed(ports, bucket):
        assert isinstance(found, RangeRecords), f"bucket {bucket}: {found} at the beginning"
        parts.append(found.rows.column("row").to_numpy())
    return np.concatenate(parts)


def _wrong_blocks(
    bucket: int, numbers: Numbers, blocks: Mapping[int, Mapping[str, Any]]
) -> Iterator[str]:
    of_block = numbers // BLOCK * BLOCK
    for block in np.unique(of_block).tolist():
        (places,) = np.nonzero(of_block == block)
        known = blocks.get(block)
        if known is None or known["bucket"] != bucket:
            yield f"bucket {bucket} has rows of block {block}, which nobody sent to it"
            continue
        right = np.arange(block, block + len(places))
        if not np.array_equal(numbers[places], right):
            yield f"bucket {bucket}: rows of block {block} have gaps, doubles or another order"
        if places[0] != known["start"] or places[-1] - places[0] != len(places) - 1:
            yield f"bucket {bucket}: block {block} is not where it began, at {known['start']}"


def _lost(
    committed: Mapping[int, Numbers],
    folder: Path,
    writers: str,
    blocks: Mapping[int, Mapping[str, Any]],
) -> Iterator[str]:
    for note in notes(folder, "committed", writers):
        start, rows, block = note["at_offset"], note["rows"], note["block"]
        found = committed[blocks[block]["bucket"]][start : start + rows]
        if not np.array_equal(found, np.arange(block, block + rows)):
            yield f"block {block}: of {rows} rows that were told committed, some are lost"


def _wrong_table(ports: TableContext, committed: Mapping[int, Numbers]) -> Iterator[str]:
    every = np.sort(np.concatenate(list(committed.values())))
    table = Table(ports).scan(columns=("row",)).to_arrow()
    found = np.sort(table.column("row").to_numpy())
    if not np.array_equal(every, found):
        yield f"the table has {len(found)} rows, the log store {len(every)}, or other ones"
    yield from (f"verify: {finding}" for finding in verify(ports).findings)


def _wrong_copies(committed: Mapping[int, Numbers], folder: Path, reader: str) -> Iterator[str]:
    for bucket, right in committed.items():
        path = folder / f"{reader}-{bucket}.npz"
        rows = np.load(path)["rows"] if path.exists() else np.empty(0, np.int64)
        if not np.array_equal(rows[: len(right)], right):
            same = int(np.argmin(np.append(rows[: len(right)] == right[: len(rows)], False)))
            yield f"{reader}: bucket {bucket} is as committed up to {same} of {len(right)} only"


def _not_given(committed: Mapping[int, Numbers], folder: Path, members: str) -> Iterator[str]:
    given = [np.fromfile(path, np.int64) for path in folder.glob(f"{members}.given")]
    every = np.concatenate([np.empty(0, np.int64), *given])
    for bucket, numbers in committed.items():
        missing = len(np.setdiff1d(numbers, every))
        if missing:
            yield f"bucket {bucket}: {missing} committed records were given to no member"
