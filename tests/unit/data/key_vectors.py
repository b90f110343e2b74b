"""Test vectors of the hash of primary keys; ``docs/FORMAT.md`` has the same."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

NIGHT = datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC)
VECTORS: list[tuple[pa.DataType, list[Any], list[int]]] = [
    (pa.int8(), [0, 1, -128], [933211791, -559580957, 1110053733]),
    (pa.int16(), [0, 1, -32768], [933211791, -559580957, -1871935946]),
    (pa.int32(), [0, 1, -1, 2**31 - 1], [933211791, -559580957, -1604776387, 133916647]),
    (pa.int64(), [0, 1, -1, 2**40], [-1670924195, -1712319331, -939490007, -1596767687]),
    (pa.bool_(), [False, True], [933211791, -559580957]),
    (
        pa.date32(),
        [date(1970, 1, 1), date(2026, 1, 31), date(1969, 12, 31)],
        [933211791, 1665206248, -1604776387],
    ),
    (
        pa.timestamp("us", "UTC"),
        [datetime(1970, 1, 1, tzinfo=UTC), NIGHT],
        [-1670924195, -1830100882],
    ),
    (pa.timestamp("ms", "UTC"), [datetime(2026, 1, 31, tzinfo=UTC)], [-1326974598]),
    (
        pa.decimal128(10, 2),
        [Decimal("0.00"), Decimal("14.20"), Decimal("-0.01")],
        [-1670924195, -2047835571, -939490007],
    ),
    (
        pa.decimal128(38, 2),
        [Decimal("0.00"), Decimal("1.27"), Decimal("1.28"), Decimal("-1.28"), Decimal("-1.29")],
        [-783713497, 1185089389, -544401882, 775851899, -771458971],
    ),
    (pa.decimal128(19, 0), [Decimal(10**18), Decimal(-(10**18))], [981769809, -181059451]),
    (
        pa.string(),
        ["", "a", "abc", "abcd", "Spark", "Lüdenscheid", "漢字"],
        [142593372, 1485273170, 1322437556, -396302900, 228093765, -542312173, 174112765],
    ),
    (
        pa.binary(),
        [b"", b"\x00", b"\xff\x80\x7f", b"\x00\x01\x02\x03\xfe"],
        [142593372, -783713497, -555039606, 2099220073],
    ),
]
"""Types, values, hashes."""
