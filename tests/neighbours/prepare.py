"""Fetch what the neighbours need into ``build/neighbours``: ``make test-neighbours``.

1. A Python environment with the newest PySpark that Iceberg and Delta Lake have runtimes for. It is
   not the project's own PySpark, which is newer.
2. The runtimes of Iceberg and Delta Lake, by Maven, as ``pom.xml`` names them.

What is there is not fetched again.
"""

import subprocess
import sys
import venv
from pathlib import Path

HOME = Path(__file__).resolve().parents[2] / "build" / "neighbours"
PYSPARK = "4.1.4"
PYTHON = HOME / f"pyspark-{PYSPARK}" / "bin" / "python"
JARS = HOME / "jars"
_GROUPS = "org.apache.iceberg,io.delta,io.unitycatalog"


def main() -> None:
    """Fetch what is not there."""
    HOME.mkdir(parents=True, exist_ok=True)
    _pyspark()
    _jars()


def _pyspark() -> None:
    if not PYTHON.exists():
        place = PYTHON.parents[1]
        venv.create(place, with_pip=True, symlinks=True)
        packages = (f"pyspark=={PYSPARK}", "pyarrow", "pandas")
        _run(str(PYTHON), "-m", "pip", "install", "--quiet", *packages)


def _jars() -> None:
    if not any(JARS.glob("*.jar")):
        _maven(
            "dependency:copy-dependencies",
            f"--file={Path(__file__).with_name('pom.xml')}",
            f"-DincludeGroupIds={_GROUPS}",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={JARS}",
        )


def _maven(*arguments: str) -> None:
    _run("mvn", "--quiet", "--batch-mode", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()
