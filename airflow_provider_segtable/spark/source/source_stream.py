"""The versions of a table as a stream: ``SegtableSource.Feed``.

1. An offset is a version. The first batch is what the request asks for: without a start the whole
   table, with ``sinceVersion`` ``latest`` nothing. Each later one is the window since the batch
   before. Where a batch ends is decided by ``core.reads.batches``.
2. What a batch has follows from its two offsets alone, which Spark keeps. So a batch that it runs
   again after a restart is the same.
3. A batch is read when its rows are needed. After a restart Spark asks for the batch before, too,
   which may be expired, and does not read it.
4. Columns are those that the table had when the stream was started; of these, a query's are read.
5. Spark asks for the batch after a version once it has noted the batch before as done. So then a
   consumer advances to that version.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pyspark import SparkContext

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.reads.effects import BatchLimits, Step, batch_end
from airflow_provider_segtable.spark.source.jvm_answers import answered
from airflow_provider_segtable.spark.source.source_options import FollowRequest
from airflow_provider_segtable.spark.source.source_reading import Asked, SourceReading
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.kept_versions import advance
from airflow_provider_segtable.table.windows import settled


@dataclass(frozen=True, slots=True)
class SourceFeed:
    """The versions of a table, as far as a stream asks for them; ``columns`` as Spark's JSON."""

    context: SparkContext
    ports: TableContext
    request: FollowRequest
    columns: str
    _steps: dict[int, Step | None] = field(default_factory=dict, repr=False)

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Feed",)

    @staticmethod
    def of(context: SparkContext, ports: TableContext, request: FollowRequest) -> "SourceFeed":
        """Return the feed that a request asks for, with the columns of the newest version.

        The start of the first batch is not looked at: a stream that is started again has it behind.

        Raises:
            InvalidInput: the request names a version, and a stream has no end; or this kind of
                table has no windows.
        """
        read = request.read
        if (read.version, read.as_of, read.tag) != (None, None, None):
            raise InvalidInput(
                "a stream has no end: give sinceVersion or since for its start, and no version, "
                "asOf or tag"
            )
        state = ports.log.load()
        state.table.kind.check_window(ports.uri)
        shown = Asked(ports=ports, state=state, request=read)
        wanted = replace(request, read=replace(read, columns=tuple(shown.columns.names)))
        return SourceFeed(context, ports, wanted, shown.schema())

    @answered
    def schema(self) -> str:
        """Return the columns as Spark's JSON."""
        return self.columns

    @answered
    def newest(self) -> str:
        """Return the newest version."""
        return str(self.ports.log.load().n)

    @answered
    def next(self, after: str, up_to: str, limited: bool) -> str | None:  # noqa: FBT001
        """Return the end of the batch after a version, at most ``up_to``; None if there is none."""
        last = int(up_to)
        if after and self.request.read.consumer is not None:
            advance(self.ports, self.request.read.consumer, int(after))
        start = int(after) if after else self._begin(last)
        if start is None:
            return up_to
        limits = self.request.limits if limited else BatchLimits()
        end = batch_end(self._between(start, last), limits, last)
        if end is None:
            return after or None
        return str(min(last, max(end, self.ports.log.load().retained_from)))

    @answered
    def batch(self, after: str, up_to: str) -> SourceReading:
        """Return the reading of a batch."""
        request = replace(self.request.read, version=int(up_to))
        if after or self.request.latest:
            request = replace(request, since_version=int(after or up_to), since=None, consumer=None)
        return SourceReading(self.context, lambda: Asked.of(self.ports, request))

    @answered
    def close(self) -> None:
        """Do nothing: a stream of versions has no connection."""

    def _begin(self, last: int) -> int | None:
        """Return the version after which the first batch begins; None if it has no window."""
        if not self.request.read.windowed or self.request.latest:
            return None
        state = self.ports.log.at(last)
        return settled(self.ports.log, self.request.read, state).since_version

    def _between(self, start: int, last: int) -> Iterator[Step]:
        """Yield the steps after ``start``, up to ``last``; an event is read once."""
        for n in [each for each in self._steps if each <= start]:
            del self._steps[n]
        for n in range(start + 1, last + 1):
            if n not in self._steps:
                event = self.ports.log.event(n)
                changes = self.request.read.changes
                self._steps[n] = Step(n=n) if event is None else Step.of(event, changes=changes)
            step = self._steps[n]
            if step is not None:
                yield step
