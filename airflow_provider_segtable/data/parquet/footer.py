"""Read the fields of Parquet footers needed to move row groups, and write footers.

1. A file ends with its footer (``FileMetaData``), the footer's length and ``PAR1``.
2. Only positions, lengths and row counts of row groups are read, each with its span in the
   footer's bytes, so that it can be replaced there.
3. A footer whose row groups have unknown, encrypted or external parts is readable (schema, rows,
   metadata), but ``foreign`` gives the reason why its row groups must not be moved.

Source: apache/parquet-format, ``parquet.thrift``; row groups are moved as in parquet-java's
``ParquetFileWriter.appendFile``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, UnsupportedFormat
from airflow_provider_segtable.data.parquet.thrift import (
    BINARY,
    FORBID,
    I32,
    I64,
    LIST,
    SKIP,
    STRUCT,
    BrokenThrift,
    Shape,
    Span,
    UnknownField,
    binary,
    list_header,
    number,
    read_binary,
    read_field,
    read_list,
    read_number,
    scan,
    skip,
)
from airflow_provider_segtable.ports.files import Source

# Footers of Parquet files
MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"
_TAIL = 64 << 10
_KNOWN_VERSIONS = {1, 2}
_FOOTER_FIELDS = set(range(1, 8))  # later fields: encryption

_COLUMN_META: Shape = {
    **dict.fromkeys((1, 2, 3, 4, 5, 6, 8, 12, 13, 16, 17), SKIP),
    7: "size",
    9: "data",
    10: "index",
    11: "dictionary",
    14: "bloom",
    15: "bloom_length",
}
_COLUMN: Shape = {
    1: FORBID,  # a chunk in another file
    2: "file_offset",
    3: _COLUMN_META,
    4: "offset_index",
    5: "offset_index_length",
    6: "column_index",
    7: "column_index_length",
    8: FORBID,  # encryption
    9: FORBID,
}
_GROUP: Shape = {
    2: SKIP,
    3: "rows",
    4: SKIP,
    5: "file_offset",
    6: SKIP,
    7: "ordinal",
}

FieldSpans = Mapping[str, Span]
"""The numbers read from one struct, by name: each with its start, end and value."""


@dataclass(frozen=True, slots=True)
class Group:
    """One row group: its span in the footer's bytes, and the numbers read from it."""

    start: int
    end: int
    spans: FieldSpans
    columns: tuple[FieldSpans, ...]

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.spans["rows"][2]

    @property
    def size(self) -> int:
        """Return the bytes of the group's column chunks."""
        return sum(column["size"][2] for column in self.columns)

    @property
    def extent(self) -> tuple[int, int]:
        """Return the start and end of the group's column chunks in the file."""
        starts = [chunk_start(column) for column in self.columns]
        ends = (
            start + column["size"][2] for start, column in zip(starts, self.columns, strict=True)
        )
        return min(starts), max(ends)


def chunk_start(column: FieldSpans) -> int:
    """Return the start of a column chunk: its dictionary page if it has one."""
    data = column["data"][2]
    dictionary = column["dictionary"][2] if "dictionary" in column else 0
    return dictionary if 0 < dictionary < data else data


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The footer of a Parquet file.

    ``start`` is the footer's offset in the file; ``data`` its bytes; ``schema`` and
    ``column_orders`` are raw Thrift lists; ``tail`` is the part before the footer that was read
    with it. ``foreign`` is the reason why row groups must not be moved, or empty.
    """

    path: str
    start: int
    data: bytes
    tail: bytes
    version: int = 0
    schema: bytes = b""
    rows: int = -1
    groups: tuple[Group, ...] = ()  # empty if foreign
    group_count: int = 0
    metadata: Mapping[bytes, bytes]
    created_by: bytes = b""
    column_orders: bytes = b""
    foreign: str = ""


def read_footer(source: Source, like: Footer | None = None) -> Footer:
    """Load a file's footer.

    Args:
        source: the open file; one that knows the size of its tail has that in memory.
        like: another file's footer; reading is faster if the schemas are equal.

    Raises:
        CorruptTable: the file is truncated, garbled, or not a Parquet file.
        UnsupportedFormat: the whole footer is encrypted.
    """
    size = source.size
    if size < 12:
        raise CorruptTable(
            f"{source.path} has {size} bytes: that is not a Parquet file; restore it"
        )
    near = min(size, getattr(source, "tail_size", _TAIL))
    tail = source.read_at(size - near, near)
    if tail.endswith(_ENCRYPTED_MAGIC):
        raise UnsupportedFormat(f"{source.path} is encrypted: rewrite it without encryption")
    if not tail.endswith(MAGIC):
        raise CorruptTable(f"{source.path} ends with {tail[-4:]!r}, not {MAGIC!r}: restore it")
    length = int.from_bytes(tail[-8:-4], "little")
    start = size - 8 - length
    if length < 1 or start < len(MAGIC):
        raise CorruptTable(f"{source.path}: a footer of {length} bytes does not fit: restore it")
    if length + 8 > len(tail):
        tail = source.read_at(start, length + 8)
    split = len(tail) - 8 - length
    blank = Footer(
        path=source.path, start=start, data=tail[split:-8], tail=tail[:split], metadata={}
    )
    try:
        footer = _parsed(blank, like)
    except (BrokenThrift, IndexError, KeyError, ValueError) as error:
        raise CorruptTable(f"{source.path}: the footer is garbled ({error}): restore it") from None
    return _checked(footer)


def _parsed(blank: Footer, like: Footer | None) -> Footer:
    """Return the footer parsed: first the raw fields, then their values."""
    data, at, field = blank.data, 0, 0
    known = {2: like.schema, 7: like.column_orders} if like else {}
    raw: dict[int, bytes] = {}
    footer = blank
    while True:
        field, kind, at = read_field(data, at, field)
        if not kind:
            break
        if field == 4:  # row_groups
            footer, at = _with_groups(footer, at)
            continue
        start = at
        expected = known.get(field, b"")
        seen = expected and data.startswith(expected, at)
        at = at + len(expected) if seen else skip(data, at, kind)
        raw[field] = data[start:at]
    if at != len(data):
        raise BrokenThrift(f"{len(data) - at} bytes too many")
    unknown = sorted(raw.keys() - _FOOTER_FIELDS)
    return replace(
        footer,
        version=read_number(raw[1], 0)[0],
        schema=raw[2],
        rows=read_number(raw[3], 0)[0],
        metadata=_metadata(raw[5]) if 5 in raw else {},  # key-value pairs
        created_by=read_binary(raw[6], 0)[0] if 6 in raw else b"",
        column_orders=raw.get(7, b""),
        foreign=f"footer field {unknown[0]} is not known" if unknown else footer.foreign,
    )


def _with_groups(footer: Footer, at: int) -> tuple[Footer, int]:
    data, first = footer.data, at
    count, kind, at = read_list(data, at)
    if count and kind != STRUCT:
        raise BrokenThrift("row groups are not structs")
    groups = []
    try:
        for _ in range(count):
            group, at = _group(data, at)
            groups.append(group)
    except UnknownField as error:
        foreign = f"row group {len(groups)}: {error}"
        return replace(footer, group_count=count, foreign=foreign), skip(data, first, LIST)
    return replace(footer, groups=tuple(groups), group_count=count), at


def _group(data: bytes, start: int) -> tuple[Group, int]:
    columns: list[FieldSpans] = []
    field, kind, at = read_field(data, start, 0)
    if (field, kind) != (1, LIST):
        raise UnknownField("it does not start with its columns")
    count, _, at = read_list(data, at)
    if not count:
        raise UnknownField("it has no columns")
    for _ in range(count):
        column: dict[str, Span] = {}
        at = scan(data, at, _COLUMN, column)
        if "data" not in column or "size" not in column:
            raise UnknownField("a column chunk has no metadata")
        columns.append(column)
    spans: dict[str, Span] = {}
    at = scan(data, at, _GROUP, spans, field)
    if "rows" not in spans:
        raise UnknownField("it has no row count")
    return Group(start, at, spans, tuple(columns)), at


def _metadata(data: bytes) -> dict[bytes, bytes]:
    entries: dict[bytes, bytes] = {}
    count, _, at = read_list(data, 0)
    for _ in range(count):
        field, pair = 0, [b"", b"", b""]
        while True:
            field, kind, at = read_field(data, at, field)
            if not kind:
                break
            pair[field], at = read_binary(data, at)
        entries[pair[1]] = pair[2]
    return entries


def _checked(footer: Footer) -> Footer:
    if footer.version not in _KNOWN_VERSIONS:
        footer = replace(footer, foreign=f"Parquet version {footer.version} is not known")
    if footer.foreign:
        return footer
    rows = sum(group.rows for group in footer.groups)
    if rows != footer.rows or not footer.schema:
        raise CorruptTable(
            f"{footer.path}: {rows} rows in its row groups, {footer.rows} in its footer: restore it"
        )
    for group in footer.groups:
        start, end = group.extent if group.rows else (len(MAGIC),) * 2  # empty: offsets arbitrary
        if start < len(MAGIC) or end > footer.start:
            raise CorruptTable(
                f"{footer.path}: a row group at {start}..{end} lies outside the file's "
                f"{footer.start} bytes of data: restore it"
            )
    return footer


def footer_bytes(
    like: Footer,
    *,
    version: int,
    groups: Sequence[bytes],
    rows: int,
    metadata: Iterable[tuple[bytes, bytes]],
    created_by: bytes,
) -> bytes:
    """Return a footer with its length and magic; schema and column orders as in ``like``."""
    pairs = [b"\x18" + binary(key) + b"\x18" + binary(value) + b"\0" for key, value in metadata]
    parts = [
        bytes([1 << 4 | I32]) + number(version),
        bytes([1 << 4 | LIST]) + like.schema,
        bytes([1 << 4 | I64]) + number(rows),
        bytes([1 << 4 | LIST]) + list_header(len(groups), STRUCT),
        *groups,
        bytes([1 << 4 | LIST]) + list_header(len(pairs), STRUCT),
        *pairs,
        bytes([1 << 4 | BINARY]) + binary(created_by),
        bytes([1 << 4 | LIST]) + like.column_orders if like.column_orders else b"",
        b"\0",
    ]
    body = b"".join(parts)
    return body + len(body).to_bytes(4, "little") + MAGIC
