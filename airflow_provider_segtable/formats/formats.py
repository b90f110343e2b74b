"""The registry of formats; the modules of a format are imported when it is first looked up."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from airflow_provider_segtable.formats.format import Format

_HOMES = {
    "delta": ("delta.delta_target", "DeltaFormat"),
    "iceberg": ("iceberg.iceberg_target", "IcebergFormat"),
}


class Formats(Mapping[str, Format]):
    """Each format, by its name: most tables are published in none."""

    def __getitem__(self, name: str) -> Format:
        """Return a format; ``KeyError`` if there is none of this name."""
        return _format(*_HOMES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


@cache
def _format(module: str, kind: str) -> Format:
    home = import_module(f"airflow_provider_segtable.formats.{module}")
    found: Format = getattr(home, kind)()
    return found


FORMATS: Mapping[str, Format] = Formats()
