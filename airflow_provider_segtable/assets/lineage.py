"""A table's asset as a dataset of OpenLineage, named as OpenLineage names objects of its store.

Airflow's OpenLineage listener calls ``dataset_of`` for inlets and outlets (``provider_info``), so a
task's lineage has the table, and no other package needs to know its URI.
"""

from typing import Any
from urllib.parse import unquote, urlsplit


def dataset_of(asset: Any, lineage_context: Any) -> Any:  # noqa: ARG001 - Airflow's signature
    """Return the dataset of a table's asset."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    namespace, name = dataset_name(asset.uri)
    return Dataset(namespace=namespace, name=name)


def dataset_name(uri: str) -> tuple[str, str]:
    """Return the namespace and the name of the dataset of an asset's URI."""
    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.netloc == "file":
        return "file", path
    bucket, _, name = path.lstrip("/").partition("/")
    return f"{parts.netloc}://{bucket}", name or "/"
