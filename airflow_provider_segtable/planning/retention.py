"""Retention: how long versions, and files that nobody names, are kept.

1. It is read from the table's properties (``retention.*``); unknown or malformed keys are refused
   by name, because a typo would silently mean a default.
2. A version is kept by time and by number, whichever keeps more.

Source of the defaults: Hudi's cleaner (24 hours), Paimon's snapshot expiry (at least 10), Iceberg's
orphan files (3 days).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from airflow_provider_segtable.core.errors import InvalidInput

HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long what is kept.

    Attributes:
        hours: every version that was the newest at some time in the last so many hours (24) ...
        versions: ... and the last so many, whatever their age (10).
        orphan_hours: files that the log does not name are left alone for so long (72): they may
            belong to somebody who is about to commit.
    """

    hours: float = 24.0
    versions: int = 10
    orphan_hours: float = 72.0

    def __post_init__(self) -> None:
        """Refuse values that cannot work."""
        for name, least in (("hours", 0), ("versions", 1), ("orphan_hours", 0)):
            value = getattr(self, name)
            if not value >= least:
                raise InvalidInput(f"retention {name} = {value} is too low: at least {least}")

    @staticmethod
    def read(properties: Mapping[str, str]) -> "Retention":
        """Return the retention that a table's properties give."""
        known = {field.name: field.type for field in fields(Retention)}
        given: dict[str, float] = {}
        for key, text in properties.items():
            name = key.removeprefix("retention.")
            if name == key:
                continue
            if name not in known:
                raise InvalidInput(f"{key!r} is no property: known are {', '.join(PROPERTIES)}")
            given[name] = _number(key, text, whole=known[name] in (int, "int"))
        return Retention(**given)  # type: ignore[arg-type]


def _number(key: str, text: str, *, whole: bool) -> float:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise InvalidInput(f"property {key} = {text!r} is not {kind}") from None


PROPERTIES: tuple[str, ...] = tuple(f"retention.{field.name}" for field in fields(Retention))
