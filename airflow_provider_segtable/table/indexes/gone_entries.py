"""Delete the entries about files that no segment has any more.

1. The entries are read before the newest state, so that files committed meanwhile count as present.
2. An entry is *gone* if no present segment, visible or hidden, has its file. No file is written
   again under a used name, so no reader asks for the entry.
3. Tombstones of these entries are a feed like any other. A cleaning names them in the event that
   says that the files are deleted.
4. Entries about records are gone with no file: compactions keep the records.
5. An index that cannot be read keeps no cleaning: its entries stay, with a warning.
"""

import logging
from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_kind import FILE, START
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexState
from airflow_provider_segtable.core.indexes.index_table import index_table
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.data.arrow.arrow_schema import to_arrow
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.feed_writer import write_feed
from airflow_provider_segtable.table.indexes.lookup import entries_in

_LOG = logging.getLogger(__name__)


def gone_entries(
    ports: TableContext, state: State, going: Collection[str]
) -> Iterator[tuple[IndexState, pa.Table]]:
    """Yield each index with the keys of its entries that are gone, if it has any.

    Args:
        ports: the indexed table's ports.
        state: a state of the table.
        going: paths of files that are about to be deleted.
    """
    for name, index in state.indexes.items():
        if not index.definition.kind.about_files:
            continue
        try:
            gone = _gone(ports, index, state, going)
        except (SegtableError, OSError) as error:
            _LOG.warning("%s: entries of index %s were kept: %s", ports.uri, name, error)
            continue
        if gone.num_rows:
            yield index, gone


def _gone(ports: TableContext, index: IndexState, state: State, going: Collection[str]) -> pa.Table:
    kind = index.definition.kind
    keys = tuple(dict.fromkeys((*kind.key, FILE, START)))
    found = entries_in(ports, index, columns=keys)
    newest = ports.log.refresh(state)
    present = pa.array((p for p in newest.timeline.paths() if p not in going), pa.string())
    return found.filter(pc.invert(pc.is_in(found.column(FILE), present)))


def tombstones(
    ports: TableContext, state: State, going: Collection[str]
) -> dict[str, tuple[Feed, int]]:
    """Write tombstones of the entries that are gone; return feeds and counts by index name."""
    feeds: dict[str, tuple[Feed, int]] = {}
    for index, gone in gone_entries(ports, state, going):
        definition = index.definition
        try:
            schema = to_arrow(index_table(definition, state.table).schema)
            feed = write_feed(ports, definition, schema.empty_table(), gone)
        except (SegtableError, OSError) as error:
            name = definition.name
            _LOG.warning("%s: entries of index %s were kept: %s", ports.uri, name, error)
            continue
        feeds[definition.name] = (feed, gone.num_rows)
    return feeds
