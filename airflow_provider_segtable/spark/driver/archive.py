"""Pack this package as a zip for the executors of a cluster (``--py-files``).

1. The archive depends on the sources alone: sorted names, no times, no caches.
2. It holds the whole package, because it precedes an installed segtable on an executor's path and
   a part of the package would hide the rest. ``spark/source`` has a class in Java for drivers that
   run from it. Tasks import ``spark/tasks`` from it.
3. A driver that itself runs from such an archive passes that archive on.
"""

import tempfile
import zipfile
from pathlib import Path
from zipimport import zipimporter

import airflow_provider_segtable

ARCHIVE = "segtable.zip"
_TIME = (1980, 1, 1, 0, 0, 0)


def package_archive(folder: Path | str | None = None) -> Path:
    """Write the archive and return its path.

    Args:
        folder: target folder; by default a new temporary folder, which the caller removes.
    """
    loader: object = airflow_provider_segtable.__spec__.loader
    if isinstance(loader, zipimporter):
        return Path(loader.archive)
    root = Path(airflow_provider_segtable.__path__[0])
    target = Path(folder or tempfile.mkdtemp(prefix="segtable-")) / ARCHIVE
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        sources = (path for path in root.rglob("*") if path.suffix in (".py", ".java"))
        for source in sorted(sources):
            name = source.relative_to(root.parent).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _TIME), source.read_bytes())
    return target
