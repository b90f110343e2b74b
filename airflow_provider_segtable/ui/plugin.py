"""The plugin, which Airflow finds through the entry point group ``airflow.plugins``.

1. It adds the page (``ui.lazy_page``) to the navigation, as ``Lake``. Airflow shows it in a frame.
2. Addresses begin with the path of ``[api] base_url``, so that Airflow may live below a sub-path.
3. When Airflow loads the plugin, it checks the installed Spark: a mix of files of PySpark and of
   another version of pyspark-client fails in obscure ways.
4. Every process of Airflow loads plugins, so nothing heavy is imported here.
"""

import logging
from typing import Any
from urllib.parse import urlsplit

from airflow.plugins_manager import AirflowPlugin
from airflow.providers.common.compat.sdk import conf

from airflow_provider_segtable.spark.driver.install_check import judge, look
from airflow_provider_segtable.ui.lazy_page import LazyPage, made

_log = logging.getLogger(__name__)
PREFIX = "/segtable"


def address(path: str) -> str:
    """Return the path of a file of the page, below that of Airflow's own address."""
    base = urlsplit(conf.get("api", "base_url", fallback="") or "/").path
    return f"{base.rstrip('/')}{PREFIX}/{path}"


class SegtablePlugin(AirflowPlugin):
    """The page, and a check of the Spark installation, which only warns: not all need Spark."""

    name = "segtable"
    fastapi_apps = [  # noqa: RUF012 - as Airflow declares it
        {"app": LazyPage(made), "url_prefix": PREFIX, "name": "Segtable"}
    ]
    external_views = [  # noqa: RUF012 - likewise
        {
            "name": "Lake",
            "href": address(""),
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "segtable",
            "icon": address("lake.svg"),
            "icon_dark_mode": address("lake-dark.svg"),
        }
    ]

    @classmethod
    def on_load(cls, *args: Any, **kwargs: Any) -> None:  # noqa: ARG003  # Airflow's signature
        """Warn of an installed Spark that will not work; ignore a missing one."""
        installed = look()
        if installed.pyspark is None and installed.client is None:
            return
        finding = judge(installed)
        if finding is not None:
            _log.warning("compaction on Spark is in danger on this machine: %s", finding.why)
