"""Translate Spark's exceptions to segtable's errors.

1. A kernel's own error leaves its task as a value (``tasks.faults``), and the driver raises it
   again (``raise_reported``) with its type and message.
2. Any other failed task is reported by its last Python exception and its host (``lost_tasks``).
   An error of segtable that it raised keeps its type.
3. Any other Spark exception becomes one line: its condition or first line, not a stack.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
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
from airflow_provider_segtable.spark.driver.lost_tasks import LONGEST, lost_task

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
_WITHOUT_SPARK = "use the local engine (Table.append, --engine local), which reads this type"
_WAYS_OUT = (
    ("PARQUET_TYPE_ILLEGAL", _WITHOUT_SPARK),
    ("UNSUPPORTED_TIME_TYPE", f"set spark.sql.timeType.enabled=true, or {_WITHOUT_SPARK}"),
)
"""Ways out by Spark's error conditions."""


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
