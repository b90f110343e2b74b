"""Options from the environment: all users of a machine can see a command line."""

import json
import os

from airflow_provider_segtable.core.errors import InvalidInput

OPTIONS_VARIABLE = "SEGTABLE_STORAGE_OPTIONS"
"""Options of the object store, as a JSON object."""
READER_VARIABLE = "SEGTABLE_READER_OPTIONS"
"""Credentials for Spark's readers, as a JSON object."""


def options_from_environment(variable: str) -> dict[str, str]:
    """Return the options in a variable; empty if it is not set.

    Raises:
        InvalidInput: it is not a JSON object. The message omits its value, which may be a secret.
    """
    text = os.environ.get(variable, "")
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidInput(f'${variable} is not a JSON object such as {{"region": "eu"}}')
    return {str(key): str(value) for key, value in found.items()}
