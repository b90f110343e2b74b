"""Credentials that are hidden in texts, and redaction of foreign texts.

1. Code passes a credential as a ``Secret``, and several by name as ``SecretOptions``.
   ``str``, ``repr``, formatting and ``json`` do not show them; they pickle, for Spark's tasks.
2. A foreign text (an error of a library, a URI, the output of a process) goes through ``redacted``
   before it is logged, committed or raised: user information in URIs, and the values of settings
   with credential names, become ``***``.
3. ``is_secret_name`` is the one list of such names. ``redacted`` does not hide values of other
   names; a ``Secret`` or ``SecretOptions`` hides its values under any name.
"""

import re
from collections.abc import Iterator, Mapping

HIDDEN = "***"
CREDENTIAL_NAMES = (
    r"secret|passw(?:or)?d|passphrase|token|credential|signature"
    r"|(?:storage|reader)[._-]?options"
    r"|(?:private|access|account|api|shared|customer|encryption)[._-]?key|connection[._-]?string"
    r"|(?<![a-zA-Z0-9])(?:sig|sas|jaas|auth)(?![a-zA-Z0-9])"
)
"""Pattern of names whose values are credentials; Java uses it, too (``spark.redaction.regex``)."""

_NAME = re.compile(CREDENTIAL_NAMES, re.IGNORECASE)
_USER_INFORMATION = re.compile(r"(?<=://)[^/?#\s'\"@]*:[^/?#\s'\"]*@")
_VALUE = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s&,;()\[\]{}'\"]+"
_ASSIGNED = re.compile(
    rf"((?:{CREDENTIAL_NAMES})[\w.-]{{0,60}}(?:\s?=\s?|[\"']\s?:\s?))(?:{_VALUE})", re.IGNORECASE
)
_HEADER = re.compile(
    r"(\bauthorization['\"]?\s?[:=]\s?['\"]?)(?:[\w-]+ )?[^\s,'\"]+", re.IGNORECASE
)
_BEARER = re.compile(r"(\bbearer )[\w.~+/=-]{16,}", re.IGNORECASE)
_SHORTEST = 4


def is_secret_name(name: str) -> bool:
    """Return whether the value of a setting with this name is a credential."""
    return _NAME.search(name) is not None


def redacted(text: str) -> str:
    """Return ``text`` with ``***`` for credentials in URIs, settings and headers."""
    for pattern in (_HEADER, _BEARER, _ASSIGNED):
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return _USER_INFORMATION.sub(f"{HIDDEN}@", text)


class Secret:
    """One credential; only ``reveal`` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the credential."""
        return self._value

    def hidden_in(self, text: str) -> str:
        """Return ``text`` with ``***`` wherever it repeats the credential."""
        return _hidden(text, [self._value])

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)


class SecretOptions(Mapping[str, str]):
    """Named values, some of them credentials, such as the options of an object store.

    ``repr`` shows the names alone. A copy into a ``dict`` exposes all values: copy late.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def secrets(self) -> tuple[str, ...]:
        """Return the values with credential names."""
        return tuple(value for name, value in self._values.items() if is_secret_name(name))

    def hidden_in(self, text: str) -> str:
        """Return ``text`` with ``***`` wherever it repeats one of the credentials."""
        return _hidden(text, self.secrets())

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"SecretOptions({', '.join(sorted(self._values))})"


def _hidden(text: str, secrets: "list[str] | tuple[str, ...]") -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:  # a shorter one would hide half of the words
            text = text.replace(secret, HIDDEN)
    return text
