"""The files that the architecture tests look at."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "airflow_provider_segtable"


@cache
def tracked() -> tuple[Path, ...]:
    """Return every file that git tracks and that is still there."""
    return tuple(path for path in listed() if path.is_file())


def listed(*options: str) -> tuple[Path, ...]:
    """Return what ``git ls-files`` lists."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", *options]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return tuple(ROOT / name for name in names.split("\0") if name)


def modules() -> tuple[Path, ...]:
    """Return the package's own modules and the Spark applications."""
    own = (PACKAGE, ROOT / "spark_apps", ROOT / "dags")
    return tuple(
        path for path in tracked() if path.suffix == ".py" and any(map(path.is_relative_to, own))
    )


def named(path: Path) -> str:
    """Return how a test names a file."""
    return path.relative_to(ROOT).as_posix()
