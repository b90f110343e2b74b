"""Puts ``spark_apps/`` inside the package when a wheel is built.

spark-submit needs the applications as files. In a checkout they lie beside the package; in a
wheel they travel as ``airflow_provider_segtable/_spark_apps``. Editable installs get no copy,
which would go stale. ``airflow_provider_segtable.spark.driver.session`` finds either.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SparkApps(BuildHookInterface):
    """Adds the applications to the files of a standard wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Tell hatchling where the applications come from and go to."""
        if version == "standard":
            build_data["force_include"]["spark_apps"] = "airflow_provider_segtable/_spark_apps"
