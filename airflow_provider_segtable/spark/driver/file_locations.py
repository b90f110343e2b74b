"""Locations of a table's files for tasks and for Spark's own readers.

1. A path without a scheme is made absolute (``storage.table_paths``), because a task has its own
   working directory. Workers of a cluster must see it at the same path; only the user can ensure
   that.
2. Spark's readers use Hadoop names for object stores and expand ``*?[]{}`` in paths, so these
   characters are escaped. Store credentials are Spark settings (``fs.s3a.*`` and so on).
3. The *place* of a file is the end of its path, which is the same for every reader.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_provider_segtable.core.errors import InvalidName
from airflow_provider_segtable.core.schemes import SCHEMES, usual
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.disk import Folders
from airflow_provider_segtable.storage.table_paths import absolute, is_local


def local_root_warning(uri: str, master: str | None) -> str | None:
    """Return a warning if Spark runs on a cluster and the table is on a local disk."""
    if (master or "local").startswith("local") or not is_local(uri):
        return None
    return (
        f"{absolute(uri)} is a local path and Spark runs on {master}: every worker must see the "
        "table at this path (a shared mount), or use an object store"
    )


def spark_root(uri: str, options: Mapping[str, str]) -> str:
    """Return a table's root for Hadoop, ready to append paths to.

    Raises:
        InvalidName: if Spark has no reader for the scheme, or an Azure URI names no account.
    """
    parts = urlsplit(uri) if "://" in uri else None
    if parts is None or parts.scheme == "file":
        return "file:" + str(_local(uri)).rstrip("/")
    kind = SCHEMES.get(parts.scheme)
    root = kind.spark_root(parts, options) if kind else ""
    if not root:
        raise InvalidName(f"Spark cannot read {uri!r}: use a path, {usual()}")
    return f"{root}{unquote(parts.path).rstrip('/')}"


def file_locations(
    uri: str, options: Mapping[str, str], segments: Iterable[Segment]
) -> Iterator[str]:
    """Yield the Hadoop paths of segments' files, as they are.

    Raises:
        InvalidName: if Spark has no reader for the scheme.
        UnsafePath: a symbolic link is in the way of a local file.
    """
    root = spark_root(uri, options)
    paths = [segment.path for segment in segments]
    if root.startswith("file:"):
        Folders(_local(uri)).refuse_links(paths)
    yield from (f"{root}/{path}" for path in paths)


def spark_paths(uri: str, options: Mapping[str, str], segments: Iterable[Segment]) -> Iterator[str]:
    """Yield the file paths of non-empty segments, for Spark's readers.

    Raises:
        InvalidName: if Spark has no reader for the scheme.
        UnsafePath: a symbolic link is in the way of a local file.
    """
    filled = [segment for segment in segments if segment.rows]
    for path in file_locations(uri, options, filled):
        yield re.sub(r"([*?\[\]{}\\,])", r"\\\1", path)


def _local(uri: str) -> Path:
    parts = urlsplit(uri) if "://" in uri else None
    return Path(unquote(parts.netloc + parts.path) if parts else uri).absolute()


def parquet_options(*, checked: bool) -> dict[str, str]:
    """Return the options of Spark's reader; ``checked`` verifies Parquet's page checksums."""
    return {
        "datetimeRebaseMode": "CORRECTED",
        "parquet.page.verify-checksum.enabled": str(checked).lower(),
    }


def place(path: str) -> str:
    """Return a data file's unique name in its table: ``<interval>/<file>``."""
    return "/".join(path.rsplit("/", 2)[-2:])
