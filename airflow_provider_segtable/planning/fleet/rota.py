"""A rota: each table has a moment of its own in a period, so that work is spread over it.

The moment follows from the table's name alone: it needs no memory, and is the same in every
process. A run does what became due since the last good run, so a missed run is made up for.
"""

import hashlib

from airflow_provider_segtable.core.time import DAY_US, Instant

WEEK_US = 7 * DAY_US


def due(name: str, since: Instant, now: Instant, period: int = WEEK_US) -> bool:
    """Return whether a table's moment lies after ``since``, up to ``now``."""
    moment = _hash(name) % period
    return (now - moment) // period > (since - moment) // period


def sampled(name: str, now: Instant, one_of: int, period: int = WEEK_US) -> bool:
    """Return whether a table is among those of a period that are looked at more closely.

    In ``one_of`` periods each table is so once.
    """
    round_of = (now - _hash(name) % period) // period
    return (round_of + _hash(f"{name}/sample")) % one_of == 0


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
