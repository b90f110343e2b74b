"""Describe a failed task: its last Python exception, the host of its executor, and the remedy.

1. Spark's message holds one or more tracebacks; the last exception of the last one is the cause.
   Without a traceback, Spark's reason for the lost task is the cause.
2. Some Spark versions name the host in the message; for others it comes from Spark's status store.
   If neither has it, it is left out.
3. The description is one line.
"""

import re
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

LONGEST = 500
_TRACEBACK = "Traceback (most recent call last):"
_LOST = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor \S+\): (.+)")
_AFTER = ("\tat ", " SQLSTATE", "Driver stacktrace")
_NEEDED = (
    "the Python of every executor needs pyarrow and numpy: install them there, or name one that "
    "has them by spark.pyspark.python"
)
_WAYS_OUT = (
    (("ModuleNotFoundError", "ImportError", "PACKAGE_NOT_INSTALLED"), _NEEDED),
    (
        ("PYTHON_VERSION_MISMATCH", "Cannot run program"),
        (
            "name a Python of the driver's minor version, at its path on the executors, by "
            "spark.pyspark.python"
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


def lost_task(text: str) -> str | None:
    """Return the description of a failed task; None if the message is not about a task."""
    lost = _LOST.search(text)
    cause = last_exception(text) or (lost and _bare(lost[2]))
    if not cause:
        return None
    host = (lost and lost[1]) or host_of(cause)
    where = f" (on {host})" if host else ""
    ways = (way for words, way in _WAYS_OUT if any(word in cause for word in words))
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
