"""The tables inside a table: those of its indexes, which need the same upkeep.

1. Each is a table of its own, with its own log, locks and properties.
2. Its log may lag behind: files of feeds that were not copied yet are named by the indexed table's
   log alone (``files_of_feeds``). So upkeep copies the feeds first, and takes none of these files
   for an orphan.
3. What fails for one of them concerns no other table.
"""

import logging
from collections.abc import Iterator

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.families.index_events import index_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_log import index_ports
from airflow_provider_segtable.table.log.committer import forward_feeds

_LOG = logging.getLogger(__name__)


def inner_tables(ports: TableContext, state: State) -> Iterator[tuple[IndexState, TableContext]]:
    """Yield the indexes of a table with the ports of their tables."""
    for index in state.indexes.values():
        yield index, index_ports(ports, index.definition)


def forward_all(ports: TableContext, state: State) -> None:
    """Copy the feeds of all indexes; what cannot be copied waits, with a warning."""
    try:
        forward_feeds(ports, state)
    except (SegtableError, OSError) as error:
        _LOG.warning("%s: feeds of an index wait to be copied: %s", ports.uri, error)


def files_of_feeds(state: State, index: str) -> frozenset[str]:
    """Return the files that the indexed table's log names for an index, by id, and no other log."""
    found = index_of(index, state)
    feeds = found.feeds if found else ()
    return frozenset(segment.path for _, feed in feeds for segment in feed.segments)
