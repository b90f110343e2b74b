"""Entries of Iceberg manifests: bounds, partitions, and files of deleted positions.

Entries:

1. An entry of a data file has its bounds by column, in the columns' present types, and the number
   of nulls. The time column always has bounds: those of the file's descriptor, which are exact.
2. A file of deleted positions is of one data file, which both bounds of its paths and its reference
   name in full: readers of other files do not open it. Each of its rows has the data file's URI and
   a hidden row's position, in order, as Iceberg wants it.
3. A position hides a row if the data file's sequence number is not above the delete's.
4. Entries are added; then they are existing ones, with the numbers of their addition; then deleted,
   in the first version without their files. The version after that leaves them out.

Lower and upper bounds of columns, in Iceberg's binary form of single values:

5. A bound holds for every row of its file: readers leave files out by it. Where a value cannot
   be given, or is not a number, there is no bound.
6. Texts and bytes are cut to 16 characters. In an upper bound the last one is then raised; if none
   can be raised, there is no bound.
7. NaN is in no bound. Many readers count it as the greatest value, so a column that may have one
   has no upper bound. Zero is -0.0 as a lower and 0.0 as an upper bound.
8. Bounds of a column that was widened since are brought to its present type (``widened``).

Partitions: the time chunk that a file lies in, as Iceberg's partition specs know it:

9. A table by the hour, day, month or year has a *spec* with that transform of the event time, if
   its type has one. A file belongs to it if all its rows lie in one of these chunks.
10. All other files are not partitioned: of tables by the week or of one chunk, and files that span
    several chunks of the table's granularity, where it was changed to a coarser one.
11. A file of deleted positions belongs to the partition of its data file: in another one it hides
    no row.
12. Readers leave out whole manifests by the partitions that are in them.
"""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.predicate import text_above
from airflow_provider_segtable.core.schema import HIDDEN
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, Granularity, Instant, moment
from airflow_provider_segtable.data.parquet.table_file import identified
from airflow_provider_segtable.formats.format import NewFile

_LENGTH = 16
_FORMS = {
    **dict.fromkeys(("boolean",), "<?"),
    **dict.fromkeys(("int", "date"), "<i"),
    **dict.fromkeys(("long", "time", "timestamp", "timestamptz"), "<q"),
}
_WIDER = {("long", 4): ("<i", "<q"), ("double", 4): ("<f", "<d")}


# Bounds of columns
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
            cut = text_above(value, _LENGTH) if upper else value[:_LENGTH]
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


def _bytes_above(text: bytes) -> bytes | None:
    if len(text) <= _LENGTH:
        return text
    kept = text[:_LENGTH].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


Json = dict[str, Any]
FIELD_ID = 1000
_EPOCH = 1970
_MONTHS = 12


# Partition specs
@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A partition spec: by time, or of files that are not partitioned (``transform`` is empty).

    Attributes:
        source: the id of the event time.
        transform: ``hour``, ``day``, ``month`` or ``year``.
    """

    source: int = 0
    transform: str = ""

    @property
    def number(self) -> int:
        """Return its id."""
        return 1 if self.transform else 0

    @property
    def field(self) -> str:
        """Return the name of its field, which no column can have."""
        return f"{HIDDEN}{self.transform}"

    @property
    def fields(self) -> list[Json]:
        """Return its fields as Iceberg's JSON."""
        if not self.transform:
            return []
        names = {"name": self.field, "transform": self.transform}
        return [{"source-id": self.source, "field-id": FIELD_ID, **names}]

    @property
    def avro(self) -> list[Json]:
        """Return its fields as Avro's JSON."""
        day = {"type": "int", "logicalType": "date"}
        kind = day if self.transform == "day" else "int"
        field = {"name": self.field, "field-id": FIELD_ID, "type": ["null", kind], "default": None}
        return [field] if self.transform else []

    def partition(self, segment: Segment) -> Mapping[str, int]:
        """Return the partition of a file; empty if it is not partitioned."""
        if not self.transform:
            return {}
        first, last = (_value(self.transform, at) for at in (segment.time_min, segment.time_max))
        return {self.field: first} if first == last else {}


PLAIN = Spec()


def spec_of(table: TableDefinition, kinds: Mapping[int, str], time_id: int) -> Spec:
    """Return the spec of a table; ``PLAIN`` if Iceberg has no transform for its chunks.

    Args:
        table: the table.
        kinds: the types of its columns, by id.
        time_id: the id of the event time.
    """
    kind = kinds.get(time_id, "")
    least = {"date": 1, "timestamp": 0, "timestamptz": 0}.get(kind, len(_TRANSFORMS))
    names = _TRANSFORMS[least:]
    known = table.granularity in names
    return Spec(source=time_id, transform=table.granularity.value) if known else PLAIN


def summary(spec: Spec, partitions: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return the record of a manifest's partitions in lists: the least and the greatest."""
    if not spec.transform:
        return []
    values = [each[spec.field] for each in partitions]
    low, high = (struct.pack("<i", value) for value in (min(values), max(values)))
    return [{"contains_null": False, "contains_nan": None, "lower_bound": low, "upper_bound": high}]


def decoded(partition: Mapping[str, Any]) -> dict[str, int]:
    """Return a partition from Avro's reader, with days as numbers."""
    epoch = date(_EPOCH, 1, 1)
    return {
        name: (value - epoch).days if isinstance(value, date) else value
        for name, value in partition.items()
    }


_TRANSFORMS = (Granularity.HOUR, Granularity.DAY, Granularity.MONTH, Granularity.YEAR)


def _value(transform: str, at: Instant) -> int:
    if transform in {"hour", "day"}:
        return at // (HOUR_US if transform == "hour" else DAY_US)
    when = moment(at)
    years = when.year - _EPOCH
    return years if transform == "year" else _MONTHS * years + when.month - 1


EXISTING, ADDED, DELETED = 0, 1, 2
DATA, DELETES = 0, 1
PATH_ID, POSITION_ID = 2_147_483_546, 2_147_483_545
"""The ids of the columns of a file of deleted positions."""


# Entries of data files and of deleted positions
@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """The stamp on the entries of a version: its snapshot's id, and its sequence number."""

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
        stamp: the stamp of the version that adds it.
    """
    segment, stats = new.shown.segment, new.stats
    known = {number: stats.columns[number] for number in kinds if number in stats.columns}
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
        column_sizes=_pairs({n: each.size for n, each in stats.columns.items()}),
        value_counts=_pairs({n: segment.rows for n, f in known.items() if f.nulls is not None}),
        null_value_counts=_pairs({number: each.nulls for number, each in known.items()}),
        lower_bounds=_pairs({**lows, time_id: times[0]}),
        upper_bounds=_pairs({**highs, time_id: times[1]}),
        split_offsets=list(stats.split_offsets) or None,
    )


def deletes_entry(uri: str, data_uri: str, span: range, rows: int, size: int, stamp: Stamp) -> Json:
    """Return the entry of a file of deleted positions.

    Args:
        uri: its URI.
        data_uri: the URI of its data file.
        span: from its first position to its last one, which is included.
        rows: the number of positions.
        size: its size in bytes.
        stamp: the stamp of the version that adds it.
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
    """Return an entry of an existing file; with ``kinds`` its bounds are brought to these types."""
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
    """Return an entry in the version that deletes its file."""
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
    """Return the URI of an entry's data file, or of the data file of its deletes."""
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


_SCHEMA = pa.schema(
    [
        identified(pa.field("file_path", pa.string(), nullable=False), PATH_ID),
        identified(pa.field("pos", pa.int64(), nullable=False), POSITION_ID),
    ]
)


# Files of deleted positions
def encode_positions(uri: str, hidden: BitMap) -> bytes:
    """Return the bytes of the file that hides rows of the data file at ``uri``."""
    positions = np.asarray(hidden.to_array(), dtype=np.int64)
    path = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int8), [uri])
    rows = pa.table([path.cast(pa.string()), positions], schema=_SCHEMA)
    out = BytesIO()
    pq.write_table(rows, out, compression="zstd", store_schema=False, write_page_checksum=True)
    return out.getvalue()


def decode_positions(data: bytes, uri: str) -> BitMap:
    """Return the positions that a file hides in the data file at ``uri``.

    Raises:
        ValueError, ArrowException, OSError, KeyError: it is broken, or is of another data file.
    """
    rows = pq.read_table(BytesIO(data), page_checksum_verification=True, pre_buffer=False)
    others = {*rows.column("file_path").unique().to_pylist()} - {uri}
    if others:
        raise ValueError(f"it is of {min(map(str, others))}, too")
    return BitMap(rows.column("pos").to_pylist())
