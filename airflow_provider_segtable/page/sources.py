"""Where tables of the page are: below a root, perhaps as the fleet of a file.

1. A source opens any of its tables by name, and finds their names. It knows credentials; nothing
   that it shows has them (``label``).
2. A root without a fleet file is a fleet of all tables below it, without settings of its own.
3. A coordinator is connected at its first use. Reading needs none.
"""

import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import field, replace
from itertools import count
from threading import Lock

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.secret import HIDDEN, SecretOptions, redacted
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.planning.fleet.fleet import Fleet, Group, Scope
from airflow_provider_segtable.planning.fleet.fleet_memory import FoundTables
from airflow_provider_segtable.services.fleet_tables import LOG_FOLDER, tables_again
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.storage.table_paths import absolute
from airflow_provider_segtable.table.context import TableContext, open_context

_COORDINATOR = re.compile(r"zk://[^\s,;()]+")
Opening = Callable[[str], TableContext]
"""Opens the ports of a table by its name below the root, or by its URI."""


def all_below_the_root() -> Fleet:
    """Return the fleet of all tables below a root."""
    scope = Scope(name="")
    return Fleet(
        name="", source="", scope=scope, groups=(Group(name="", tables=("**",), scope=scope),)
    )


def only(name: str) -> Fleet:
    """Return the fleet of a single table."""
    return Fleet(name="", source="", scope=Scope(name=""), tables={name: Scope(name=name)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The tables of one root.

    Attributes:
        label: the root as it is shown, without credentials.
        fleet: the tables' groups, settings and objectives.
        find: searches for tables, unless the last search is recent.
        opening: opens a table.
        hidden: options whose credentials no text shows.
        place: equal for sources of the same tables, by the same credentials.
        close: ends what ``opening`` began, such as a session with ZooKeeper.
    """

    label: str
    fleet: Fleet = field(default_factory=all_below_the_root)
    find: Callable[[FoundTables | None, Instant], FoundTables]
    opening: Opening
    hidden: SecretOptions = field(default_factory=SecretOptions)
    place: Hashable = ""
    close: Callable[[], None] = lambda: None

    def safe(self, text: str) -> str:
        """Return a text without credentials, and without the address of a coordinator."""
        return _COORDINATOR.sub(HIDDEN, self.hidden.hidden_in(redacted(text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlace:
    """Where a table of the lake is.

    Attributes:
        name: in the lake.
        source: the name that its source's tables begin with; empty for the only source.
        own_name: in its source's fleet.
        fleet: the settings of the source.
    """

    name: str
    source: str
    own_name: str
    fleet: Fleet


def sources_at(
    roots: Sequence[str],
    *,
    fleet: Fleet | None = None,
    storage_options: SecretOptions | None = None,
    zookeeper: str | None = None,
    author: str | None = None,
) -> Mapping[str, Source]:
    """Return the sources of one or several roots, by the name that tables' names begin with.

    A root that is a table itself is shown as the only table of its folder.

    Args:
        roots: paths or URIs.
        fleet: of a fleet file, for a single root.
        storage_options: of the object store.
        zookeeper: the coordinator.
        author: author of what the page commits.

    Raises:
        InvalidInput: no root is given, or several for one fleet file.
        StorageError, InvalidName: a root cannot be listed, or is no URI.
    """
    if not roots or (fleet is not None and len(roots) > 1):
        raise InvalidInput(
            f"{counted(len(roots), 'root')} given: name one, or several without a fleet file"
        )
    options, found = storage_options or SecretOptions(), dict[str, Source]()
    for root in roots:
        base = root.rstrip("/") or root
        of_root = fleet
        if of_root is None and LOG_FOLDER in open_storage(base, options).folders(""):
            base, _, name = absolute(base).rpartition("/")
            of_root = only(name)
        prefix = _free(base.rpartition("/")[2], found) if len(roots) > 1 else ""
        found[prefix] = source_at(
            base, fleet=of_root, storage_options=options, zookeeper=zookeeper, author=author
        )
    return found


def _free(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: with a number if it has to be."""
    names = (f"{name}-{n}" if n else name for n in count())
    return next(each for each in names if each not in taken)


def source_at(
    root: str,
    *,
    fleet: Fleet | None = None,
    storage_options: SecretOptions | None = None,
    zookeeper: str | None = None,
    zookeeper_options: Mapping[str, str] | None = None,
    log_store_options: Mapping[str, str] | None = None,
    author: str | None = None,
) -> Source:
    """Return the tables below a root.

    Args:
        root: a path or URI.
        fleet: of a fleet file; all tables below the root by default.
        storage_options: of the object store.
        zookeeper: the coordinator, for locks and announcements.
        zookeeper_options: user, password and TLS files.
        log_store_options: token and authorities of log stores.
        author: author of what the page commits.
    """
    options = storage_options or SecretOptions()
    base = absolute(root.rstrip("/") or root)
    first, mutex = list[TableContext](), Lock()

    def opening(table: str) -> TableContext:
        uri = table if "://" in table or table.startswith("/") else f"{base}/{table}"
        with mutex:
            if not first:  # all of them share its session with ZooKeeper
                opened = open_context(
                    uri,
                    zookeeper=zookeeper,
                    zookeeper_options=zookeeper_options,
                    storage_options=options,
                    log_store_options=log_store_options,
                    author=author,
                )
                first.append(opened)
        return first[0].at(uri)

    def close() -> None:
        for ports in first:
            if ports.optional_coordinator is not None:
                ports.optional_coordinator.close()

    of_root = fleet or all_below_the_root()
    if of_root.source:  # settings name it, and where it is stored is not for readers
        of_root = replace(of_root, source=of_root.source.replace("\\", "/").rpartition("/")[2])
    return Source(
        label=redacted(base),
        fleet=of_root,
        find=lambda before, now: tables_again(
            of_root, lambda uri: open_storage(uri or base, options), before, now
        ),
        opening=opening,
        hidden=options,
        close=close,
        place=hash((base, tuple(sorted(options.items())), zookeeper)),
    )


def within(sentence: str, name: str) -> str:
    """Return a sentence about a table without the place of the table in its paths."""
    return re.sub(rf"(?<!\S)\S*/{re.escape(name)}/", "", sentence)
