"""Options from the environment: all users of a machine can see a command line.

1. A variable holds the options as a JSON object.
2. If the variable is empty, ``<variable>_FILE`` names a file with the object, such as a container's
   secret: a container's description shows its variables, and not its files.
"""

import json
import os
from pathlib import Path

from airflow_provider_segtable.core.errors import InvalidInput

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
    text, where = os.environ.get(variable, ""), f"${variable}"
    if not text and (path := os.environ.get(f"{variable}_FILE")):
        text, where = _text(path, f"${variable}_FILE"), path
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidInput(f'{where} is not a JSON object such as {{"region": "eu"}}')
    return {str(key): str(value) for key, value in found.items()}


def _text(path: str, variable: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise InvalidInput(f"{variable} {path} cannot be read ({why}): correct the path") from None
