"""The plugin: found by Airflow through the entry point group ``airflow.plugins``.

It has no page yet. When Airflow loads it, the installed Spark is looked at: PySpark whose files
are mixed with those of another version of pyspark-client breaks in ways that nobody would guess.
"""

import logging
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_segtable.spark.driver.install_check import judge, look

_log = logging.getLogger(__name__)


class SegtablePlugin(AirflowPlugin):
    """Looks at the installation; only warns, because a scheduler may well need no Spark."""

    name = "segtable"

    @classmethod
    def on_load(cls, *args: Any, **kwargs: Any) -> None:  # noqa: ARG003  # Airflow's signature
        """Warn of an installed Spark that will not work; none at all may be on purpose."""
        installed = look()
        if installed.pyspark is None and installed.client is None:
            return
        finding = judge(installed)
        if finding is not None:
            _log.warning("compaction on Spark is in danger on this machine: %s", finding.why)
