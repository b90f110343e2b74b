"""Retention: how long versions and unnamed files are kept.

1. Retention is read from the table's properties (``retention.*``). Unknown or malformed keys are
   refused by name, because a typo would silently select a default.
2. A version is kept by time and by number, whichever keeps more. The versions that a consumer has
   yet to read are kept, too, for a bounded time.

Source of the defaults: Hudi's cleaner (24 hours), Paimon's snapshot expiry (at least 10), Iceberg's
orphan files (3 days).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.planning.properties.property_values import names_of, values_of

HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Retention settings; defaults in parentheses.

    Attributes:
        hours: keep every version that was the newest at some time in this many hours (24) ...
        versions: ... and this many newest versions, whatever their age (10).
        orphan_hours: keep files that the log does not name for this long (72), since a writer may
            be about to commit them.
        consumer_hours: keep the versions from a consumer's position on, until it has left a change
            of rows unread for this many hours (168).
        tombstone_hours: in a primary-key table, keep the record that a key was deleted for this
            long (168), so that a late row with an older ordering value does not bring it back.
    """

    hours: float = 24.0
    versions: int = 10
    orphan_hours: float = 72.0
    consumer_hours: float = 168.0
    tombstone_hours: float = 168.0

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        for name, value in asdict(self).items():
            least = 1 if name == "versions" else 0
            if not value >= least:
                raise InvalidInput(f"retention {name} = {value} is too low: at least {least}")

    @staticmethod
    def read(properties: Mapping[str, str]) -> "Retention":
        """Return the retention in a table's properties (``retention.*``)."""
        return Retention(**values_of(Retention, "retention", properties))  # type: ignore[arg-type]


PROPERTIES = names_of(Retention, "retention")
