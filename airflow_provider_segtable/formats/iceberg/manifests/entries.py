"""Entries of manifests: data files with their statistics, and files of deleted positions.

1. An entry of a data file has its bounds by column, in the columns' present types, and the number
   of nulls. The time column always has bounds: those of the file's descriptor.
2. A file of deleted positions is of one data file, which both bounds of its paths and its reference
   name in full: readers of other files do not open it.
3. A position hides a row if the data file's sequence number is not above the delete's.
4. Entries are added, carried on as existing with the numbers they were added with, or deleted in
   the version that no longer has them; the version after that leaves them out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.formats.format import NewFile
from airflow_provider_segtable.formats.iceberg.manifests.bounds import bound, time_bound, widened
from airflow_provider_segtable.formats.iceberg.manifests.partition import Spec

Json = dict[str, Any]
EXISTING, ADDED, DELETED = 0, 1, 2
DATA, DELETES = 0, 1
PATH_ID, POSITION_ID = 2_147_483_546, 2_147_483_545
"""The ids of the columns of a file of deleted positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What marks the entries of a version: its snapshot's id, and its sequence number."""

    snapshot: int
    sequence: int


def data_entry(
    new: NewFile, uri: str, kinds: Mapping[int, str], spec: Spec, time_id: int, stamp: Stamp
) -> Json:
    """Return the entry of a data file.

    Args:
        new: the file.
        uri: its URI.
        kinds: the types of the table's columns, by id; those without fields within them.
        spec: the table's partition spec.
        time_id: the id of the event time.
        stamp: of the version that adds it.
    """
    segment, facts = new.shown.segment, new.facts
    known = {number: facts.columns[number] for number in kinds if number in facts.columns}
    lows = {number: bound(each.low, kinds[number]) for number, each in known.items()}
    highs = {
        number: bound(each.high, kinds[number], upper=True)
        for number, each in known.items()
        if not each.nan
    }
    times = _times(segment, kinds.get(time_id, ""))
    return _entry(
        stamp,
        content=DATA,
        partition={**spec.partition(segment)},
        file_path=uri,
        record_count=segment.rows,
        file_size_in_bytes=segment.size,
        column_sizes=_pairs({n: each.size for n, each in facts.columns.items()}),
        value_counts=_pairs({n: segment.rows for n, f in known.items() if f.nulls is not None}),
        null_value_counts=_pairs({number: each.nulls for number, each in known.items()}),
        lower_bounds=_pairs({**lows, time_id: times[0]}),
        upper_bounds=_pairs({**highs, time_id: times[1]}),
        split_offsets=list(facts.split_offsets) or None,
    )


def deletes_entry(uri: str, data_uri: str, span: range, rows: int, size: int, stamp: Stamp) -> Json:
    """Return the entry of a file of deleted positions.

    Args:
        uri: its URI.
        data_uri: that of its data file.
        span: from its first position to its last one, which is included.
        rows: the number of positions.
        size: its bytes.
        stamp: of the version that adds it.
    """
    path = data_uri.encode()
    first, last = (at.to_bytes(8, "little") for at in (span.start, span.stop))
    return _entry(
        stamp,
        content=DELETES,
        file_path=uri,
        record_count=rows,
        file_size_in_bytes=size,
        lower_bounds=_pairs({PATH_ID: path, POSITION_ID: first}),
        upper_bounds=_pairs({PATH_ID: path, POSITION_ID: last}),
        referenced_data_file=data_uri,
    )


def existing(entry: Json, kinds: Mapping[int, str] | None = None) -> Json:
    """Return an entry carried on; with ``kinds`` its bounds are brought to these types."""
    if kinds is None:
        return {**entry, "status": EXISTING}
    file = dict(entry["data_file"])
    for name in ("lower_bounds", "upper_bounds"):
        file[name] = [
            {**pair, "value": widened(pair["value"], kinds.get(pair["key"], ""))}
            for pair in file[name] or ()
        ]
    return {**entry, "status": EXISTING, "data_file": file}


def deleted(entry: Json, stamp: Stamp) -> Json:
    """Return an entry as the version has it that deletes its file."""
    return {**entry, "status": DELETED, "snapshot_id": stamp.snapshot}


def live(entries: Iterable[Json]) -> list[Json]:
    """Return the entries of files that a version has."""
    return [entry for entry in entries if entry["status"] != DELETED]


def within(entry: Json, partition: Json | None) -> Json:
    """Return an entry in another partition, if one is given."""
    if partition is None:
        return entry
    return {**entry, "data_file": {**entry["data_file"], "partition": partition}}


def uri_of(entry: Json) -> str:
    """Return the URI of the data file of an entry, or that which its deletes are of."""
    file = entry["data_file"]
    return str(file.get("referenced_data_file") or file["file_path"])


def earliest(entry: Json, time_id: int) -> int:
    """Return the lower bound of an entry's event time; 0 if it has none."""
    pairs: Sequence[Json] = entry["data_file"]["lower_bounds"] or ()
    found = (pair["value"] for pair in pairs if pair["key"] == time_id)
    return int.from_bytes(next(found, b""), "little", signed=True)


def _times(segment: Segment, kind: str) -> tuple[bytes | None, bytes | None]:
    return time_bound(segment.time_min, kind), time_bound(segment.time_max, kind)


def _entry(stamp: Stamp, **file: Any) -> Json:
    nothing = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
    unused = ("key_metadata", "split_offsets", "equality_ids", "sort_order_id")
    return {
        "status": ADDED,
        "snapshot_id": stamp.snapshot,
        "sequence_number": stamp.sequence,
        "file_sequence_number": stamp.sequence,
        "data_file": {
            **dict.fromkeys((*nothing, *unused, "referenced_data_file")),
            "file_format": "PARQUET",
            "partition": {},
            **file,
        },
    }


def _pairs(values: Mapping[int, Any]) -> list[Json]:
    return [{"key": key, "value": value} for key, value in values.items() if value is not None]
