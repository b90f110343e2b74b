"""Clean a table in this worker: delete files that no reader can reach any more.

Cleaning needs no Spark and no lock: the log decides which files go. The next run finishes the work
of a killed one, so retries and concurrent runs are harmless.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.operators.rendered import AssetEventOperator, own_events

if TYPE_CHECKING:
    from airflow_provider_segtable.planning.properties import Retention
    from airflow_provider_segtable.services.cleaning import CleaningRun
    from airflow_provider_segtable.table.context import TableContext


class SegtableCleanOperator(AssetEventOperator):
    """Clean one table.

    Returns ``{"version", "retained_from", "dry_run", "segments", "files", "vectors", "orphans",
    "log_files", "bytes"}``: counts, except for the versions, the flag and the bytes.

    Args:
        retention: overrides the table's own, e.g. ``{"hours": 48, "versions": 20}``.
        dry_run: report only, delete nothing.
        kwargs: see ``TableOperator``.
    """

    template_fields: Sequence[str] = ("retention", *AssetEventOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {"retention": "json"}
    ui_color = "#e8f5df"

    def __init__(
        self,
        *,
        retention: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.retention = retention
        self.only_look = dry_run

    def execute(self, context: Context) -> dict[str, Any]:
        """Clean the table and return a summary."""
        from airflow_provider_segtable.services.cleaning import clean

        with self.opened(context, f"cleaning {self.table}") as ports:
            retention, begun = self._retention(ports), ports.log.load().n
            run = clean(ports, retention=retention, dry_run=self.only_look, whole=False)
            counts = summary(run)
            removed = {name: counts[name] for name in ("segments", "files", "bytes")}
            self.emit(context, ports, "clean", made=own_events(ports, begun), counts=removed)
        self._log_run(run, counts)
        return {**counts, "dry_run": run.dry_run}

    def _retention(self, ports: "TableContext") -> "Retention":
        from airflow_provider_segtable.planning.properties import Retention

        given = {f"retention.{name}": str(value) for name, value in (self.retention or {}).items()}
        properties = ports.log.load().table.properties
        return Retention.read({**properties, **given})

    def _log_run(self, run: "CleaningRun", counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self.log.info("%s: %s", name, describe_size(count) if name == "bytes" else count)
        for why, count in Counter(run.kept.values()).items():
            self.log.info("%s kept: %s", counted(count, "hidden segment"), why)
        if run.young:
            young = counted(run.young, "unreferenced file")
            self.log.info("%s kept: too young to delete", young)
        if run.published:
            left = counted(len(run.published), "file")
            self.log.info("%s kept: versions published in other formats show them", left)
        for name, inner in run.indexes.items():
            entries = run.entries.get(name, 0)
            self.log.info("index %s: entries deleted: %d; %s", name, entries, inner)
        for name, error in run.failed.items():
            self.log.warning("index %s was not cleaned: %s", name, error)


def summary(run: "CleaningRun") -> dict[str, int]:
    """Return the facts of a cleaning as numbers: XCom has no lists of files."""
    facts = run.facts()
    lists = ("segments", "files", "vectors", "orphans", "log_files")
    return {
        **{name: facts[name] for name in ("version", "retained_from")},
        **{name: len(facts[name]) for name in lists},
        "bytes": facts["bytes"],
    }
