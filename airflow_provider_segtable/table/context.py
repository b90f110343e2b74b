"""The ports of one table, passed down as one value; and the check of the author's clock.

1. ``TableContext`` has storage, data files, clock, randomness and coordinator of a table, and makes
   what depends on them when it is first asked for.
2. The log's time never goes back. A single event from a host that is years ahead would move it
   permanently: reads as of a time, ages and intervals between compactions would all be wrong. So
   ``checked_now`` compares the author's clock with an independent one before it sets that time.
3. A lease carries the coordinator's time. A commit without a lease (a delete, a tag, a cleaning,
   a plan) compares with the storage's clock: a probe is put, listed and deleted.
4. A comparison is valid for ``VALID_S`` in the whole process while wall clock and monotonic clock
   advance together. So a process sends at most three small requests every ten minutes, and none
   while it takes leases.
5. If a clock is off by more than the bound, ahead or behind, it is compared once more, then
   refused.
"""

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial

from airflow_provider_segtable.coordination.address import SESSION_TIMEOUT_S, connect
from airflow_provider_segtable.coordination.zookeeper.access import access_of
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    ClockSkew,
    CoordinatorUnavailable,
    InvalidInput,
    StorageError,
    TableGone,
)
from airflow_provider_segtable.core.reads.read_facts import ReadShape
from airflow_provider_segtable.core.secret import SecretOptions
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import HOUR_US, SECOND_US, Instant, iso
from airflow_provider_segtable.data.open_files import NestedFiles, open_files
from airflow_provider_segtable.formats.format import Format
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.ports.background import Background
from airflow_provider_segtable.ports.clock import Clock, Randomness
from airflow_provider_segtable.ports.coordination import Coordinator, Lease
from airflow_provider_segtable.ports.files import DataFiles, RangeReader
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.storage.local import SystemClock, SystemRandomness
from airflow_provider_segtable.storage.memory_storage import NestedStorage
from airflow_provider_segtable.storage.table_paths import absolute
from airflow_provider_segtable.table import background as process
from airflow_provider_segtable.table.backlog import Backlog
from airflow_provider_segtable.table.commit_queue import CommitQueue
from airflow_provider_segtable.table.entry_cache import MOST_KNOWN, EntryCache, ViewCache
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.publications import Publications
from airflow_provider_segtable.table.read_recorder import (
    OF_THIS_PROCESS,
    ReadPlace,
    ReadRecorder,
    ReadWatch,
)

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


SESSION_TIMEOUT_VARIABLE = "SEGTABLE_SESSION_TIMEOUT_S"
"""How long ZooKeeper keeps the locks of an unresponsive worker; seconds, 30 by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """The external services and settings that a table uses.

    Kernels rebuild ``files`` inside Spark tasks from ``uri`` and ``storage_options``. ``author``
    names this process in events and locks. ``most_skew_s`` is the largest accepted clock
    difference. A local ``uri`` is absolute, because tasks run in other working directories.
    ``formats`` are the formats for publishing versions. ``log_store_options`` are the options for
    log stores of other processes; missing ones are taken from the environment. ``reads`` records
    reads, for all tables of this process. ``background`` is what publishes after commits; without
    it each commit is published in its own call.
    """

    uri: str
    storage: Storage
    files: DataFiles
    clock: Clock
    randomness: Randomness
    author: str
    storage_options: Mapping[str, str] = field(default_factory=SecretOptions)
    log_store_options: Mapping[str, str] = field(default_factory=SecretOptions)
    optional_coordinator: Coordinator | None = None
    most_skew_s: float = MOST_SKEW_S
    clock_check: ClockCheck = field(default_factory=ClockCheck, repr=False, compare=False)
    formats: Mapping[str, Format] = field(
        default_factory=lambda: FORMATS, repr=False, compare=False
    )
    reads: ReadRecorder = field(default=OF_THIS_PROCESS, repr=False, compare=False)
    background: Background | None = field(default=None, repr=False, compare=False)
    log: EventLog = field(init=False, repr=False, compare=False)
    entries: EntryCache = field(init=False, repr=False, compare=False, default_factory=EntryCache)
    known: ViewCache = field(
        init=False, repr=False, compare=False, default_factory=partial(ViewCache, MOST_KNOWN)
    )
    publications: Publications = field(
        init=False, repr=False, compare=False, default_factory=Publications
    )
    commits: CommitQueue = field(init=False, repr=False, compare=False, default_factory=CommitQueue)
    backlog: Backlog = field(init=False, repr=False, compare=False)
    inner: dict[str, "TableContext"] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        """Create the log, which caches its newest state, and the backlog of publications."""
        object.__setattr__(self, "log", EventLog(self.storage))
        object.__setattr__(self, "backlog", Backlog(self.clock.monotonic))

    def __repr__(self) -> str:
        """Return the table's place; the ports hold credentials and caches."""
        return f"TableContext({self.uri!r})"

    @property
    def coordinator(self) -> Coordinator:
        """Return the coordinator, or raise ``CoordinatorUnavailable`` if none is configured."""
        if self.optional_coordinator is None:
            raise CoordinatorUnavailable(
                f"writing to {self.uri} needs ZooKeeper and no address was given: pass "
                "zookeeper='host:port' (--zookeeper on the command line), or start one with "
                "`segtable zookeeper start`"
            )
        return self.optional_coordinator

    def checked_now(self) -> Instant:
        """Return this host's time after checking that it agrees with the storage's clock.

        Raises:
            ClockSkew: the clocks differ too much.
            StorageError: the storage's clock could not be read.
        """
        for _ in range(2):
            now = self.clock_check.agreed(self.clock, self.most_skew_s)
            if now is not None:
                return now
            self.check_storage_clock()
        raise ClockSkew(f"the clock of {self.author} was set while it was compared: run it again")

    def check_storage_clock(self) -> Reading:
        """Compare this host's clock with the storage's now; errors as ``checked_now``."""
        reading = storage_clock(self.storage, self.clock, self.randomness)
        self.clock_check.compare(self.author, reading, self.most_skew_s)
        return reading

    def check_lease_clock(self, lease: Lease) -> None:
        """Compare this host's clock with the coordinator's time at which it granted the lease.

        Raises:
            ClockSkew: the clocks differ too much.
        """
        reading = lease_clock(lease, self.clock)
        self.clock_check.compare(self.author, reading, self.most_skew_s)

    @contextmanager
    def leased(self, lease: Lease, table: str) -> Iterator[Lease]:
        """Hold a lease of a table, by id, if its grantor's clock agrees with ours.

        If the table was dropped, the new records of the request are deleted.

        Raises:
            ClockSkew: the clocks differ too much.
        """
        gone = False
        try:
            self.check_lease_clock(lease)
            yield lease
        except TableGone:
            gone = True
            raise
        finally:
            lease.release()
            if gone:
                self.coordinator.forget(table)

    def watch_read(self, table: TableDefinition, shape: Callable[[], ReadShape]) -> ReadWatch:
        """Return the watch of a read, which records it if the table has that switched on."""
        place = ReadPlace(storage=self.storage, clock=self.clock, randomness=self.randomness)
        return self.reads.watch(place, table, shape)

    def within(self, folder: str) -> "TableContext":
        """Return the same ports for the table in a folder of this one, always the same value."""
        if folder not in self.inner:
            self.inner[folder] = replace(
                self,
                uri=f"{self.uri.rstrip('/')}/{folder}",
                storage=NestedStorage(self.storage, folder),
                files=NestedFiles(self.files, folder),
            )
        return self.inner[folder]

    def by(self, author: str) -> "TableContext":
        """Return the same ports for another author; both share what they have read."""
        made = replace(self, author=author)
        for name in ("log", "entries", "known", "publications", "backlog", "commits"):
            object.__setattr__(made, name, getattr(self, name))
        return made

    def finish(self) -> None:
        """Wait until this process has published its commits, for a bounded time."""
        if self.background is not None:
            self.background.flush()

    def at(self, uri: str) -> "TableContext":
        """Return the same ports for another table."""
        storage, files = _opened(uri, self.storage_options)
        return replace(self, uri=absolute(uri), storage=storage, files=files)


def _opened(uri: str, options: Mapping[str, str]) -> tuple[Storage, DataFiles]:
    """Open a table's storage, and its data files, which are read through it if it can do that.

    Both are found by an absolute path: the process may change its directory before it publishes.
    """
    uri = absolute(uri)
    storage = open_storage(uri, options)
    reader = storage if isinstance(storage, RangeReader) else None
    return storage, open_files(uri, options, reader=reader)


_OF_THIS_PROCESS = ClockCheck()


def _coordinator(address: str, options: Mapping[str, str] | None) -> Coordinator:
    timeout_s = _seconds(SESSION_TIMEOUT_VARIABLE, SESSION_TIMEOUT_S)
    return connect(address, session_timeout_s=timeout_s, access=access_of(options))


def _seconds(variable: str, default: float) -> float:
    """Return the seconds in an environment variable, or the default.

    Raises:
        InvalidInput: the value is not a positive, finite number.
    """
    given = os.environ.get(variable)
    try:
        seconds = float(given or default)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise InvalidInput(
            f"{variable}={given!r} is not a number of seconds: write e.g. {default:g}"
        )
    return seconds


def this_process() -> str:
    """Return the host and the id of this process, as authors are named."""
    return f"{socket.gethostname()}:{os.getpid()}"


def open_context(
    uri: str,
    *,
    zookeeper: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    author: str | None = None,
    zookeeper_options: Mapping[str, str] | None = None,
    log_store_options: Mapping[str, str] | None = None,
) -> TableContext:
    """Open the real ports of a table.

    Args:
        uri: the table's root: a path, ``file://``, ``s3://``, ``gs://``, ``az://``.
        zookeeper: ``host:port[,host:port][/chroot]``; optional for reading.
        storage_options: keys of the object store, as obstore names them.
        author: author of events and holder of locks; by default the host and process id.
        zookeeper_options: user, password and TLS files; by default from the environment
            (``coordination.zookeeper.link``).
        log_store_options: token and authorities of log stores; likewise (``library.log_stores``).
    """
    options = SecretOptions(storage_options)
    storage, files = _opened(uri, options)
    return TableContext(
        uri=absolute(uri),
        storage=storage,
        files=files,
        clock=SystemClock(),
        randomness=SystemRandomness(),
        author=author or this_process(),
        storage_options=options,
        log_store_options=SecretOptions(log_store_options),
        optional_coordinator=_coordinator(zookeeper, zookeeper_options) if zookeeper else None,
        most_skew_s=_seconds(SKEW_VARIABLE, MOST_SKEW_S),
        clock_check=_OF_THIS_PROCESS,
        background=process.OF_THIS_PROCESS,
    )
