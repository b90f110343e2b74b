"""Start a Spark session on a driver, and give its executors the package that they need.

The session:

1. Settings of spark-submit, ``spark-defaults.conf`` or the caller override these defaults.
2. Without a master it runs on this machine, on all cores, bound to loopback, with the same Python
   in its workers. A failed task is retried, as on a cluster.
3. Executors of other masters get this package as an archive, unless it was submitted with one.
   Their Python is ``spark.pyspark.python``, however this process was started.
4. Session time is UTC. Segtable does not depend on it, but displayed times do, and so does the
   meaning of a time without zone in a condition.
5. PySpark would log each exception of a condition with its Java stack, though it is caught and
   reported in one line (``spark_errors``). Those two loggers are silenced.
6. Credential settings are applied once the JVM runs, because PySpark would put them on the JVM's
   command line. Spark's pages hide their values, by segtable's list of names.
7. Signals are held until Spark has started: if PySpark is interrupted while it starts the JVM,
   the JVM runs for ever.
8. JVM flags apply when the JVM starts, so spark-submit needs them on its command line. Segtable's
   drivers live for seconds and move files, not rows: a fast start matters more than optimised
   code. Without optimised code a JVM reserves 48 MiB for compiled code. A session that lives for
   minutes fills these: it would discard and compile again. So it gets the JVM's usual amount.

The package as a zip for the executors of a cluster (``--py-files``):

9. The archive depends on the sources alone: sorted names, no times, no caches.
10. It holds the whole package, because it precedes an installed segtable on an executor's path and
    a part of the package would hide the rest. ``spark/source`` has a class in Java for drivers that
    run from it. Tasks import ``spark/tasks`` from it.
11. A driver that itself runs from such an archive passes that archive on.

Files of the Spark applications for spark-submit (``segtable spark-app``):

12. In a wheel they are inside the package, as ``_spark_apps/`` (``hatch_build.py``).
13. In a checkout they are beside the package, in ``spark_apps/``.
14. The wheel's folder comes first: a folder beside an installed package may not be segtable's.
"""

import logging
import os
import re
import signal
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any
from zipimport import zipimporter

import airflow_provider_segtable
from airflow_provider_segtable.coordination.embedded_zookeeper import find_java
from airflow_provider_segtable.core.errors import InvalidName
from airflow_provider_segtable.core.secret import CREDENTIAL_NAMES, is_secret_name
from airflow_provider_segtable.spark.driver.install_check import check_install

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


ARCHIVE = "segtable.zip"
_TIME = (1980, 1, 1, 0, 0, 0)


# The package as an archive for executors
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


SHORT_LIVED_DRIVER = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
    "-XX:ReservedCodeCacheSize=240m",
}


DEFAULT_MASTER = "local[*, 4]"
_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timeType.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "1g",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.redaction.regex": f"(?i){CREDENTIAL_NAMES}",
}
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    **SHORT_LIVED_DRIVER,
}


# The session: its settings, loggers and signals
def session(
    app_name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> "SparkSession":
    """Return a session: the running one, or a new one.

    Args:
        app_name: shown in Spark's own pages and logs.
        master: where to run; by default spark-submit's master, else ``local[*, 4]``.
        conf: Spark settings, over all defaults.

    Raises:
        JavaMissing: no Java on this machine is new enough.
        DependencyMissing: PySpark is missing or too old, or its files are mixed with another
            package's.
        InvalidInput: the settings name a server of Spark Connect.
        ExecutionFailed: Spark did not start.
    """
    check_machine()
    from pyspark.sql import SparkSession

    from airflow_provider_segtable.spark.driver.spark_connect import check_not_client
    from airflow_provider_segtable.spark.driver.spark_errors import translated

    given = {**submitted_settings(), **(conf or {})}
    where = master or given.get("spark.master") or DEFAULT_MASTER
    check_not_client({**given, "spark.master": where})
    local = where.startswith("local")
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif "spark.pyspark.python" in given:  # PySpark reads it only if spark-submit started it
        os.environ["PYSPARK_PYTHON"] = given["spark.pyspark.python"]
    _silence()
    builder = SparkSession.builder.appName(app_name).master(where)
    settings = {**_DEFAULTS, **(_LOCAL if local else {}), **_folders()} | given
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _signals_held(), translated(f"starting Spark on {where}"):
        _start_jvm({"spark.master": where, "spark.app.name": app_name, **settings})
        spark = builder.getOrCreate()
    if not local:
        _ship(spark.sparkContext)
    return spark


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM first if there are credentials that its command line may not show."""
    shown = {key: value for key, value in settings.items() if not is_secret_name(key)}
    if len(shown) == len(settings):
        return
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(loadDefaults=False).setAll(list(shown.items()))
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001  # does nothing if one runs


def _ship(context: "SparkContext") -> None:
    """Send this package to the executors, once: Spark refuses another archive of that name."""
    if ARCHIVE not in (context._python_includes or ()) and not _shipped_by_yarn(context):  # noqa: SLF001
        folder = context._temp_dir  # noqa: SLF001  # removed with the application
        context.addPyFile(str(package_archive(folder)))


def _shipped_by_yarn(context: "SparkContext") -> bool:
    """Return whether YARN has put the archive into every container (``--py-files``).

    PySpark looks for it at its path on the machine that submitted, so a driver elsewhere misses it.
    """
    submitted = context.getConf().get("spark.submit.pyFiles") or ""
    return context.master == "yarn" and ARCHIVE in map(os.path.basename, submitted.split(","))


def check_machine() -> None:
    """Check that Spark can start on this machine, without starting it.

    Raises:
        JavaMissing: no Java on this machine is new enough.
        DependencyMissing: PySpark is missing or too old, or its files are mixed with another
            package's.
    """
    find_java()
    check_install()


def _silence() -> None:
    """Silence the loggers that repeat exceptions."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold SIGINT and SIGTERM until the block ends."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is ever interrupted
        return
    held: list[int] = []

    def hold(number: int, _: FrameType | None) -> None:
        held.append(number)

    before: dict[int, Any] = {n: signal.signal(n, hold) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is hold:  # else PySpark has set its own
                signal.signal(number, handler)
    for number in held:
        signal.raise_signal(number)


def _folders() -> dict[str, str]:
    """Keep Spark's folders out of the working directory."""
    return {"spark.sql.warehouse.dir": str(Path(tempfile.gettempdir(), "segtable-warehouse"))}


def submitted_settings() -> dict[str, str]:
    """Return spark-submit's settings if it started this process, else the defaults file's."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return _defaults_file()
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001  # attaches to the JVM with the settings
    return dict(SparkConf().getAll())


def _defaults_file() -> dict[str, str]:
    """Return the settings of ``spark-defaults.conf``."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    file = Path(folder, "spark-defaults.conf") if folder else None
    if file is None or not file.is_file():
        return {}
    lines = (line.strip() for line in file.read_text().splitlines())
    pairs = (re.split(r"\s*[\s=:]\s*", line, maxsplit=1) for line in lines if line[:1] not in "#!")
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


RESULT_PREFIX = "SEGTABLE_RESULT "
"""Beginning of an application's last line, which has its result as JSON."""
_PACKAGE = Path(__file__).resolve().parents[2]


# Files of the Spark applications
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
