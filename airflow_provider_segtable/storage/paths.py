"""Object paths: relative to the table's root, ``/`` separated, never leading out of it."""

from airflow_provider_segtable.core.paths import inside as checked

__all__ = ["checked", "folder", "within"]


def folder(prefix: str, root: str) -> str:
    """Return a listing's folder without slashes at its ends; empty means the whole table."""
    bare = prefix.strip("/")
    return checked(bare, root) if bare else ""


def within(path: str, below: str) -> bool:
    """Whether an object lies below a folder (part by part: ``a`` does not hold ``ab/c``)."""
    return not below or path.startswith(f"{below}/")
