"""This package as a zip, for the executors of a cluster (``--py-files``).

The archive is a function of the sources: sorted names, no times, no caches.
"""

import tempfile
import zipfile
from pathlib import Path

import airflow_provider_segtable

_TIME = (1980, 1, 1, 0, 0, 0)


def package_archive(folder: Path | str | None = None) -> Path:
    """Write the archive and return its path.

    Args:
        folder: where to; a new temporary folder by default, which lives as long as its user
            lets it.
    """
    root = Path(airflow_provider_segtable.__path__[0])
    target = Path(folder or tempfile.mkdtemp(prefix="segtable-")) / "segtable.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(root.rglob("*.py")):
            name = source.relative_to(root.parent).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _TIME), source.read_bytes())
    return target
