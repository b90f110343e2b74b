"""``Table``: the public API to create, open, append, change and read; ``services`` compact.

:Example:

>>> table = Table.create("flights", schema=schema, time_column="time_hour",
...                      granularity="month", zookeeper="127.0.0.1:2181")
>>> table.append(rows)                     # one atomic event
>>> table.delete("carrier = 'AA'")         # another, also during a compaction
>>> table.snapshot().to_arrow()            # the newest state
>>> table.snapshot(version=3).count()      # any earlier one
>>> table.scan(columns=["carrier"], where="dep_delay > 60").to_arrow()
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from airflow_provider_segtable.core.log.events import TableCreated
from airflow_provider_segtable.core.requests.change_request import Where
from airflow_provider_segtable.core.requests.read_request import ReadRequest, read_request
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.evolution import ColumnChange
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time.interval import Granularity, Instant, Interval
from airflow_provider_segtable.data.jobs.segment_writer import check_rows
from airflow_provider_segtable.data.table_kinds.arrow_kinds import arrow_kind_of
from airflow_provider_segtable.table.alteration import Alteration, alter
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.creation import begin_log
from airflow_provider_segtable.table.definition import (
    checked_schema,
    given_schema,
    known_granularity,
    of_kind,
)
from airflow_provider_segtable.table.log.committer import Committed
from airflow_provider_segtable.table.scan import Scan, version_read
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.table_changes import TableChanges
from airflow_provider_segtable.table.versions import TableVersions
from airflow_provider_segtable.table.writes.append import append
from airflow_provider_segtable.table.writes.incoming import incoming


@dataclass(frozen=True, slots=True)
class Table(TableChanges, TableVersions):
    """One table; it has no state besides its ports. ``TableChanges`` deletes, updates and more."""

    ports: TableContext

    @staticmethod
    def create(  # noqa: PLR0913 - each defines the table
        uri: str,
        *,
        schema: pa.Schema,
        time_column: str,
        granularity: str | Granularity = Granularity.DAY,
        name: str | None = None,
        properties: Mapping[str, str] | None = None,
        kind: TableKind | None = None,
        zookeeper: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        zookeeper_options: Mapping[str, str] | None = None,
    ) -> "Table":
        """Create a table at ``uri``.

        Args:
            uri: an empty location: path, ``s3://``, ``gs://``, ``az://``.
            schema: the columns of incoming rows, with the time column.
            time_column: the event time; timestamp (naive means UTC) or date.
            granularity: hour, day, week, month, year or all.
            name: display name; the last part of the URI by default.
            properties: settings of compaction and retention (``segtable table set --help``
                lists them).
            kind: what the table keeps of incoming rows, e.g. a ``Rollup``; by default the rows
                as they come.
            zookeeper: ``host:port[,...][/chroot]``; needed for writing later.
            storage_options: keys of the object store.
            zookeeper_options: user, password and TLS files; by default from the environment.

        Raises:
            TableExists: the location already has a table.
            SchemaMismatch: a type cannot be stored, or the time column is missing or not a time.
            InvalidInput: the kind of table does not fit the time chunks.
            UnsafeStorage: the store does not honour put-if-absent.
        """
        ports = open_context(
            uri,
            zookeeper=zookeeper,
            storage_options=storage_options,
            zookeeper_options=zookeeper_options,
        )
        title = name or uri.rstrip("/").rsplit("/", 1)[-1]
        definition = TableCreated(
            table_id=str(uuid.uuid4()),
            name=title,
            schema=checked_schema(schema, time_column),
            time_column=time_column,
            granularity=known_granularity(granularity),
            properties=dict(properties or {}),
        )
        return create_table(ports, of_kind(definition, kind or Append()))

    @staticmethod
    def open(
        uri: str,
        *,
        zookeeper: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        zookeeper_options: Mapping[str, str] | None = None,
    ) -> "Table":
        """Open the table at ``uri``; ``zookeeper`` is needed for writing only.

        Raises:
            NotATable: the location has no table.
        """
        ports = open_context(
            uri,
            zookeeper=zookeeper,
            storage_options=storage_options,
            zookeeper_options=zookeeper_options,
        )
        table = Table(ports)
        table.state()
        return table

    def snapshot(
        self,
        *,
        version: int | None = None,
        as_of: Instant | datetime | str | None = None,
        tag: str | None = None,
        checked: bool = True,
    ) -> Snapshot:
        """Return the newest snapshot, or the one at an event number, a time (inclusive) or a tag.

        If ``checked`` is False, damaged data files may be read as data; it is a little faster.

        Raises:
            VersionExpired: the version is no longer kept.
            InvalidInput: the tag does not exist, or more than one version is named.
        """
        request = read_request(version=version, as_of=as_of, tag=tag, checked=checked)
        return Snapshot(
            ports=self.ports, state=version_read(self.ports.log, request), checked=checked
        )

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        interval: Interval | str | None = None,
        version: int | None = None,
        as_of: Instant | datetime | str | None = None,
        tag: str | None = None,
        rolled_up: bool = False,
        checked: bool = True,
    ) -> Scan:
        """Return a scan: ``to_arrow()``, ``to_batches()`` or ``count()`` read it.

        Args:
            columns: only these, in this order.
            where: only rows that match, as for ``delete``; other files and row groups are skipped.
            interval: only rows with event times in it; ``"2013-01-01/2013-02-01"``, too.
            version: the table after this event.
            as_of: the table at this time, inclusive; a naive time is UTC.
            tag: the table at this tag.
            rolled_up: one row for each group of a rollup table; ``where`` filters these.
            checked: compare data files with their checksums.

        Raises:
            SchemaMismatch: there is no such column.
            InvalidInput: the condition is not parsable, or more than one version is named.
            VersionExpired: the version is no longer kept.
        """
        return self.read(
            read_request(
                columns=columns,
                where=where,
                interval=interval,
                version=version,
                as_of=as_of,
                tag=tag,
                rolled_up=rolled_up,
                checked=checked,
            )
        )

    def read(self, request: ReadRequest) -> Scan:
        """Return the scan that a read request describes."""
        return Scan(ports=self.ports, state=version_read(self.ports.log, request), request=request)

    def alter(
        self,
        *,
        set: Mapping[str, str] | None = None,  # noqa: A002 - SQL's word
        unset: Sequence[str] = (),
        columns: Sequence[ColumnChange] = (),
        commit_id: str | None = None,
    ) -> int:
        """Change properties and columns in one event; return the version that has them.

        The next plan goes by the properties. No file is rewritten: older ones are read by the ids
        of their columns. The changes are values of ``core.tables.evolution``; ``AddColumn``,
        ``DropColumn``, ``RenameColumn``, ``WidenColumn``, ``MakeNullable`` and ``Reorder`` are
        ``add_column``, ``delete_column``, ``rename_column``, ``update_column`` and ``move_first``
        of pyiceberg's ``update_schema``; deltalake has ``alter.add_columns``. Properties are
        ``set_properties`` there, and ``alter.set_table_properties``.

        Args:
            set: new values, by property; checked as at creation.
            unset: properties that get their default again.
            columns: changes of columns, in order.
            commit_id: equal ids alter once; random by default.

        Raises:
            InvalidInput, InvalidName, SchemaMismatch: see ``table.alteration.Alteration.action``.
            CommitConflict, CommitUnknown: see ``table.alteration.alter``.
        """
        wanted = Alteration(set=dict(set or {}), unset=tuple(unset), columns=tuple(columns))
        return alter(self.ports, wanted, commit_id=commit_id or self.ports.randomness.token())

    def append(self, rows: pa.Table, *, commit_id: str | None = None) -> Committed:
        """Append rows: one segment per time chunk, in one event.

        Args:
            rows: rows with the table's columns and types; the append sorts them by event time.
                A rollup table takes its input columns, and rolls the rows up among themselves.
            commit_id: equal ids append once; random by default.

        Raises:
            SchemaMismatch, TimeOutOfRange: the rows do not fit; nothing is written.
            LockLost, CommitConflict, CommitUnknown: see ``table.writes.append``.
        """
        state = self.state()
        definition = state.table
        checked = check_rows(rows, given_schema(definition), definition.time_column)
        rows = arrow_kind_of(definition.kind).prepared(checked, definition.time_column)
        name = commit_id or self.ports.randomness.token()
        return append(self.ports, incoming(self.ports, rows, state), commit_id=name, state=state)


def create_table(ports: TableContext, definition: TableCreated) -> Table:
    """Write event 0; the port-level form of ``Table.create``.

    Raises:
        InvalidInput, SchemaMismatch: the properties are invalid; no table was created.
        ClockSkew: this host's clock is off; no table was created.
    """
    begin_log(ports, definition)
    return Table(ports)
