"""Compare what is published with a scan of the version that it shows. Reads only.

1. What is published is taken from the target's own bytes (``Target.contents``): its data files, the
   rows of each, and which of them are hidden. The log's version is read by ``Scan``; of a
   primary-key table only its base files, which is what is promised there.
2. Always compared are the files, and of each time chunk the number of rows, but for that of
   primary-key tables. With ``deep``, the rows: the stored ones of the published files without the
   hidden positions, against those of the scan, by a checksum of each time chunk, as streams.
3. A primary-key table may have rows in buckets without a base: nothing of these is published. If a
   compaction has merged such a bucket, readers miss what they were promised. Otherwise its records
   merely wait for their first compaction; that is reported if nothing at all is published.
4. If the log does not have the published version any more, only rule 3 is checked.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.errors import VersionExpired
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import shown_files
from airflow_provider_segtable.core.recovery.diagnosis import Finding
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Instant, iso
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import files_columns
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.data.sketches import Checksum, checksum_of
from airflow_provider_segtable.formats.format import Contents, Format, Published
from airflow_provider_segtable.health.published_readers.reader import comparable
from airflow_provider_segtable.planning.findings.publish_findings import (
    other_published_files,
    other_published_rows,
    unbased_buckets,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.revising import shows
from airflow_provider_segtable.table.scan import Scan


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
    """Yield how what is published differs from the log's version.

    Args:
        ports: the table's ports.
        form: the format.
        head: its newest published version, whose data files are all there.
        newest: the newest version of the log.
        deep: compare rows by checksums, too.

    Raises:
        CorruptTable: a file that the published version refers to is gone or broken.
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
