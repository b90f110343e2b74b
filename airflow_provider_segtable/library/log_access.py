"""How this process reaches log stores of other processes: their token, and whom it trusts.

=================  =================================================================================
option             meaning
=================  =================================================================================
token              what the store asks for; or ``token_file``, the path of a file with it
ca                 file of the authorities that certify stores with TLS; by default the system's
=================  =================================================================================

Options come from an Airflow connection, or from the environment, never from a command line, because
others can read that. Those of a connection come first:
``SEGTABLE_LOG_STORE_OPTIONS`` is a JSON object, ``SEGTABLE_LOG_STORE_OPTIONS_FILE`` the path of a
file with one.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.secret import Secret
from airflow_provider_segtable.logstore.flight_security import FlightSecurity
from airflow_provider_segtable.logstore.flight_store import FlightLogStoreProvider

OPTIONS_VARIABLE = "SEGTABLE_LOG_STORE_OPTIONS"
FILE_VARIABLE = "SEGTABLE_LOG_STORE_OPTIONS_FILE"
NAMES = ("token", "token_file", "ca")


def log_provider(options: Mapping[str, str] = MappingProxyType({})) -> FlightLogStoreProvider:
    """Return what connects to the stores of other processes.

    Args:
        options: these come before the options of the environment.

    Raises:
        InvalidInput: an option is wrong; the message names it, never a secret value.
    """
    return FlightLogStoreProvider(security=client_security(options))


def client_security(options: Mapping[str, str] = MappingProxyType({})) -> FlightSecurity:
    """Return what clients of this process show to log stores; as ``log_provider``."""
    given = {**_options(), **checked_options(options)}
    if "token" in options or "token_file" in options:
        given = {name: given[name] for name in given if name in options or name == "ca"}
    token = given.get("token", "")
    if path := given.get("token_file"):
        token = token_in(path, "log store option token_file")
    roots = text_of(given["ca"], "log store option ca") if "ca" in given else ""
    return FlightSecurity(token=Secret(token) if token else None, roots=roots)


def checked_options(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return options.

    Raises:
        InvalidInput: there is no such option.
    """
    for name in given:
        if name not in NAMES:
            raise InvalidInput(
                f"log store option {name!r} is unknown: choose one of {', '.join(NAMES)}"
            )
    return given


def token_in(path: str | Path, what: str) -> str:
    """Return the token in a file.

    Raises:
        InvalidInput: the file cannot be read, or is empty.
    """
    token = text_of(path, what).strip()
    if not token:
        raise InvalidInput(f"{what} {path} is empty: write the token into it")
    return token


def text_of(path: str | Path, what: str) -> str:
    """Return the text of a file.

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise InvalidInput(f"{what} {path} cannot be read ({why}): correct the path") from None


def _options() -> Mapping[str, str]:
    text, where = os.environ.get(OPTIONS_VARIABLE, ""), f"${OPTIONS_VARIABLE}"
    if not text and (path := os.environ.get(FILE_VARIABLE)):
        text, where = text_of(path, f"${FILE_VARIABLE}"), path
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInput(
            f'{where} is not a JSON object of log store options: write e.g. {{"token_file": '
            '"/run/secrets/log-store"}'
        )
    return checked_options({str(name): str(value) for name, value in found.items()})
