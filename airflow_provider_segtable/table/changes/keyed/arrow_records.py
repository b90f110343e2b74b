"""The records of a change of a primary-key table, evaluated with Arrow.

The rows that match are held in memory, as are the source of a merge and the records.
"""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.change_request import (
    Delete,
    Matched,
    Merge,
    Unmatched,
    Update,
)
from airflow_provider_segtable.core.tables.keyed_kind import lost_null, unset
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Layout, iso
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.arrow.equality import Keys
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.keyed.log_files import Records
from airflow_provider_segtable.table.changes.matching import when
from airflow_provider_segtable.table.changes.merge_rows import refuse_doubles, updated
from airflow_provider_segtable.table.changes.row_engine import Recorded
from airflow_provider_segtable.table.changes.updating import assigned, new_values
from airflow_provider_segtable.table.lifetime.definition import given_schema
from airflow_provider_segtable.table.reads.snapshot import Snapshot
from airflow_provider_segtable.table.writes.incoming import check_filled
from airflow_provider_segtable.table.writes.upsert import merge_rules


def changed_records(
    snapshot: Snapshot, request: Delete | Update, wanted: Condition
) -> Recorded[Records]:
    """Return the records of a delete or an update.

    Args:
        snapshot: the version.
        request: the change.
        wanted: the condition that its rows satisfy.

    Raises:
        InvalidInput: a value is null where a null sets nothing.
        NeedsSpark: only Spark computes a value.
    """
    rows = _matching(snapshot, wanted)
    count = rows.num_rows
    if isinstance(request, Delete):
        new = _records(snapshot, deleted=rows)
        return Recorded(matched=count, deleted=count, inserted=0, new=new)
    fresh = assigned(rows, new_values(request.set, rows.schema))
    rules = _rules(snapshot)
    _refuse_lost_nulls(rows, fresh, request.set, rules)
    new = _records(snapshot, _setting(fresh, request.set, rules))
    return Recorded(matched=count, deleted=count, inserted=count, new=new)


def merged_records(snapshot: Snapshot, request: Merge, source: pa.Table) -> Recorded[Records]:
    """Return the records of a merge by key.

    Args:
        snapshot: the version.
        request: the merge.
        source: its source (``merge_rows.source_columns``).

    Raises:
        InvalidInput: several source rows would update one row, or would move it to another time
            chunk; a key to insert is null.
    """
    keys = Keys.of(source, request.keys, nulls=False)
    rows, met = _joined(snapshot, keys, source)
    count, numbers = rows.num_rows, keys.find(source)
    upserts = []
    if request.matched is Matched.UPDATE and count:
        refuse_doubles(source, numbers, met, request.keys)
        upserts.append(_updated(snapshot, request, rows, source, keys))
    if request.unmatched is Unmatched.INSERT:
        new = source.filter(pa.array(~np.append(met, False)[numbers]))  # null keys: the last
        upserts.append(new.select([n for n in source.column_names if n in snapshot.schema.names]))
    gone = rows if request.matched is Matched.DELETE else rows.slice(0, 0)
    return Recorded(
        matched=count,
        deleted=0 if request.matched is Matched.IGNORE else count,
        inserted=sum(some.num_rows for some in upserts),
        new=_records(snapshot, *upserts, deleted=gone),
    )


def _rules(snapshot: Snapshot) -> MergeRules:
    return merge_rules(snapshot.state, snapshot.ports.uri)


def _matching(snapshot: Snapshot, wanted: Condition) -> pa.Table:
    """Return the rows that satisfy a condition, with all columns."""
    return snapshot.scan(where=wanted).to_arrow()


def _joined(
    snapshot: Snapshot, keys: Keys, source: pa.Table
) -> tuple[pa.Table, "np.ndarray[tuple[int], np.dtype[np.bool_]]"]:
    """Return the rows with a source key, and a mask of the keys found.

    The mask is made of the rows, not by the condition: a read applies that to records, too, among
    them tombstones and records that another one replaces.
    """

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pa.array(keys.find(batch) >= 0))

    span = when(source.select(list(keys.columns)), snapshot.state.table.time_column)
    wanted = Condition(columns=keys.columns, keep=keep, when=span)
    rows = _matching(snapshot, wanted) if keys.count else snapshot.schema.empty_table()
    met = np.zeros(keys.count, np.bool_)
    met[keys.find(rows)] = True
    return rows, met


def _updated(
    snapshot: Snapshot, request: Merge, rows: pa.Table, source: pa.Table, keys: Keys
) -> pa.Table:
    """Return the records of matched rows with their new values."""
    rules, time = _rules(snapshot), snapshot.state.table.time_column
    fresh = updated(rows, source, keys, keys.find(source), request.set)
    if request.set is not None:
        _refuse_lost_nulls(rows, fresh, request.set, rules)
    _refuse_moves(rows, fresh, time, request.keys, snapshot.state.layout)
    given = source.column_names if request.set is None else request.set
    return _setting(fresh, [*given], rules)


def _setting(rows: pa.Table, given: Collection[str], rules: MergeRules) -> pa.Table:
    """Return rows as records that set the columns ``given``."""
    for name in unset(rules, rows.column_names, given):
        at = rows.column_names.index(name)
        field = rows.schema.field(at)
        rows = rows.set_column(at, field, pa.nulls(rows.num_rows, field.type))
    return rows


def _refuse_lost_nulls(
    rows: pa.Table, fresh: pa.Table, given: Collection[str], rules: MergeRules
) -> None:
    singles = {*rules.singles(rows.column_names)}
    for name in (name for name in given if name in singles):
        lost = pc.and_(rows.column(name).is_valid(), fresh.column(name).is_null())
        count = pc.sum(lost).as_py() or 0
        if count:
            raise InvalidInput(lost_null(name, counted(count, "row")))


def _refuse_moves(
    rows: pa.Table, fresh: pa.Table, time: str, on: Sequence[str], layout: Layout
) -> None:
    """Refuse event times in other time chunks than those of the rows."""
    old, new = (np.asarray(instants(some.column(time))) for some in (rows, fresh))
    for row in np.flatnonzero(old != new).tolist():
        if layout.chunk(int(old[row])) != layout.chunk(int(new[row])):
            key = rows.select(list(on)).slice(row, 1).to_pylist()[0]
            shown = ", ".join(f"{name} = {value!r}" for name, value in key.items())
            raise InvalidInput(
                f"the source row of {shown} has the event time {iso(int(new[row]))}, and the row "
                f"has {iso(int(old[row]))}, in another time chunk: the event time decides where a "
                "row is kept; leave it out of set, or delete the row and upsert it anew"
            )


def _records(
    snapshot: Snapshot, *upserts: pa.Table, deleted: pa.Table | None = None
) -> Records | None:
    """Return rows to upsert and to delete as records; None if there are none."""
    parts = [*_filled(snapshot, [*upserts, *([] if deleted is None else [deleted])])]
    gone = 0 if deleted is None else deleted.num_rows
    rows = pa.concat_tables(parts)
    flags = np.arange(rows.num_rows) >= rows.num_rows - gone
    return Records(rows=rows, deleted=flags) if rows.num_rows else None


def _filled(snapshot: Snapshot, parts: Sequence[pa.Table]) -> Iterator[pa.Table]:
    table = snapshot.state.table
    for part in parts:
        yield check_filled(part, given_schema(table), table.time_column)
