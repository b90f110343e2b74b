"""Compare the author's clock with an independent clock before it sets the log's time.

1. The log's time never goes back. A single event from a host that is years ahead would move it
   permanently: reads as of a time, ages and intervals between compactions would all be wrong.
2. A lease carries the coordinator's time. A commit without a lease (a delete, a tag, a cleaning,
   a plan) compares with the storage's clock: a probe is put, listed and deleted.
3. A comparison is valid for ``VALID_S`` in the whole process while wall clock and monotonic clock
   advance together. So a process sends at most three small requests every ten minutes, and none
   while it takes leases.
4. If a clock is off by more than the bound, ahead or behind, it is compared once more, then
   refused.
"""

import socket
from dataclasses import dataclass

from airflow_provider_segtable.core.errors import ClockSkew, StorageError
from airflow_provider_segtable.core.time import HOUR_US, SECOND_US, Instant, iso
from airflow_provider_segtable.ports.clock import Clock, Randomness
from airflow_provider_segtable.ports.coordination import Lease
from airflow_provider_segtable.ports.storage import Storage

MOST_SKEW_S = 60.0
SKEW_VARIABLE = "SEGTABLE_CLOCK_SKEW_S"
"""Largest accepted clock difference in seconds, 60 by default."""
VALID_S = 600.0
FOLDER = "_segtable/clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One comparison of this host's clock with another clock.

    Attributes:
        at: this host's wall clock before the request; read once, since it may be set meanwhile.
        at_s: this host's monotonic clock at the same moment.
        took_s: duration of the request, by the monotonic clock.
        theirs: the other clock's time, read within that duration.
        whose: description of the other clock.
    """

    at: Instant
    at_s: float
    took_s: float = 0.0
    theirs: Instant
    whose: str

    @property
    def ahead_us(self) -> int:
        """Return the smallest possible lead of this host's clock; negative if it is behind."""
        until = self.at + int(self.took_s * SECOND_US)
        return max(self.at - self.theirs, 0) or min(until - self.theirs, 0)


class ClockCheck:
    """Whether the clock of a process may set a log's time; shared by all tables of the process."""

    def __init__(self) -> None:
        """Start without a comparison."""
        self._passed: Reading | None = None

    def compare(self, author: str, reading: Reading, most_s: float) -> None:
        """Keep a reading if the clocks agree.

        Raises:
            ClockSkew: the clocks differ too much; the message names the host and both times.
        """
        if abs(reading.ahead_us) > most_s * SECOND_US:
            self._passed = None
            raise ClockSkew(_skew_message(author, reading, most_s))
        self._passed = reading

    def agreed(self, clock: Clock, most_s: float) -> Instant | None:
        """Return the wall clock; None without a recent reading, or if the clock was set since."""
        passed, now, now_s = self._passed, clock.now(), clock.monotonic()
        if passed is None or not 0 <= now_s - passed.at_s <= VALID_S:
            return None
        set_us = now - passed.at - int((now_s - passed.at_s) * SECOND_US)
        return now if abs(passed.ahead_us + set_us) <= most_s * SECOND_US else None


def storage_clock(storage: Storage, clock: Clock, randomness: Randomness) -> Reading:
    """Read the storage's clock: put a probe, list it, then delete it and abandoned older probes.

    Raises:
        StorageError: the clock cannot be read.
    """
    path = f"{FOLDER}/{randomness.token()}"
    at, at_s = clock.now(), clock.monotonic()
    storage.replace(path, b"")
    took_s = clock.monotonic() - at_s
    entries = tuple(storage.list(FOLDER))
    stored = next((entry.modified for entry in entries if entry.path == path), None)
    if stored is None:
        raise StorageError(
            f"{storage.uri}/{path} was put and is not listed, so this host's clock cannot be "
            "compared with the storage's: run it again"
        )
    old = [entry.path for entry in entries if entry.modified < stored - HOUR_US]
    for left in (path, *old):
        storage.delete(left)
    whose = f"the storage's ({storage.uri})"
    return Reading(at=at, at_s=at_s, took_s=took_s, theirs=stored, whose=whose)


def lease_clock(lease: Lease, clock: Clock) -> Reading:
    """Read the coordinator's clock at the grant of a lease."""
    theirs = lease.granted_at
    return Reading(at=clock.now(), at_s=clock.monotonic(), theirs=theirs, whose="the coordinator's")


def _skew_message(author: str, reading: Reading, most_s: float) -> str:
    return (
        f"the clock of {author} is {reading.ahead_us / SECOND_US:+.1f} s off {reading.whose}: on "
        f"{socket.gethostname()} it is {iso(reading.at)}, there {iso(reading.theirs)}, more than "
        f"{most_s:g} s apart; nothing was committed: set this host's clock (NTP) and run it again "
        f"({SKEW_VARIABLE} changes the bound)"
    )
