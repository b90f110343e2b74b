"""The registry of formats; the modules of a format are imported when it is first looked up.

Most tables are published in no format, or in one. So whether there is a target is first asked by
its folder (``in_use``).
"""

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from importlib import import_module

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.formats.format import Format
from airflow_provider_segtable.ports.storage import Storage

_HOMES = {
    "delta": ("delta.delta_target", "DeltaFormat"),
    "iceberg": ("iceberg.iceberg_target", "IcebergFormat"),
}
_FOLDERS = {"delta": "_delta_log", "iceberg": "_iceberg"}
"""The folder of each format's target, in a table's root."""


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


def in_use(
    formats: Mapping[str, Format], storage: Storage, enabled: Collection[str]
) -> Iterator[tuple[str, Format]]:
    """Yield the formats that are enabled, or may have a target in a table's root, by name."""
    for name in formats:
        if name in enabled or _may_have_target(name, storage):
            yield name, formats[name]


def _may_have_target(name: str, storage: Storage) -> bool:
    if name not in _FOLDERS:
        return True
    try:
        return any(True for _ in storage.list(_FOLDERS[name]))
    except (SegtableError, OSError):
        return True  # its target reports the error
