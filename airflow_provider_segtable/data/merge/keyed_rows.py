"""Rows of a primary-key table as its files hold them.

1. A log file's rows are sorted by key and merged among themselves, where a later row is higher, so
   a file has one row a key (``partial_update``: a tombstone and an upsert).
2. Its rows have the root ``OWN``; a reader puts in the root that the commit gave to the file
   (``with_root``).
3. A tombstone keeps the key, the ordering columns and the fixed columns; an upsert lacks a group if
   its ordering column is null. All else is null, so every column is nullable in a file except the
   key and the first two hidden ones.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.counted import counted, numbered_row
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.tables.merge_rules import (
    DELETE,
    OP,
    OWN,
    ROOT_OF,
    ROOT_PARTITION,
    UPSERT,
    MergeRules,
)
from airflow_provider_segtable.data.arrow.arrow_schema import from_arrow, to_arrow
from airflow_provider_segtable.data.merge.key_groups import Flags
from airflow_provider_segtable.data.merge.merging import merged
from airflow_provider_segtable.data.merge.root_orders import Root, RootOrders


@cache
def _own() -> RootOrders:
    """Return the order of the root ``OWN`` alone."""
    own = Root(partition=OWN, instant=0, log_version=0, write_token="", completed=0)
    return RootOrders.of([own])


def file_schema(schema: pa.Schema, rules: MergeRules) -> pa.Schema:
    """Return the schema of a table's files, given its columns; fields keep their metadata."""
    shown = [field.with_nullable(field.name not in rules.key) for field in schema]
    hidden = rules.hidden(from_arrow(schema))
    return pa.schema([*shown, *to_arrow(Schema(hidden))])


def log_rows(rows: pa.Table, rules: MergeRules, deleted: Flags | None = None) -> pa.Table:
    """Return the rows of a log file.

    Args:
        rows: records in order, with the table's columns.
        rules: the table's rules.
        deleted: which of them are tombstones; none if left out.

    Raises:
        InvalidInput: a key is null.
    """
    check_keys(rows, rules.key)
    schema = file_schema(rows.schema, rules)
    flags = np.zeros(rows.num_rows, bool) if deleted is None else deleted
    given = {
        OP: pa.array(np.where(flags, DELETE, UPSERT).astype(np.int8)),
        ROOT_PARTITION: pa.array(np.full(rows.num_rows, OWN)),
    }
    columns = []
    for field in schema:
        if field.name in given:
            columns.append(given[field.name])
        elif field.name in rows.column_names:
            columns.append(rows.column(field.name))
        else:
            columns.append(pa.nulls(rows.num_rows, field.type))
    whole = pa.table(columns, schema=schema)
    return merged([_bare(whole, rules, flags)], rules, _own())


def _bare(rows: pa.Table, rules: MergeRules, deleted: Flags) -> pa.Table:
    """Return rows with null in columns that a record does not set."""
    keep = {*rules.key, rules.ordering, *(g.ordering for g in rules.groups), *rules.fixed}
    unset = dict.fromkeys(rows.column_names, pa.array(deleted))
    for group in rules.groups:
        of_group = pc.or_(unset[group.ordering], rows.column(group.ordering).is_null())
        unset.update(dict.fromkeys(group.columns, of_group))
    for at, field in enumerate(rows.schema):
        if field.name not in keep and field.nullable and pc.any(unset[field.name]).as_py():
            bare = pc.if_else(unset[field.name], pa.scalar(None, field.type), rows.column(at))
            rows = rows.set_column(at, field, bare)
    return rows


def check_keys(rows: pa.Table, key: Sequence[str]) -> None:
    """Refuse null keys.

    Raises:
        InvalidInput: with the column and the first row.
    """
    for name in key:
        column = rows.column(name)
        if column.null_count:
            first = pc.index(column.is_null(), True).as_py()
            rows_without = counted(column.null_count, "row")
            raise InvalidInput(
                f"{rows_without} without a key: column {name!r} is null, first in "
                f"{numbered_row(first)}; leave null keys out, or choose another key"
            )


def with_root(rows: pa.Table, root: int) -> pa.Table:
    """Return rows of a log file with the root that its commit gave to it."""
    for at, field in enumerate(rows.schema):
        if field.name == ROOT_PARTITION or field.name.startswith(ROOT_OF):
            column = rows.column(at)
            own = pc.equal(column, OWN)
            put = pc.if_else(own, pa.scalar(root, pa.int64()), column)
            rows = rows.set_column(at, field, put)
    return rows
