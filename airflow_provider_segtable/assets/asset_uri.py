"""The URI of a table's asset: one for each table, however its location is spelled.

::

    s3://lake/trips, s3a://lake//trips/            segtable://s3/lake/trips
    /data/tables/trips, file:///data/tables/trips  segtable://file/data/tables/trips

1. The scheme of the location is the host of the asset's URI, and the rest is its path. Airflow
   would write ``segtable+file:///data`` with one slash, and so break the URI of the table.
2. Aliases of a scheme become one, slashes are single, and characters are percent-encoded alike.
   The same account of Azure has two forms (``az://``, ``abfss://``) with different assets.
3. Airflow applies ``normalized`` to every asset of the scheme ``segtable`` (``provider_info``), so
   a hand-written URI equals the one of ``segtable_asset``. It imports the standard
   library and ``core.schemes`` alone.
"""

import re
from urllib.parse import SplitResult, quote, unquote, urlsplit

from airflow_provider_segtable.core.schemes import asset_name

SCHEME = "segtable"
_LEFT_AS_IT_IS = "/@=+:,~"
_FORM = "segtable://s3/bucket/table or segtable://file/path/of/table"


def asset_uri(location: str) -> str:
    """Return the URI of the asset of the table at a location, which has been checked."""
    if "://" not in location:
        parts = SplitResult(SCHEME, "file", quote(location), "", "")
    else:
        scheme, host, path, *_ = urlsplit(location)
        bare = "" if scheme == "file" else f"/{host}"
        parts = SplitResult(SCHEME, scheme, f"{bare}{path}", "", "")
    return normalized(parts).geturl()


def normalized(parts: SplitResult) -> SplitResult:
    """Return the one form of an asset's URI.

    Raises:
        ValueError: it names no scheme, or no table; Airflow shows the message.
    """
    path = re.sub("/+", "/", unquote(parts.path)).rstrip("/")
    if not parts.netloc or not path:
        raise ValueError(
            f"{parts.geturl()!r} is not the URI of a table's asset: write {_FORM}, or let "
            "segtable_asset make the asset from the table's URI"
        )
    host = asset_name(parts.netloc.lower())
    return SplitResult(SCHEME, host, quote(path, safe=_LEFT_AS_IT_IS), "", "")
