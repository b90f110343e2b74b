"""Publish a table for readers of Delta Lake or Apache Iceberg, in this worker.

Publishing needs no Spark, no lock and no ZooKeeper, and takes milliseconds unless everything is
published anew; so it is not deferred. The log has no event of it, and so there is no asset event;
``SegtablePublishedSensor`` waits for it.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, Context

from airflow_provider_segtable.core.errors import ForeignTable
from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.rendered import TableOperator, author_of, refused_at_once
from airflow_provider_segtable.table.publishing.publisher import (
    AlreadyPublished,
    Overtaken,
    PublishedNow,
    PublishOutcome,
    Refused,
)


class SegtablePublishOperator(TableOperator):
    """Publish the newest version of a table.

    Returns ``{"event", "formats"}``: the event that all formats show now at least, and for each
    format the ``event``, the ``number`` of its version, the ``address`` that readers open, and
    whether the version is ``new``.

    A format that cannot show the version fails the task, after the others were published.

    Args:
        table: below the connection's root, or a URI.
        formats: ``delta``, ``iceberg``, or both; by default those that the table's properties
            switch on (``publish.delta``).
        full: publish all files anew, for example after published files were damaged.
        segtable_conn_id: the connection; it needs no ZooKeeper.
    """

    template_fields: Sequence[str] = ("table", "formats", "segtable_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"formats": "json"}
    ui_color = "#f5efdf"

    def __init__(
        self,
        *,
        table: str,
        formats: Sequence[str] | str | None = None,
        full: bool = False,
        segtable_conn_id: str = SegtableHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.formats = formats
        self.full = full
        self.segtable_conn_id = segtable_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish the table, and return what is published."""
        hook, author = SegtableHook(self.segtable_conn_id), author_of(context)
        with (
            refused_at_once(f"publishing {self.table}"),
            hook.table(self.table, author=author) as table,
        ):
            try:
                outcomes = table.publish(formats=self.formats or None, full=self.full)
            except ForeignTable as error:
                raise AirflowFailException(f"publishing {self.table}: {error}") from error
        for outcome in outcomes:
            self.log.info("%s", outcome)
        return summary(self.table, outcomes)


def summary(table: str, outcomes: Sequence[PublishOutcome]) -> dict[str, Any]:
    """Return what was published as plain values.

    Raises:
        AirflowFailException: a format cannot show the version.
        AirflowException: other publishers were faster, again and again, or the catalog does not
            have the version; a retry makes up for it.
    """
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
