"""Settings of publishing, in a table's properties (``publish.*``).

1. ``publish.NAME`` switches a table format on or off. Every version is then published in it by the
   process that commits it, unless ``publish.on_commit`` is off.
2. Switched off, a published table stays as it is, and grows older.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.planning.properties.property_values import names_of, values_of

PREFIX = "publish"
ON, OFF = "on", "off"

_WORDS = {ON: True, OFF: False, "true": True, "false": False}
_FORMATS = ("delta", "iceberg")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """In which table formats versions are published, and when; defaults in parentheses.

    Attributes:
        delta: ``on`` publishes as Delta Lake (off).
        iceberg: ``on`` publishes as Apache Iceberg (off).
        on_commit: ``on`` publishes after each commit (on); ``off`` when ``publish`` is called.
        iceberg_catalog: name of the pyiceberg catalog that the Iceberg table is registered in.
        iceberg_table: its identifier there, ``namespace.table``.
    """

    delta: str = OFF
    iceberg: str = OFF
    on_commit: str = ON
    iceberg_catalog: str = ""
    iceberg_table: str = ""

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        for name in (*_FORMATS, "on_commit"):
            _switched(name, getattr(self, name))
        if bool(self.iceberg_catalog) != bool(self.iceberg_table):
            raise InvalidInput(
                f"{PREFIX}.iceberg_catalog = {self.iceberg_catalog!r} and {PREFIX}.iceberg_table = "
                f"{self.iceberg_table!r} go together: set both, or none"
            )

    @staticmethod
    def read(properties: Mapping[str, str]) -> "PublishSettings":
        """Return the settings in a table's properties."""
        return PublishSettings(**values_of(PublishSettings, PREFIX, properties))  # type: ignore[arg-type]

    @property
    def formats(self) -> tuple[str, ...]:
        """Return the names of the formats that are switched on."""
        return tuple(name for name in _FORMATS if _switched(name, getattr(self, name)))

    @property
    def after_commits(self) -> bool:
        """Return whether each commit is published by its author."""
        return _switched("on_commit", self.on_commit)


PROPERTIES = names_of(PublishSettings, PREFIX)


def property_of(name: str) -> str:
    """Return the property that switches a format on."""
    return f"{PREFIX}.{name}"


def _switched(name: str, text: str) -> bool:
    found = _WORDS.get(text.strip().lower())
    if found is None:
        raise InvalidInput(f"property {PREFIX}.{name} = {text!r} is neither on nor off")
    return found
