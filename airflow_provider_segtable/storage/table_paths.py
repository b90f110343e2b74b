"""Paths of tables and their objects, their pages in consoles, and options from the environment.

1. A table's root without a scheme is made absolute as soon as it is opened: another process, such
   as a task on another machine, has another working directory.
2. Object paths are relative to the root, ``/`` separated, and never lead out of it.
3. ``console_page`` returns the page of a folder in its object store's own console.
4. Options may be in the environment, because all users of a machine can see a command line. A
   variable holds them as a JSON object.
5. If the variable is empty, ``<variable>_FILE`` names a file with the object, such as a container's
   secret: a container's description shows its variables, and not its files.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from airflow_provider_segtable.core.errors import InvalidInput, InvalidName
from airflow_provider_segtable.core.paths import inside as checked
from airflow_provider_segtable.core.schemes import SCHEMES
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


def named_folders(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of folders that a path may have, each once, ascending."""
    return tuple(name for name in sorted(set(names)) if _legal(name))


def _legal(name: str) -> bool:
    try:
        return bool(checked(name, ""))
    except InvalidName:
        return False


def within(path: str, below: str) -> bool:
    """Return whether an object lies below a folder, by whole names: ``ab/c`` is not below ``a``."""
    return not below or path.startswith(f"{below}/")


def console_page(uri: str, options: Mapping[str, str]) -> str:
    """Return the address of the page that lists a folder; empty where none is known.

    Args:
        uri: the folder.
        options: storage options; a store with an endpoint of its own has another console.
    """
    if any("endpoint" in name.lower() or "base_url" in name.lower() for name in options):
        return ""
    place = urlsplit(uri)
    kind = SCHEMES.get(place.scheme)
    return kind.console_page(place) if kind else ""


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
