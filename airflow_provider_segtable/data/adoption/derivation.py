"""Derive a table's columns, event time and time chunks from the files that it is to adopt.

1. Columns are those of all files, in the order of the first file that has each. Where types differ,
   that of most files counts: the others are copied. All may be null.
2. The event time is the only timestamp; without a timestamp, the only date.
3. The granularity is the finest one in which ``MOST`` of the files lie in one time chunk each, so
   that they can be adopted. Each finer one would split files, each coarser one would only make
   compactions larger. Weeks are left out: they lie in no month, so they could not be joined later.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidInput, TimeOutOfRange
from airflow_provider_segtable.core.time import Granularity, Layout
from airflow_provider_segtable.data.adoption.file_facts import FileFacts, TimeBounds
from airflow_provider_segtable.data.arrow_schema import storable_type

MOST = 0.9


def derived_schema(files: Iterable[FileFacts], ignored: Collection[str] = ()) -> pa.Schema:
    """Return the columns of a table of these files.

    Raises:
        InvalidInput: no file has a column.
    """
    kinds: dict[str, Counter[pa.DataType]] = {}
    for facts in files:
        for column in facts.columns:
            if column.name not in ignored:
                found = kinds.setdefault(column.name, Counter())
                found[storable_type(column.type)] += 0 if pa.types.is_null(column.type) else 1
    if not kinds:
        raise InvalidInput(
            "no Parquet file was found that can be read: check the path, or give --schema"
        )
    return pa.schema([(name, found.most_common(1)[0][0]) for name, found in kinds.items()])


def derived_time_column(schema: pa.Schema) -> str:
    """Return the event time.

    Raises:
        InvalidInput: there is none, or more than one column may be it; the message names them.
    """
    times = [each.name for each in schema if pa.types.is_timestamp(each.type)]
    dates = [each.name for each in schema if pa.types.is_date(each.type)]
    found = times or dates
    if len(found) == 1:
        return str(found[0])
    if not found:
        raise InvalidInput(
            f"no column is a timestamp or a date ({', '.join(schema.names)}): a table needs an "
            "event time; ingest the files with --cast"
        )
    raise InvalidInput(f"the event time may be any of {', '.join(found)}: choose by --time-column")


def fitting(bounds: Sequence[TimeBounds]) -> Mapping[Granularity, int]:
    """Return by granularity the number of files that lie in one time chunk."""
    return {
        each: sum(_fits(one, Layout(granularity=each)) for one in bounds) for each in Granularity
    }


def derived_granularity(bounds: Sequence[TimeBounds]) -> Granularity:
    """Return the finest granularity in which most files lie in one time chunk."""
    counts = fitting(bounds)
    chosen = (each for each in Granularity if each is not Granularity.WEEK)
    enough = (each for each in chosen if counts[each] >= MOST * len(bounds))
    return next(enough, Granularity.ALL)


def _fits(bounds: TimeBounds, layout: Layout) -> bool:
    try:
        return layout.holds(bounds.first, bounds.last) is not None
    except TimeOutOfRange:
        return False
