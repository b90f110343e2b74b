"""Creation of a table: the first event of its log."""

from airflow_provider_segtable.core.errors import AlreadyExists, OutcomeUnknown, TableExists
from airflow_provider_segtable.core.log.codec import encode
from airflow_provider_segtable.core.log.events import Event, TableCreated
from airflow_provider_segtable.storage import probe
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import check_properties
from airflow_provider_segtable.table.log.event_log import event_path


def begin_log(ports: TableContext, definition: TableCreated) -> None:
    """Write event 0, after checking the definition and the storage.

    Raises:
        InvalidInput, SchemaMismatch: the properties are invalid; no table was created.
        TableExists: there is a table already.
        UnsafeStorage: the store does not honour put-if-absent.
        ClockSkew: this host's clock is off; no table was created.
    """
    check_properties(definition, definition.properties)
    log = ports.log
    if log.first():
        raise _exists(ports)
    probe(ports.storage, ports.randomness)
    commit_id = ports.randomness.token()
    event = Event(
        n=0, time=ports.checked_now(), commit=commit_id, author=ports.author, action=definition
    )
    try:
        ports.storage.create(event_path(0), encode(event))
    except (AlreadyExists, OutcomeUnknown):
        found = log.event(0)
        if found is None or found.commit != commit_id:
            raise _exists(ports) from None
    if log.first():  # event 0 had expired, so its number was free
        raise _exists(ports)


def _exists(ports: TableContext) -> TableExists:
    return TableExists(f"{ports.uri} is a table already: open it, or choose another place")
