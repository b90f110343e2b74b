"""The stamp of an event: its number, time, commit id and author."""

from dataclasses import dataclass

from airflow_provider_segtable.core.time.interval import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Everything of an event but its action."""

    n: int
    time: Instant
    commit: str
    author: str
