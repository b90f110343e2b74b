"""Segment descriptors and table definitions in the footers of data files.

1. The footer's key-value metadata has a ``segtable`` entry: the segment's descriptor as JSON.
   Readers check its ``format`` first. If the log is lost, the table can be rebuilt from it.
2. The entry omits properties of the file itself: path, size, number of row groups and checksum.
3. A file is accepted as a segment's only if this entry names that segment.
4. A second entry, ``segtable.table``, is the table's definition and the version of its first
   appends. Compaction copies it from an input; files of older writers have none.
"""

import json
from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_segtable.core.errors import CorruptTable, InvalidInput, UnsupportedFormat
from airflow_provider_segtable.core.log.events import TableCreated
from airflow_provider_segtable.core.log.families.table_events import decode_table, encode_table
from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.segment_codec import decode_segment, encode_segment
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.parquet.checksums.file_checksums import footer_checksum
from airflow_provider_segtable.data.parquet.metadata.footer import Footer, read_footer
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
        path: the file's path, relative to the table's root.
        size: the file's size, in bytes.
        row_groups: the file's number of row groups.

    Raises:
        UnsupportedFormat: written by a newer segtable.
        CorruptTable: it is not a descriptor.
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
    except (ValueError, KeyError, TypeError, IndexError, InvalidInput) as error:
        raise CorruptTable(f"{path}: the footer's descriptor is broken ({error!r})") from None


def read_descriptor(files: DataFiles, path: str) -> Segment:
    """Load the descriptor from a data file.

    Raises:
        NotFound: there is no such file.
        CorruptTable: it is not a Parquet file, or has no descriptor.
        UnsupportedFormat: written by a newer segtable.
    """
    with files.open(path) as source:
        footer = read_footer(source)
        if KEY not in footer.metadata:
            raise CorruptTable(f"{path} carries no segtable descriptor: it is not a segment's file")
        return described(source, footer)


def described(source: Source, footer: Footer) -> Segment:
    """Return the segment that a footer describes, with the file's own path, size and checksum.

    Raises:
        CorruptTable: the footer has no descriptor, or a broken one.
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
    """Return the footer entry that defines a file's table."""
    body = {"format": FORMAT, "base_version": base_version, **encode_table(table)}
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def decode_definition(data: bytes, where: str) -> tuple[TableCreated, Instant]:
    """Parse the output of ``encode_definition``: the table, and its base version.

    Raises:
        UnsupportedFormat: written by a newer segtable.
        CorruptTable: it is not a definition.
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


def file_definition(metadata: Mapping[bytes, bytes]) -> TableCreated | None:
    """Return the table's definition in a file's key-value metadata; None if it has none."""
    data = metadata.get(TABLE_KEY)
    return decode_definition(data, "a footer")[0] if data else None


def file_schema(metadata: Mapping[bytes, bytes]) -> Schema:
    """Return the table's schema in a file's key-value metadata; an empty one if it has none."""
    table = file_definition(metadata)
    return table.schema if table else Schema(())


def definition_entry(data: bytes | None) -> dict[bytes, bytes]:
    """Return the key-value metadata for a definition; empty without one."""
    return {TABLE_KEY: data} if data else {}


def read_definition(files: DataFiles, path: str) -> bytes:
    """Load the raw definition from a data file; empty if it has none.

    Raises:
        NotFound: there is no such file.
        CorruptTable: it is not a Parquet file.
    """
    with files.open(path) as source:
        return read_footer(source).metadata.get(TABLE_KEY, b"")
