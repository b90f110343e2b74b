"""Just enough Thrift (compact protocol) to edit Parquet footers without rebuilding them.

1. A struct is never turned into objects. ``scan`` walks its bytes once and records the spans of the
   wanted numbers; ``patched`` copies the bytes with other numbers in those spans. So all other
   fields survive, byte for byte.
2. A shape gives an action for each field: ``SKIP``, ``FORBID``, a mark (record the number under
   this name) or another shape (a struct). A field that the shape does not name raises
   ``UnknownField``: it might be an offset.
3. Broken input raises ``BrokenThrift``, never anything else.

Numbers are zigzag varints; lists and structs delimit themselves, so equal bytes at the same
offset mean equal values, and a known prefix can be skipped in one comparison.

Source: Apache Thrift, ``doc/specs/thrift-compact-protocol.md``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

SKIP: Final = None
FORBID: Final = 0

Shape: TypeAlias = Mapping[int, Any]
"""Field id to SKIP, FORBID, a mark (str) or a Shape."""

Span: TypeAlias = tuple[int, int, int]
"""A number's start, end and value."""

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
_MAX_DEPTH = 32


class BrokenThrift(ValueError):
    """The bytes are not a Thrift struct."""


class UnknownField(ValueError):
    """A field that is unknown to this reader, or forbidden."""


def varint(value: int) -> bytes:
    """Encode an unsigned number."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(value: int) -> bytes:
    """Encode a signed number (zigzag)."""
    return varint(value << 1 if value >= 0 else ~(value << 1))


def binary(value: bytes) -> bytes:
    """Encode bytes."""
    return varint(len(value)) + value


def list_header(size: int, kind: int) -> bytes:
    """Encode the head of a list of ``size`` elements."""
    return bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + varint(size)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned number and its end."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise BrokenThrift(f"number at {at} is too long")


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a signed number and its end."""
    raw, at = read_varint(data, at)
    return raw >> 1 ^ -(raw & 1), at


def read_binary(data: bytes, at: int) -> tuple[bytes, int]:
    """Return bytes and their end."""
    size, at = read_varint(data, at)
    if at + size > len(data):
        raise BrokenThrift(f"string at {at} passes the end")
    return data[at : at + size], at + size


def read_list(data: bytes, at: int) -> tuple[int, int, int]:
    """Return a list's size, the kind of its elements and their start."""
    head = data[at]
    size = head >> 4
    if size < 15:
        return size, head & 15, at + 1
    size, at = read_varint(data, at + 1)
    if size > len(data):
        raise BrokenThrift(f"list of {size} elements is longer than its file")
    return size, head & 15, at


def read_field(data: bytes, at: int, last: int) -> tuple[int, int, int]:
    """Return a field's id, its kind and its value's start; kind 0 is the end of the struct."""
    head = data[at]
    if head > 15:
        return last + (head >> 4), head & 15, at + 1
    if head == 0:
        return 0, 0, at + 1
    field, at = read_number(data, at + 1)
    return field, head & 15, at


def skip(data: bytes, at: int, kind: int, depth: int = 0) -> int:
    """Return the end of a value of ``kind``."""
    if I16 <= kind <= I64:
        while data[at] > 0x7F:
            at += 1
        return at + 1
    if kind == BINARY:
        if data[at] <= 0x7F:
            return at + 1 + data[at]
        size, at = read_varint(data, at)
        return at + size
    if kind <= FALSE:
        return at
    if kind == STRUCT:
        return _skip_struct(data, at, depth + 1)
    if kind in (LIST, SET):
        size, inner, at = read_list(data, at)
        if inner <= BYTE:
            return at + size
        for _ in range(size):
            at = skip(data, at, inner, depth + 1)
        return at
    return _skip_rare(data, at, kind, depth)


def _skip_struct(data: bytes, at: int, depth: int) -> int:
    if depth > _MAX_DEPTH:
        raise BrokenThrift(f"structs at {at} are nested too deeply")
    head = data[at]
    while head:
        at += 1
        if head <= 15:
            _, at = read_varint(data, at)
        if I16 <= (kind := head & 15) <= I64:  # the usual case, without a call
            while data[at] > 0x7F:
                at += 1
            at += 1
        else:
            at = skip(data, at, kind, depth)
        head = data[at]
    return at + 1


def _skip_rare(data: bytes, at: int, kind: int, depth: int) -> int:
    fixed = {BYTE: 1, DOUBLE: 8, UUID: 16}
    if kind in fixed:
        return at + fixed[kind]
    if kind != MAP:
        raise BrokenThrift(f"unknown kind {kind} at {at}")
    size, at = read_varint(data, at)
    if not size:
        return at
    kinds = data[at] >> 4, data[at] & 15
    at += 1
    for _ in range(size):
        for inner in kinds:
            at = at + 1 if inner <= BYTE else skip(data, at, inner, depth + 1)
    return at


def scan(data: bytes, at: int, shape: Shape, found: dict[str, Span], field: int = 0) -> int:
    """Record the marked numbers of a struct.

    Args:
        data: the bytes.
        at: the start of the struct.
        shape: the fields to look for.
        found: filled with mark to span; the last one wins.
        field: the id of the field before ``at``, if the first fields were read already.

    Returns:
        The end of the struct.
    """
    while True:
        head = data[at]
        if head == 0:
            return at + 1
        if head > 15:
            field += head >> 4
            at += 1
        else:
            field, at = read_number(data, at + 1)
        want = shape.get(field, FORBID)
        if isinstance(want, str):
            start = at
            raw = data[at]
            at += 1
            if raw > 0x7F:
                raw, at = read_varint(data, start)
            found[want] = (start, at, raw >> 1 ^ -(raw & 1))
        elif want is SKIP:
            at = skip(data, at, head & 15)
        elif want is FORBID:
            known = "supported" if field in shape else "known"
            raise UnknownField(f"field {field} is not {known}")
        else:
            at = scan(data, at, want, found)


def patched(data: bytes, start: int, end: int, edits: Iterable[tuple[Span, int]]) -> bytes:
    """Copy ``data[start:end]`` with other numbers in place of the spans, in order."""
    parts: list[bytes] = []
    for span, value in edits:
        parts += (data[start : span[0]], number(value))
        start = span[1]
    parts.append(data[start:end])
    return b"".join(parts)
