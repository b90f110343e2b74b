"""A Spark session with the settings segtable's work needs, and no noise.

1. What spark-submit, ``spark-defaults.conf`` or the caller sets wins over our defaults.
2. Without a master it runs here, on all cores, bound to loopback, with this very Python in its
   workers. A task that fails is tried again, as on a cluster.
3. Executors of other masters get this package as an archive, unless it was submitted with one.
   Their Python is ``spark.pyspark.python``, however this process was started.
4. Session time is UTC. Nothing of segtable depends on it, but what people see does.
5. PySpark would log each exception of a condition with its Java stack, though it is caught and
   told in one line (``failures``): those two loggers are silent.
6. A setting that is a credential is given when the JVM runs already: PySpark would put it on the
   JVM's command line. Spark's pages hide the values of such settings, by our list of names.
7. Signals wait until Spark has started: PySpark, interrupted while it starts the JVM, leaves it
   running for ever.
"""

import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.coordination.embedded_zookeeper.java import find_java
from airflow_provider_segtable.core.secret import CREDENTIAL_NAMES, is_secret_name
from airflow_provider_segtable.spark.driver.install_check import check_install
from airflow_provider_segtable.spark.driver.jvm import SHORT_LIVED_DRIVER

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*, 4]"
_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
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


def session(
    app_name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> "SparkSession":
    """Return a session, the running one if there is one.

    Args:
        app_name: shown in Spark's own pages and logs.
        master: where to run; by default what spark-submit says, else ``local[*, 4]``.
        conf: Spark settings, over all defaults.

    Raises:
        JavaMissing: no Java that is new enough on this machine.
        DependencyMissing: PySpark is missing, or its files are mixed with another package's.
        ExecutionFailed: Spark did not start; says why.
    """
    check_machine()
    from pyspark.sql import SparkSession

    from airflow_provider_segtable.spark.driver.spark_errors import translated

    given = {**_submitted(), **(conf or {})}
    where = master or given.get("spark.master") or DEFAULT_MASTER
    local = where.startswith("local")
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif "spark.pyspark.python" in given:  # PySpark reads it only where spark-submit started it
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
    """Start the JVM, if there are settings that its command line may not show."""
    shown = {key: value for key, value in settings.items() if not is_secret_name(key)}
    if len(shown) == len(settings):
        return
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(loadDefaults=False).setAll(list(shown.items()))
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001  # does nothing where one runs


def _ship(context: "SparkContext") -> None:
    """Send this package to the executors, once."""
    from airflow_provider_segtable.spark.driver.archive import ARCHIVE, package_archive

    if ARCHIVE not in (context._python_includes or ()):  # noqa: SLF001  # Spark refuses a second of a name
        folder = context._temp_dir  # noqa: SLF001  # goes with the application
        context.addPyFile(str(package_archive(folder)))


def check_machine() -> None:
    """Find out whether Spark could start here, without starting it.

    Raises:
        JavaMissing: no Java that is new enough on this machine.
        DependencyMissing: PySpark is missing, or its files are mixed with another package's.
    """
    find_java()
    check_install()


def _silence() -> None:
    """Let exceptions speak for themselves."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Let SIGINT and SIGTERM wait till the end."""
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
            if signal.getsignal(number) is hold:  # else PySpark has put its own
                signal.signal(number, handler)
    for number in held:
        signal.raise_signal(number)


def _folders() -> dict[str, str]:
    """Keep Spark's folders out of the working directory."""
    return {"spark.sql.warehouse.dir": str(Path(tempfile.gettempdir(), "segtable-warehouse"))}


def _submitted() -> dict[str, str]:
    """Return what spark-submit set, if it started this process, else what it would read."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return _defaults_file()
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001  # attaches to the JVM that holds them
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
