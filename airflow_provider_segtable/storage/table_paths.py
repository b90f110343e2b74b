"""Paths of tables and of objects below them.

1. A table's root without a scheme is made absolute as soon as it is opened: another process, such
   as a task on another machine, has a working directory of its own.
2. Object paths are relative to the root, ``/`` separated, and never lead out of it.

The page of a folder in its object store's own console.

Options of object stores from the environment, as a JSON object (``disk``).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.paths import inside as checked
from airflow_provider_segtable.disk import variable_text

__all__ = ["absolute", "checked", "folder", "is_local", "within"]


def absolute(uri: str) -> str:
    """Return a table's URI in a form that is valid in every process."""
    return uri if "://" in uri else str(Path(uri).absolute())


def is_local(uri: str) -> bool:
    """Return whether a table's root is a folder of this machine."""
    return "://" not in uri or uri.startswith("file://")


def folder(prefix: str, root: str) -> str:
    """Return a listing's folder without slashes at its ends; empty means the whole table."""
    bare = prefix.strip("/")
    return checked(bare, root) if bare else ""


def within(path: str, below: str) -> bool:
    """Return whether an object lies below a folder, by whole names: ``ab/c`` is not below ``a``."""
    return not below or path.startswith(f"{below}/")


def console_page(uri: str, options: Mapping[str, str]) -> str:
    """Return the address of the page that lists a folder; empty where none is known.

    Args:
        uri: the folder: ``s3://bucket/path``, ``gs://bucket/path``.
        options: storage options; a store with an endpoint of its own has another console.
    """
    if any("endpoint" in name.lower() or "base_url" in name.lower() for name in options):
        return ""
    parts = urlsplit(uri)
    bucket, path = quote(parts.netloc), parts.path.strip("/")
    match parts.scheme:
        case "s3" | "s3a":
            prefix = quote(f"{path}/", safe="")
            return f"https://console.aws.amazon.com/s3/buckets/{bucket}?prefix={prefix}"
        case "gs":
            return f"https://console.cloud.google.com/storage/browser/{bucket}/{quote(path)}"
    return ""


OPTIONS_VARIABLE = "SEGTABLE_STORAGE_OPTIONS"
"""Options of the object store, as a JSON object."""
READER_VARIABLE = "SEGTABLE_READER_OPTIONS"
"""Credentials for Spark's readers, as a JSON object."""


def options_from_environment(variable: str) -> dict[str, str]:
    """Return the options in a variable, or in the file that it names; empty without either.

    Raises:
        InvalidInput: the file cannot be read, or the options are not a JSON object. The message
            omits their value, which may be a secret.
    """
    text, where = variable_text(variable)
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidInput(f'{where} is not a JSON object such as {{"region": "eu"}}')
    return {str(key): str(value) for key, value in found.items()}
