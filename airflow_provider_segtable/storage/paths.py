"""Object paths: relative to the table's root, ``/`` separated, never leading out of it."""

from airflow_provider_segtable.core.errors import InvalidName

_FORBIDDEN = {"", ".", ".."}


def checked(path: str, root: str) -> str:
    """Return ``path``, or raise ``InvalidName`` if it has empty, ``.`` or ``..`` parts."""
    if "\0" in path or not _FORBIDDEN.isdisjoint(path.split("/")):
        raise InvalidName(
            f"{path!r} is no object path below {root}: "
            "use names separated by single slashes, without '.' and '..'"
        )
    return path


def folder(prefix: str, root: str) -> str:
    """Return a listing's folder without slashes at its ends; empty means the whole table."""
    bare = prefix.strip("/")
    return checked(bare, root) if bare else ""


def within(path: str, below: str) -> bool:
    """Whether an object lies below a folder (part by part: ``a`` does not hold ``ab/c``)."""
    return not below or path.startswith(f"{below}/")
