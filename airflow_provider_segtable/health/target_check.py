"""Check the targets of a table: can they be read, are they ours, are all their files there.

1. All formats are looked at, whether or not the table publishes in them now.
2. Files that the newest version of the log shows are checked with it (``health.verify``). So only
   the others are opened here.
3. A version that is replaced during the check is not reported: its successor is. One that is
   removed is not reported either.
4. Of a version whose data files are all there, what it refers to is read, and its rows are compared
   with the log's (``health.published_rows``).
5. Lag counts if the table publishes in the format. Otherwise what is published is merely left over.
"""

from collections.abc import Iterator

from airflow_provider_segtable.core.errors import (
    CorruptTable,
    ForeignTable,
    InvalidInput,
    NotFound,
    StorageError,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, unread
from airflow_provider_segtable.formats.format import Format, Published
from airflow_provider_segtable.health.published_rows import check_rows
from airflow_provider_segtable.planning.findings.publish_findings import (
    LAG_S,
    abandoned_target,
    damaged_target,
    foreign_target,
    lagging_target,
    missing_published,
    refused_target,
    unfinished_target,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.publisher import PublishedStatus, published_status
from airflow_provider_segtable.table.publishing.targets import own_paths


def check_targets(ports: TableContext, state: State, *, deep: bool = False) -> Iterator[Finding]:
    """Yield findings about what is published of a table.

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
    """Yield findings about what is published of a table, and how old it is."""
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
    """Yield how rows differ; if the version is replaced or removed meanwhile, of what is next."""
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
    """Return the files of a published version that are gone; those of the log are there."""
    shown = {segment.path for segment in state.timeline.each_visible()}
    return [path for path in sorted(head.files.keys() - shown) if _is_gone(ports, path)]


def _is_gone(ports: TableContext, path: str) -> bool:
    try:
        with ports.files.open(path):
            return False
    except NotFound:
        return True
