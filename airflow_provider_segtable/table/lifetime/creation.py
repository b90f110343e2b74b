"""Creation of a table: the first event of its log.

Its number is 0, or, where a table was dropped, the number of the marker that ends the old log
(``table.log.event_log``, rule 8). The marker becomes one of expiry then. A table that is published
in other formats is published at once, without rows.
"""

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CommitUnknown,
    OutcomeUnknown,
    TableExists,
    TableGone,
)
from airflow_provider_segtable.core.log.codec import encode
from airflow_provider_segtable.core.log.events import Event, TableCreated
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.storage import probe
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.lifetime.definition import check_properties
from airflow_provider_segtable.table.log.event_log import TIMELINE, event_path, expired_path
from airflow_provider_segtable.table.publishing.after_commit import publish_after_commit


def begin_log(ports: TableContext, definition: TableCreated) -> None:
    """Write the first event, after checking the definition and the storage.

    Raises:
        InvalidInput, SchemaMismatch: the properties are invalid; no table was created.
        TableExists: there is a table already.
        TableGone: a table that was dropped there has files left; no table was created.
        UnsafeStorage: the store does not honour put-if-absent.
        CommitUnknown: the reply was lost; the table may be there, or come later.
        ClockSkew: this host's clock is off; no table was created.
    """
    check_properties(definition, definition.properties)
    n = _first_number(ports)
    log = ports.log
    probe(ports.storage, ports.randomness)
    commit_id = ports.randomness.token()
    event = Event(
        n=n, time=ports.checked_now(), commit=commit_id, author=ports.author, action=definition
    )
    try:
        ports.storage.create(event_path(n), encode(event))
    except (AlreadyExists, OutcomeUnknown) as error:
        found = log.event(n)
        if found is None and isinstance(error, OutcomeUnknown):
            raise CommitUnknown(
                f"{ports.uri}: the reply to the creation was lost: look whether the table is "
                "there; if it is not, create it again"
            ) from error
        if found is None or found.commit != commit_id:
            raise _exists(ports) from None
    if log.first() > n:  # event n had expired, so its number was free
        raise _exists(ports)
    if n:
        ports.storage.replace(expired_path(n), b"")
    publish_after_commit(ports, apply(None, event))


def _first_number(ports: TableContext) -> int:
    """Return the number of a new table's first event; errors as ``begin_log``."""
    log = ports.log
    n = log.first()
    if not n:
        return 0
    if log.event(n) is not None or log.kept(n) is None:
        raise _exists(ports)
    left = next(iter(ports.storage.list(TIMELINE)), None)
    if left is not None:
        raise TableGone(
            f"{ports.uri}: the table that was dropped here left {left.path} and maybe more: run "
            "`segtable table drop` again, then create the new one"
        )
    return n


def _exists(ports: TableContext) -> TableExists:
    return TableExists(f"{ports.uri} is a table already: open it, or choose another place")
