"""Answers of Python to ``SegtableSource``: values, or an error that Java throws.

An error of segtable is returned as an ``IllegalArgumentException`` with its name and message: what
a proxy raises would reach the user below two stacks. Other exceptions are bugs, and keep theirs.
"""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.spark.driver.spark_errors import translated

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

Answer = TypeVar("Answer")


def answered(method: Callable[..., Answer]) -> Callable[..., "Answer | JavaObject"]:
    """Return a method of an object with a ``context`` that returns its errors."""

    @wraps(method)
    def answer(self: Any, *arguments: Any) -> "Answer | JavaObject":
        try:
            with translated("segtable"):
                return method(self, *arguments)
        except SegtableError as error:
            text = f"{type(error).__name__}: {error}"
            return jvm_of(self.context).java.lang.IllegalArgumentException(text)

    return answer


def jvm_of(context: SparkContext) -> Any:
    """Return the driver's classes; PySpark has no public way to them."""
    return context._jvm  # noqa: SLF001


def session_of(context: SparkContext, session: "JavaObject") -> SparkSession:
    """Return a session of Java in Python."""
    return SparkSession(context, session)


def java_of(rows: DataFrame) -> "JavaObject":
    """Return a DataFrame of Python in Java."""
    return rows._jdf  # noqa: SLF001  # there is no other way


def frame_of(context: SparkContext, rows: "JavaObject") -> DataFrame:
    """Return a DataFrame of Java in Python."""
    return DataFrame(rows, session_of(context, rows.sparkSession()))
