"""Check file paths in decoded metadata, and the bytes of small files that are read whole.

1. Metadata is not trusted to stay inside the table. This module alone checks each path, where it
   is decoded; callers may read or delete the file at a decoded path.
2. A segment's file is below ``data/``, a file of deletion vectors below ``deletes/``. A segment
   without rows has no file; only its path is empty. An *adopted* file was there before the table:
   it lies anywhere below the root, except in the folders that segtable writes (``OWN``).
3. A path is relative: parts of ASCII letters, digits and ``. _ + = -``, joined by single slashes,
   and each part begins with a letter or digit. So there is no ``..``, no absolute path, no
   backslash, NUL, percent code, wildcard (Spark expands those) or hidden file (Spark skips those).
4. Names that become part of a path (tags) or of a ZooKeeper node (table ids) are single parts.

5. Events, checkpoints and deletion vectors are read whole, and compared with a checksum.

Symbolic links cannot be seen in a path: adapters for local disks refuse them (``disk``).
"""

import hashlib
import re
from functools import lru_cache
from typing import Any

from airflow_provider_segtable.core.errors import CorruptTable, InvalidName

DATA = "data"
DELETES = "deletes"
OWN = (DATA, DELETES, "dv")
"""The folders that segtable writes, beside hidden ones. Cleaning deletes unnamed files in them."""
LONGEST = 1000
"""Maximum length in characters: object stores take 1,024 bytes, including the table's prefix."""

_PART = r"[A-Za-z0-9][A-Za-z0-9._+=-]*"
_PATH = re.compile(rf"(?:{DATA}|{DELETES})(?:/{_PART})+")
_ADOPTED = re.compile(rf"(?!(?i:{'|'.join(OWN)})(?:/|$)){_PART}(?:/{_PART})*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NO_PARTS = {"", ".", ".."}
_NO_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\\]")
_KNOWN = 256
"""Paths whose check is remembered: a commit names a few folders and files many times."""


def data_path(found: Any, *, rows: int, adopted: bool = False) -> str:
    """Return the path of a segment's file; empty iff the segment has no rows.

    Args:
        found: the path.
        rows: the segment's number of rows.
        adopted: whether the descriptor marks the file as adopted.

    Raises:
        CorruptTable: if it is no path below ``data/``, or of an adopted file.
    """
    if found == "" and not rows:
        return ""
    return adopted_path(found) if adopted else _below(DATA, found)


def listed_path(found: Any, *, rows: int) -> str:
    """Return the path of a segment in a checkpoint, whose format covers adopted files.

    Raises:
        CorruptTable: if it is no path of a segment's file.
    """
    return data_path(found, rows=rows, adopted=is_adopted(found))


def named_path(found: Any) -> str:
    """Return the path of any file that a log may name, adopted ones included.

    Raises:
        CorruptTable: if it is none.
    """
    return str(found) if is_adopted(found) else file_path(found)


def is_adopted(found: Any) -> bool:
    """Return whether a path is that of an adopted file."""
    return isinstance(found, str) and len(found) <= LONGEST and bool(_ADOPTED.fullmatch(found))


def adopted_path(found: Any) -> str:
    """Return the path of an adopted file.

    Raises:
        CorruptTable: if it is none.
    """
    if is_adopted(found):
        return str(found)
    raise _refused(found, f"a file outside of {', '.join(OWN)} with a plain name")


def vectors_path(found: Any) -> str:
    """Return the path of a file of deletion vectors.

    Raises:
        CorruptTable: if it is no path below ``deletes/``.
    """
    return _below(DELETES, found)


def file_path(found: Any) -> str:
    """Return the path of a segment's file or of a file of deletion vectors.

    Raises:
        CorruptTable: if it is neither.
    """
    if isinstance(found, str) and len(found) <= LONGEST and _PATH.fullmatch(found):
        return found
    raise _refused(found, f"a file below {DATA}/ or {DELETES}/")


def known_name(found: Any, title: str) -> str:
    """Return a name of one part; ``title`` is its noun, for the message.

    Raises:
        CorruptTable: if it is over 100 characters, or has others than letters, digits, . _ -
    """
    if is_name(found):
        return str(found)
    raise CorruptTable(f"{found!r:.200} cannot name {title}: the metadata is damaged or forged")


def is_name(found: Any) -> bool:
    """Return whether a value is a name of one part."""
    return isinstance(found, str) and bool(_NAME.fullmatch(found))


def inside(path: str, root: str) -> str:
    """Return the path of an object, checked to stay below the table's root.

    This is the adapters' own check for all paths, including paths that metadata does not name.

    Raises:
        InvalidName: if it has empty, ``.`` or ``..`` parts, a backslash or control characters.
    """
    if not _is_inside(path):
        raise InvalidName(
            f"{path!r} is not an object path below {root}: "
            "use names separated by single slashes, without '.' and '..'"
        )
    return path


@lru_cache(maxsize=_KNOWN)
def _is_inside(path: str) -> bool:
    return not _NO_CHARACTERS.search(path) and _NO_PARTS.isdisjoint(path.split("/"))


def _below(folder: str, found: Any) -> str:
    if isinstance(found, str) and found.startswith(f"{folder}/"):
        return file_path(found)
    raise _refused(found, f"a file below {folder}/")


def _refused(found: Any, wanted: str) -> CorruptTable:
    return CorruptTable(
        f"path {found!r:.200} is not {wanted}: the metadata is damaged or forged, "
        "and nothing was read or deleted there"
    )


def digest(data: bytes) -> str:
    """Return the first 16 hex digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]
