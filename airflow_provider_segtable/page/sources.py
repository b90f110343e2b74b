"""Where tables of the page are: below a root, perhaps as the fleet of a file.

1. A source opens any of its tables by name, and finds their names. It knows credentials; nothing
   that it shows has them (``label``).
2. A root without a fleet file is a fleet of all tables below it, without settings of its own.
3. A coordinator is connected at its first use. Reading needs none.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_segtable.core.secret import SecretOptions, redacted
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.planning.fleet.fleet import Fleet, Group, Scope
from airflow_provider_segtable.planning.fleet.fleet_memory import FoundTables
from airflow_provider_segtable.services.fleet_tables import tables_again
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.table.context import TableContext, open_context

Opening = Callable[[str], TableContext]
"""Opens the ports of a table by its name below the root, or by its URI."""


def all_below_the_root() -> Fleet:
    """Return the fleet of all tables below a root."""
    scope = Scope(name="")
    return Fleet(
        name="", source="", scope=scope, groups=(Group(name="", tables=("**",), scope=scope),)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The tables of one root.

    Attributes:
        label: the root as it is shown, without credentials.
        fleet: the tables' groups, settings and objectives.
        find: searches for tables, unless the last search is recent.
        opening: opens a table.
        hidden: options whose credentials no text shows.
    """

    label: str
    fleet: Fleet = field(default_factory=all_below_the_root)
    find: Callable[[FoundTables | None, Instant], FoundTables]
    opening: Opening
    hidden: SecretOptions = field(default_factory=SecretOptions)

    def safe(self, text: str) -> str:
        """Return a text without credentials."""
        return self.hidden.hidden_in(redacted(text))


def source_at(
    root: str,
    *,
    fleet: Fleet | None = None,
    storage_options: SecretOptions | None = None,
    zookeeper: str | None = None,
    author: str | None = None,
) -> Source:
    """Return the tables below a root.

    Args:
        root: a path or URI.
        fleet: of a fleet file; all tables below the root by default.
        storage_options: of the object store.
        zookeeper: the coordinator, for locks and announcements.
        author: author of what the page commits.
    """
    options = storage_options or SecretOptions()
    base = root.rstrip("/") or root
    first: list[TableContext] = []

    def opening(table: str) -> TableContext:
        uri = table if "://" in table or table.startswith("/") else f"{base}/{table}"
        if not first:  # all of them share its session with ZooKeeper
            first.append(
                open_context(uri, zookeeper=zookeeper, storage_options=options, author=author)
            )
        return first[0].at(uri)

    of_root = fleet or all_below_the_root()
    return Source(
        label=redacted(base),
        fleet=of_root,
        find=lambda before, now: tables_again(
            of_root, lambda uri: open_storage(uri or base, options), before, now
        ),
        opening=opening,
        hidden=options,
    )
