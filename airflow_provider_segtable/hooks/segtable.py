"""The ``segtable`` connection: the root of the tables, and their coordinator.

::

    host    the root of the tables: /data/tables, s3://lake/tables, ...
    extra   zookeeper          zk://host:2181[,host:2181][/chroot]; reading needs none
            zookeeper_options  user, password, TLS files, as an object or its JSON
                               text (``coordination.zookeeper.link``)
            storage_options    keys of the object store, likewise
            aws_conn_id        a connection of apache-airflow-providers-amazon that has the
                               keys, the role or the profile, if storage_options have none
            log_store_options  token, or token_file, and ca of log stores, likewise
                               (``library.log_stores``); the password of the connection is
                               the token, too
            spark_master       where compaction runs without a Spark connection
            spark_conn_id      a connection of apache-airflow-providers-apache-spark

    AIRFLOW_CONN_SEGTABLE_DEFAULT='{"conn_type": "segtable", "host": "/data/tables",
                                    "extra": {"zookeeper": "zk://127.0.0.1:2181"}}'

A table is named by its path below the root, or by a whole URI.

Only ``storage_options``, ``zookeeper_options``, ``log_store_options`` and the password may hold
credentials. No ``repr`` shows them, and they are masked in Airflow's logs and rendered fields as
soon as the connection is read.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import field
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Self

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook, Connection
from airflow.sdk.log import mask_secret

from airflow_provider_segtable.coordination.zookeeper.access import parse_options
from airflow_provider_segtable.core.arguments import plain
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, SegtableError
from airflow_provider_segtable.core.secret import SecretOptions, is_secret_name, redacted
from airflow_provider_segtable.hooks.aws import aws_options

if TYPE_CHECKING:
    from airflow_provider_segtable.library.table import Table
    from airflow_provider_segtable.table.context import TableContext

_EXAMPLE = {
    "conn_type": "segtable",
    "host": "/data/tables",
    "extra": {"zookeeper": "zk://host:2181"},
}
_EXAMPLES = {
    "storage_options": '{"endpoint": "http://127.0.0.1:9000"}',
    "log_store_options": '{"token_file": "/run/secrets/log-store", "ca": "ca.pem"}',
}
PortsOf = Callable[[str], "AbstractContextManager[TableContext]"]
"""Opens the ports of a table by its name."""
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Settings of a connection, as plain values; read once."""

    conn_id: str
    root: str
    zookeeper: str | None = None
    zookeeper_options: Mapping[str, str] = field(default_factory=SecretOptions)
    storage_options: Mapping[str, str] = field(default_factory=SecretOptions)
    aws_conn_id: str | None = None
    log_store_options: Mapping[str, str] = field(default_factory=SecretOptions)
    spark_master: str | None = None
    spark_conn_id: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage_options", SecretOptions(self.storage_options))
        object.__setattr__(self, "zookeeper_options", SecretOptions(self.zookeeper_options))
        object.__setattr__(self, "log_store_options", SecretOptions(self.log_store_options))
        for name, text in (("its host", self.root), ("zookeeper", self.zookeeper or "")):
            if redacted(plain(name, text)) != text:
                raise InvalidInput(
                    f"{name} of connection {self.conn_id} holds credentials, and logs show it: "
                    f"{redacted(text)}. Give them as storage_options, which are masked"
                )

    @staticmethod
    def of(connection: Connection) -> "Place":
        """Read a connection.

        Raises:
            InvalidInput: an option field is not a JSON object, or another field holds credentials.
        """
        extra = connection.extra_dejson
        return Place(
            conn_id=connection.conn_id,
            root=connection.host or "",
            zookeeper=extra.get("zookeeper") or None,
            zookeeper_options=SecretOptions(_zookeeper_options(connection.conn_id, extra)),
            storage_options=_storage_options(connection.conn_id, extra),
            aws_conn_id=extra.get("aws_conn_id") or None,
            log_store_options=_log_store_options(connection, extra),
            spark_master=extra.get("spark_master") or None,
            spark_conn_id=extra.get("spark_conn_id") or None,
        )

    def masked(self) -> Self:
        """Return the settings; from now on logs mask their credentials."""
        for options in (self.storage_options, self.zookeeper_options, self.log_store_options):
            mask_credentials(options)
        return self

    def uri(self, table: str) -> str:
        """Return the URI of a table.

        Raises:
            InvalidInput: the name is empty, or is relative and leads out of the root, or there is
                no root, or the URI is not a table's.
        """
        from airflow_provider_segtable.storage import check_uri

        if _ABSOLUTE.match(plain("table", table)):
            return check_uri(table)
        if ".." in table.split("/"):
            raise InvalidInput(
                f"table {table!r} is outside the root of connection {self.conn_id}: name it by "
                "its path below the root, or by its URI"
            )
        if not table:
            raise InvalidInput(
                "the name of the table is empty: give its path below the root of connection "
                f"{self.conn_id}, or its URI"
            )
        if not self.root:
            raise InvalidInput(
                f"table {table!r} is not a URI, and connection {self.conn_id} has no root: "
                "set its host to the root of the tables, or name the table by its URI"
            )
        return check_uri(f"{self.root.rstrip('/')}/{table}")

    @contextmanager
    def table_ports(self, table: str, *, author: str | None = None) -> "Iterator[TableContext]":
        """Open the ports of a table.

        Leaving waits until what was committed is published, as tasks downstream expect it, and ends
        the session with ZooKeeper.
        """
        from airflow_provider_segtable.table.context import open_context

        ports = open_context(
            self.uri(table),
            zookeeper=self.zookeeper,
            zookeeper_options=self.zookeeper_options,
            storage_options=self.storage_options,
            log_store_options=self.log_store_options,
            author=author,
        )
        try:
            yield ports
        finally:
            ports.finish()
            if ports.optional_coordinator is not None:
                ports.optional_coordinator.close()

    @contextmanager
    def ports_of_tables(self, *, author: str | None = None) -> Iterator[PortsOf]:
        """Give what opens the ports of any table, from any thread, in one session with ZooKeeper.

        A table's ports are opened anew each time, as they keep the table's state. The session ends
        at the end.
        """
        mutex, opened = Lock(), list["TableContext"]()
        with ExitStack() as session:

            def ports_of(table: str) -> "AbstractContextManager[TableContext]":
                with mutex:
                    if not opened:
                        first = self.table_ports(table, author=author)
                        opened.append(session.enter_context(first))
                return nullcontext(opened[0].at(self.uri(table)))

            yield ports_of


def _zookeeper_options(conn_id: str, extra: Mapping[str, Any]) -> dict[str, str]:
    where = f"zookeeper_options of connection {conn_id}"
    return parse_options(extra.get("zookeeper_options"), where)


def _storage_options(conn_id: str, extra: Mapping[str, Any]) -> dict[str, str]:
    given = _options(conn_id, "storage_options", extra)
    aws = plain("aws_conn_id", extra.get("aws_conn_id") or "")
    if not aws:
        return given
    if any(is_secret_name(name) for name in given):
        raise InvalidInput(
            f"connection {conn_id} has credentials in storage_options, and aws_conn_id {aws!r}: "
            "leave one of them out"
        )
    defined_connection(aws, {"conn_type": "aws", "login": "KEY ID", "password": "SECRET KEY"})
    return {**aws_options(aws), **given}


def _log_store_options(connection: Connection, extra: Mapping[str, Any]) -> dict[str, str]:
    found = _options(connection.conn_id, "log_store_options", extra)
    token = {} if "token_file" in found else {"token": connection.password or ""}
    return {**{name: text for name, text in token.items() if text}, **found}


def _options(conn_id: str, name: str, extra: Mapping[str, Any]) -> dict[str, str]:
    given = extra.get(name)
    try:
        found = json.loads(given or "{}") if isinstance(given, str) else given or {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInput(
            f"{name} of connection {conn_id} is not a JSON object: write e.g. {_EXAMPLES[name]}"
        )
    return {str(key): str(value) for key, value in found.items()}


def mask_credentials(options: Mapping[str, Any] | None) -> None:
    """Let Airflow mask the values of options with a credential's name."""
    for name, value in (options or {}).items():
        if is_secret_name(name) and isinstance(value, str) and value:
            mask_secret(value)


def defined_connection(conn_id: str, example: Mapping[str, Any]) -> Connection:
    """Return a connection.

    Raises:
        AirflowNotFoundException: it is not defined; the message has the way out.
    """
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        variable, value = f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(example)
        raise AirflowNotFoundException(
            f"there is no connection {conn_id!r}: add one of type {example['conn_type']} (Admin, "
            f"Connections; or `airflow connections add`), or set e.g. {variable}='{value}' in the "
            "environment of Airflow"
        ) from None


class SegtableHook(BaseHook):
    """Open tables through a connection of type ``segtable``.

    Args:
        segtable_conn_id: the connection.
    """

    conn_name_attr: ClassVar[str] = "segtable_conn_id"
    default_conn_name: ClassVar[str] = "segtable_default"
    conn_type: ClassVar[str] = "segtable"
    hook_name: ClassVar[str] = "Segtable"

    def __init__(self, segtable_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.segtable_conn_id = segtable_conn_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return the form for Airflow 3.1; later versions read the provider's ``conn-fields``."""
        return {
            "hidden_fields": ["port", "login", "password", "schema"],
            "relabeling": {"host": "Root of the tables"},
            "placeholders": {
                "host": "/data/tables, s3://lake/tables, gs://..., az://...",
                "extra": json.dumps({"zookeeper": "zk://host:2181/segtable"}),
            },
        }

    @cached_property
    def place(self) -> Place:
        """Return the connection's settings; from now on logs mask its credentials."""
        return Place.of(defined_connection(self.segtable_conn_id, _EXAMPLE)).masked()

    def get_conn(self) -> Place:
        """Return the connection's settings, under the name that all hooks share."""
        return self.place

    @contextmanager
    def table_ports(self, table: str, *, author: str | None = None) -> "Iterator[TableContext]":
        """Open the ports of a table.

        Leaving waits until what was committed is published, as tasks downstream expect it, and ends
        the session with ZooKeeper.
        """
        with self.place.table_ports(table, author=author) as ports:
            yield ports

    @contextmanager
    def table(self, name: str, *, author: str | None = None) -> Iterator["Table"]:
        """Open a table as a Python program does; leaving ends the session with ZooKeeper."""
        from airflow_provider_segtable.library.table import Table

        with self.table_ports(name, author=author) as ports:
            yield Table(ports)

    def test_connection(self) -> tuple[bool, str]:
        """List the root and query ZooKeeper; return whether both answer, and a message."""
        from airflow_provider_segtable.storage import open_storage

        try:
            place = self.place
            storage = open_storage(place.uri("."), place.storage_options)
            next(iter(storage.list("_segtable")), None)
            if place.zookeeper is None:
                return True, f"{place.root} answers; without zookeeper, tables are read-only"
            with place.table_ports(".") as ports:
                ports.coordinator.locks("test-connection")
        except SegtableError as error:
            return False, redacted(f"{type(error).__name__}: {error}")
        return True, f"{place.root} and {place.zookeeper} answer"
