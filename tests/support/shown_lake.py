"""A lake of small tables in memory, whose storage can hang, fail and count; and its page."""

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient, Response

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import NotATable, StorageError
from airflow_provider_segtable.core.secret import Secret, SecretOptions
from airflow_provider_segtable.page.app import page_app
from airflow_provider_segtable.page.lake import Lake, Limits
from airflow_provider_segtable.page.rights import OnLoopback
from airflow_provider_segtable.page.sources import Source, all_below_the_root
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.planning.fleet.fleet_memory import FoundTables
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock
from tests.support.in_memory import context_in_memory, defined_by

SCHEMA = pa.schema([("at", pa.timestamp("us", tz="UTC")), ("word", pa.string())])
HIDDEN = SecretOptions({"secret_access_key": "key-of-the-store"})


HERE = "http://127.0.0.1:8000"


@dataclass(slots=True)
class Browser:
    """A client of an application in this process; each request has a loop of its own."""

    app: FastAPI
    host: str = HERE
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, headers: Mapping[str, str] | None = None, **query: Any) -> Response:
        """Send a GET with a query."""
        return self.request("GET", path, params=query, headers=headers)

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Response:
        """Send a POST as the page does."""
        given = {"X-Segtable-Page": "1", **(headers or {})}
        return self.request("POST", path, json=body, headers=given)

    def request(self, method: str, path: str, **arguments: Any) -> Response:
        """Send a request; an error of the application is its response."""

        async def sent() -> Response:
            transport = ASGITransport(self.app, raise_app_exceptions=False)
            async with AsyncClient(
                transport=transport, base_url=self.host, cookies=self.cookies
            ) as client:
                return await client.request(method, path, **arguments)

        return asyncio.run(sent())


@dataclass(slots=True)
class Store:
    """What the storage of all tables does: it waits at the gate, and fails with the fault.

    Only requests that begin with ``hangs_at`` wait, such as ``list data``.
    """

    gate: threading.Event = field(default_factory=threading.Event)
    hangs_at: str = ""
    fault: str = ""
    requests: Counter[str] = field(default_factory=Counter)
    waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __post_init__(self) -> None:
        self.gate.set()

    def passed(self, path: str) -> None:
        """Count a request, wait at the gate, and perhaps fail."""
        self.requests[path] += 1
        if path.startswith(self.hangs_at):
            if not self.gate.is_set():
                self.waiting.release()
            self.gate.wait()
        if self.fault:
            raise StorageError(self.fault)


class _Gated:
    """A storage behind the gate."""

    def __init__(self, storage: Storage, store: Store) -> None:
        self._storage, self._store = storage, store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._storage, name)
        if name in ("uri", "remote"):
            return found

        def gated(*args: Any, **kwargs: Any) -> Any:
            self._store.passed(f"{name} {args[0]}")
            return found(*args, **kwargs)

        return gated


class ShownLake:
    """Tables of one clock, and the lake that shows them."""

    def __init__(
        self, *names: str, fleet: Fleet | None = None, limits: Limits | None = None
    ) -> None:
        self.clock, self.service, self.store = FakeClock(), MemoryService(), Store()
        self.tables: dict[str, TableContext] = {}
        self.faults: dict[str, str] = {}
        for name in names:
            self.create(name)
        self.source = Source(
            label="memory://lake",
            fleet=fleet or all_below_the_root(),
            find=lambda _, now: FoundTables(names=tuple(self.tables), listings=1, at=now),
            opening=self._opened,
            hidden=HIDDEN,
        )
        self.lake = Lake(
            lambda: {"": self.source}, self.clock, limits or Limits(limit_s=5.0, first_s=5.0)
        )

    def create(self, name: str, properties: Mapping[str, str] | None = None) -> Table:
        """Create a table."""
        ports = context_in_memory(self.service, clock=self.clock, uri=f"memory://lake/{name}")
        definition = defined_by(SCHEMA, properties=properties)
        create_table(ports, replace(definition, table_id=name.replace("/", "-"), name=name))
        self.tables[name] = ports
        return Table(ports)

    def append(self, name: str, files: int = 1, word: str = "a") -> None:
        """Append small files of one hour, a minute apart."""
        for _ in range(files):
            self.clock.advance(60)
            at = datetime(2026, 1, 5, tzinfo=UTC) + timedelta(minutes=1)
            Table(self.tables[name]).append(pa.table({"at": [at], "word": [word]}, schema=SCHEMA))

    def page(self, token: str = "") -> FastAPI:
        """Return the page on loopback."""
        return page_app(self.lake, OnLoopback("me", Secret(token) if token else None))

    def browser(self, token: str = "", host: str = HERE) -> "Browser":
        """Return a client of the page on loopback."""
        return Browser(self.page(token), host)

    def _opened(self, name: str) -> TableContext:
        if name not in self.tables:
            raise NotATable(f"memory://lake/{name} holds no segtable table")
        if name in self.faults:
            raise StorageError(self.faults[name])
        ports = self.tables[name]
        return replace(ports, storage=_Gated(ports.storage, self.store))
