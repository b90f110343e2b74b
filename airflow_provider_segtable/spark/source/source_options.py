"""Options of the data source as requests, and answers of Python to ``SegtableSource``.

Options:

1. Names ignore case, as all options of Spark do. An unknown one is refused, because a misspelt
   ``asOf`` would read another version without a word.
2. ``path`` is the table; ``storage.KEY`` is a key of its object store. Spark shows options in its
   plans, so credentials belong into the environment or Hadoop's settings instead. The latter
   (``spark.hadoop.fs.s3a.*``) are taken over if no option is a credential.
3. A way to read that ``read_request`` learns is one line in ``_READS``.
4. A stream takes those, the limits of a batch, and ``sinceVersion=latest``: new rows alone.
5. With ``log=true`` a stream reads the table's log store instead; ``_LOGS`` are its options.

Answers (values, or an error that Java throws):

6. An error of segtable is returned as an ``IllegalArgumentException`` with its name and message:
   an error raised by a proxy would reach the user below two stacks. Other exceptions are bugs, and
   keep theirs.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, SegtableError
from airflow_provider_segtable.core.reads.effects import BatchLimits
from airflow_provider_segtable.core.requests.overwrite import Extent, Touched
from airflow_provider_segtable.core.requests.read_request import ReadRequest, read_request
from airflow_provider_segtable.core.schemes import hadoop_options
from airflow_provider_segtable.core.time import ALL_TIME
from airflow_provider_segtable.spark.driver.java_classes import jvm_of
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.writes.dataframe_ingest import Sizing

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


Parse: TypeAlias = Callable[[str], Any]
Options: TypeAlias = Mapping[str, str]

LATEST = "latest"
_STORAGE = "storage."
_OF_SPARK = {"checkpointlocation", "queryname"}
"""What Spark itself reads, and hands to the source, too."""


# Options as requests
class LogStart(StrEnum):
    """Where a stream of a log store begins."""

    LATEST = "latest"
    EARLIEST = "earliest"


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _version_or_latest(text: str) -> int | str:
    return LATEST if text.lower() == LATEST else int(text)


_READS: Mapping[str, tuple[str, Parse]] = {
    "version": ("version", int),
    "asOf": ("as_of", str),
    "tag": ("tag", str),
    "columns": ("columns", str),
    "where": ("where", str),
    "interval": ("interval", str),
    "sinceVersion": ("since_version", int),
    "since": ("since", str),
    "consumer": ("consumer", str),
    "changes": ("changes", _flag),
    "rolledUp": ("rolled_up", _flag),
    "checked": ("checked", _flag),
    "includeLog": ("include_log", _flag),
}
"""Options of a read, with the arguments of ``read_request``."""
_WANTED: Mapping[Parse, str] = {
    int: "a whole number",
    float: "a number",
    _version_or_latest: f"a whole number or {LATEST!r}",
    LogStart: " or ".join(LogStart),
}
_LIMITS: Mapping[str, tuple[str, Parse]] = {
    "maxVersionsPerTrigger": ("versions", int),
    "maxFilesPerTrigger": ("files", int),
    "maxBytesPerTrigger": ("size", int),
}
"""Options of a stream that reads, with the fields of ``BatchLimits``."""
_STARTS: Mapping[str, tuple[str, Parse]] = {"sinceVersion": ("since_version", _version_or_latest)}
_LOGS: Mapping[str, tuple[str, Parse]] = {
    "log": ("log", _flag),
    "start": ("start", LogStart),
    "maxRecordsPerTrigger": ("records", int),
}
"""Options of a stream that reads a log store."""
_WRITES: Mapping[str, tuple[str, Parse]] = {
    "commitId": ("commit_id", str),
    "deleted": ("deleted", str),
    "interval": ("interval", str),
    "where": ("where", str),
    "partitionOverwriteMode": ("mode", str),
    "rowsPerSegment": ("rows_per_segment", int),
    "targetSize": ("target_size", int),
    "waitS": ("wait_s", float),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a table is, and how its stores are reached."""

    uri: str
    zookeeper: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """How rows are written.

    Attributes:
        commit_id: equal ids write once; random by default.
        deleted: of an upsert: the column of the rows that says which delete their key.
        interval: of an overwrite: the event times to replace, or ``chunks``.
        where: of an overwrite, instead: the rows to replace.
        sizing: the target size of segments.
        wait_s: how long to wait for the coordinator, in seconds.
    """

    commit_id: str | None = None
    deleted: str | None = None
    interval: str | None = None
    where: str | None = None
    sizing: Sizing = field(default_factory=Sizing)
    wait_s: float = 60.0

    @property
    def extent(self) -> Extent | str | None:
        """Return the event times that an overwrite replaces: all, if nothing else is said."""
        return ALL_TIME if self.interval is None and self.where is None else self.interval


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """What a stream reads of a log store.

    Attributes:
        start: where it begins.
        records: how many records of a bucket a batch has at most.
    """

    start: LogStart = LogStart.LATEST
    records: int = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRequest:
    """What a stream reads of a table.

    Attributes:
        read: what its first batch reads of the newest version, and each later one of its window.
        latest: whether the first batch has no rows.
        limits: how much a batch has at most.
    """

    read: ReadRequest
    latest: bool
    limits: BatchLimits


def to_read(options: Options) -> tuple[Place, ReadRequest]:
    """Return the table, and what to read of it.

    Raises:
        InvalidInput: an option is unknown, or its value is none; options contradict each other.
    """
    place, given = _parsed(options, _READS)
    return place, read_request(**given)


def to_follow(options: Options) -> tuple[Place, FollowRequest]:
    """Return the table, and what a stream reads of it.

    Raises:
        InvalidInput: as ``to_read``; a limit is below 1.
    """
    known = {name: to for name, to in _READS.items() if name != "includeLog"}
    place, given = _parsed(options, {**known, **_LIMITS, **_STARTS})
    limits = {name: given.pop(name) for name, _ in _LIMITS.values() if name in given}
    latest = given.get("since_version") == LATEST
    if latest:
        given["since_version"] = 0  # a start, as far as the other options are concerned
    request = FollowRequest(read=read_request(**given), latest=latest, limits=BatchLimits(**limits))
    return place, request


def follows_log(options: Options) -> bool:
    """Return whether a stream reads the log store of a table, or writes through it.

    Raises:
        InvalidInput: the option ``log`` is neither true nor false.
    """
    rest = {name.lower(): text for name, text in options.items()}
    return bool(_value("log", rest.get("log", "false"), _flag))


def to_follow_log(options: Options) -> tuple[Place, LogRequest]:
    """Return the table, and what a stream reads of its log store.

    Raises:
        InvalidInput: as ``to_read``; the limit is below 1.
    """
    place, given = _parsed(options, _LOGS)
    given.pop("log", None)
    request = LogRequest(**given)
    if request.records < 1:
        raise InvalidInput(f"maxRecordsPerTrigger={request.records}: a batch has at least 1 record")
    return place, request


def to_write(options: Options) -> tuple[Place, WriteRequest]:
    """Return the table, and how to write to it.

    Raises:
        InvalidInput: an option is unknown, or its value is none.
    """
    place, given = _parsed(options, _WRITES)
    mode = given.pop("mode", "static").lower()
    if mode not in ("static", "dynamic"):
        raise InvalidInput(f"partitionOverwriteMode={mode!r} is neither static nor dynamic")
    if mode == "dynamic":
        given.setdefault("interval", Touched.CHUNKS.value)
    sizes = {name: given.pop(name) for name in ("rows_per_segment", "target_size") if name in given}
    return place, WriteRequest(**given, sizing=Sizing(**sizes))


def to_receive(options: Options) -> tuple[Place, WriteRequest, bool]:
    """Return the table, how a stream is written to it, and whether through its log store.

    Raises:
        InvalidInput: as ``to_write``.
    """
    log = follows_log(options)
    rest = {name: text for name, text in options.items() if name.lower() != "log"}
    return *to_write(rest), log


def _parsed(
    options: Options, known: Mapping[str, tuple[str, Parse]]
) -> tuple[Place, dict[str, Any]]:
    rest = {name.lower(): text for name, text in options.items()}
    uri = rest.pop("path", None)
    if not uri:
        raise InvalidInput("the table's path is missing: give load(path) or option('path', ...)")
    uri = re.sub(r"^file:/(?!/)", "file:///", uri)  # as Hadoop writes paths
    stores = {name for name in rest if name.startswith(_STORAGE)}
    place = Place(
        uri=uri,
        zookeeper=rest.pop("zookeeper", None),
        storage_options={name.removeprefix(_STORAGE): rest.pop(name) for name in stores},
    )
    by_name = {name.lower(): (name, *to) for name, to in known.items()}
    given = {}
    for name in rest.keys() - _OF_SPARK:
        if name not in by_name:
            names = ", ".join([*known, "path", "zookeeper", f"{_STORAGE}KEY"])
            raise InvalidInput(f"there is no option {name!r} here; there are: {names}")
        shown, argument, parse = by_name[name]
        given[argument] = _value(shown, rest[name], parse)
    return place, given


def _value(name: str, text: str, parse: Parse) -> Any:
    try:
        return parse(text)
    except ValueError:
        wanted = _WANTED.get(parse, "true or false")
        raise InvalidInput(f"option {name}={text!r} is not {wanted}") from None


Answer = TypeVar("Answer")


def with_hadoop_keys(context: SparkContext, options: Options) -> Options:
    """Return the options with the driver's Hadoop settings for the table's store."""
    rest = {name.lower(): text for name, text in options.items()}
    given = {n.removeprefix(_STORAGE): v for n, v in rest.items() if n.startswith(_STORAGE)}
    settings = context._jsc.hadoopConfiguration()  # noqa: SLF001
    found = hadoop_options(rest.get("path", ""), given, settings.get)
    return {**rest, **{f"{_STORAGE}{name}": value for name, value in found.items()}}


# Answers to Java
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


def session_of(context: SparkContext, session: "JavaObject") -> SparkSession:
    """Return a session of Java in Python; making another one takes many calls."""
    known: SparkSession | None = getattr(SparkSession, "_instantiatedSession", None)
    if known is not None and session.equals(known._jsparkSession):  # noqa: SLF001
        return known
    return SparkSession(context, session)


def java_of(rows: DataFrame) -> "JavaObject":
    """Return a DataFrame of Python in Java."""
    return rows._jdf  # noqa: SLF001  # there is no other way


def frame_of(context: SparkContext, rows: "JavaObject") -> DataFrame:
    """Return a DataFrame of Java in Python."""
    return DataFrame(rows, session_of(context, rows.sparkSession()))
