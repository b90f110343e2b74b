"""Look up rows of a primary-key table by their keys.

1. Only file groups that may have a key are read: of its bucket (``data.keyed.wanted_keys``), with
   event times in the interval, and left by the indexes of the version (``table.chosen_files``).
2. Each file group is asked for its own keys alone. In its files, which are sorted by key, the pages
   that may have one are read (``data.parquet.segment_scan``), first of the key, then of the other
   columns. Tails of files are kept between calls (``table.entry_cache``).
3. All records of a key in a file group are merged, tombstones among them, as by any read. So a row
   is exactly that of ``Table.scan``, at any version.
4. Keys are unique within a time chunk; with an index of records, in the table. So a key may have a
   row in several time chunks: all are returned.
5. Rows come in the order of the keys, those of one key by their time chunks.
6. Several file groups are read at once if many keys are asked for, or requests are round trips.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.conditions import by_predicate
from airflow_provider_segtable.data.keyed.file_groups import FileGroup, MergedRead
from airflow_provider_segtable.data.keyed.given_keys import key_rows
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.wanted_keys import WantedKeys, one_of
from airflow_provider_segtable.data.open_files import is_remote
from airflow_provider_segtable.data.row_filter import with_origin_columns
from airflow_provider_segtable.data.rows import Keys
from airflow_provider_segtable.table.chosen_files import groups_of_keys
from airflow_provider_segtable.table.scan import Scan

Missing = Literal["absent", "null"]

FEW = 4_096
"""Up to so many values one thread looks up on a local disk: few pages need Parquet's reader then,
and threads that take numbers from pages wait for each other."""
REMOTE_THREADS = 16


def get_rows(scan: Scan, keys: Any, missing: Missing) -> pa.Table:
    """Return the rows of keys, in the columns of a scan.

    Args:
        scan: a read of a version without a condition.
        keys: the keys; see ``data.keyed.given_keys``.
        missing: keys without a row are ``absent``, or have a row with ``null`` in other columns.

    Raises:
        InvalidInput: the table has no primary key, or the keys do not fit it.
    """
    rules = scan.state.table.kind.rules
    if rules is None:
        raise InvalidInput(
            f"{scan.ports.uri} has no primary key: look rows up with scan(where=...)"
        )
    if missing not in ("absent", "null"):
        raise InvalidInput(f"missing={missing!r} is not known: give 'absent' or 'null'")
    table = to_arrow(scan.state.table.schema)
    wanted = key_rows(keys, pa.schema([table.field(name) for name in rules.key]))
    names = scan.schema.names
    lookup = _Lookup(scan, rules, wanted, tuple(dict.fromkeys([*rules.key, *names])))
    found = pa.concat_tables([lookup.schema.empty_table(), *lookup.parts()])
    return _ordered(found, wanted, missing).select(names)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The rows of some keys; ``columns`` are those that are read, the key's among them."""

    scan: Scan
    rules: MergeRules
    wanted: pa.Table
    columns: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """Return the columns that are read."""
        known = with_origin_columns(to_arrow(self.scan.state.table.schema))
        return pa.schema([known.field(name) for name in self.columns])

    def parts(self) -> Iterator[pa.Table]:
        """Yield rows by file group, in the order of time chunks; rows of other keys among them."""
        keys = WantedKeys(self.rules.bucket_key, self.wanted)
        ports, state = self.scan.ports, self.scan.state
        groups = groups_of_keys(ports, state, self.rules, keys, self.scan.request.interval)
        remote = is_remote(ports.files)
        few = self.wanted.num_rows * len(self.columns) <= FEW
        if len(groups) <= 1 or (few and not remote):
            yield from map(self._read(keys), groups)
            return
        with ThreadPoolExecutor(REMOTE_THREADS if remote else os.cpu_count()) as pool:
            yield from pool.map(self._read(keys), groups)

    def _read(self, keys: WantedKeys) -> Callable[[FileGroup], pa.Table]:
        ports, table = self.scan.ports, self.scan.state.table
        checked = self.scan.request.checked
        reader = GroupReader(ports.files, table, checked=checked, views=ports.entries)
        standard, schema = self.scan.state.layout.buckets, self.schema

        def read(group: FileGroup) -> pa.Table:
            here = keys.rows_in(group.segments[0], standard)
            test = one_of(self.wanted.take(pa.array(here)), self.rules.key)
            where = None if test is None else by_predicate(test, table.time_column)
            merged = MergedRead(rules=self.rules, columns=self.columns, by_key=test)
            some = (rows.cast(schema) for rows in merged.rows(reader, group, where))
            return pa.concat_tables([schema.empty_table(), *some])

        return read


def _ordered(found: pa.Table, wanted: pa.Table, missing: Missing) -> pa.Table:
    """Return the rows of the wanted keys, in the order of these; without the rows of others."""
    key = wanted.column_names
    keys = Keys.of(wanted, key, nulls=False)
    place = np.empty(keys.count, np.int64)
    place[keys.find(wanted.combine_chunks())] = np.arange(keys.count)
    numbers = keys.find(found.combine_chunks())
    rows = np.flatnonzero(numbers >= 0)
    places = place[numbers[rows]]
    shown = found.take(pa.array(rows))
    if missing == "null":
        absent = np.setdiff1d(place, places)
        shown = _with_nulls(shown, wanted.take(pa.array(absent)))
        places = np.concatenate([places, absent])
    return shown.take(pa.array(np.argsort(places, kind="stable")))


def _with_nulls(shown: pa.Table, absent: pa.Table) -> pa.Table:
    """Return rows, then one for each absent key, with null in all other columns."""
    key = absent.column_names
    fields = [field if field.name in key else field.with_nullable(True) for field in shown.schema]
    columns = [
        absent.column(field.name) if field.name in key else pa.nulls(absent.num_rows, field.type)
        for field in fields
    ]
    schema = pa.schema(fields)
    return pa.concat_tables([shown.cast(schema), pa.table(columns, schema=schema)])
