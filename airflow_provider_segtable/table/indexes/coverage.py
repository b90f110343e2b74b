"""Coverage: how many of the files that readers see an index knows, and what it takes to keep it.

A file counts if there is an entry of its path with the checksum of its footer, as for readers. If
entries are about records, it counts if its time is not lacking.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput, SegtableError
from airflow_provider_segtable.core.indexes.index_kind import CHECKSUM, FILE, START
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.indexes.entry_kind import (
    ColumnSummary,
    KeepsValues,
    footer_checksum,
)
from airflow_provider_segtable.data.indexes.index_view import view_of
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_log import index_ports, waiting_feeds
from airflow_provider_segtable.table.indexes.lookup import entries_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What an index knows.

    Attributes:
        files: the files that readers of the table see.
        indexed: those of them that have entries.
        entries: all entries, also those about files that are gone.
        own_files: the files of the index's own table, with those of feeds that wait to be copied.
        own_bytes: their size, with that of feeds in events.
    """

    files: int
    indexed: int
    entries: int
    own_files: int
    own_bytes: int


def coverage(ports: TableContext, index: IndexState, state: State) -> Coverage:
    """Return how much of a version of its table an index knows; reads two columns of its entries.

    Raises:
        SegtableError: the entries cannot be read.
    """
    about_files = index.definition.kind.about_files
    found = entries_in(ports, index, columns=[FILE, CHECKSUM] if about_files else [START])
    visible = [segment for segment in state.timeline.each_visible() if segment.path]
    own = index_ports(ports, index.definition).log.load()
    in_table = own.timeline.visible_summaries().values()
    feeds = waiting_feeds(index, own)
    waiting = [segment for feed in feeds for segment in feed.segments]
    sizes = (*(segment.size for segment in waiting), *(len(feed.entries) for feed in feeds))
    return Coverage(
        files=len(visible),
        indexed=_named(found, visible) if about_files else _in_time(index, visible),
        entries=found.num_rows,
        own_files=sum(summary.files for summary in in_table) + len(waiting),
        own_bytes=sum(summary.size for summary in in_table) + sum(sizes),
    )


def visible_entries(index: IndexState, state: State, found: pa.Table) -> pa.Table:
    """Return the entries about files that readers of a version see; all that are about records.

    Args:
        index: the index, in that version.
        state: the version.
        found: entries, also about files that were replaced.
    """
    if not index.definition.kind.about_files:
        return found
    visible = {s.path: footer_checksum(s) for s in state.timeline.each_visible() if s.path}
    names = pa.array(visible, pa.string())
    places = pc.index_in(found.column(FILE), names)
    sums = pa.array(visible.values(), pa.string()).take(places.combine_chunks())
    return found.filter(pc.equal(sums, found.column(CHECKSUM)))


def column_summaries(
    ports: TableContext, index: IndexState, state: State
) -> tuple[ColumnSummary, ...]:
    """Return the values of each indexed column in the visible files that an index knows.

    Raises:
        InvalidInput: the index keeps no values.
        SegtableError: the entries cannot be read.
    """
    definition = index.definition
    view = view_of(definition, state.table, entries_in(ports, index))
    if not isinstance(view, KeepsValues):
        raise InvalidInput(
            f"index {definition.name!r} of {ports.uri} is a {definition.kind.name}, which keeps no "
            "values: ask an index of kind column_stats"
        )
    return tuple(view.summaries(s for s in state.timeline.each_visible() if s.path))


def _named(found: pa.Table, visible: Iterable[Segment]) -> int:
    known = dict(zip(found[FILE].to_pylist(), found[CHECKSUM].to_pylist(), strict=True))
    return sum(known.get(segment.path) == footer_checksum(segment) for segment in visible)


def _in_time(index: IndexState, visible: Iterable[Segment]) -> int:
    lacks = [each.interval for each in index.lacks]
    return sum(not any(lack.overlaps(s.id.interval) for lack in lacks) for s in visible)


def unreadable_index(ports: TableContext, index: IndexState) -> str:
    """Return why the entries of an index cannot be read, by reading them all; empty if they can."""
    try:
        entries_in(ports, index)
    except (SegtableError, OSError) as error:
        return str(error)
    return ""
