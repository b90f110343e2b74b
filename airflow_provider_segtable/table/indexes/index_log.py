"""The table of an index as readers of the indexed table see it.

1. It has what its own log has, and above that, in the order of their events, the feeds that the
   log has not got yet (``waiting_feeds``): every entry that the indexed table's log names, at once.
2. A feed with files is in its own log if an event there has the commit id of the feed
   (``feed_commit``). An inline feed is not, before it was joined.
3. The table is made before the index is requested. Its id is new, so nobody else makes it.
"""

from airflow_provider_segtable.core.errors import CorruptTable, TableExists
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexDefinition, IndexState
from airflow_provider_segtable.core.indexes.index_table import folder, index_table
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.lifetime.creation import begin_log


def index_ports(ports: TableContext, index: IndexDefinition) -> TableContext:
    """Return the ports of the table of an index."""
    return ports.within(folder(index.id))


def create_index_table(ports: TableContext, index: IndexDefinition, table: TableCreated) -> None:
    """Create the table of a new index; nothing if it is there already.

    Raises:
        StorageError: it could not be created.
    """
    try:
        begin_log(index_ports(ports, index), index_table(index, table))
    except TableExists:
        return


def entry_rules(own: TableContext, state: State) -> MergeRules:
    """Return how the entries of a key become one, in the table of an index.

    Raises:
        CorruptTable: the table has no primary key.
    """
    rules = state.table.kind.rules
    if rules is None:
        raise CorruptTable(f"{own.uri} keeps an index, so it has a primary key: this one has none")
    return rules


def feed_commit(n: int, feed: Feed) -> str:
    """Return the commit id, in the index's log, of the feed of event ``n``.

    It names a file, too: after a repair of a log that had lost its end, another event is ``n``.
    """
    return f"feed-{n}-{feed.segments[0].path}"


def waiting_feeds(index: IndexState, own: State) -> list[Feed]:
    """Return the feeds of an index, oldest first, that the log of its table has not got yet."""
    return [
        feed for n, feed in index.feeds if feed.inline or feed_commit(n, feed) not in own.commits
    ]
