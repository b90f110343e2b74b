"""An external service of the log stores of several tables, beside others like it.

1. Each table has its store, its checkpoints (``services.log_store``) and its share of the
   buckets (``services.log_directory``), and a thread that keeps the share up.
2. The store has the columns and the settings that the table had when it was opened. Every
   ``LOOK_S`` seconds the thread looks at the table; if they have changed, it hands over all
   buckets, and opens another store. Writers begin again, with the new columns.
3. While ZooKeeper is away, served buckets stay served. Which commits count is decided by the
   table's log.
4. ``close`` hands everything over after a last checkpoint. An error that ends a table's
   service, such as a dropped table, is raised by ``close``; the others go on until then.
5. Its log lines, at INFO, name the served, moved and committed buckets.
"""

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from airflow_provider_segtable.core.errors import CoordinationError, SegtableError, StorageError
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
from airflow_provider_segtable.planning.properties import LogStoreSettings
from airflow_provider_segtable.ports.log_store import LogContext
from airflow_provider_segtable.services.log_directory import (
    SERVICES,
    BucketShare,
    ClaimedBuckets,
    named,
)
from airflow_provider_segtable.services.log_store import LogService
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.checkpointing import log_schema

PAUSE_S = 1.0
"""How soon a new service is noticed; ended claims are noticed at once."""
LOOK_S = 10.0
"""How soon a change of the table's columns or settings is noticed."""
PASSING = (CoordinationError, StorageError)

_log = logging.getLogger(__name__)


class LogServer:
    """Serves a share of the buckets of several tables.

    Args:
        tables: the ports of the tables; with a coordinator.
        provider: how stores listen. With several tables and a port, each next table has the next
            port.
        checkpoint_s: in place of the tables' ``log_store.checkpoint_seconds``.
        look_s: how often the definitions of the tables are looked at.
    """

    def __init__(
        self,
        tables: Sequence[TableContext],
        provider: FlightLogStoreProvider,
        *,
        checkpoint_s: float | None = None,
        look_s: float = LOOK_S,
    ) -> None:
        ports = [provider.port + n if provider.port else 0 for n in range(len(tables))]
        self._tables = [
            _ServedTable(table, replace(provider, port=port), checkpoint_s, look_s)
            for table, port in zip(tables, ports, strict=True)
        ]

    def start(self) -> None:
        """Serve all tables.

        Raises:
            SegtableError: a table cannot have a log store, or no store can listen. Nothing is
                served then.
        """
        try:
            for each in self._tables:
                each.start()
        except BaseException:
            with suppress(SegtableError):
                self.close()
            raise

    @property
    def over(self) -> bool:
        """Return whether no table is served any more."""
        return all(each.over for each in self._tables)

    def close(self) -> None:
        """Hand all buckets over, and end.

        Raises:
            SegtableError: the service of a table, or its last checkpoint, failed.
        """
        for each in self._tables:
            each.stop()
        errors = [error for each in self._tables if (error := each.joined())]
        if errors:
            raise errors[0]


class _ServedTable:
    """One table: its store and checkpoints, its share, and the thread that keeps it up."""

    def __init__(
        self,
        ports: TableContext,
        provider: FlightLogStoreProvider,
        checkpoint_s: float | None,
        look_s: float,
    ) -> None:
        self._ports = ports
        self._provider = provider
        self._checkpoint_s = checkpoint_s
        self._look_s = look_s
        self._name = f"{ports.author}-{ports.randomness.token()[:6]}"
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="segtable-log-share", daemon=True)

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def start(self) -> None:
        """Open the store, and keep the share up from now on."""
        state = self._ports.log.load()
        self._ports.coordinator.claims(state.table.table_id, SERVICES)  # an error now, if any
        self._open(state)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def joined(self) -> Exception | None:
        """Wait for the end; return the failures."""
        if self._thread.ident is not None:
            self._thread.join()
        return self._error

    def _open(self, state: State) -> None:
        settings = LogStoreSettings.read(state.table.properties)
        if self._checkpoint_s is not None:
            settings = replace(settings, checkpoint_seconds=self._checkpoint_s)
        table, buckets = state.table.table_id, tuple(range(settings.buckets))
        context = LogContext(
            table=table,
            schema=log_schema(state, self._ports.uri),
            buckets=buckets,
            limits=settings.limits,
        )
        store = self._provider.create(context)
        self._opened = state
        self._service = LogService(self._ports, store, settings.policy, columns=state)
        claims = ClaimedBuckets(
            self._ports.coordinator,
            table,
            service=self._name,
            deploy_mode=self._provider.deploy_mode,
        )
        self._share = BucketShare(
            self._ports.coordinator,
            table,
            buckets,
            claims=claims,
            store=store,
            checkpoint=self._service.checkpoint,
        )
        self._service.start()
        self._address = store.address

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._keep_up()
        except Exception as error:  # noqa: BLE001 - raised by close
            _log.exception("%s is no longer served here", self._ports.uri)
            self._error = error
        finally:
            self._leave()

    def _keep_up(self) -> None:
        """Serve until the table's columns or settings change, then open another store."""
        looked_s = self._ports.clock.monotonic()
        while not self._stop.is_set():
            self._step()
            if self._service.error:
                raise self._service.error
            now_s = self._ports.clock.monotonic()
            if now_s - looked_s >= self._look_s:
                looked_s = now_s
                if changed := self._changed():
                    _log.info("%s was altered: its log store is opened anew", self._ports.uri)
                    self._leave()
                    self._open(changed)

    def _step(self) -> None:
        try:
            moves = self._share.step()
            if moves.any:
                now = named(self._share.serving)
                _log.info("%s: %s; serves %s at %s", self._ports.uri, moves, now, self._address)
            self._share.wait(PAUSE_S)
        except PASSING as error:
            _log.warning("%s is served on, and nothing moves: %s", self._ports.uri, error)
            self._stop.wait(PAUSE_S)

    def _changed(self) -> State | None:
        """Return the table's state if its log store would be another one now."""
        try:
            state = self._ports.log.refresh(self._opened)
        except PASSING as error:
            _log.warning("%s cannot be read: %s", self._ports.uri, error)
            return None
        return None if _form(state) == _form(self._opened) else state

    def _leave(self) -> None:
        try:
            self._share.leave()
            self._service.close()
        except SegtableError as error:
            _log.warning("%s was left without a last checkpoint: %s", self._ports.uri, error)
            self._error = self._error or error


def _form(state: State) -> object:
    """Return the properties that a log store takes over from its table."""
    return state.table.schema, LogStoreSettings.read(state.table.properties)
