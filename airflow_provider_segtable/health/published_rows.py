"""Check the published versions of a table: their files, their owner, and their rows. Reads only.

Rows, compared with a scan of the version that is published:

1. Published contents are taken from the target's own bytes (``Target.contents``): its data files,
   the rows of each, and which of them are hidden. The log's version is read by ``Scan``; of a
   primary-key table only its base files, because only these are published.
2. Always compared are the files, and of each time chunk the number of rows, but for that of
   primary-key tables. With ``deep``, the rows: the stored ones of the published files without the
   hidden positions, against those of the scan, by a checksum of each time chunk, as streams.
3. A primary-key table may have rows in buckets without a base: nothing of these is published. If a
   compaction has merged such a bucket, readers miss its base. Otherwise its records
   merely wait for their first compaction; that is reported if nothing at all is published.
4. If the log does not have the published version any more, only rule 3 is checked.

Targets (whether they can be read, are segtable's, and have all their files):

5. All formats are looked at, whether or not the table publishes in them now.
6. Files that the newest version of the log shows are checked with it (``health.verify``). So only
   the others are opened here.
7. A version that is replaced during the check is not reported: its successor is. One that is
   removed is not reported either.
8. Of a version whose data files are all there, all that it refers to is read, and its rows are
   compared with the log's.
9. Lag counts if the table publishes in the format. Otherwise the published version is merely left
   over.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    ForeignTable,
    InvalidInput,
    NotFound,
    StorageError,
    VersionExpired,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import shown_files
from airflow_provider_segtable.core.recovery.diagnosis import Finding, unread
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Instant, iso
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import files_columns
from airflow_provider_segtable.data.row_checksum import Checksum, checksum_of
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.formats.format import Contents, Format, Published
from airflow_provider_segtable.health.published_readers import comparable
from airflow_provider_segtable.planning.findings.publish_findings import (
    LAG_S,
    abandoned_target,
    damaged_target,
    foreign_target,
    lagging_target,
    missing_published,
    other_published_files,
    other_published_rows,
    refused_target,
    unbased_buckets,
    unfinished_target,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.revising import shows
from airflow_provider_segtable.table.publishing.status import PublishedStatus, published_status
from airflow_provider_segtable.table.publishing.targets import own_paths
from airflow_provider_segtable.table.scan import Scan


# Rows, compared with a scan
def published_state(ports: TableContext, newest: State, head: Published) -> State | None:
    """Return the version that is published; None if the log has another one of its number.

    If its event has expired, but the newest version shows the same, that is the one.

    Raises:
        VersionExpired: its event has expired, and the newest version shows other files.
    """
    if head.table_id != newest.table.table_id or head.event > newest.n:
        return None
    event = ports.log.event(head.event)
    if event is not None and event.commit != head.commit:
        return None
    if not newest.keeps(head.event) and shows(head, newest):
        return newest
    return ports.log.at(head.event)


def check_rows(
    ports: TableContext, form: Format, head: Published, newest: State, *, deep: bool = False
) -> Iterator[Finding]:
    """Yield the differences between a published version and the log's version.

    Args:
        ports: the table's ports.
        form: the format.
        head: its newest published version; all of its data files exist.
        newest: the newest version of the log.
        deep: compare rows by checksums, too.

    Raises:
        CorruptTable: a file that the published version refers to is missing or broken.
    """
    contents = form.target(ports.storage).contents(head)
    yield from _unbased(form, newest, sum(each.rows for each in contents.values()))
    try:
        state = published_state(ports, newest, head)
    except VersionExpired:
        return
    if state is None or not head.commit:
        return
    shown = {path: file.segment for path, file in shown_files(state).items()}
    lacking, extra = sorted(shown.keys() - contents.keys()), sorted(contents.keys() - shown.keys())
    if lacking or extra:
        yield other_published_files(form.title, form.name, head.event, lacking, extra)
        return
    check = _Check(ports=ports, state=state, shown=shown, contents=contents)
    wrong = check.by_number() if state.table.kind.rules is None else {}
    if not wrong and deep:
        wrong = check.by_checksum()
    if wrong:
        yield other_published_rows(form.title, form.name, head.event, wrong)


def _unbased(form: Format, state: State, published: int) -> Iterator[Finding]:
    """Yield buckets of a primary-key table of which nothing is published (rule 3)."""
    if state.table.kind.rules is None:
        return
    records = merged = buckets = 0
    for chunk in state.timeline.visible_chunks():
        groups = [group.segments for group in state.timeline.visible_groups(chunk)]
        files = [segment for group in groups for segment in group if segment.rows]
        if files and not any(segment.rows for segment in state.timeline.base(chunk)):
            buckets += 1
            records += sum(segment.rows for segment in files)
            merged += any(map(_is_named_base, files))
    if merged or (records and not published):
        yield unbased_buckets(form.title, form.name, buckets, records, merged=merged)


def _is_named_base(segment: Segment) -> bool:
    """Return whether a file was written by a compaction that merges whole buckets."""
    return ".log." not in segment.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """A comparison; ``shown`` are the segments of the published files, by path."""

    ports: TableContext
    state: State
    shown: Mapping[str, Segment]
    contents: Mapping[str, Contents]

    def by_number(self) -> Mapping[str, str]:
        """Return the chunks whose numbers of rows differ, each with both."""
        found: Counter[Instant] = Counter()
        for path, each in self.contents.items():
            found[self.shown[path].id.interval.start] += each.shown
        wanted: Counter[Instant] = Counter()
        for segment, rows in self._scan(ReadRequest()).counts():
            wanted[self.shown[segment.path].id.interval.start] += rows
        return {
            iso(start): f"{found[start]:,} rows, the log has {wanted[start]:,}"
            for start in sorted({*found, *wanted})
            if found[start] != wanted[start]
        }

    def by_checksum(self) -> Mapping[str, str]:
        """Return the chunks whose rows differ, each with how."""
        request = ReadRequest(base_only=self.state.table.kind.rules is not None)
        scan = self._scan(request)
        wanted = self._sums(scan.to_batches(), scan.schema)
        found = self._sums(self._published(scan.schema), scan.schema)
        return {
            iso(start): _differing(found.get(start, Checksum()), wanted.get(start, Checksum()))
            for start in sorted({*found, *wanted})
            if found.get(start) != wanted.get(start)
        }

    def _scan(self, request: ReadRequest) -> Scan:
        return Scan(ports=self.ports, state=self.state, request=request)

    def _published(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the published files that are not hidden."""
        table = self.state.table
        for path, each in self.contents.items():
            read = SegmentRead(
                self.ports.files,
                self.shown[path],
                schema=files_columns(table.schema, table.kind),
                time_column=table.time_column,
                columns=schema.names,
            )
            hidden = np.asarray(each.hidden.to_array(), dtype=np.int64)
            for first, rows in read.numbered():
                kept = np.ones(rows.num_rows, np.bool_)
                here = hidden[(hidden >= first) & (hidden < first + rows.num_rows)]
                kept[here - first] = False
                yield rows.filter(pa.array(kept)).select(schema.names)

    def _sums(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> dict[Instant, Checksum]:
        """Return the checksums of rows by the start of their time chunk."""
        starts = sorted({each.id.interval.start for each in self.shown.values()})
        column, found = self.state.table.time_column, dict[Instant, Checksum]()
        for batch in comparable(batches, schema):
            times = np.asarray(instants(batch.column(column)))
            places = np.searchsorted(np.asarray(starts, dtype=np.int64), times, side="right")
            for place in np.unique(places):
                some = batch.filter(pa.array(places == place))
                start = starts[max(0, int(place) - 1)] if starts else 0
                found[start] = found.get(start, Checksum()) + checksum_of([some])
        return found


def _differing(found: Checksum, wanted: Checksum) -> str:
    """Return how rows that are published differ from the log's."""
    if found.rows != wanted.rows:
        return f"{found.rows:,} rows, the log has {wanted.rows:,}"
    return f"{found.rows:,} rows, but other values of {', '.join(found.differing(wanted))}"


# Targets
def check_targets(ports: TableContext, state: State, *, deep: bool = False) -> Iterator[Finding]:
    """Yield findings about the published versions of a table.

    Args:
        ports: the table's ports.
        state: its newest version.
        deep: compare rows, too.
    """
    for each in ports.formats.values():
        try:
            yield from _checked(ports, each, state, deep=deep)
        except ForeignTable as error:
            yield foreign_target(each.title, each.folders, str(error))
        except CorruptTable as error:
            yield damaged_target(each.title, each.name, each.folders, str(error))
        except StorageError as error:
            what = f"what is published as {each.title} could not be read: {error}"
            yield unread(", ".join(each.folders), what, code="unread")


def examine_targets(ports: TableContext, state: State) -> Iterator[Finding]:
    """Yield findings about the published versions of a table, and their age."""
    yield from check_targets(ports, state)
    try:
        statuses = published_status(ports)
    except InvalidInput:  # the settings; each commit says so
        return
    for name, status in statuses.items():
        yield from _late(ports.formats[name].title, status)


def _late(title: str, status: PublishedStatus) -> Iterator[Finding]:
    if status.error:
        return
    if status.refusal:
        yield refused_target(title, status.format, status.refusal)
    elif (late_s := status.lag_seconds or 0.0) > LAG_S and status.enabled:
        yield lagging_target(title, status.format, status.event, late_s, status.lag_events)
    elif late_s > LAG_S and status.event is not None:
        yield abandoned_target(title, status.format, status.event)


def _checked(ports: TableContext, each: Format, state: State, *, deep: bool) -> Iterator[Finding]:
    target = each.target(ports.storage)
    head = target.load()
    if head is None:
        yield from _unfinished(ports, each)
        return
    lost = _lost(ports, head, state)
    newest = target.load(head) if lost else head
    if newest is not None and newest.number != head.number:
        lost = _lost(ports, newest, ports.log.refresh(state))
    if lost and newest is not None:
        yield missing_published(each.title, each.name, newest.event, lost)
    elif newest is not None:
        yield from _rows(ports, each, newest, state, deep=deep)


def _rows(
    ports: TableContext, each: Format, head: Published, state: State, *, deep: bool
) -> Iterator[Finding]:
    """Yield differences of rows; if the version is replaced meanwhile, those of its successor."""
    damage: CorruptTable | NotFound | None = None
    found: list[Finding] = []
    try:
        found = [*check_rows(ports, each, head, state, deep=deep)]
    except (CorruptTable, NotFound) as error:
        damage = error
    newest = each.target(ports.storage).load() if found or damage else head
    if newest is None:
        yield from _unfinished(ports, each)
    elif (newest.number, newest.commit) != (head.number, head.commit):
        yield from check_rows(ports, each, newest, ports.log.refresh(state), deep=deep)
    elif damage:
        raise damage
    else:
        yield from found


def _unfinished(ports: TableContext, each: Format) -> Iterator[Finding]:
    for folder in each.folders:
        if own := own_paths(ports.storage, each, folder):
            yield unfinished_target(each.title, each.name, folder, len(own))


def _lost(ports: TableContext, head: Published, state: State) -> list[str]:
    """Return the missing files of a published version; those of the log's version exist."""
    shown = {segment.path for segment in state.timeline.each_visible()}
    return [path for path in sorted(head.files.keys() - shown) if _is_gone(ports, path)]


def _is_gone(ports: TableContext, path: str) -> bool:
    try:
        with ports.files.open(path):
            return False
    except NotFound:
        return True
