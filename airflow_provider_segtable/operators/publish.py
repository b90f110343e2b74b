"""Publish a table for readers of Delta Lake or Apache Iceberg, in this worker.

Publishing needs no Spark, no lock and no ZooKeeper, and takes milliseconds unless everything is
published anew; so it is not deferred. The log has no event of it, and so there is no asset event;
``SegtablePublishedSensor`` waits for it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, Context

from airflow_provider_segtable.core.errors import ForeignTable
from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.operators.lineage import Lineage, Written
from airflow_provider_segtable.operators.rendered import TableOperator

if TYPE_CHECKING:
    from airflow_provider_segtable.table.publishing.publisher import PublishOutcome


class SegtablePublishOperator(TableOperator):
    """Publish the newest version of a table.

    Returns ``{"event", "formats"}``: the event that all formats show now at least, and for each
    format the ``event``, the ``number`` of its version, the ``address`` for readers, and whether
    the version is ``new``.

    A format that cannot show the version fails the task, after the others were published.

    Args:
        formats: ``delta``, ``iceberg``, or both; by default those that the table's properties
            switch on (``publish.delta``).
        full: publish all files anew, for example after published files were damaged.
        kwargs: see ``TableOperator``; the connection needs no ZooKeeper.
    """

    template_fields: Sequence[str] = ("formats", *TableOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {"formats": "json"}
    ui_color = "#f5efdf"

    def __init__(
        self,
        *,
        formats: Sequence[str] | str | None = None,
        full: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.formats = formats
        self.full = full

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish the table, and return the published versions."""
        from airflow_provider_segtable.library.table import Table

        with self.opened(context, f"publishing {self.table}") as ports:
            try:
                outcomes = Table(ports).publish(formats=self.formats or None, full=self.full)
            except ForeignTable as error:
                raise AirflowFailException(f"publishing {self.table}: {error}") from error
            self._lineage = lineage_of(ports.uri, ports.log.load().table.schema, outcomes)
        for outcome in outcomes:
            self.log.info("%s", outcome)
        return summary(self.table, outcomes)


def lineage_of(uri: str, schema: Schema, outcomes: "Sequence[PublishOutcome]") -> Lineage | None:
    """Return what the new published versions were made of; None if there is none."""
    from airflow_provider_segtable.table.publishing.publisher import PublishedNow

    written = tuple(
        Written(uri=each.address, version=str(each.number), schema=schema, layer=each.format)
        for each in outcomes
        if isinstance(each, PublishedNow)
    )
    return Lineage(read=(uri,), written=written) if written else None


def summary(table: str, outcomes: "Sequence[PublishOutcome]") -> dict[str, Any]:
    """Return published versions as plain values.

    Raises:
        AirflowFailException: a format cannot show the version.
        AirflowException: other publishers were faster, again and again, or the catalog does not
            have the version; a retry publishes it.
    """
    from airflow_provider_segtable.table.publishing.publisher import (
        AlreadyPublished,
        Overtaken,
        PublishedNow,
        Refused,
    )

    shown: dict[str, dict[str, Any]] = {}
    for outcome in outcomes:
        match outcome:
            case Refused(format=name, reason=reason):
                raise AirflowFailException(f"{table} cannot be published as {name}: {reason}")
            case Overtaken(format=name):
                raise AirflowException(f"{table} is published as {name} by others: try again")
            case PublishedNow() | AlreadyPublished() if outcome.unregistered:
                raise AirflowException(
                    f"{table} is published as {outcome.format}, but not in the catalog: "
                    f"{outcome.unregistered}"
                )
            case PublishedNow() | AlreadyPublished():
                facts = outcome.facts()
                shown[outcome.format] = {
                    **{name: facts[name] for name in ("event", "number", "address")},
                    "new": isinstance(outcome, PublishedNow),
                }
    return {"event": min(each["event"] for each in shown.values()), "formats": shown}
