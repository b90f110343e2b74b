"""What a data file says about itself, in its footer.

1. The footer's key-value metadata has a ``segtable`` entry: the segment's descriptor as JSON,
   with ``format`` first of all checked. A table whose log was lost can be rebuilt from it.
2. Left out is what the file itself shows: path, size, number of row groups and its checksum.
3. A file is taken for a segment only if this entry names that segment.
4. A second entry, ``segtable.table``, is the table's definition and the version that its first
   appends had. Compaction copies it from an input; files of older writers have none.
"""

import json
from dataclasses import replace

from airflow_provider_segtable.core.errors import CorruptTable, UnsupportedFormat
from airflow_provider_segtable.core.log.codec import decode_table, encode_table
from airflow_provider_segtable.core.log.events import TableCreated
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId
from airflow_provider_segtable.core.segments.segment_codec import decode_segment, encode_segment
from airflow_provider_segtable.core.time.interval import Instant
from airflow_provider_segtable.data.parquet.file_checksums import footer_checksum
from airflow_provider_segtable.data.parquet.footer import Footer, read_footer
from airflow_provider_segtable.ports.files import DataFiles, Source

KEY = b"segtable"
TABLE_KEY = b"segtable.table"
FORMAT = 1
_TOLD_BY_THE_FILE = ("path", "size", "row_groups", "footer")


def segment_path(segment_id: SegmentId, token: str) -> str:
    """Return the path of a segment's file; ``token`` makes it unguessable."""
    return f"data/{segment_id.interval.name}/{segment_id.partition:05d}-{token}.parquet"


def encode_descriptor(segment: Segment) -> bytes:
    """Return the footer entry of a segment."""
    body = {"format": FORMAT, **encode_segment(segment)}
    for name in _TOLD_BY_THE_FILE:
        body.pop(name, None)
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def decode_descriptor(data: bytes, *, path: str, size: int, row_groups: int) -> Segment:
    """Parse a footer entry.

    Args:
        data: the entry's value.
        path: of the file, relative to the table's root.
        size: of the file, in bytes.
        row_groups: how many the file has.

    Raises:
        UnsupportedFormat: written by a newer segtable.
        CorruptTable: it is no descriptor.
    """
    try:
        body = json.loads(data)
        found = body["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTable(f"{path}: the footer's descriptor is broken ({error!r})") from None
    if found != FORMAT:
        raise UnsupportedFormat(
            f"{path}: descriptor has format {found!r}, this segtable reads {FORMAT}: "
            "upgrade segtable"
        )
    try:
        return decode_segment({**body, "path": path, "size": size, "row_groups": row_groups})
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CorruptTable(f"{path}: the footer's descriptor is broken ({error!r})") from None


def read_descriptor(files: DataFiles, path: str) -> Segment:
    """Load the descriptor that a data file carries.

    Raises:
        NotFound: there is no such file.
        CorruptTable: it is no Parquet file, or carries no descriptor.
        UnsupportedFormat: written by a newer segtable.
    """
    with files.open(path) as source:
        footer = read_footer(source)
        if KEY not in footer.metadata:
            raise CorruptTable(f"{path} carries no segtable descriptor: it is no segment's file")
        return described(source, footer)


def described(source: Source, footer: Footer) -> Segment:
    """Return the segment that a footer describes, with what the file itself shows.

    Raises:
        CorruptTable: the footer carries no descriptor, or it is broken.
        UnsupportedFormat: written by a newer segtable.
    """
    segment = decode_descriptor(
        footer.metadata.get(KEY, b"null"),
        path=source.path,
        size=source.size,
        row_groups=footer.group_count,
    )
    return replace(segment, footer=footer_checksum(source, footer.metadata))


def encode_definition(table: TableCreated, base_version: Instant) -> bytes:
    """Return the footer entry of the table that a file belongs to."""
    body = {"format": FORMAT, "base_version": base_version, **encode_table(table)}
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def decode_definition(data: bytes, where: str) -> tuple[TableCreated, Instant]:
    """Parse what ``encode_definition`` wrote: the table, and its base version.

    Raises:
        UnsupportedFormat: written by a newer segtable.
        CorruptTable: it is no definition.
    """
    try:
        body = json.loads(data)
        if body["format"] != FORMAT:
            raise UnsupportedFormat(
                f"{where}: the table's definition has format {body['format']!r}, this segtable "
                f"reads {FORMAT}: upgrade segtable"
            )
        return decode_table(body), int(body["base_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTable(f"{where}: the table's definition is broken ({error!r})") from None


def definition_entry(data: bytes | None) -> dict[bytes, bytes]:
    """Return the key-value metadata that hands a definition on; none if there is none."""
    return {TABLE_KEY: data} if data else {}


def read_definition(files: DataFiles, path: str) -> bytes:
    """Load the definition that a data file carries, as it stands there; empty if it has none.

    Raises:
        NotFound: there is no such file.
        CorruptTable: it is no Parquet file.
    """
    with files.open(path) as source:
        return read_footer(source).metadata.get(TABLE_KEY, b"")
