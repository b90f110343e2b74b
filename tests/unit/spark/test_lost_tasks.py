"""A failed task in one line: its last exception, its host, the way out; out of Spark's texts."""

import pytest

from airflow_provider_segtable.core.errors import DependencyMissing
from airflow_provider_segtable.spark.driver.spark_errors import last_exception, lost_task, translate

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 4327, in invoke_udf
    run_process()
ModuleNotFoundError: No module named 'pyarrow'
"""
ABORTED = (
    "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0 "
    "failed 4 times, most recent failure: Lost task 0.3 in stage 2.0 (TID 3) "
    "(10.0.0.7 executor 2): {cause}\n"
    "\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1136)\n\n"
    "Driver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)"
)


def test_a_missing_module_is_named_with_what_executors_need() -> None:
    """The cause stands in the line, not only that there was an exception."""
    told = str(translate(RuntimeError(WORKER), "a task (minor: May) was lost"))
    assert told.startswith(
        "a task (minor: May) was lost: ModuleNotFoundError: No module named 'pyarrow'"
    )
    assert "every executor needs pyarrow and numpy" in told
    assert "\n" not in told


def test_an_application_that_its_master_gave_up_is_named() -> None:
    """Spark says at each call only that its context is stopped, so the usual causes are given."""
    text = (
        "An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.\n"
        ": java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n"
    )
    told = str(translate(RuntimeError(text), "starting Spark on spark://head:7077"))
    assert told.startswith("starting Spark on spark://head:7077: the Spark application has ended: ")
    assert "this version of Spark (" in told


def test_the_host_of_the_executor_is_told() -> None:
    """Where Spark's message names the host, so does ours."""
    text = ABORTED.format(cause="org.apache.spark.api.python.PythonException: " + WORKER)
    assert "No module named 'pyarrow' (on 10.0.0.7): " in (lost_task(text) or "")


@pytest.mark.parametrize(
    ("cause", "told", "way_out"),
    [
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            "SparkException: Python worker exited unexpectedly (crashed) (on 10.0.0.7)",
            "spark.executor.memoryOverhead",
        ),
        (
            (
                "java.io.InvalidClassException: org.apache.spark.sql.X; local class incompatible: "
                "stream classdesc serialVersionUID = 1, local class serialVersionUID = 2"
            ),
            "InvalidClassException: org.apache.spark.sql.X; local class incompatible",
            "give the driver the cluster's version",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/py": error=2, No such file',
            'IOException: Cannot run program "/opt/py": error=2, No such file (on 10.0.0.7)',
            "spark.pyspark.python",
        ),
        (
            (
                "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) "
                "Reason: Command exited with code 137"
            ),
            "Reason: Command exited with code 137 (on 10.0.0.7)",
            "run it again",
        ),
    ],
)
def test_a_task_without_a_traceback_tells_its_cause(cause: str, told: str, way_out: str) -> None:
    """A worker that crashed, never started, or went with its executor is told with a way out."""
    found = lost_task(ABORTED.format(cause=cause)) or ""
    assert told in found
    assert way_out in found


def test_the_last_of_several_exceptions_is_told_whole() -> None:
    """Of chained tracebacks the last one counts; its message is joined into one line."""
    text = (
        "Traceback (most recent call last):\n  File 'a', line 1, in b\n    c()\nKeyError: 1\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n  File 'a', line 3, in b\n    d()\n"
        "airflow_provider_segtable.core.errors.CorruptTable: it is\ntorn\n SQLSTATE: 38000\n"
        "\tat org.apache.spark.X(Y.scala:1)"
    )
    assert last_exception(text) == "CorruptTable: it is torn"


def test_other_messages_are_of_no_task() -> None:
    """An analysis error has no task."""
    assert lost_task("[UNRESOLVED_COLUMN] A column with name `x` cannot be resolved.") is None


@pytest.mark.parametrize(
    ("said", "scheme"),
    [
        ('o.a.h.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3"', "s3://"),
        (
            "ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
            "s3a://",
        ),
    ],
)
def test_a_missing_connector_is_named(said: str, scheme: str) -> None:
    """Which scheme, what to add to Spark, and the engine that needs no connector."""
    told = translate(RuntimeError(said), "reading s3://lake/day.parquet")
    assert isinstance(told, DependencyMissing)
    for words in (scheme, "hadoop-aws", "local engine", "reading s3://lake/day.parquet"):
        assert words in str(told)


def test_a_type_that_spark_does_not_read_has_a_way_out() -> None:
    """A file with nanoseconds is read without Spark."""
    said = "[PARQUET_TYPE_ILLEGAL] Illegal Parquet type: INT64 (TIMESTAMP(NANOS,true))."
    told = str(translate(RuntimeError(said), "reading day.parquet"))
    assert "NANOS" in told
    assert told.endswith("which reads this type")
