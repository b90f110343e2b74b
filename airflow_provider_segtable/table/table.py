"""``Table``: create, open, append, change and read; ``library.Table`` adds compaction and more.

A method imports what it needs: a process that only looks at a table's log needs no Arrow.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.change_request import Where
from airflow_provider_segtable.core.requests.read_request import ReadRequest, read_request
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import ColumnChange
from airflow_provider_segtable.core.tables.keyed_kind import DEFAULT_BUCKETS, kind_of
from airflow_provider_segtable.core.tables.merge_rules import MergeEngine
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import Granularity, Time, TimeRange
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.restoration import TableVersions
from airflow_provider_segtable.table.table_changes import TableChanges
from airflow_provider_segtable.table.table_indexes import TableIndexes
from airflow_provider_segtable.table.table_publishing import TablePublishing

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_segtable.data.rows import Rows
    from airflow_provider_segtable.table.append import AppendResult
    from airflow_provider_segtable.table.dropping import DropResult
    from airflow_provider_segtable.table.lookup import Missing
    from airflow_provider_segtable.table.scan import Scan
    from airflow_provider_segtable.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Table(TableChanges, TableIndexes, TablePublishing, TableVersions):
    """One table; it has no state besides its ports. ``TableChanges`` deletes, updates and more."""

    ports: TableContext

    def __repr__(self) -> str:
        """Return the table's place."""
        return f"{type(self).__name__}({self.ports.uri!r})"

    @classmethod
    def create(  # noqa: PLR0913 - each defines the table
        cls,
        uri: str,
        *,
        schema: "pa.Schema",
        time_column: str,
        granularity: str | Granularity = Granularity.DAY,
        name: str | None = None,
        properties: Mapping[str, str] | None = None,
        kind: TableKind | None = None,
        primary_key: Sequence[str] | str | None = None,
        buckets: int = DEFAULT_BUCKETS,
        ordering: str = "",
        merge: str | MergeEngine = MergeEngine.LATEST,
        groups: Mapping[str, Sequence[str]] | None = None,
        zookeeper: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        zookeeper_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Create a table at ``uri``.

        Args:
            uri: an empty location: path, ``s3://``, ``gs://``, ``az://``.
            schema: the columns of incoming rows, with the time column.
            time_column: the event time; timestamp (naive means UTC) or date.
            granularity: hour, day, week, month, year or all.
            name: display name; the last part of the URI by default.
            properties: settings of compaction and retention (``segtable table set --help``
                lists them).
            kind: the stored form of incoming rows, e.g. a ``Rollup``; by default the rows
                themselves, or one row for each key if there is a primary key.
            primary_key: the columns of the primary key; rows are upserted by it.
            buckets: with a primary key: the number of buckets of a time chunk.
            ordering: with a primary key: of records with one key, the highest value of this column
                wins; by default the latest write.
            merge: with a primary key: ``latest`` keeps the winning record as a whole,
                ``partial_update`` the newest non-null value of each column.
            groups: with ``partial_update``: columns that are set together, by their own ordering
                column: ``{"seq_a": ["a", "b"]}``.
            zookeeper: ``host:port[,...][/chroot]``; needed for writing later.
            storage_options: keys of the object store.
            zookeeper_options: user, password and TLS files; by default from the environment.

        Raises:
            TableExists: the location already has a table.
            SchemaMismatch: a type cannot be stored, or the time column is missing or not a time.
            InvalidInput: the kind of table does not fit the time chunks.
            UnsafeStorage: the store does not honour put-if-absent.
        """
        from airflow_provider_segtable.table.definition import (
            checked_schema,
            known_granularity,
            of_kind,
        )

        keeps = kind_of(
            kind,
            primary_key,
            buckets=buckets,
            ordering=ordering,
            merge=merge,
            groups=groups,
        )
        ports = cls.connect(uri, zookeeper, storage_options, zookeeper_options)
        title = name or uri.rstrip("/").rsplit("/", 1)[-1]
        definition = TableDefinition(
            table_id=str(uuid.uuid4()),
            name=title,
            schema=checked_schema(schema, time_column),
            time_column=time_column,
            granularity=known_granularity(granularity),
            properties=dict(properties or {}),
        )
        return cls(create_table(ports, of_kind(definition, keeps)).ports)

    @classmethod
    def open(
        cls,
        uri: str,
        *,
        zookeeper: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        zookeeper_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Open the table at ``uri``; ``zookeeper`` is needed for writing only.

        Raises:
            NotATable: the location has no table.
        """
        ports = cls.connect(uri, zookeeper, storage_options, zookeeper_options)
        table = cls(ports)
        table.state()
        return table

    @classmethod
    def drop(
        cls,
        uri: str,
        *,
        force: bool = False,
        dry_run: bool = False,
        zookeeper: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        zookeeper_options: Mapping[str, str] | None = None,
    ) -> "DropResult":
        """Delete the table at ``uri``: its rows, all its versions, its records in ZooKeeper.

        One event ends the table at once for all users; then its files are deleted. If that
        is interrupted, drop it again. A new table may be created there afterwards. Files that
        segtable did not make are kept. pyiceberg has ``purge_table``, Spark
        ``DROP TABLE ... PURGE``.

        Args:
            uri: as for ``open``.
            force: drop it although others hold locks on it: their work fails with ``TableGone``.
            dry_run: only return the sizes and files; delete nothing.
            zookeeper: as for ``open``; needed.
            storage_options: as for ``open``.
            zookeeper_options: as for ``open``.

        Raises:
            NotATable: the location has no table, and never had one.
            TableInUse: others kept their locks on the table for 5 seconds; the message names one.
            CorruptTable: the log cannot be read: repair the table first, or delete the folder.
            CommitUnknown, StorageError: drop it again.
        """
        ports = cls.connect(uri, zookeeper, storage_options, zookeeper_options)
        from airflow_provider_segtable.table.dropping import drop

        try:
            return drop(ports, force=force, dry_run=dry_run)
        finally:
            ports.coordinator.close()

    @classmethod
    def connect(
        cls,
        uri: str,
        zookeeper: str | None,
        storage_options: Mapping[str, str] | None,
        zookeeper_options: Mapping[str, str] | None,
    ) -> TableContext:
        """Return the ports of a table; arguments as for ``open``."""
        return open_context(
            uri,
            zookeeper=zookeeper,
            storage_options=storage_options,
            zookeeper_options=zookeeper_options,
        )

    def snapshot(
        self,
        *,
        version: int | None = None,
        as_of: Time | None = None,
        tag: str | None = None,
        checked: bool = True,
    ) -> "Snapshot":
        """Return the newest snapshot, or the one at an event number, a time (inclusive) or a tag.

        If ``checked`` is False, damaged data files may be read as data; it is a little faster.

        Raises:
            VersionExpired: the version is no longer kept.
            InvalidInput: the tag does not exist, or more than one version is named.
        """
        from airflow_provider_segtable.table.snapshot import Snapshot
        from airflow_provider_segtable.table.windows import version_read

        request = read_request(version=version, as_of=as_of, tag=tag, checked=checked)
        return Snapshot(
            ports=self.ports, state=version_read(self.ports.log, request), checked=checked
        )

    def scan(  # noqa: PLR0913 - each selects data to read
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        interval: TimeRange | None = None,
        version: int | None = None,
        as_of: Time | None = None,
        tag: str | None = None,
        since_version: int | None = None,
        since: Time | None = None,
        consumer: str | None = None,
        changes: bool = False,
        rolled_up: bool = False,
        base_only: bool = False,
        checked: bool = True,
        include_log: bool = False,
        limit: int | None = None,
    ) -> "Scan":
        """Return a scan, read by ``to_arrow``, ``to_pandas``, ``to_polars``, ``to_reader``...

        DuckDB and Polars read it as it is, by the Arrow PyCapsule interface.

        Args:
            columns: only these, in this order. ``"*"`` stands for all; ``_segtable_instant`` and
                ``_segtable_completion_time`` show when the write of a row began and was committed
                (``core.reads.effects``).
            where: only rows that match, as for ``delete``; other files and row groups are skipped.
            interval: only rows with event times in it: ``"2013-01-01/2013-02-01"``, or a pair of
                times (``core.time``).
            version: the table after this event.
            as_of: the table at this time, inclusive: a datetime (naive means UTC), date or text.
            tag: the table at this tag.
            since_version: only rows added after this event, as they are visible in the version that
                is read; an update adds the new rows. ``incremental_append_scan`` of pyiceberg.
            since: the same after this time.
            consumer: the same after the position of this consumer.
            changes: instead, every change of a row since then, in order, with the columns
                ``_segtable_change``, ``_segtable_version`` and ``_segtable_completion_time``;
                ``load_cdf`` of deltalake.
            rolled_up: one row for each group of a rollup table; ``where`` filters these.
            base_only: of a primary-key table, only its base files, which need no merging: each
                bucket as of its last semi-major compaction, so **older rows** than the newest.
            checked: compare data files with their checksums.
            include_log: also the records that log stores hold and no commit has yet, as of now;
                without a running service the newest version alone, which ``explain`` says.
            limit: at most so many rows: reading stops when it has them. Which rows these are is
                not promised, and may differ after a compaction.

        Raises:
            SchemaMismatch: there is no such column.
            InvalidInput: the condition is not parsable, or more than one version is named.
            VersionExpired: the version is no longer kept.
            WindowExpired: a version of the window is no longer kept.
            LogStoreUnavailable: with ``include_log``, a published service does not answer.
        """
        return self.read(
            read_request(
                columns=columns,
                where=where,
                interval=interval,
                version=version,
                as_of=as_of,
                tag=tag,
                since_version=since_version,
                since=since,
                consumer=consumer,
                changes=changes,
                rolled_up=rolled_up,
                base_only=base_only,
                checked=checked,
                include_log=include_log,
                limit=limit,
            )
        )

    def read(self, request: ReadRequest) -> "Scan":
        """Return the scan that a read request describes.

        Raises:
            InvalidInput: it includes the log store, which ``library.Table`` reaches.
        """
        if request.include_log:
            raise InvalidInput(
                f"log stores of {self.ports.uri} are not reached from here: open the table by "
                "airflow_provider_segtable.Table"
            )
        from airflow_provider_segtable.table.scan import Scan
        from airflow_provider_segtable.table.windows import start_read, version_read

        log = self.ports.log
        end = version_read(log, request)
        start = start_read(log, request, end)
        return Scan(ports=self.ports, state=end, request=request, start=start)

    def get(
        self,
        keys: Any,
        *,
        columns: Sequence[str] | None = None,
        interval: TimeRange | None = None,
        version: int | None = None,
        as_of: Time | None = None,
        tag: str | None = None,
        missing: "Missing" = "absent",
        checked: bool = True,
    ) -> "pa.Table":
        """Return the rows of primary keys, in the order of the keys.

        A key that is given twice counts once. A key with rows in several time chunks has them all,
        in the order of time; ``interval`` chooses.

        Args:
            keys: one key, or several: values, or tuples of a key of several columns; an Arrow array
                or a pandas or Polars DataFrame, or anything that speaks Arrow, with the key's
                columns. Texts are converted to numbers, times and dates.
            columns: only these, in this order; all by default.
            interval: only rows with event times in it, as for ``scan``.
            version: the table after this event.
            as_of: the table at this time, inclusive.
            tag: the table at this tag.
            missing: keys without a row are ``"absent"``, or have a row with ``"null"`` in all other
                columns.
            checked: compare data files with their checksums.

        Raises:
            InvalidInput: the table has no primary key, or the keys do not fit it.
            SchemaMismatch: there is no such column.
            VersionExpired: the version is no longer kept.
        """
        from airflow_provider_segtable.table.lookup import get_rows
        from airflow_provider_segtable.table.scan import Scan
        from airflow_provider_segtable.table.windows import version_read

        request = read_request(
            columns=columns,
            interval=interval,
            version=version,
            as_of=as_of,
            tag=tag,
            checked=checked,
        )
        state = version_read(self.ports.log, request)
        return get_rows(Scan(ports=self.ports, state=state, request=request), keys, missing)

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
        from airflow_provider_segtable.table.alteration import Alteration, alter

        wanted = Alteration(set=dict(set or {}), unset=tuple(unset), columns=tuple(columns))
        return alter(self.ports, wanted, commit_id=commit_id or self.ports.randomness.token())

    def append(self, rows: "Rows", *, commit_id: str | None = None) -> "AppendResult":
        """Append rows: one segment per time chunk, in one event.

        Without rows there is no event: the result has 0 rows, and ``n`` is the newest version.

        Args:
            rows: a pandas or Polars DataFrame, an Arrow table, batch or reader, or anything with
                ``__arrow_c_stream__``; with the table's columns and types. The append sorts the
                rows by event time. A rollup table takes its input columns, and rolls the rows up
                among themselves.
            commit_id: equal ids append once; random by default.

        Raises:
            SchemaMismatch, TimeOutOfRange: the rows do not fit; nothing is written.
            LockLost, CommitConflict, CommitUnknown: see ``table.append``.
        """
        from airflow_provider_segtable.table.load import append_rows

        return append_rows(self.ports, rows, commit_id=commit_id)

    def upsert(
        self, rows: "Rows", *, deleted: str | None = None, commit_id: str | None = None
    ) -> "AppendResult":
        """Insert rows, or replace those of equal keys, in a table with a primary key.

        Many writers may upsert at once: nothing is locked, and no write conflicts with another. Of
        records with one key, the highest value of the ordering column wins, then the later write.

        Args:
            rows: as for ``append``; nullable columns may be left out.
            deleted: a boolean column of the rows, not of the table: where it is true, the key is
                deleted instead. Such rows need the key, the event time and the ordering columns.
            commit_id: equal ids upsert once; random by default.

        Raises:
            InvalidInput: the table has no primary key, or a key is null.
            SchemaMismatch, TimeOutOfRange: the rows do not fit; nothing is written.
            CommitUnknown: the last reply was lost; run again with the same commit id.
        """
        from airflow_provider_segtable.table.upsert import upsert_rows

        return upsert_rows(self.ports, rows, deleted=deleted, commit_id=commit_id)


def create_table(ports: TableContext, definition: TableDefinition) -> Table:
    """Write event 0; the port-level form of ``Table.create``.

    Raises:
        InvalidInput, SchemaMismatch: the properties are invalid; no table was created.
        ClockSkew: this host's clock is off; no table was created.
    """
    from airflow_provider_segtable.table.definition import begin_log

    begin_log(ports, definition)
    return Table(ports)
