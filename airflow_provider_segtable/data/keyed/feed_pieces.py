"""Pieces of the change feed of a primary-key table: what a window changed of one file group.

1. A *stretch* is a run of events that only add records. Of its file group, the rows of all keys
   with records in it are merged once, as they were before; then the log files of each event are
   merged into them, in the order of the events.
2. A *comparison* is one event after which the rows are compared with those before it, as a whole.
3. A key whose row came is an ``insert``, whose row went a ``delete``. A key with another winning
   record is an update, before and after. A record that lost (it was late) changes nothing.
4. A piece is plain data and needs no other: a library reads them in turn, Spark in tasks.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_segtable.core.reads.effects import RowChange, RowEffect
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import (
    DELETE,
    OP,
    ROOT_OF,
    ROOT_PARTITION,
    MergeRules,
)
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.data.arrow.change_columns import labelled
from airflow_provider_segtable.data.arrow.equality import Keys
from airflow_provider_segtable.data.keyed.file_groups import within
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.record_columns import shown_defaults, with_defaults
from airflow_provider_segtable.data.merge.key_groups import numbers, valid, whole
from airflow_provider_segtable.data.merge.merge_runs import merge_runs
from airflow_provider_segtable.data.merge.merging import merged_sorted
from airflow_provider_segtable.data.merge.root_orders import RootOrders

Changed = tuple[RowChange, pa.Table]
"""Rows with all columns of records, and what happened to them."""
Files = tuple[Segment, ...]
"""The files of one file group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The log files that event ``n`` added to a file group at a time."""

    n: int
    time: Instant
    logs: Files


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Events that only add records to a file group, which had ``files`` before them."""

    files: Files
    steps: tuple[Step, ...]

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return _size([self.files, *(step.logs for step in self.steps)])

    def changes(self, reader: GroupReader, rules: MergeRules) -> Iterator[Changed]:
        """Yield the changes of rows, in the order of the events."""
        logs = [segment for step in self.steps for segment in step.logs]
        with reader.opened([*self.files, *logs]) as opened:
            orders = RootOrders.of_table(opened.roots([*self.files, *logs]))
            before = self._begun(opened, rules, orders, logs)
            for step in self.steps:
                new = [pa.concat_tables(run) for run in opened.runs(step.logs)]
                after = merged_sorted([before, *new], rules, orders)
                yield from _seen(before, after, reader, rules, (step.n, step.time))
                before = after

    def _begun(
        self, reader: GroupReader, rules: MergeRules, orders: RootOrders, logs: Iterable[Segment]
    ) -> pa.Table:
        """Return the rows at the start of all keys in the logs, tombstones included."""
        parts = (rows for run in reader.runs(logs, list(rules.key)) for rows in run)
        keys = Keys.of(pa.concat_tables(parts), rules.key, nulls=True)
        found = [reader.schema.empty_table()]
        for rows in merge_runs(reader.runs(self.files), rules, orders):
            found.append(rows.filter(pa.array(keys.find(rows) >= 0)))
        return pa.concat_tables(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The files of some file groups before and after event ``n``."""

    n: int
    time: Instant
    before: tuple[Files, ...]
    after: tuple[Files, ...]

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return _size([*self.before, *self.after])

    def changes(self, reader: GroupReader, rules: MergeRules) -> Iterator[Changed]:
        """Yield the changes of rows."""
        old, new = (_whole(some, reader, rules) for some in (self.before, self.after))
        yield from _seen(old, new, reader, rules, (self.n, self.time))


FeedPiece = Stretch | Comparison


def labelled_rows(
    changed: Changed, reader: GroupReader, interval: Interval | None
) -> Iterator[pa.RecordBatch]:
    """Yield changed rows in the columns of the table and of a feed.

    Args:
        changed: the rows, and what happened to them.
        reader: the reader of the table.
        interval: only rows with event times in it.
    """
    change, rows = changed
    names = [column.name for column in reader.table.schema.columns]
    for batch in within(rows.select(names), reader.table.time_column, interval).to_batches():
        yield labelled(batch, change)


def _size(files: Iterable[Files]) -> int:
    return sum(segment.size for some in files for segment in some)


def _whole(groups: Iterable[Files], reader: GroupReader, rules: MergeRules) -> pa.Table:
    """Return the merged rows of file groups."""
    found = [reader.schema.empty_table()]
    for files in groups:
        with reader.opened(files) as opened:
            orders = RootOrders.of_table(opened.roots(files))
            found += merge_runs(opened.runs(files), rules, orders)
    return pa.concat_tables(found)


def _seen(
    before: pa.Table,
    after: pa.Table,
    reader: GroupReader,
    rules: MergeRules,
    event: tuple[int, Instant],
) -> Iterator[Changed]:
    """Yield what became of rows, as readers see them."""
    defaults = shown_defaults(reader.table)
    for effect, rows in _differences(_shown(before), _shown(after), rules):
        if rows.num_rows:
            yield RowChange(effect, *event), with_defaults(rows, defaults)


def _differences(
    old: pa.Table, new: pa.Table, rules: MergeRules
) -> tuple[tuple[RowEffect, pa.Table], ...]:
    """Return what became of rows, by key; two tables with the hidden columns."""
    keys = Keys.of(old, rules.key, nulls=True)
    was = np.full(keys.count + 1, -1)
    was[keys.find(old)] = np.arange(old.num_rows)
    was[-1] = -1
    places = was[keys.find(new)]
    came = places < 0
    gone = np.ones(old.num_rows, bool)
    gone[places[~came]] = False
    kept, matched = np.flatnonzero(~came), places[~came]
    other = _other_records(old.take(pa.array(matched)), new.take(pa.array(kept)))
    return (
        (RowEffect.DELETE, old.filter(pa.array(gone))),
        (RowEffect.UPDATE_BEFORE, old.take(pa.array(matched[other]))),
        (RowEffect.UPDATE_AFTER, new.take(pa.array(kept[other]))),
        (RowEffect.INSERT, new.filter(pa.array(came))),
    )


def _shown(rows: pa.Table) -> pa.Table:
    """Return the rows that readers see."""
    return rows.filter(pa.array(np.asarray(whole(rows.column(OP))) != DELETE))


def _other_records(old: pa.Table, new: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which rows consist of other records than before; rows are in the same order.

    A column without a record has no root, as one whose record is the row's own: its value differs.
    """
    other = np.zeros(old.num_rows, bool)
    for name in old.column_names:
        mine, its = whole(old.column(name)), whole(new.column(name))
        other |= valid(mine) != valid(its)
        if name == ROOT_PARTITION or name.startswith(ROOT_OF):
            other |= numbers(mine.fill_null(-1)) != numbers(its.fill_null(-1))
    return other
