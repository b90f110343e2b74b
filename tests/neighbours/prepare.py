"""Fetch what the neighbours need into ``build/neighbours``: ``make test-neighbours``.

1. A Python environment with the newest PySpark that Iceberg and Delta Lake have runtimes for (it is
   not the project's own PySpark, which is newer), DuckDB with its extensions, ClickHouse as the
   library chDB, and the client of Trino.
2. The runtimes of Iceberg and Delta Lake, by Maven, as ``pom.xml`` names them.
3. Of Trino's server, by Maven: its libraries and two connectors. It needs Java 24: without it, the
   server is left out, and its tests are skipped.

What is there is not fetched again. A part has its name only once it is whole.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

HOME = Path(__file__).resolve().parents[2] / "build" / "neighbours"
PYTHON = HOME / "python" / "bin" / "python"
PACKAGES = (
    "pyspark==4.1.4",
    "trino==0.340.0",
    "duckdb==1.5.5",
    *(f"duckdb-extension-{name}==1.5.5" for name in ("avro", "delta", "iceberg")),
    "chdb==4.4.0",
    "chdb-core==26.9.0",
    "numpy==2.4.6",
    "pandas==3.1.1",
    "pyarrow==26.0.1",
)
JARS = HOME / "jars"
_GROUPS = "org.apache.iceberg,io.delta,io.unitycatalog"
TRINO_VERSION = "476"
TRINO = HOME / f"trino-server-{TRINO_VERSION}"
_OF_TRINO = ("lib/", "plugin/delta-lake/", "plugin/iceberg/")
TRINO_JAVA = 24
NO_JAVA = f"Trino needs Java {TRINO_JAVA} or newer: set JAVA_HOME to one, or install it"


def main() -> None:
    """Fetch what is not there."""
    HOME.mkdir(parents=True, exist_ok=True)
    parts = {PYTHON.parents[1]: _python, JARS: _jars}
    if java_of_trino():
        parts[TRINO] = _trino
    else:
        print(NO_JAVA, file=sys.stderr)  # noqa: T201
    for place, fetch in parts.items():
        if not place.exists():
            fetch(place)


def java_of_trino() -> Path | None:
    """Return the home of a Java that is new enough for Trino."""
    homes = [Path(os.environ.get("JAVA_HOME", "/")), *sorted(Path("/usr/lib/jvm").glob("*"))]
    return next((home for home in homes if _java_version(home) >= TRINO_JAVA), None)


def _java_version(home: Path) -> int:
    release = home / "release"
    lines = release.read_text().splitlines() if release.exists() else []
    found = [each.split('"')[1] for each in lines if each.startswith("JAVA_VERSION=")]
    return int(found[0].partition(".")[0]) if found else 0


def _python(place: Path) -> None:
    try:
        venv.create(place, with_pip=True, symlinks=True)
        _run(str(PYTHON), "-m", "pip", "install", "--quiet", *PACKAGES)
    except BaseException:
        shutil.rmtree(place)  # programs in an environment name its place, so it is never renamed
        raise


def _jars(place: Path) -> None:
    part = place.with_suffix(".part")
    _maven(
        "dependency:copy-dependencies",
        f"--file={Path(__file__).with_name('pom.xml')}",
        f"-DincludeGroupIds={_GROUPS}",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={part}",
    )
    part.rename(place)


def _trino(place: Path) -> None:
    part = place.with_suffix(".part")
    _maven(
        "dependency:copy",
        f"-Dartifact=io.trino:trino-server:{TRINO_VERSION}:tar.gz",
        f"-DoutputDirectory={part}",
    )
    with tarfile.open(part / f"{place.name}.tar.gz") as archive:
        for member in archive:
            if member.name.partition("/")[2].startswith(_OF_TRINO):
                archive.extract(member, part, filter="data")
    (part / place.name).rename(place)
    shutil.rmtree(part)


def _maven(*arguments: str) -> None:
    """Run Maven with a repository below ``build``, which is deleted: a server is 800 MB."""
    repository = HOME / "maven"
    _run("mvn", "--quiet", "--batch-mode", f"-Dmaven.repo.local={repository}", *arguments)
    shutil.rmtree(repository)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()
