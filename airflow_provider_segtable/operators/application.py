"""What the operators that start a Spark application share: settings, launch, report, kill.

An application says what it did in a file of its own; where that cannot be (the driver runs on a
cluster), or where it died, the operator asks the table's log.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_segtable.core.errors import CoordinatorUnavailable, ExecutionFailed
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.hooks.submission import (
    Launcher,
    LocalSparkSubmit,
    SparkSubmit,
    Submission,
)
from airflow_provider_segtable.spark.apps import spark_app_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How an application ended: the ``facts`` it told, and why it failed, if it did."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


class SegtableSparkOperator(BaseOperator):
    """Run one of our Spark applications over one table; a base for operators.

    Args:
        table: below the connection's root, or a URI.
        segtable_conn_id: the connection.
        spark_conn_id: submit by this Spark connection; by default the segtable connection's
            ``spark_conn_id``, and without one Spark runs on this worker.
        spark_master: for Spark on this worker; by default the segtable connection's, else all
            local cores.
        spark_conf: settings of the application.
        launcher: another way to start applications, instead of the two.
        retries: a failed or killed try is tried again so often.
        retry_delay: after this time; longer than ZooKeeper keeps the locks of a dead holder.
    """

    template_fields: Sequence[str] = (
        "table",
        "segtable_conn_id",
        "spark_conn_id",
        "spark_master",
        "spark_conf",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"spark_conf": "json"}

    def __init__(
        self,
        *,
        table: str,
        segtable_conn_id: str = SegtableHook.default_conn_name,
        spark_conn_id: str | None = None,
        spark_master: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        launcher: Launcher | None = None,
        retries: int = 2,
        retry_delay: timedelta = timedelta(seconds=40),
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, retry_delay=retry_delay, **kwargs)
        self.table = table
        self.segtable_conn_id = segtable_conn_id
        self.spark_conn_id = spark_conn_id
        self.spark_master = spark_master
        self.spark_conf = spark_conf
        self.launcher = launcher

    def on_kill(self) -> None:
        """End the application."""
        if self.launcher is not None:
            self.launcher.kill()

    def launch(self, place: Place, app: str, asked: Sequence[str]) -> Report:
        """Run an application to its end.

        Args:
            place: of the table.
            app: ``compact``, ``change``, ...
            asked: its own arguments; where the table and ZooKeeper are is added.

        Raises:
            CoordinatorUnavailable: the connection names no ZooKeeper.
        """
        if place.zookeeper is None:
            raise CoordinatorUnavailable(
                f"connection {place.conn_id} names no ZooKeeper: set zookeeper in its extra"
            )
        self.launcher = self.launcher or self._chosen_launcher(place)
        where = ("--table", place.uri(self.table), "--zookeeper", place.zookeeper)
        error = None
        with tempfile.TemporaryDirectory(prefix="segtable-") as folder:
            file = Path(folder, "result.json")
            here = ("--result-file", str(file), "--die-with-parent")
            submission = Submission(
                application=spark_app_path(app),
                arguments=(*asked, *where, *(here if self.launcher.attached else ())),
                name=f"segtable-{app}-{Path(self.table).name}",
                conf=self.spark_conf or {},
                storage_options=place.storage_options,
            )
            try:
                self.launcher.launch(submission, self.log.info)
            except ExecutionFailed as fault:
                error = str(fault)
            return Report(facts=_read(file), error=error)

    def _chosen_launcher(self, place: Place) -> Launcher:
        conn_id = self.spark_conn_id or place.spark_conn_id
        if conn_id and not self.spark_master:
            return SparkSubmit(conn_id)
        return LocalSparkSubmit(self.spark_master or place.spark_master)


def _read(file: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    return found
