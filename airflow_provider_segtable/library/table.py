"""``Table``: the library's public class, which reads, writes, and has its services carried out.

1. Reads, writes and changes are inherited from ``table.table.Table``. This class adds the actions
   of layers above it: compaction, cleaning and verification, all in this process.
2. Without ``zookeeper=`` it finds the server as the command line does: by ``$SEGTABLE_ZOOKEEPER``,
   or else the running embedded server (``segtable zookeeper start``).

For example:

>>> table = Table.open("flights")
>>> table.append(frame)                    # pandas, Polars, Arrow
>>> table.compact()                        # by the table's policy
>>> table.history(limit=3)
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from airflow_provider_segtable.coordination.embedded_zookeeper import find_zookeeper
from airflow_provider_segtable.core.errors import ExecutionFailed
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.log_store.reading import LogLag
from airflow_provider_segtable.core.requests.csv_format import CsvFormat
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import Granularity, TimeRange, as_interval
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.files.text_values import BadRows
from airflow_provider_segtable.data.rows import Rows
from airflow_provider_segtable.health.verify import Verification, verify
from airflow_provider_segtable.library.log_reader import TableLogReader
from airflow_provider_segtable.library.log_stores import finder_if_any, log_finder, log_provider
from airflow_provider_segtable.library.log_writer import WAIT_S, TableLogWriter
from airflow_provider_segtable.library.open_log_writer import open_log_writer
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.ports.log_store import LogStoreProvider
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import CleaningRun, clean
from airflow_provider_segtable.services.compact_table import CompactionResult, compact_table
from airflow_provider_segtable.services.compaction import Ended
from airflow_provider_segtable.services.index_run import IndexRun, run_index
from airflow_provider_segtable.services.settling import SettleRun, settle
from airflow_provider_segtable.table import table as base
from airflow_provider_segtable.table.adoption import (
    Adoption,
    AdoptionRequest,
    adopt,
    plan_adoption,
)
from airflow_provider_segtable.table.append import AppendResult, check_filled
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.kept_versions import HistoryEntry, history
from airflow_provider_segtable.table.load import FileColumns, Loaded, append_rows, load_files
from airflow_provider_segtable.table.log_store.positions import Start, log_lag
from airflow_provider_segtable.table.log_store.union_scan import union_scan
from airflow_provider_segtable.table.scan import Scan


class Table(base.Table):
    """A table: read, write, change, compact, index and publish it; it has no state of its own."""

    __slots__ = ()

    @classmethod
    def connect(
        cls,
        uri: str,
        zookeeper: str | None,
        storage_options: Mapping[str, str] | None,
        zookeeper_options: Mapping[str, str] | None,
    ) -> TableContext:
        """Return the ports of a table, with the ZooKeeper that is given or found."""
        return super().connect(uri, find_zookeeper(zookeeper), storage_options, zookeeper_options)

    @classmethod
    def adopt(  # noqa: PLR0913 - each defines the table
        cls,
        uri: str,
        *,
        time_column: str | None = None,
        granularity: Granularity | str | None = None,
        schema: pa.Schema | None = None,
        name: str | None = None,
        properties: Mapping[str, str] | None = None,
        ignore_columns: Sequence[str] = (),
        copy_rest: bool = False,
        dry_run: bool = False,
        zookeeper: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        zookeeper_options: Mapping[str, str] | None = None,
    ) -> Adoption:
        """Make the Parquet files of a folder files of the table at ``uri``, without a copy.

        The table is created there unless it exists. Adopted files belong to it: compaction
        replaces them, and cleaning deletes them when no kept version needs them. All other files
        stay as they are. Run it again for files that came since, and after a failure.

        Args:
            uri: the folder, as for ``create``.
            time_column: the event time; by default the only timestamp of the files.
            granularity: by default the finest one in which nine of ten files lie in one time
                chunk each, which is what makes a file adoptable.
            schema: the columns; by default those of the files.
            name: display name, as for ``create``.
            properties: as for ``create``.
            ignore_columns: columns of files, or of folder names (``day=2026-01-05/``), to leave
                out.
            copy_rest: append the rows of files that cannot be adopted; these files stay.
            dry_run: only return what would be done.
            zookeeper: as for ``open``; needed.
            storage_options: as for ``open``.
            zookeeper_options: as for ``open``.

        Raises:
            InvalidInput: no file can be adopted, the event time is not known, the folder is
                another tool's table, or has files where a table keeps its own.
            SchemaMismatch, InvalidName: the columns cannot be stored; nothing was written.
            CommitConflict, CommitUnknown, StorageError: run it again; it goes on.
        """
        request = AdoptionRequest(
            time_column=time_column,
            granularity=granularity,
            schema=schema,
            name=name,
            properties=dict(properties or {}),
            ignored=tuple(ignore_columns),
            copy_rest=copy_rest,
        )
        ports = cls.connect(uri, zookeeper, storage_options, zookeeper_options)
        return plan_adoption(ports, request) if dry_run else adopt(ports, request)

    def append(self, rows: Rows, *, commit_id: str | None = None) -> AppendResult:
        """Append rows, as ``table.table.Table`` does; nullable columns may be left out.

        Files that the command line and Airflow append must have all columns: there, a missing one
        is more likely a mistake.
        """
        return append_rows(self.ports, rows, commit_id=commit_id, check=check_filled)

    def ingest(
        self,
        files: str | Sequence[str],
        *,
        csv: CsvFormat | None = None,
        columns: str | None = None,
        cast: bool = False,
        rows_per_append: int | None = None,
        deleted: str | None = None,
        bad_rows: str | None = None,
        commit_id: str | None = None,
    ) -> list[Loaded]:
        """Append files, or upsert them by the primary key, as ``segtable ingest`` does.

        Args:
            files: paths, URIs of object stores, or patterns of either: ``*.parquet``, ``*.csv``,
                ``*.tsv``, ``*.jsonl``.
            csv: how CSV files are written: delimiter, encoding, header, texts for null.
            columns: only these of the files, e.g. ``"id,price=amount"``.
            cast: cast to the table's types where no value is lost by it.
            rows_per_append: the most rows of an append; by default each file is one.
            deleted: a boolean column of the files that says which keys to delete.
            bad_rows: a file that takes rows that do not fit, instead of refusing theirs.
            commit_id: equal ids load a file of one name once, whatever its parts are.

        Returns:
            The appends, also of an earlier load.

        Raises:
            NotFound: a path or pattern has no file.
            InvalidInput: a file is broken, or other rows are committed under the id.
            SchemaMismatch, TimeOutOfRange: rows do not fit; files before theirs stay appended.
        """
        bad = BadRows(bad_rows) if bad_rows else None
        taken = FileColumns.parse(columns, cast=cast, deleted=deleted, bad=bad)
        return load_files(
            self.ports,
            [files] if isinstance(files, str) else files,
            taken,
            csv=csv,
            commit_id=commit_id,
            rows_per_append=rows_per_append,
        )

    def read(self, request: ReadRequest) -> Scan:
        """Return the scan that a read request describes; errors as for ``scan``.

        Raises:
            CoordinatorUnavailable: it includes the log store, and there is no ZooKeeper.
        """
        if request.include_log:
            return union_scan(self.ports, log_finder(self.ports), request)
        return base.Table.read(self, request)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the newest version."""
        return to_arrow(self.state().table.schema)

    @property
    def properties(self) -> dict[str, str]:
        """Return the properties that are set; the others have their defaults."""
        return dict(self.state().table.properties)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return the newest events, newest first; all that the log keeps without a limit."""
        return history(self.ports.log, limit)

    def log_writer(
        self,
        *,
        buckets: Sequence[int] | None = None,
        embedded: bool | None = None,
        checkpoint_seconds: float | None = None,
        automatic: bool = True,
        overflow: bool = False,
        wait_s: float = WAIT_S,
        provider: LogStoreProvider | None = None,
    ) -> TableLogWriter:
        """Open a writer of the table's log store: readers see its rows in milliseconds.

        Soon the rows are committed as an ordinary append or upsert, by the table's
        ``log_store.*``. If another process writes these buckets, it is replaced: its uncommitted
        rows are discarded, and it gets ``Fenced``.

        Args:
            buckets: the buckets to write; all by default. Each has one writer at a time.
            embedded: run the store in this process, as long as the writer is open; by default if
                no service of another process (``segtable logstore serve``) has the buckets.
            checkpoint_seconds: commit after so many seconds at the latest, instead of
                ``log_store.checkpoint_seconds``; if embedded.
            automatic: commit by the table's ``log_store.*``; otherwise only ``checkpoint`` and
                ``close`` do; if embedded.
            overflow: with ``automatic=False``: keep rows beyond ``log_store.bucket_mb`` in
                temporary files until ``checkpoint``: a batch of any size is committed as one.
            wait_s: how long calls wait for room, and for a service.
            provider: makes and reaches stores; by default Arrow Flight on
                loopback, with the token of ``$SEGTABLE_LOG_STORE_OPTIONS``.

        Raises:
            InvalidInput: the table is of a kind that cannot have a log store, or a bucket that it
                does not have; or rows are to overflow although checkpoints make room.
            LogStoreServed: a store is to run here, and services have the buckets.
            LogStoreUnavailable: no service has the buckets, or the store cannot listen.
            CoordinatorUnavailable: external services are to be used, and there is no ZooKeeper.
            CommitConflict, CommitUnknown, StorageError: the epoch could not begin.
        """
        return open_log_writer(
            self.ports,
            provider=provider or log_provider(self.ports.log_store_options),
            buckets=buckets,
            embedded=embedded,
            checkpoint_seconds=checkpoint_seconds,
            automatic=automatic,
            overflow=overflow,
            wait_s=wait_s,
        )

    def log_reader(
        self,
        start: Start = "latest",
        *,
        buckets: Sequence[int] | None = None,
        group: str | None = None,
        provider: LogStoreProvider | None = None,
    ) -> TableLogReader:
        """Follow the table's log store: its rows as they are written, before they are committed.

        The reader yields ``LogRecords``, each with the rows of one bucket in the order of their
        offsets; ``BucketReset`` where rows that it has returned were discarded; ``BucketExpired``
        where rows were cleaned before they were read. Without ZooKeeper, or where no service
        runs, rows come when they are committed.

        Args:
            start: ``latest``, ``earliest``, the number of a version, a time, or positions by
                bucket, such as ``positions`` of another reader.
            buckets: the buckets to read; all by default.
            group: the name of a consumer group: its readers share the buckets, and ``store`` keeps
                their positions with the table. ``start`` is for buckets without one.
            provider: reaches stores; by default Arrow Flight, with the token of
                ``$SEGTABLE_LOG_STORE_OPTIONS``.

        Raises:
            InvalidInput: the start is no position of the table, or it does not have a bucket.
            InvalidName: the group's name is not a valid file name.
            VersionExpired: the version of the start was cleaned.
            CoordinatorUnavailable: a group needs ZooKeeper.
        """
        find = finder_if_any(self.ports, provider)
        return TableLogReader(self.ports, find, start=start, buckets=buckets, group=group)

    def log_lag(
        self, reader: str | Mapping[int, Position], *, provider: LogStoreProvider | None = None
    ) -> LogLag:
        """Return how far a reader of the log store is behind: ``records`` and ``seconds``.

        Args:
            reader: the name of a consumer group, or positions by bucket.
            provider: reaches stores; as for ``log_reader``.

        Raises:
            InvalidInput: the group has stored no position, or the table does not have a bucket.
        """
        return log_lag(self.ports, finder_if_any(self.ports, provider), reader)

    def compact(
        self,
        kind: str | None = None,
        *,
        interval: TimeRange | None = None,
        segments: Sequence[SegmentId | str] | None = None,
        granularity: Granularity | str | None = None,
        clustering: str | Sequence[str] | None = None,
        buckets: int | None = None,
        wait_s: float | None = None,
    ) -> CompactionResult:
        """Compact the table in this process, while others append to it and read it.

        Without a kind, the table's policy selects the work, until all present segments are
        compacted; later appends are left. With a kind, the rows of the interval are
        compacted now, whatever the policy.

        Args:
            kind: ``minor`` joins small neighbours, ``semi-major`` sorts each chunk, ``major``
                writes whole chunks into a new version.
            interval: with a kind: only chunks that overlap these event times.
            segments: with a kind: only these, by id, as ``segtable table segments`` prints them.
                ``minor`` joins exactly these, the others take the chunks that they lie in.
            granularity: with ``major``: the new length of time chunks.
            clustering: with ``semi-major`` or ``major``: sort by these columns,
                ``"carrier,origin"``, ``["carrier", "origin"]`` or ``"zorder(carrier,origin)"``.
            buckets: with ``major`` and a primary key: the new number of buckets of these chunks.
            wait_s: how long to wait for locks; by default as long as the kind is worth.

        Raises:
            InvalidInput: only Spark can compact the table, or there is nothing to compact.
            SegmentsRefused: the segments are unknown, hidden, or cannot be compacted so.
            ExecutionFailed: a plan failed; the others were carried out.
            CoordinatorUnavailable: there is no ZooKeeper.
        """
        return compact_table(
            self.ports,
            kind=kind,
            interval=None if interval is None else as_interval(interval),
            segments=segments,
            granularity=granularity,
            clustering=clustering,
            buckets=buckets,
            wait_s=wait_s,
        )

    def run_index(self, name: str, timeout: float | None = None) -> IndexRun:
        """Build the time that an index lacks in this process, beside writers and readers.

        It is built piece by piece, and each piece counts at once. So a run that was paused or
        killed is gone on with by the next one. If another process builds the index, the run leaves
        it to that one.

        Args:
            name: the index.
            timeout: seconds after which the run pauses; by default the table's
                ``index.timeout_minutes``.

        Returns:
            How it ended, the files that it indexed, and the time chunks that are ``left``.

        Raises:
            InvalidInput: there is no index of this name.
            ExecutionFailed: the build failed; the message says why.
            CoordinatorUnavailable: there is no ZooKeeper.
        """
        done = run_index(self.ports, name, in_process(self.ports.files), timeout_s=timeout)
        if done.ended is Ended.FAILED:
            raise ExecutionFailed(f"index {name} of {self.ports.uri} was not built: {done.message}")
        return done

    def clean(
        self,
        *,
        retention_hours: float | None = None,
        retention_versions: int | None = None,
        orphan_hours: float | None = None,
        consumer_hours: float | None = None,
        dry_run: bool = False,
    ) -> CleaningRun:
        """Delete files that no kept version needs; by default versions are kept by the properties.

        Args:
            retention_hours: keep all versions of the last hours.
            retention_versions: keep at least so many versions.
            orphan_hours: keep unreferenced files younger than this. With 0, an append that is
                being written loses its files.
            consumer_hours: keep versions for late consumers for so long at most.
            dry_run: return the deletions; delete nothing.
        """
        given = {
            "hours": retention_hours,
            "versions": retention_versions,
            "orphan_hours": orphan_hours,
            "consumer_hours": consumer_hours,
        }
        own = Retention.read(self.state().table.properties)
        wanted = {name: value for name, value in given.items() if value is not None}
        return clean(self.ports, retention=replace(own, **wanted), dry_run=dry_run)  # type: ignore[arg-type]

    def settle(self, interval: TimeRange | None = None, *, dry_run: bool = False) -> SettleRun:
        """Find out which rows of a primary-key table readers show, so that reads merge little.

        Nothing that a reader sees is changed, and no writer waits. Run it again after more upserts:
        it goes on where it was.

        Args:
            interval: only time chunks that overlap it.
            dry_run: return how many file groups are due; write nothing.
        """
        wanted = None if interval is None else as_interval(interval)
        return settle(self.ports, interval=wanted, dry_run=dry_run)

    def verify(self, *, deep: bool = False, all_versions: bool = False) -> Verification:
        """Check the log, the files, and that both agree; reads only.

        Args:
            deep: decode every row, too.
            all_versions: check every version that is kept.
        """
        return verify(self.ports, deep=deep, all_versions=all_versions)
