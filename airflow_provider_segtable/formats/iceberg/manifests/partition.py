"""Partitions: the time chunk that a file lies in, as Iceberg's partition specs know it.

1. A table by the hour, day, month or year has a *spec* with that transform of the event time, if
   its type has one. A file belongs to it if all its rows lie in one of these chunks.
2. All other files are not partitioned: of tables by the week or of one chunk, and files that span
   several chunks of the table's granularity, where it was changed to a coarser one.
3. A file of deleted positions belongs to the partition of its data file: elsewhere it hides none.
4. Readers leave out whole manifests by the partitions that are in them.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.schema import HIDDEN
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, Granularity, Instant, moment

Json = dict[str, Any]
FIELD_ID = 1000
_EPOCH = 1970
_MONTHS = 12


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


def spec_of(table: TableCreated, kinds: Mapping[int, str], time_id: int) -> Spec:
    """Return the spec of a table; ``PLAIN`` if its chunks are none of Iceberg's.

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
    """Return what a list says of the partitions in a manifest: the least and the greatest."""
    if not spec.transform:
        return []
    values = [each[spec.field] for each in partitions]
    low, high = (struct.pack("<i", value) for value in (min(values), max(values)))
    return [{"contains_null": False, "contains_nan": None, "lower_bound": low, "upper_bound": high}]


def decoded(partition: Mapping[str, Any]) -> dict[str, int]:
    """Return a partition as Avro's reader has it, with days as numbers."""
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
