"""Event times and time chunks as Spark expressions, independent of the session's time zone.

1. An event time is a timestamp with or without zone (without means UTC) or a date (its midnight);
   its instant is a bigint of microseconds since the epoch.
2. Times outside the years a table can hold give a null instant, which never wraps into a
   plausible one.
3. ``chunk_key`` separates chunks exactly as ``Layout.chunk`` does.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql import types as T  # noqa: N812  # the same

from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.core.time import (
    DAY_US,
    HOUR_US,
    MAX_INSTANT,
    MIN_INSTANT,
    Granularity,
    Interval,
    Layout,
    moment,
)

_FIRST_DAY, _END_DAY = MIN_INSTANT // DAY_US, MAX_INSTANT // DAY_US
_MONDAY_US = 4 * DAY_US  # 1970-01-05
_WIDTHS = {
    Granularity.HOUR: (HOUR_US, 0),
    Granularity.DAY: (DAY_US, 0),
    Granularity.WEEK: (7 * DAY_US, _MONDAY_US),
}
_CALENDAR = {Granularity.MONTH: "MONTH", Granularity.YEAR: "YEAR"}


def column(df: DataFrame, name: str) -> Column:
    """Return a column by its literal name, dots and backticks included."""
    return df["`" + name.replace("`", "``") + "`"]


def instant(df: DataFrame, name: str) -> Column:
    """Return a column's instants; null where the time is null or out of range.

    Raises:
        SchemaMismatch: if the column is not a time.
    """
    at, kind = column(df, name), df.schema[name].dataType
    if isinstance(kind, T.TimestampType):
        micros = F.unix_micros(at)
        return F.when((micros >= MIN_INSTANT) & (micros < MAX_INSTANT), micros)
    if not isinstance(kind, T.TimestampNTZType | T.DateType):
        raise SchemaMismatch(
            f"time column {name!r} has type {kind.simpleString()}: cast it to a timestamp"
        )
    day = F.unix_date(at.cast("date"))
    micros = day.cast("bigint") * DAY_US
    if isinstance(kind, T.TimestampNTZType):
        seconds = F.extract(F.lit("SECOND"), at) * F.lit(1_000_000)
        minutes = F.hour(at).cast("bigint") * 60 + F.minute(at)
        micros = micros + minutes * 60_000_000 + seconds.cast("bigint")
    return F.when((day >= _FIRST_DAY) & (day < _END_DAY), micros)


def chunk_key(at: Column, layout: Layout) -> Column:
    """Return a number for the chunk of an instant, equal for equal chunks; null of null.

    It is the chunk's start, plus a distinct number for each granularity of an override: a chunk
    outside an override may have the same start as one inside.
    """
    cuts = {override.granularity for override in layout.overrides}
    starts = {cut: _start(at, cut) + F.lit(1 + n) for n, cut in enumerate(sorted(cuts))}
    key = _start(at, layout.granularity)
    for override in layout.overrides:
        inside = (at >= override.interval.start) & (at < override.interval.end)
        key = F.when(inside, starts[override.granularity]).otherwise(key)
    return key


def buckets_at(at: Column, layout: Layout) -> Column:
    """Return the number of buckets of an instant's chunk."""
    count = F.lit(layout.buckets)
    for override in layout.overrides:
        inside = (at >= override.interval.start) & (at < override.interval.end)
        count = F.when(inside, F.lit(override.buckets or layout.buckets)).otherwise(count)
    return count


def _start(at: Column, granularity: Granularity) -> Column:
    if granularity in _WIDTHS:
        width, origin = _WIDTHS[granularity]
        return at - F.pmod(at - F.lit(origin), F.lit(width))
    if granularity in _CALENDAR:
        days = F.call_function("div", at - F.pmod(at, F.lit(DAY_US)), F.lit(DAY_US))
        first = F.trunc(F.date_from_unix_date(days.cast("int")), _CALENDAR[granularity])
        return F.unix_date(first).cast("bigint") * DAY_US
    return F.when(at.isNotNull(), F.lit(MIN_INSTANT))


def within(df: DataFrame, name: str, interval: Interval) -> Column:
    """Return the condition that a column's event time lies in ``interval``.

    It compares the column itself, so that Parquet's statistics apply.
    """
    at, kind = column(df, name), df.schema[name].dataType
    start, end = (_literal(t, kind) for t in (interval.start, interval.end))
    return (at >= start) & (at < end)


def _literal(at: int, kind: T.DataType) -> Column:
    if isinstance(kind, T.TimestampType):
        return F.timestamp_micros(F.lit(at))
    if isinstance(kind, T.DateType):
        return F.date_from_unix_date(F.lit(-(-at // DAY_US)))
    text = moment(at).replace(tzinfo=None).isoformat(" ")
    return F.expr(f"TIMESTAMP_NTZ '{text}'")
