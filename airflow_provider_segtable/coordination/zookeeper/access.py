"""Options for authentication and encryption of ZooKeeper clients.

=================  =================================================================================
option             meaning
=================  =================================================================================
user               name of a user of ZooKeeper; all processes of one installation use the same
password           password of the user; or ``password_file``, the path of a file with it
scheme             ``digest`` (default): ZooKeeper has no user list; any client with the same user
                   and password may use the user's nodes. ``sasl``: the server checks (DIGEST-MD5)
tls                ``true`` for an encrypted connection; implied by the next ones
ca                 file of the authorities that certify the server; by default the system's
certificate, key   files of this client, if the server requires them; ``key_password`` of the key
check_hostname     ``false`` if the server's certificate does not name its host
=================  =================================================================================

1. Nodes made by a client with a user belong to that user alone: others can neither read nor change
   them. Without a user, nodes are open to every client that reaches ZooKeeper.
2. Options come from the caller, or else from the environment: ``SEGTABLE_ZOOKEEPER_OPTIONS`` is a
   JSON object, ``SEGTABLE_ZOOKEEPER_OPTIONS_FILE`` the path of a file with one. They never come
   from a command line, because others can read that.
3. No ``repr``, message or log shows a password.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    InvalidInput,
)
from airflow_provider_segtable.core.secret import Secret
from airflow_provider_segtable.disk import text_of, variable_text

OPTIONS_VARIABLE = "SEGTABLE_ZOOKEEPER_OPTIONS"
FILE_VARIABLE = "SEGTABLE_ZOOKEEPER_OPTIONS_FILE"
NAMES = (
    *("user", "password", "password_file", "scheme", "tls", "ca"),
    *("certificate", "key", "key_password", "check_hostname"),
)
SCHEMES = ("digest", "sasl")
NONE = Secret("")
_TRUTH = {"true": True, "false": False}


# Identity: options for authentication and encryption
@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A client's identity and encryption; by default neither."""

    user: str = ""
    password: Secret = NONE
    scheme: str = "digest"
    tls: bool = False
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: Secret = NONE
    check_hostname: bool = True

    def __str__(self) -> str:
        """Return the identity, for messages."""
        return f"user {self.user!r} ({self.scheme})" if self.user else "a client without a user"

    @staticmethod
    def read(options: Mapping[str, str]) -> "Access":
        """Read the options.

        Raises:
            InvalidInput: an option is wrong; the message names it, never a secret value.
        """
        for name in options:
            if name not in NAMES:
                raise InvalidInput(
                    f"ZooKeeper option {name!r} is unknown: choose one of {', '.join(NAMES)}"
                )
        given = {name: str(value) for name, value in options.items() if value not in ("", None)}
        password = _password(given)
        user, scheme = given.get("user", ""), given.get("scheme", SCHEMES[0])
        if bool(user) != bool(password) or ":" in user:
            raise InvalidInput(
                f"ZooKeeper options {', '.join(sorted(given))} do not identify a user: give user "
                "and password (or password_file) together, and no colon in the user"
            )
        if scheme not in SCHEMES:
            raise InvalidInput(f"ZooKeeper option scheme is {scheme!r}: write digest or sasl")
        files = {name: _file(name, given.get(name)) for name in ("ca", "certificate", "key")}
        if bool(files["certificate"]) != bool(files["key"]):
            raise InvalidInput("ZooKeeper options have one of certificate and key: give both")
        implied = any(files.values())
        return Access(
            user=user,
            password=Secret(password),
            scheme=scheme,
            tls=_truth(given, "tls", default=implied),
            **files,
            key_password=Secret(given.get("key_password", "")),
            check_hostname=_truth(given, "check_hostname", default=True),
        )


def access_of(options: Mapping[str, str] | None) -> Access:
    """Read the options; by default those in the environment.

    Raises:
        InvalidInput: an option is wrong; the message names the option or variable.
    """
    return Access.read(options or _from_environment())


def _from_environment() -> Mapping[str, str]:
    return parse_options(*variable_text(OPTIONS_VARIABLE))


def parse_options(given: Any, where: str) -> dict[str, str]:
    """Return options given as an object, or as its JSON text.

    Raises:
        InvalidInput: the form is wrong. The message names ``where`` they were given, but not
            their text, which may hold a password.
    """
    try:
        found = json.loads(given or "{}") if isinstance(given, str) else given or {}
    except ValueError:
        found = None
    if not isinstance(found, Mapping):
        raise InvalidInput(
            f'{where} is not a JSON object of ZooKeeper options: write e.g. {{"user": "lake", '
            '"password_file": "/run/secrets/zookeeper"}'
        )
    return {
        str(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in found.items()
        if value is not None
    }


def _password(given: Mapping[str, str]) -> str:
    if path := given.get("password_file"):
        return text_of(path, "password_file").rstrip("\r\n")
    return given.get("password", "")


def _file(name: str, path: str | None) -> str | None:
    if path is not None and not Path(path).is_file():
        raise InvalidInput(
            f"ZooKeeper option {name} names {path}, which is not a file: correct the path"
        )
    return path


def _truth(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in _TRUTH:
        raise InvalidInput(f"ZooKeeper option {name} is {text!r}: write true or false")
    return _TRUTH[text]
