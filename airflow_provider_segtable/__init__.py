"""segtable: append tables that are compacted while they are being written.

1. Importing this package imports nothing else: Spark executors, the command line and Airflow's
   provider manager all pass here, and none of them may pay for the others.
2. The names in ``__all__`` are the library's surface; each is imported when first used.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Table": "airflow_provider_segtable.library.table",
    "Sql": "airflow_provider_segtable.core.requests.change_request",
    "SegtableError": "airflow_provider_segtable.core.errors",
    "spark_app_path": "airflow_provider_segtable.spark.driver.session",
}

__all__ = ["SegtableError", "Sql", "Table", "__version__", "spark_app_path"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
