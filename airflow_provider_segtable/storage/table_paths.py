"""Paths of tables and of objects below them.

1. A table's root without a scheme is made absolute as soon as it is opened: another process, such
   as a task on another machine, has a working directory of its own.
2. Object paths are relative to the root, ``/`` separated, and never lead out of it.
"""

from pathlib import Path

from airflow_provider_segtable.core.paths import inside as checked

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
