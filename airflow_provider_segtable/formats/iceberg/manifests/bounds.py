"""Lower and upper bounds of columns in Iceberg's binary form of single values.

1. A bound holds for every row of its file: readers leave files out by it. Where a value cannot
   be given, or is not a number, there is no bound.
2. Texts and bytes are cut to 16 characters. An upper bound then gets its last one raised; without
   one that can be raised there is none.
3. Values that are no numbers are in no bound. Many readers count them as the greatest, so a column
   that may have some has no upper bound. Zero is -0.0 as a lower and 0.0 as an upper bound.
4. The event time's bounds are those of the file's descriptor, which are exact.
5. Bounds of a column that was widened since are brought to its present type (``widened``).
"""

import math
import struct
from decimal import Decimal
from typing import Any

from airflow_provider_segtable.core.time import DAY_US, Instant

_LENGTH = 16
_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_FORMS = {
    **dict.fromkeys(("boolean",), "<?"),
    **dict.fromkeys(("int", "date"), "<i"),
    **dict.fromkeys(("long", "time", "timestamp", "timestamptz"), "<q"),
}
_WIDER = {("long", 4): ("<i", "<q"), ("double", 4): ("<f", "<d")}


def bound(value: Any, kind: str, *, upper: bool = False) -> bytes | None:
    """Return a bound of a column of an Iceberg type; None if it has none."""
    if value is None:
        return None
    name = kind.partition("(")[0].partition("[")[0]
    match name:
        case "float" | "double":
            return _floating(value, "<f" if name == "float" else "<d", upper=upper)
        case "decimal":
            return _decimal(value, int(kind.rstrip(")").rpartition(",")[2]))
        case "string":
            cut = _text_above(value) if upper else value[:_LENGTH]
            return None if cut is None else cut.encode()
        case "binary" | "fixed":
            return _bytes_above(bytes(value)) if upper else bytes(value[:_LENGTH])
        case _:
            return struct.pack(_FORMS[name], value)


def time_bound(at: Instant, kind: str) -> bytes | None:
    """Return a bound of the event time; None if its type has none."""
    if kind.startswith("timestamp"):
        return struct.pack("<q", at)
    return struct.pack("<i", at // DAY_US) if kind == "date" else None


def widened(found: bytes, kind: str) -> bytes:
    """Return a bound in a type that its column was widened to."""
    old, new = _WIDER.get((kind, len(found)), ("", ""))
    values: tuple[float, ...] = struct.unpack(old, found) if new else ()
    return struct.pack(new, *values) if new else found


def _floating(value: float, form: str, *, upper: bool) -> bytes | None:
    if math.isnan(value):
        return None
    return struct.pack(form, value or (0.0 if upper else -0.0))


def _decimal(value: Decimal, scale: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    size = int("".join(map(str, digits)) + "0" * (int(exponent) + scale))
    unscaled = -size if sign else size
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(length, "big", signed=True)


def _text_above(text: str) -> str | None:
    if len(text) <= _LENGTH:
        return text
    kept = text[:_LENGTH].rstrip(chr(_LAST))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


def _bytes_above(text: bytes) -> bytes | None:
    if len(text) <= _LENGTH:
        return text
    kept = text[:_LENGTH].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
