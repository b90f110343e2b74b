"""Describe the work of a task to OpenLineage: what it read, and which version of a table it wrote.

1. A task keeps its lineage as plain values when it commits. Facets are made of them when Airflow's
   OpenLineage listener asks, in the same process; so OpenLineage need not be installed.
2. A dataset is named as OpenLineage names objects of its store (``assets.lineage``). A pattern of
   files is the folder before its first wildcard.
3. A written table has the facets ``schema``, ``version`` (the event of the log) and
   ``outputStatistics``: rows, bytes and files that the task's commits published. A published one
   has the version of its own format, and ``storage``.
4. A task that committed nothing keeps none; Airflow then names its inlets and outlets.
"""

import re
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.assets.asset_uri import asset_uri
from airflow_provider_segtable.assets.lineage import dataset_name
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.schema import Schema

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.events import Published

_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A table that a task wrote, as of a version.

    ``sums`` are of its commits; ``layer`` names the format that it is published in.
    """

    uri: str
    version: str
    schema: Schema
    sums: "Published | None" = None
    layer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """What a task read, by paths and URIs, and what it wrote."""

    read: tuple[str, ...]
    written: tuple[Written, ...]


def dataset_of_path(path: str) -> tuple[str, str]:
    """Return the namespace and the name of the dataset at a path or a URI (rule 2)."""
    from airflow_provider_segtable.storage.table_paths import absolute

    wild = _WILD.search(path)
    fixed = path if wild is None else path[: wild.start()].rpartition("/")[0] or "/"
    return dataset_name(asset_uri(absolute(fixed)))


def openlineage_of(lineage: Lineage) -> Any:
    """Return a lineage as Airflow's OpenLineage provider takes it from an operator."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset

    read = dict.fromkeys(map(dataset_of_path, lineage.read))
    inputs = [InputDataset(namespace=namespace, name=name) for namespace, name in read]
    return OperatorLineage(inputs=inputs, outputs=[_output(each) for each in lineage.written])


def _output(written: Written) -> Any:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import (
        dataset_version_dataset,
        output_statistics_output_dataset,
        schema_dataset,
        storage_dataset,
    )

    namespace, name = dataset_of_path(written.uri)
    columns = [
        schema_dataset.SchemaDatasetFacetFields(name=each.name, type=str(each.type))
        for each in written.schema.columns
    ]
    facets: dict[str, Any] = {
        "schema": schema_dataset.SchemaDatasetFacet(fields=columns),
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(written.version),
    }
    if written.layer:
        facets["storage"] = storage_dataset.StorageDatasetFacet(
            storageLayer=written.layer, fileFormat="parquet"
        )
    told: dict[str, Any] = {}
    if written.sums is not None:
        sums = written.sums
        told["outputStatistics"] = (
            output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=sums.rows, size=sums.bytes, fileCount=sums.segments
            )
        )
    return OutputDataset(namespace=namespace, name=name, facets=facets, outputFacets=told)
