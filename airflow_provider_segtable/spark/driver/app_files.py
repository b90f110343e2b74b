"""Locate the files of the Spark applications for spark-submit (``segtable spark-app``).

1. In a wheel they are inside the package, as ``_spark_apps/`` (``hatch_build.py``).
2. In a checkout they are beside the package, in ``spark_apps/``.
3. The wheel's folder comes first: a folder beside an installed package may not be segtable's.
"""

from pathlib import Path

from airflow_provider_segtable.core.errors import InvalidName

RESULT_PREFIX = "SEGTABLE_RESULT "
"""Beginning of an application's last line, which has its result as JSON."""
_PACKAGE = Path(__file__).resolve().parents[2]


def spark_app_path(name: str, package: Path = _PACKAGE) -> Path:
    """Return the file of the application called ``name``, such as ``"compact"``.

    Raises:
        InvalidName: there is no such application; the message lists the existing ones.
    """
    folder = _folder(package)
    there = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    if name not in there:
        raise InvalidName(
            f"no Spark application {name!r} in {folder}; there are: {', '.join(there) or 'none'}"
        )
    return folder / f"{name}.py"


def _folder(package: Path) -> Path:
    bundled = package / "_spark_apps"
    return bundled if bundled.is_dir() else package.parent / "spark_apps"
