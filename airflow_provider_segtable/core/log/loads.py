"""Loads: the rows of a file that are appended in parts under one name, each row once.

1. A load has the name of its commit id and its file. Its parts are appends: each has the rows from
   ``start`` to before ``end`` of the file's ``total``, and follows the part before it.
2. A part begins where the log says that the last one ended, whatever sizes parts had. So a load
   that is repeated with other parts, or that failed and was corrected, goes on after its last row.
3. A part records the checksum of all rows up to its end (``data.sketches.row_checksum``). So a
   repeat knows whether its file begins with the rows that are committed.
4. A load whose parts end at its total is complete: nothing is appended under its name any more.
5. The state has the last part of each load, as long as it has the ids of commits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.errors import CommitConflict


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPart:
    """The rows from ``start`` to before ``end`` of a load of ``total`` rows.

    ``checksum`` is that of the load's rows up to ``end``.
    """

    load: str
    start: int
    end: int
    total: int
    checksum: str

    def __str__(self) -> str:
        """Return e.g. ``rows 0 to 2 of 5 of load monday/trips.csv``, or ``all of load ...``."""
        if self.start == 0 and self.complete:
            return f"all of load {self.load}"
        return f"rows {self.start:,} to {self.end:,} of {self.total:,} of load {self.load}"

    @property
    def complete(self) -> bool:
        """Return whether the load ends with this part."""
        return self.end >= self.total


@dataclass(frozen=True, slots=True)
class LastPart:
    """The last part of a load, and the event that appended it."""

    n: int
    part: LoadPart


Loads = Mapping[str, LastPart]
"""The last parts of loads, by the names of these."""


def check_part(part: LoadPart | None, loads: Loads) -> None:
    """Refuse a part that does not follow the last one of its load.

    Raises:
        CommitConflict: the message says where the load goes on.
    """
    if part is None:
        return
    known = loads.get(part.load)
    end = known.part.end if known else 0
    if part.start != end or (known and known.part.complete):
        raise CommitConflict(
            f"load {part.load} goes on after row {end}, not {part.start}: another process carries "
            "it out, too: run the same command again"
        )


def with_part(loads: Loads, part: LoadPart, n: int, keep: int) -> Loads:
    """Return the loads after event ``n``; those of the last ``keep`` events stay."""
    recent = {name: each for name, each in loads.items() if each.n > n - keep}
    recent.pop(part.load, None)
    return {**recent, part.load: LastPart(n, part)}


def encode_part(part: LoadPart) -> list[Any]:
    """Return a part as JSON."""
    return [part.load, part.start, part.end, part.total, part.checksum]


def decode_part(body: Any) -> LoadPart:
    """Parse the output of ``encode_part``."""
    load, start, end, total, checksum = body
    return LoadPart(load=load, start=start, end=end, total=total, checksum=checksum)


def encode_loads(loads: Loads) -> list[Any]:
    """Return loads as JSON."""
    return [[each.n, *encode_part(each.part)] for each in loads.values()]


def decode_loads(body: Any) -> Loads:
    """Parse the output of ``encode_loads``."""
    found = [LastPart(n, decode_part(part)) for n, *part in body]
    return {each.part.load: each for each in found}
