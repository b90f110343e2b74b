"""The plugin, which Airflow finds through the entry point group ``airflow.plugins``.

It has no page yet. When Airflow loads it, it checks the installed Spark: a mix of files of PySpark
and of another version of pyspark-client fails in obscure ways.
"""

import logging
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_segtable.spark.driver.install_check import judge, look

_log = logging.getLogger(__name__)


class SegtablePlugin(AirflowPlugin):
    """Check the Spark installation; only warn, because a scheduler may need no Spark."""

    name = "segtable"

    @classmethod
    def on_load(cls, *args: Any, **kwargs: Any) -> None:  # noqa: ARG003  # Airflow's signature
        """Warn of an installed Spark that will not work; ignore a missing one."""
        installed = look()
        if installed.pyspark is None and installed.client is None:
            return
        finding = judge(installed)
        if finding is not None:
            _log.warning("compaction on Spark is in danger on this machine: %s", finding.why)
