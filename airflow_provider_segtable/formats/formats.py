"""The registry of formats; the modules of a format are imported when it is first looked up."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

from airflow_provider_segtable.formats.format import Format

_HOMES = {
    "delta": ("delta.delta_target", "DeltaFormat"),
    "iceberg": ("iceberg.iceberg_target", "IcebergFormat"),
}


class Formats(MutableMapping[str, Format]):
    """Each format, by its name: most tables are published in none."""

    def __init__(self) -> None:
        """Know all formats, without importing any."""
        self._known: dict[str, Format | None] = dict.fromkeys(_HOMES)

    def __getitem__(self, name: str) -> Format:
        """Return a format; ``KeyError`` if there is none of this name."""
        found = self._known[name]
        if found is None:
            found = self._known[name] = _format(*_HOMES[name])
        return found

    def __setitem__(self, name: str, value: Format) -> None:
        """Register a format."""
        self._known[name] = value

    def __delitem__(self, name: str) -> None:
        """Forget a format."""
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _format(module: str, kind: str) -> Format:
    home = import_module(f"airflow_provider_segtable.formats.{module}")
    found: Format = getattr(home, kind)()
    return found


FORMATS: Mapping[str, Format] = Formats()
"""Each format, by its name."""
