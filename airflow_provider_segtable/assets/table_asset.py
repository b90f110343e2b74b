"""A table as an asset, on which DAGs are scheduled.

::

    from airflow_provider_segtable.assets.table_asset import segtable_asset

    with DAG("report", schedule=[segtable_asset("s3://lake/trips")]):
        ...

1. One table has one asset for all connections of its writers (``asset_uri``).
2. The operators of this provider emit an event of the asset after a commit to the table
   (``operators.rendered``). A task that writes by other means may declare the asset as its outlet.
3. A DAG file is parsed without connections, so the table is named by its whole URI.
"""

from airflow.providers.common.compat.sdk import Asset

from airflow_provider_segtable.assets.asset_uri import asset_uri
from airflow_provider_segtable.core.arguments import plain
from airflow_provider_segtable.core.errors import InvalidName


def segtable_asset(uri: str) -> Asset:
    """Return the asset of a table.

    Args:
        uri: the table's URI or absolute path: the root of its connection, and its name below it.

    Raises:
        InvalidName: it is neither a URI nor an absolute path, or it holds credentials.
    """
    from airflow_provider_segtable.storage import check_uri

    location = check_uri(plain("uri", uri))
    if "://" not in location and not location.startswith("/"):
        raise InvalidName(
            f"{uri!r} is a table's name below the root of a connection, and DAG files are parsed "
            f"without connections: write the whole URI, such as s3://lake/{location}"
        )
    made = asset_uri(location)
    return Asset(name=made, uri=made, group="segtable")
