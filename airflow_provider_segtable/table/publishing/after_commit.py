"""Publishing by whoever commits: after the commit, which it never fails.

1. The table's properties say in which formats (``publish.*``). Each is published by itself.
2. Whatever goes wrong is a warning in the log of this process, one for each reason. Readers of the
   format see an older version until a later commit, or ``publish``, makes up for it.
"""

import logging

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.formats.format import Format
from airflow_provider_segtable.planning.properties.publish_settings import PREFIX, PublishSettings
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.outcomes import (
    AlreadyPublished,
    PublishedNow,
    Refused,
)
from airflow_provider_segtable.table.publishing.publisher import publish

_LOG = logging.getLogger(__name__)


def publish_after_commit(ports: TableContext, state: State) -> None:
    """Publish the version that was just committed in the formats of the table; never raises."""
    properties = state.table.properties
    if state.dropped or not any(key.startswith(f"{PREFIX}.") for key in properties):
        return
    try:
        settings = PublishSettings.read(properties)
    except Exception as error:  # noqa: BLE001 - the commit has landed
        _warn(ports, PREFIX, f"{error}")
        return
    if settings.after_commits:
        for form in (ports.formats[name] for name in settings.formats if name in ports.formats):
            _publish(ports, form, state)


def _publish(ports: TableContext, form: Format, state: State) -> None:
    try:
        outcome = publish(ports, form, state)
    except Exception as error:  # noqa: BLE001 - the commit has landed
        _warn(ports, form.name, f"{type(error).__name__}: {error}", kind=type(error).__name__)
        return
    if isinstance(outcome, Refused):
        _warn(ports, form.name, outcome.reason)
    if isinstance(outcome, PublishedNow) and outcome.mended:
        what = "%s: what was published as %s was damaged, and was published anew: %s"
        _LOG.warning(what, ports.uri, form.name, outcome.mended)
    if isinstance(outcome, AlreadyPublished | PublishedNow) and outcome.unregistered:
        _warn(ports, form.name, outcome.unregistered, failed="registered")


def _warn(
    ports: TableContext, name: str, reason: str, *, kind: str = "", failed: str = "published"
) -> None:
    if ports.publications.names(f"{failed} {name}", kind or reason):
        _LOG.warning("%s: version not %s as %s: %s", ports.uri, failed, name, reason)
