"""Find the Java and the ZooKeeper jars that are installed on this machine."""

import importlib.util
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from airflow_provider_segtable.core.errors import DependencyMissing, JavaMissing

NEEDED_JAVA = 17
WAY_OUT = (
    f"install Java {NEEDED_JAVA} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) and put it on PATH or set JAVA_HOME"
)

# The jars that the server uses: a tenth of Spark's class path, and twice as fast to start.
JARS = (
    "zookeeper-*.jar",
    "slf4j-api-*.jar",
    "log4j-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-*.jar",
    "netty-*.jar",
)


def find_java() -> Path:
    """Return the java command, from JAVA_HOME or else PATH.

    Raises:
        JavaMissing: if there is no Java, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home, "bin", "java") if home else None
    found = str(candidate) if candidate and candidate.exists() else shutil.which("java")
    if not found:
        raise JavaMissing(
            f"Java is missing: none on PATH, and JAVA_HOME is {home or 'not set'}: {WAY_OUT}"
        )
    version = _version(found)
    if version < NEEDED_JAVA:
        raise JavaMissing(f"{found} is Java {version or 'of unknown version'}: {WAY_OUT}")
    return Path(found)


@cache
def _version(java: str) -> int:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(match.group(1)) if match else 0


def zookeeper_class_path() -> str:
    """Return the class path of the ZooKeeper server that PySpark ships.

    Raises:
        DependencyMissing: if no PySpark with its jars is installed.
    """
    spec = importlib.util.find_spec("pyspark")
    places = [Path(place, "jars") for place in (spec and spec.submodule_search_locations) or ()]
    if home := os.environ.get("SPARK_HOME"):
        places.append(Path(home, "jars"))
    for place in places:
        if any(place.glob("zookeeper-[0-9]*.jar")):
            return ":".join(sorted(str(jar) for name in JARS for jar in place.glob(name)))
    looked = ", ".join(map(str, places)) or "no pyspark package found"
    raise DependencyMissing(
        f"PySpark's jars, which the embedded ZooKeeper needs, were not found ({looked}): "
        "pip install pyspark (pyspark-client has no jars), or start your own ZooKeeper"
    )
