"""Publish after commits: joined, in the background, and never at a commit's expense.

1. The table's properties name the formats, and the lag (``publish.*``). Each format is published
   by itself.
2. A committed version is added to the backlog (``table/backlog``), which the background of the
   process publishes: the newest version of the log, so commits of other processes are in it, too.
3. With a lag of 0, at the end of the process, or if an earlier commit has waited for longer than
   the lag, the version is published before its commit returns.
4. Any failure is a warning in the log of this process, one for each reason. Readers of the format
   see an older version until a later commit, or ``publish``, makes up for it. So it is with what a
   killed process had not published yet.
5. Nothing is published of a table that was dropped meanwhile.
"""

import logging
from functools import partial

from airflow_provider_segtable.core.errors import TableGone
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.formats.format import Format
from airflow_provider_segtable.planning.properties import PUBLISH_PREFIX, PublishSettings
from airflow_provider_segtable.table.context import TableContext

_LOG = logging.getLogger(__name__)


def publish_after_commit(ports: TableContext, state: State) -> None:
    """Publish a version that was just committed, in its turn; never raises."""
    settings = None if state.dropped else _settings(ports, state)
    if settings is None or not settings.after_commits or not settings.formats:
        return
    if ports.background is None or not settings.lag_seconds:
        _publish_version(ports, state, settings)
        return
    late = ports.backlog.add(state, settings.lag_seconds)
    attended = ports.background.attend(ports.backlog, partial(_publish_waiting, ports))
    if late or not attended:
        _publish_waiting(ports)


def _settings(ports: TableContext, state: State) -> PublishSettings | None:
    try:
        return PublishSettings.read(state.table.properties)
    except Exception as error:  # noqa: BLE001 - the commit has landed
        _warn(ports, PUBLISH_PREFIX, f"{error}")
        return None


def _publish_waiting(ports: TableContext) -> None:
    """Publish the newest version, for all commits that wait; never raises."""
    with ports.backlog.taken() as waiting:
        if waiting is None:
            return
        try:
            state = ports.log.refresh(waiting)
        except TableGone:
            return
        except Exception as error:  # noqa: BLE001 - the commits have landed
            reason, kind = f"{type(error).__name__}: {error}", type(error).__name__
            _warn(ports, PUBLISH_PREFIX, reason, kind=kind)
            return
        settings = _settings(ports, state)
        if settings is not None and settings.after_commits:
            _publish_version(ports, state, settings)


def _publish_version(ports: TableContext, state: State, settings: PublishSettings) -> None:
    for form in (ports.formats[name] for name in settings.formats if name in ports.formats):
        _publish(ports, form, state)


def _publish(ports: TableContext, form: Format, state: State) -> None:
    from airflow_provider_segtable.table.publishing.publisher import (
        AlreadyPublished,
        PublishedNow,
        Refused,
        publish,
    )

    try:
        outcome = publish(ports, form, state)
    except TableGone:
        return
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
