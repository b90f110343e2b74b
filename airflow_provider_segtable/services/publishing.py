"""Publish a table in all formats that its properties switch on; no failure stops another.

1. Each format is published by itself: one that is refused, or fails, does not keep back another.
2. One read of a target finds its newest published version, so this may run at any time, such as
   in every planner run. It makes up for commits whose authors did not publish them
   (``publish.on_commit = off``, or a failure that was only logged).
"""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.planning.properties import PublishSettings
from airflow_provider_segtable.table.context import TableContext

if TYPE_CHECKING:
    from airflow_provider_segtable.table.publishing.publisher import PublishOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRun:
    """The outcome of each format, by name; or its error, if it failed."""

    outcomes: "tuple[PublishOutcome, ...]" = ()
    failed: Mapping[str, str] = field(default_factory=dict)


def publish_all(ports: TableContext, properties: Mapping[str, str] | None = None) -> PublishRun:
    """Publish the newest version in all formats that are switched on.

    Args:
        ports: the table's ports.
        properties: switch formats on; by default the table's own.

    Raises:
        TableGone, StorageError: the table's log cannot be read.
    """
    given = ports.log.known().table.properties if properties is None else properties
    if not PublishSettings.read(given).formats:
        return PublishRun()
    from airflow_provider_segtable.table.publishing.publisher import publish, read_ahead

    state, ahead = read_ahead(ports)
    outcomes: list[PublishOutcome] = []
    failed: dict[str, str] = {}
    given = state.table.properties if properties is None else properties
    for name in PublishSettings.read(given).formats:
        try:
            outcomes.append(publish(ports, ports.formats[name], state, ahead=ahead.get(name)))
        except Exception as error:  # noqa: BLE001 - the planner goes on
            failed[name] = f"{type(error).__name__}: {error}"
    return PublishRun(outcomes=tuple(outcomes), failed=failed)
