"""Translate Spark's exceptions to segtable's errors, and describe failed tasks.

1. A kernel's own error leaves its task as a value (``tasks.writing``), and the driver raises it
   again (``raise_reported``) with its type and message.
2. Any other failed task is reported by its last Python exception, its host and the remedy, in one
   line. An error of segtable that it raised keeps its type.
3. Any other Spark exception becomes one line: its condition or first line, not a stack.
4. Spark's message holds one or more tracebacks; the last exception of the last one is the cause.
   Without a traceback, Spark's reason for the lost task is the cause.
5. Some Spark versions name the host in the message; for others it comes from Spark's status store.
   If neither has it, it is left out.
6. An application that its master gave up, or never took, is named as such: Spark then says only
   that its context is stopped.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from airflow_provider_segtable.core import errors
from airflow_provider_segtable.core.errors import (
    ChecksumMismatch,
    DependencyMissing,
    ExecutionFailed,
    InvalidInput,
    NotFound,
    SchemaMismatch,
    SegtableError,
)

LONGEST = 500
_TRACEBACK = "Traceback (most recent call last):"
_LOST = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor \S+\): (.+)")
_AFTER = ("\tat ", " SQLSTATE", "Driver stacktrace")
_NEEDED = (
    "the Python of every executor needs pyarrow and numpy: install them there, or name one that "
    "has them by spark.pyspark.python"
)
_LOST_WAYS_OUT = (
    (("ModuleNotFoundError", "ImportError", "PACKAGE_NOT_INSTALLED"), _NEEDED),
    (
        ("PYTHON_VERSION_MISMATCH", "Cannot run program"),
        (
            "name a Python of the driver's minor version, at its path on the executors, by "
            "spark.pyspark.python"
        ),
    ),
    (
        ("InvalidClassException", "serialVersionUID"),
        (
            "driver and executors run different versions of Spark: give the driver the cluster's "
            "version (pip install pyspark==VERSION, or its spark-submit)"
        ),
    ),
    (
        ("exited unexpectedly", "ExecutorLostFailure"),
        (
            "see the executor's log; if it was killed for its memory, raise "
            "spark.executor.memoryOverhead; then run it again"
        ),
    ),
)
_JOBS, _ATTEMPTS, _TASKS, _PATIENCE_MS = 8, 2, 100, 2000


# Failed tasks
def lost_task(text: str) -> str | None:
    """Return the description of a failed task; None if the message is not about a task."""
    lost = _LOST.search(text)
    cause = last_exception(text) or (lost and _bare(lost[2]))
    if not cause:
        return None
    host = (lost and lost[1]) or host_of(cause)
    where = f" (on {host})" if host else ""
    ways = (way for words, way in _LOST_WAYS_OUT if any(word in cause for word in words))
    out = next(ways, "")
    return f"{cause[:LONGEST]}{where}" + (f": {out}" if out else "")


def last_exception(text: str) -> str | None:
    """Return the last exception of the last Python traceback in a text, in one line."""
    _, found, rest = text.rpartition(_TRACEBACK)
    lines = rest.splitlines()[1:]
    start = next((at for at, line in enumerate(lines) if line and not line[0].isspace()), None)
    if not found or start is None:
        return None
    told = []
    for line in lines[start:]:
        if not line.strip() or line.startswith(_AFTER):
            break
        told.append(line.strip())
    return _bare(" ".join(told))


def host_of(cause: str) -> str | None:
    """Return the host of a task that failed for this cause, from Spark's status store."""
    context = SparkContext._active_spark_context  # noqa: SLF001  # has no public name
    if context is None:
        return None
    with suppress(Py4JError, AttributeError, TypeError):
        spark: Any = context._jsc.sc()  # noqa: SLF001  # the same
        spark.listenerBus().waitUntilEmpty(_PATIENCE_MS)
        store = spark.statusStore()
        jobs = store.jobsList(None)  # newest first
        for number in range(min(jobs.size(), _JOBS)):
            stages = jobs.apply(number).stageIds()
            for at in range(stages.size()):
                host = _host_in(store, stages.apply(at), cause)
                if host:
                    return host
    return None


def _host_in(store: Any, stage: int, cause: str) -> str | None:
    known = cause.partition(": ")[2][:60] or cause
    for attempt in range(_ATTEMPTS):
        with suppress(Py4JError):  # there is no such attempt
            tasks = store.taskList(stage, attempt, _TASKS)
            for number in range(tasks.size()):
                task = tasks.apply(number)
                error = task.errorMessage()
                if error.isDefined() and known in " ".join(str(error.get()).split()):
                    return str(task.host())
    return None


def _bare(text: str) -> str:
    """Return an exception without the packages of its type."""
    return re.sub(r"^(?:[a-z_][\w$]*\.)+(?=[A-Z])", "", text.strip())


_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]*\].*")
"""A Spark error condition and the text after it; an exception's name may come before."""
_NO_FILE_SYSTEM = re.compile(
    r'No FileSystem for scheme "?(\w+)"?|Class org\.apache\.hadoop\.fs\.(\w+)\.\w+ not found'
)
_KINDS: tuple[tuple[str, type[SegtableError]], ...] = (
    ("CRC checksum verification failed", ChecksumMismatch),  # parquet-java's words
    ("PATH_NOT_FOUND", NotFound),
    ("FAILED_READ_FILE.FILE_NOT_EXIST", NotFound),
    ("MALFORMED_RECORD", SchemaMismatch),
    ("MALFORMED_CSV", SchemaMismatch),
    ("CANNOT_PARSE", SchemaMismatch),
    ("CAST_INVALID_INPUT", SchemaMismatch),
    ("the number is too large for type", SchemaMismatch),  # ``reads.input_source``
)
_STOPPED = "Cannot call methods on a stopped SparkContext"
"""What Spark says at each call after its master gave it up, without the reason."""
_WITHOUT_SPARK = "use the local engine (Table.append, --engine local), which reads this type"
_WAYS_OUT = (
    ("PARQUET_TYPE_ILLEGAL", _WITHOUT_SPARK),
    ("UNSUPPORTED_TIME_TYPE", f"set spark.sql.timeType.enabled=true, or {_WITHOUT_SPARK}"),
)
"""Ways out by Spark's error conditions."""


# Exceptions of Spark
@contextmanager
def translated(what: str) -> Iterator[None]:
    """Translate Spark's exceptions in the block; ``what`` names the work."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise translate(error, what) from error


def translate(error: Exception, what: str) -> SegtableError:
    """Return the segtable error for one of Spark's exceptions."""
    text = str(error)
    if scheme := _missing_connector(text):
        return DependencyMissing(
            f"{what}: Spark has no connector for {scheme}:// here; add it (for S3: "
            "spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION of Spark's Hadoop, and "
            "s3a:// URIs), or use the local engine, which reads object stores without one"
        )
    if _STOPPED in text:
        return ExecutionFailed(
            f"{what}: the Spark application has ended: check that its master is there, that it has "
            f"this version of Spark ({pyspark.__version__}), and that the application was not "
            "ended (its log says it)"
        )
    default = InvalidInput if isinstance(error, AnalysisException) else ExecutionFailed
    kind = next((kind for word, kind in _KINDS if word in text), default)
    way_out = next((f"; {way}" for word, way in _WAYS_OUT if word in text), "")
    cause = lost_task(text)
    name, _, message = (cause or "").partition(": ")
    own = getattr(errors, name, None) if name.isidentifier() else None
    if isinstance(own, type) and issubclass(own, SegtableError):
        return own(f"{what}: {message}")
    return kind(f"{what}: {cause or gist(text)}{way_out}")


def _missing_connector(text: str) -> str:
    """Return the scheme for which Hadoop has no file system; empty if that is not the error."""
    found = _NO_FILE_SYSTEM.search(text)
    return next((name for name in found.groups() if name), "") if found else ""


def gist(text: str) -> str:
    """Return the cause in a Spark message, in one line."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("at ", "File ", "Traceback"))]
    named = [found.group() for found in map(_CONDITION.search, lines) if found]
    best = (named or lines or ["Spark gave no reason"])[0]
    return best[:LONGEST]


def raise_reported(kind: str, message: str) -> None:
    """Raise an error that a task returned as values."""
    made = getattr(errors, kind, ExecutionFailed)
    raise made(message)


def stopped(spark: SparkSession) -> None:
    """Stop a session, dead or alive."""
    try:
        spark.stop()
    except (Py4JError, PySparkException, OSError):
        return  # its JVM has ended
