"""Times in text files, by one rule for all of them: ISO 8601, with a zone or in UTC.

A file may mix times with and without zone, and texts are read the same whatever the first rows look
like. So inference by Arrow, which differs by format and content, never decides a column's type.
"""

import pyarrow as pa
import pyarrow.compute as pc

TIME = pa.timestamp("us", "UTC")
"""The type of columns that hold times, as inferred from a text file."""
_ISO = r"^\d{4}-\d\d-\d\d[T ]\d\d(:?\d\d(:?\d\d(\.\d{1,9})?)?)?\s*(Z|[+-]\d\d(:?\d\d)?)?$"
_ZONED = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"


def are_times(texts: pa.ChunkedArray) -> bool:
    """Return whether there are values, and all of them are times, not only dates."""
    like: pa.ChunkedArray = pc.match_substring_regex(texts, _ISO)
    return len(texts) > texts.null_count and pc.all(like).as_py() is True


def parsed_times(texts: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    """Return texts as times in UTC; as times without zone if none of them has a zone.

    Args:
        texts: ISO 8601; without a zone they are UTC.
        unit: the unit wanted. Finer times are kept, for the table's own check to judge.

    Raises:
        pyarrow.ArrowInvalid: a text is not a time; the message shows it.
    """
    zoned: pa.ChunkedArray = pc.match_substring_regex(texts, _ZONED)
    nothing = pa.scalar(None, texts.type)
    with_zone = _cast(pc.if_else(zoned, texts, nothing), unit, "UTC")
    without = _cast(pc.if_else(zoned, nothing, texts), unit, None)
    if not pc.any(zoned).as_py():
        return without
    if with_zone.type.unit != without.type.unit:
        with_zone, without = (_cast(each, "ns", each.type.tz) for each in (with_zone, without))
    return pc.coalesce(with_zone, without.cast(with_zone.type))


def _cast(texts: pa.ChunkedArray, unit: str, zone: str | None) -> pa.ChunkedArray:
    try:
        return texts.cast(pa.timestamp(unit, zone))
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("ns", zone))
