"""The merge of sorted runs, in bounded memory: log files, a base file, or both.

1. A run is the rows of a file as batches, sorted by key (``keyed_rows``). The order of batches is
   checked, that of the rows in a batch where they are merged.
2. The merge goes through the keys in *windows*. A window ends before the least of the keys that are
   last in the batches at hand, of runs with batches left; so no run has more rows of its keys.
3. The rows of a window are merged in memory (``merging``). A window to which one run alone
   contributes is that run's rows, untouched.
4. Memory holds a batch of every run and one window, however large the runs are. If the batches are
   in proportion to the runs (``data.keyed.group_reader``), a window takes about one of each.
5. Tombstones are kept unless all their roots completed before ``drop_tombstones_before``. What
   drops them must merge all files of the file group below some root: else an older record that it
   did not see would come back.

Source of the idea: merge of sorted runs (Knuth 5.4.1), by blocks, as in external sorting.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.merge.merged_rows import kept
from airflow_provider_segtable.data.merge.merging import merged_sorted
from airflow_provider_segtable.data.merge.root_orders import RootOrders

Batches = Iterable[pa.Table | pa.RecordBatch]
Key = tuple[Any, ...]

NEVER, ALWAYS = -(2**63), 2**63 - 1
"""Bounds for tombstones: none is dropped, all are."""


def merge_runs(
    runs: Sequence[Batches],
    rules: MergeRules,
    roots: RootOrders,
    *,
    drop_tombstones_before: int = NEVER,
) -> Iterator[pa.Table]:
    """Merge runs into one.

    Args:
        runs: the runs; all batches have one schema, and their roots are put in.
        rules: the table's rules.
        roots: the order of all roots of the rows.
        drop_tombstones_before: the completion time in µs below which tombstones are left out.

    Yields:
        Tables sorted by key, of the runs' schema.

    Raises:
        CorruptTable: a run is not sorted, or has an unknown root.
    """
    for parts in windows(runs, rules.key):
        rows = merged_sorted(parts, rules, roots)
        if drop_tombstones_before > NEVER:
            rows = kept(rows, rules, roots, drop_tombstones_before)
        if rows.num_rows:
            yield rows


def read_runs(
    runs: Sequence[Batches], rules: MergeRules, roots: RootOrders, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Merge all runs of a file group for a reader: present rows only, in some columns.

    Args:
        runs: the runs, with at least the columns ``rules.needed(columns, ...)``.
        rules: the table's rules.
        roots: the order of all roots of the rows.
        columns: the columns to be returned; hidden ones may be among them.
    """
    for rows in merge_runs(runs, rules, roots, drop_tombstones_before=ALWAYS):
        yield rows.select(columns)


def windows(runs: Sequence[Batches], key: Sequence[str]) -> Iterator[list[pa.Table]]:
    """Yield rows by ranges of keys: those of each run that has any, in the runs' order."""
    cursors = [_Cursor(iter(run), tuple(key)) for run in runs]
    while True:
        for cursor in cursors:
            cursor.fill()
        ends = [cursor.last for cursor in cursors if cursor.more]
        parts = [cursor.cut(min(ends) if ends else None) for cursor in cursors]
        some = [part for part in parts if part.num_rows]
        if some:
            yield some
        if not ends:
            return


@dataclass(slots=True)
class _Cursor:
    """The rows at hand of one run, and the batches after them."""

    batches: Iterator[pa.Table | pa.RecordBatch]
    key: tuple[str, ...]
    rows: pa.Table = field(default_factory=lambda: pa.table({}))
    last: Key = ()
    more: bool = True

    def fill(self) -> None:
        """Read on until there are two keys at hand, or the run ends."""
        while self.more and (not self.rows.num_rows or self._at(0) == self.last):
            batch = next(self.batches, None)
            self.more = batch is not None
            if batch is None or not batch.num_rows:
                continue
            table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
            before = self.last
            self.rows = pa.concat_tables([self.rows, table]) if self.rows.num_rows else table
            self.last = self._at(self.rows.num_rows - 1)
            if not before <= self._at(0) <= self.last:
                raise CorruptTable(
                    f"rows are not sorted by key: {self.last} after {max(before, self._at(0))}; "
                    "run segtable verify"
                )

    def cut(self, end: Key | None) -> pa.Table:
        """Take out the rows before a key; all rows if it is None."""
        rows = self.rows
        at = rows.num_rows if end is None else self._before(end)
        self.rows = rows.slice(at)
        return rows.slice(0, at)

    def _at(self, row: int) -> Key:
        return tuple(_comparable(self.rows.column(name)[row]) for name in self.key)

    def _before(self, end: Key) -> int:
        """Return the number of rows whose key is below one, by bisection."""
        low, high = 0, self.rows.num_rows
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._at(middle) < end else (low, middle)
        return low


def _comparable(value: pa.Scalar) -> Any:
    """Return a key's value as Python compares it: times as numbers."""
    if isinstance(value, pa.DictionaryScalar):
        value = value.value
    return value.cast(pa.int64()).as_py() if pa.types.is_timestamp(value.type) else value.as_py()
