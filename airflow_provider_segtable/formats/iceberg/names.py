"""Names of a published Iceberg table's own files, relative to the table's root.

1. All lie below ``_iceberg``, which is the Iceberg table's location: tools that clean or write by
   location stay away from the table's own files.
2. ``metadata/vN.metadata.json`` is version N, ``metadata/version-hint.text`` names the newest one.
3. Manifests and files of deleted positions have the number of the version that they were written
   for, and random digits of the attempt: two publishers never write the same name.
"""

import re

FOLDER = "_iceberg"
METADATA = f"{FOLDER}/metadata"
HINT = f"{METADATA}/version-hint.text"
WRITTEN = (f"{FOLDER}/manifests", f"{FOLDER}/deletes")
"""The folders of files that versions name."""

WAY_OUT = (
    "publish it anew: segtable publish TABLE --format iceberg --full; or remove it: segtable "
    "publish TABLE --format iceberg --remove"
)
"""The way to repair a damaged table."""

_VERSION = re.compile(rf"{METADATA}/v([1-9][0-9]{{0,8}})\.metadata\.json")
_WRITTEN = re.compile(
    rf"{FOLDER}/(?:manifests/([1-9][0-9]*)-[0-9a-f]{{16}}-[a-z]*[0-9]*\.avro"
    rf"|deletes/([1-9][0-9]*)-[0-9a-f]{{16}}-[0-9]+\.parquet)"
)


def version_path(number: int) -> str:
    """Return the path of a version's metadata."""
    return f"{METADATA}/v{number}.metadata.json"


def version_of(path: str) -> int | None:
    """Return the version of a path of metadata; None for other paths."""
    found = _VERSION.fullmatch(path)
    return int(found[1]) if found else None


def list_path(number: int, attempt: str) -> str:
    """Return the path of a version's list of manifests."""
    return f"{FOLDER}/manifests/{number}-{attempt}-list.avro"


def manifest_path(number: int, attempt: str, at: int) -> str:
    """Return the path of a manifest."""
    return f"{FOLDER}/manifests/{number}-{attempt}-m{at}.avro"


def deletes_path(number: int, attempt: str, at: int) -> str:
    """Return the path of a file of deleted positions."""
    return f"{FOLDER}/deletes/{number}-{attempt}-{at}.parquet"


def written_for(path: str) -> int | None:
    """Return the version that a manifest or a file of positions was written for, or None."""
    found = _WRITTEN.fullmatch(path)
    return int(found[1] or found[2]) if found else None


def of_attempt(manifest_list: str) -> str:
    """Return the common start of the names of files written with a list of manifests."""
    return manifest_list.rpartition("/")[2].removesuffix("list.avro")


def is_own(path: str) -> bool:
    """Return whether a published table has such a path."""
    return path == HINT or version_of(path) is not None or written_for(path) is not None
