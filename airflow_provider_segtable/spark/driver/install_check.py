"""Check, without importing it, that PySpark is installed and complete before a session starts.

``pyspark`` and ``pyspark-client`` write the same folder, ``site-packages/pyspark``; the client is a
subset. The Spark provider of Airflow depends on the client, so both meet easily:

1. Equal versions: the shared files are identical. Sound.
2. Different versions: installers let either win, file by file. SQL still works while Python
   functions fail deep inside Spark, so the files are compared with what pyspark recorded:
   some differ = broken; none differs = sound today, at risk with the next upgrade.
3. Uninstalling the client then removes the shared files from pyspark. Broken.
4. The client alone contains no Spark, which ``spark-submit`` and local masters need. Broken.
5. A ``pyspark`` that no installer recorded belongs to a Spark distribution. Sound.
6. Spark before 4.0 lacks much of what segtable asks for. Broken. The files say their version, since
   ``spark-submit`` of another Spark puts its own before the installed ones.

This project keeps the client out (``excludes.txt``); users of pip pin both to one version.
"""

import base64
import csv
import hashlib
import importlib.metadata
import importlib.util
import re
import warnings
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

from airflow_provider_segtable.coordination.embedded_zookeeper import find_java
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import DependencyMissing, JavaMissing

OLDEST = 4
"""The first major version of Spark that segtable runs on."""

Lookup = Callable[[str], importlib.metadata.Distribution]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The ``pyspark`` that this interpreter would import, and the packages that installed it.

    ``version`` is what its files say; None if they do not.
    """

    pyspark: str | None
    client: str | None
    importable: bool
    foreign_files: int = 0
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Spark jobs would fail, at their start or later."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRisk:
    """Spark works, but the next install may break it."""

    why: str


def check_install() -> None:
    """Raise ``DependencyMissing`` if PySpark is absent or mixed; warn if it is at risk."""
    match judge(look()):
        case Broken(why=why):
            raise DependencyMissing(why)
        case AtRisk(why=why):
            warnings.warn(why, RuntimeWarning, stacklevel=2)
        case None:
            pass


def spark_here() -> bool:
    """Return whether this machine can start Spark: it has a sound PySpark and a Java."""
    if isinstance(judge(look()), Broken):
        return False
    try:
        find_java()
    except JavaMissing:
        return False
    return True


def judge(installed: Installed) -> Broken | AtRisk | None:
    """Apply rules 1-6; ``None`` is sound."""
    full, client = installed.pyspark, installed.client
    if full is None and client is not None:
        return Broken(
            why=f"pyspark-client {client} is installed without pyspark: it speaks Connect only"
            f" and holds no Spark. {_repair(None, client)}"
        )
    if not installed.importable:
        return Broken(why=_gone(full))
    if installed.version is not None and _major(installed.version) < OLDEST:
        return Broken(
            why=f"PySpark {installed.version} is too old: segtable needs Spark {OLDEST}, on"
            f" drivers and on the cluster. Install it with `pip install 'pyspark>={OLDEST}'` (or"
            f" submit by a spark-submit of Spark {OLDEST}), or work without Spark (Table, --engine"
            " local)"
        )
    if full is None or client is None or full == client:
        return None
    if installed.foreign_files:
        return Broken(
            why=f"{installed.foreign_files} files of pyspark {full} were overwritten by another"
            f" version (pyspark-client {client} is installed too): Python functions would fail"
            f" inside Spark. {_repair(full, client)}"
        )
    return AtRisk(
        why=f"pyspark {full} and pyspark-client {client} share one folder; pyspark's files are"
        f" whole today, but the next install may mix them. {_repair(full, client)}"
    )


def look(lookup: Lookup = importlib.metadata.distribution) -> Installed:
    """Read the installers' records; hash files only if two versions are installed."""
    full, client = _find(lookup, "pyspark"), _find(lookup, "pyspark-client")
    mixed = full is not None and client is not None and full.version != client.version
    spec = importlib.util.find_spec("pyspark")
    return Installed(
        pyspark=full.version if full else None,
        client=client.version if client else None,
        importable=whole(spec),
        foreign_files=foreign_files(full) if full and mixed else 0,
        version=version_of(spec),
    )


def foreign_files(installed: importlib.metadata.Distribution) -> int:
    """Count Python files that are missing or differ from the distribution's record.

    It reads the record itself, because newer ``Distribution.files`` omit missing files.
    """
    count = 0
    for path, digest, _ in csv.reader((installed.read_text("RECORD") or "").splitlines()):
        if path.endswith(".py") and digest.startswith("sha256="):
            count += _digest(Path(str(installed.locate_file(path)))) != digest
    return count


def whole(spec: ModuleSpec | None) -> bool:
    """Return whether a package has an ``__init__.py``; leftover folders have none."""
    return spec is not None and spec.origin is not None


def version_of(spec: ModuleSpec | None) -> str | None:
    """Return the version that a package's ``version.py`` says, in a folder or an archive."""
    read = getattr(spec and spec.loader, "get_data", None)  # of folders and of archives
    if spec is None or spec.origin is None or read is None:
        return None
    try:
        text: str = read(str(Path(spec.origin).with_name("version.py"))).decode()
    except OSError:
        return None
    found = re.search(r"""^__version__[^=]*=\s*["'](\d[^"']*)["']""", text, re.MULTILINE)
    return found and found[1]


def _major(version: str) -> int:
    return int(version.partition(".")[0])


def _digest(path: Path) -> str | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    encoded = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
    return f"sha256={encoded.rstrip('=')}"


def _find(lookup: Lookup, name: str) -> importlib.metadata.Distribution | None:
    try:
        return lookup(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gone(full: str | None) -> str:
    if full is None:
        return (
            "pyspark is not installed. Install it with"
            " `pip install 'airflow-provider-segtable[spark]'`"
        )
    return (
        f"pyspark {full} is recorded as installed, but its files are gone (uninstalling"
        " pyspark-client does that). Repair with"
        f" `pip install --force-reinstall --no-deps pyspark=={full}`"
    )


def _repair(full: str | None, client: str) -> str:
    wanted = f"pyspark=={full}" if full else f"'pyspark[sql]>={OLDEST}'"
    return (
        "Repair with `pip uninstall -y pyspark-client` and then"
        f" `pip install --force-reinstall --no-deps {wanted}`; or pin both to one version"
        f" (the client here is {client})"
    )
