"""Reach the log stores of a table, wherever they run: found by ZooKeeper, over Arrow Flight.

Options for access to log stores of other processes:

=================  =================================================================================
option             meaning
=================  =================================================================================
token              the store's token; or ``token_file``, the path of a file with it
ca                 file of the authorities that certify stores with TLS; by default the system's
=================  =================================================================================

1. Options come from an Airflow connection, or from the environment, never from a command line,
   because others can read that. Options of a connection precede. ``SEGTABLE_LOG_STORE_OPTIONS`` is
   a JSON object, ``SEGTABLE_LOG_STORE_OPTIONS_FILE`` the path of a file with one.
2. A checkpoint on request asks all services that have buckets of the table. Each service commits
   the records of its buckets, so the newest version that they name has every record that was
   appended before the request. The table's log decides: a bucket that moves meanwhile was committed
   before it moved.
3. A listing of buckets asks the coordinator for the service of each bucket, the service for its
   records, and then the table's log for the committed end. The log is read last: a service hears of
   its own commit a moment after the log's readers do, and a caller that waited for the announcement
   must not miss it.
4. A service that does not answer is part of the listing, not an error.
5. The lag of a table for metrics is what its services say themselves: no storage is asked. For a
   moment after a commit they may count its records still.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CoordinatorUnavailable,
    InvalidInput,
    LogStoreUnavailable,
    SegtableError,
)
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import Epoch, Offset
from airflow_provider_segtable.core.log_store.reading import BucketStatus
from airflow_provider_segtable.core.secret import Secret
from airflow_provider_segtable.core.time import SECOND_US, Instant
from airflow_provider_segtable.disk import text_of, variable_text
from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
from airflow_provider_segtable.log_store.flight_streams import FlightSecurity
from airflow_provider_segtable.planning.gauges import Gauge
from airflow_provider_segtable.planning.properties import LogStoreSettings
from airflow_provider_segtable.ports.log_store import LogStoreProvider
from airflow_provider_segtable.services.log_directory import BucketAddress, BucketFinder, addresses
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.tail import Finder

OPTIONS_VARIABLE = "SEGTABLE_LOG_STORE_OPTIONS"
NAMES = ("token", "token_file", "ca")


def log_provider(options: Mapping[str, str] = MappingProxyType({})) -> FlightLogStoreProvider:
    """Return a provider of the stores of other processes.

    Args:
        options: these come before the options of the environment.

    Raises:
        InvalidInput: an option is wrong; the message names it, never a secret value.
    """
    return FlightLogStoreProvider(security=client_security(options))


def client_security(options: Mapping[str, str] = MappingProxyType({})) -> FlightSecurity:
    """Return the credentials of clients of this process; as ``log_provider``."""
    given = {**_options(), **checked_options(options)}
    if "token" in options or "token_file" in options:
        given = {name: given[name] for name in given if name in options or name == "ca"}
    token = given.get("token", "")
    if path := given.get("token_file"):
        token = token_in(path, "log store option token_file")
    roots = text_of(given["ca"], "log store option ca") if "ca" in given else ""
    return FlightSecurity(token=Secret(token) if token else None, roots=roots)


def checked_options(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return options.

    Raises:
        InvalidInput: there is no such option.
    """
    for name in given:
        if name not in NAMES:
            raise InvalidInput(
                f"log store option {name!r} is unknown: choose one of {', '.join(NAMES)}"
            )
    return given


def token_in(path: str | Path, title: str) -> str:
    """Return the token in a file.

    Raises:
        InvalidInput: the file cannot be read, or is empty.
    """
    token = text_of(path, title).strip()
    if not token:
        raise InvalidInput(f"{title} {path} is empty: write the token into it")
    return token


def _options() -> Mapping[str, str]:
    text, where = variable_text(OPTIONS_VARIABLE)
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInput(
            f'{where} is not a JSON object of log store options: write e.g. {{"token_file": '
            '"/run/secrets/log-store"}'
        )
    return checked_options({str(name): str(value) for name, value in found.items()})


def log_finder(ports: TableContext, provider: LogStoreProvider | None = None) -> BucketFinder:
    """Return a finder of the store of each bucket of a table, reached by a provider.

    Raises:
        CoordinatorUnavailable: there is no ZooKeeper, so it is not known which services run.
    """
    coordinator, table = ports.optional_coordinator, ports.log.load().table.table_id
    if coordinator is None:
        raise CoordinatorUnavailable(
            f"the log stores of {ports.uri} are found by ZooKeeper and no address was given: pass "
            "zookeeper='host:port' (--zookeeper on the command line), or read the table alone"
        )
    addresses(coordinator, table)  # an error now: later, an absent coordinator is no service
    return BucketFinder(
        coordinator, table, (provider or log_provider(ports.log_store_options)).connect
    )


def finder_if_any(ports: TableContext, provider: LogStoreProvider | None = None) -> Finder:
    """Return a finder; without ZooKeeper it finds nothing."""
    if ports.optional_coordinator is None:
        return lambda _: None
    return log_finder(ports, provider)


# Checkpoints on request
@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheckpoint:
    """Commits that services of a log store made on request.

    Attributes:
        services: their addresses.
        version: a version of the table that has every record appended before; None if there was
            never one.
    """

    services: tuple[str, ...]
    version: int | None

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        return {"services": list(self.services), "version": self.version}


def checkpoint_log(ports: TableContext, *, wait_s: float) -> LogCheckpoint:
    """Have everything committed that was appended to a table's log store before.

    Args:
        ports: the table's ports, with a coordinator.
        wait_s: how long each service may take.

    Raises:
        LogStoreUnavailable: no service has a bucket of the table, or one does not answer.
        CheckpointPending: a service has not committed in time; it may later.
        CoordinatorUnavailable: there is no ZooKeeper.
    """
    served = addresses(ports.coordinator, ports.log.load().table.table_id)
    if not served:
        raise LogStoreUnavailable(
            f"no service serves the log store of {ports.uri}: open a writer, or run `segtable "
            f"logstore serve {ports.uri}`"
        )
    services = sorted({at.address for at in served.values()})
    provider = log_provider(ports.log_store_options)
    made = [provider.connect(each).checkpoint(wait_s=wait_s) for each in services]
    newest = max((version for version in made if version is not None), default=None)
    return LogCheckpoint(services=tuple(services), version=newest)


# Buckets: their committed ends, services and waiting records
@dataclass(frozen=True, slots=True, kw_only=True)
class LogBucket:
    """A bucket of a table's log store.

    Attributes:
        bucket: its number.
        epoch: the newest epoch in the table's log.
        committed: the number of records that the table's log has.
        at: the bucket's service; None if there is none.
        status: the service's state; None if there is none, or it does not answer.
        trouble: why there is no status although there is a service.
    """

    bucket: int
    epoch: Epoch
    committed: Offset
    at: BucketAddress | None
    status: BucketStatus | None
    trouble: str = ""

    @property
    def waiting(self) -> Offset:
        """Return the number of records that the service has and the table's log has not.

        The records of a service of an older epoch are in the log, or never will be.
        """
        if self.status is None or self.status.epoch < self.epoch:
            return 0
        return max(0, self.status.end.offset - self.committed)

    @property
    def waiting_since(self) -> Instant | None:
        """Return when the oldest of them was appended, or earlier, by the service's clock."""
        return self.status.uncommitted_since if self.status and self.waiting else None

    def facts(self, now: Instant) -> Facts:
        """Return the bucket, its service and its waiting records as plain JSON values.

        ``end`` and ``uncommitted_...`` are null if no service answers.
        """
        at, status, since = self.at, self.status, self.waiting_since
        return {
            "bucket": self.bucket,
            "epoch": self.epoch,
            "committed": self.committed,
            "service": at.service if at else None,
            "address": at.address if at else None,
            "deploy_mode": at.deploy_mode.value if at else None,
            "end": status.end.offset if status else None,
            "uncommitted_records": self.waiting if status else None,
            "uncommitted_bytes": status.uncommitted_bytes if status else None,
            "uncommitted_s": None if since is None else max(0, now - since) / SECOND_US,
            "trouble": self.trouble or None,
        }


def log_buckets(ports: TableContext, state: State | None = None) -> list[LogBucket]:
    """Return all buckets that the table, its log or a service knows, by number.

    Args:
        ports: the table's ports.
        state: a recent state of the table; saves reading the log again.

    Raises:
        CoordinatorUnavailable: there is no ZooKeeper.
    """
    state = state or ports.log.load()
    served = addresses(ports.coordinator, state.table.table_id)
    answers = _answers(ports, served)
    state = ports.log.refresh(state)
    wanted = range(LogStoreSettings.read(state.table.properties).buckets)
    found = []
    for bucket in sorted({*wanted, *served, *state.log_store}):
        at, known = served.get(bucket), bucket_of(state, bucket)
        answer = answers[at.address] if at else {}
        found.append(
            LogBucket(
                bucket=bucket,
                epoch=known.epoch,
                committed=known.end,
                at=at,
                status=None if isinstance(answer, str) else answer.get(bucket),
                trouble=answer if isinstance(answer, str) else "",
            )
        )
    return found


def _answers(
    ports: TableContext, served: Mapping[int, BucketAddress]
) -> Mapping[str, Mapping[int, BucketStatus] | str]:
    """Return the answer of each service, by its address."""
    provider = log_provider(ports.log_store_options)
    return {each: _asked(provider, each) for each in {at.address for at in served.values()}}


def _asked(provider: LogStoreProvider, address: str) -> Mapping[int, BucketStatus] | str:
    """Return the status of a service's buckets, or why it does not say."""
    try:
        return provider.connect(address).status()
    except SegtableError as error:
        return str(error)


# The lag of a table
@dataclass(frozen=True, slots=True, kw_only=True)
class LogStoreLag:
    """The records that services have and the table has not.

    Attributes:
        records: how many.
        since: when the oldest of them was appended, by its service's clock; None: there is none.
        silent: buckets whose service does not answer, so that nothing is known of them.
    """

    records: int = 0
    since: Instant | None = None
    silent: int = 0

    def gauges(self) -> Iterator[Gauge]:
        """Yield the lag as numbers for metrics."""
        yield Gauge(name="log_store.lag_records", value=self.records)
        yield Gauge(name="log_store.lag_seconds", since=self.since)
        yield Gauge(name="log_store.silent_buckets", value=self.silent)


def log_store_lag(ports: TableContext, table_id: str) -> LogStoreLag:
    """Return the lag of a table behind its log store (rule 5); none if no service has a bucket.

    Raises:
        CoordinationError: ZooKeeper does not say which services run.
    """
    served = addresses(ports.coordinator, table_id)
    answers = _answers(ports, served) if served else {}
    silent, known = 0, list[BucketStatus]()
    for bucket, at in served.items():
        answer = answers[at.address]
        if isinstance(answer, str):
            silent += 1
        elif bucket in answer:
            known.append(answer[bucket])
    waits = [each.uncommitted_since for each in known if each.uncommitted_since is not None]
    records = sum(each.uncommitted_records for each in known)
    return LogStoreLag(records=records, since=min(waits, default=None), silent=silent)
