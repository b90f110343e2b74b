"""Judge whether the records of a log store have arrived: one verdict for all sensor modes.

1. A bucket lags by the records that have not arrived, for as long as the oldest of them waits. A
   bucket without a service has none: its records are lost, or in the table.
2. If a service does not answer, nothing is known of its buckets, and the wait goes on.
3. Limits hold for all buckets together; a limit that is not given always holds.
"""

from collections.abc import Sequence

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso


@dataclass(frozen=True, slots=True, kw_only=True)
class NotArrived:
    """The records of a bucket that have not arrived.

    Attributes:
        bucket: its number.
        records: how many records.
        since: when the oldest of them was appended, by the clock of the store's host.
        trouble: why nothing is known.
    """

    bucket: int
    records: int = 0
    since: Instant | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagLimits:
    """Most lag that ends a wait: so many records, so many seconds, nothing from before a time."""

    records: int | None = None
    seconds: float | None = None
    by: Instant | None = None

    def __str__(self) -> str:
        """Return e.g. ``at most 100 records, at most 5 s``."""
        said = []
        if self.records is not None:
            said.append(f"at most {counted(self.records, 'record')}")
        if self.seconds is not None:
            said.append(f"at most {self.seconds:g} s")
        if self.by is not None:
            said.append(f"none from before {iso(self.by)}")
        return ", ".join(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagVerdict:
    """Whether a wait is over, with a status message and the lag."""

    satisfied: bool
    message: str
    records: int
    seconds: float


def judge_log_lag(buckets: Sequence[NotArrived], limits: LagLimits, now: Instant) -> LagVerdict:
    """Judge whether the lag of all buckets is within the limits."""
    records = sum(each.records for each in buckets)
    oldest = min((each.since for each in buckets if each.since is not None), default=None)
    age_s = 0.0 if oldest is None else max(0, now - oldest) / SECOND_US
    unknown = [each for each in buckets if each.trouble]
    within = (
        (limits.records is None or records <= limits.records)
        and (limits.seconds is None or age_s <= limits.seconds)
        and (limits.by is None or oldest is None or oldest > limits.by)
    )
    found = f"{counted(records, 'record')} behind"
    if records:
        found += f", the oldest for {age_s:.1f} s"
    found += "".join(f"; bucket {each.bucket}: {each.trouble}" for each in unknown)
    return LagVerdict(
        satisfied=within and not unknown,
        message=f"{found} (wanted: {limits})",
        records=records,
        seconds=age_s,
    )
