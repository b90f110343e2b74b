"""Fetch the Sparks of other versions, and YARN, into ``build/remote-spark``.

1. Each version of PySpark has an environment with the packages that segtable needs, in the versions
   of ``constraints.txt``.
2. YARN is Hadoop's own resource manager and node manager, by Maven, as ``pom.xml`` names them.

What is there is not fetched again.
"""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "remote-spark"
TOO_OLD = "3.5.9"
VERSIONS = ("4.0.5", "4.1.4", "4.2.1")
YARN_JARS = HOME / "yarn" / "jars"
_PACKAGES = (
    *("fastavro", "kazoo", "numpy", "obstore", "pandas", "pyarrow", "pyroaring", "rich"),
    *("sqlglot", "typer", "psutil", "pytest"),
)


def python_with(version: str) -> Path:
    """Return the Python of the environment that has a version of PySpark."""
    return HOME / f"spark-{version}" / "bin" / "python"


def home_of(version: str) -> Path:
    """Return the home of a version of Spark."""
    (found,) = python_with(version).parents[1].glob("lib/python*/site-packages/pyspark")
    return found


def main() -> None:
    """Fetch what is not there."""
    HOME.mkdir(parents=True, exist_ok=True)
    for version in (TOO_OLD, *VERSIONS):
        _pyspark(version)
    if not any(YARN_JARS.glob("*.jar")):
        pom = f"--file={Path(__file__).with_name('pom.xml')}"
        goal = ("dependency:copy-dependencies", "-DincludeScope=runtime")
        _run("mvn", "--quiet", "--batch-mode", *goal, pom, f"-DoutputDirectory={YARN_JARS}")


def _pyspark(version: str) -> None:
    python = python_with(version)
    if python.exists():
        return
    venv.create(python.parents[1], with_pip=True, symlinks=True)
    pins = HOME / "constraints.txt"  # of all but Spark itself
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins.write_text("\n".join(line for line in lines if not line.startswith(("py4j", "pyspark"))))
    install = ("-m", "pip", "install", "--quiet", "--constraint", str(pins))
    _run(str(python), *install, f"pyspark=={version}", *_PACKAGES)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()
