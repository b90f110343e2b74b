"""Check published versions: read them as other tools do, and compare them with the log. Reads only.

1. Each format's newest published version is read by every reader that is installed
   (``published_readers``), and the version of the log that it shows by ``Scan``. Both are streams:
   of each only the number of rows and the checksums of its columns are kept.
2. Of a primary-key table base files alone are published, so only they are read; of a rollup table
   the stored rows.
3. A reader that lacks support *refuses*, which is no damage. If one agrees with the log, what is
   published is sound: another one that fails, or shows other rows, has its own trouble. If none
   could compare a format, the check is incomplete.
4. A version that the log does not have, because its events expired or the log was rebuilt, cannot
   be compared: publish again. But if nothing that is published has changed since, it is compared
   with the newest version.
"""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field
from enum import StrEnum

import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError, StorageError, VersionExpired
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.core.secret import SecretOptions, redacted
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.row_checksum import Checksum, checksum_of
from airflow_provider_segtable.formats.format import Published
from airflow_provider_segtable.health.published_readers import (
    READERS,
    PublishedPlace,
    PublishedReader,
    Unlike,
    comparable,
    installed,
    refuses,
)
from airflow_provider_segtable.health.published_rows import published_state
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.scan import Scan

Report = Callable[[str, int, int], None]
"""Called with a reader, the rows that were read so far, and all rows."""


class Verdict(StrEnum):
    """What a reader made of a published version."""

    SAME = "same"
    DIFFERS = "differs"
    REFUSES = "refuses"
    FAILS = "fails"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderCheck:
    """The result of one reader; ``columns`` are the differing ones, ``message`` has details."""

    reader: str
    version: str
    verdict: Verdict
    rows: int = 0
    columns: tuple[str, ...] = ()
    message: str = ""

    def facts(self) -> Facts:
        """Return the check as plain JSON values."""
        return {
            "reader": self.reader,
            "version": self.version or None,
            "verdict": self.verdict.value,
            "rows": self.rows,
            "columns": list(self.columns),
            "message": self.message or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishCheck:
    """The results of all readers of one format.

    Attributes:
        format: its name.
        address: the URI that readers open.
        event: the event that the published version shows; None if there is none.
        rows: the number of rows in the log's version.
        checksum: their checksum.
        readers: the result of each reader.
        findings: the problems.
    """

    format: str
    address: str
    event: int | None = None
    rows: int = 0
    checksum: str = ""
    readers: tuple[ReaderCheck, ...] = ()
    findings: tuple[Finding, ...] = ()

    def facts(self) -> Facts:
        """Return the check as plain JSON values, without its findings."""
        return {
            "format": self.format,
            "address": self.address or None,
            "event": self.event,
            "rows": self.rows,
            "checksum": self.checksum or None,
            "readers": [each.facts() for each in self.readers],
        }


def check_published(
    ports: TableContext,
    formats: Collection[str],
    *,
    report: Report = lambda *_: None,
    readers: Mapping[str, Collection[PublishedReader]] = READERS,
) -> tuple[PublishCheck, ...]:
    """Compare the published versions of some formats with the log.

    Args:
        ports: the table.
        formats: names of formats.
        report: called with the progress.
        readers: the readers of each format.

    Raises:
        SegtableError: the log, or its version of the rows, cannot be read.
    """
    check = _Check(ports=ports, report=report)
    return tuple(check.of_format(name, readers.get(name, ())) for name in formats)


@dataclass(slots=True, kw_only=True)
class _Check:
    """One check; ``expected`` has the checksums of the log's versions."""

    ports: TableContext
    report: Report
    expected: dict[int, Checksum] = field(default_factory=dict)

    def of_format(self, name: str, readers: Collection[PublishedReader]) -> PublishCheck:
        """Return the results of all readers of a format."""
        target = self.ports.formats[name].target(self.ports.storage)
        try:
            head = target.load()
        except SegtableError as error:
            return self._unread(name, target.address, error)
        if head is None:
            return PublishCheck(
                format=name,
                address=target.address,
                findings=(_nothing_published(name).of_table(self.ports.uri),),
            )
        try:
            state = published_state(self.ports, self.ports.log.load(), head)
        except VersionExpired as error:
            return self._unknown(name, head, str(error))
        if state is None:
            return self._unknown(name, head, f"the log's event {head.event} is another one")
        return self._compared(name, head, state, readers)

    def _compared(
        self, name: str, head: Published, state: State, readers: Collection[PublishedReader]
    ) -> PublishCheck:
        expected = self._expected(state)
        place = PublishedPlace(
            address=head.address,
            number=head.number,
            options=SecretOptions(self.ports.storage_options),
        )
        schema = to_arrow(state.table.schema)
        seen = tuple(self._seen(each, place, schema, expected) for each in readers)
        verdicts = {each.verdict for each in seen}
        found = [
            finding
            for each in seen
            for finding in _findings(name, head, each, sound=Verdict.SAME in verdicts)
        ]
        if not verdicts & {Verdict.SAME, Verdict.DIFFERS}:
            found.append(_no_reader(name, seen))
        return PublishCheck(
            format=name,
            address=head.address,
            event=head.event,
            rows=expected.rows,
            checksum=expected.hex,
            readers=seen,
            findings=tuple(each.of_table(self.ports.uri) for each in found),
        )

    def _expected(self, state: State) -> Checksum:
        if state.n not in self.expected:
            request = ReadRequest(base_only=state.table.kind.rules is not None)
            scan = Scan(ports=self.ports, state=state, request=request)
            batches = comparable(scan.to_batches(), scan.schema)
            total = sum(each.rows for each in state.timeline.visible_summaries().values())
            self.expected[state.n] = checksum_of(self._counted("log", batches, total))
        return self.expected[state.n]

    def _seen(
        self, reader: PublishedReader, place: PublishedPlace, schema: pa.Schema, expected: Checksum
    ) -> ReaderCheck:
        """Return the result of a reader."""
        version, lacking = installed(reader.package), reader.lacking()
        if lacking:
            return ReaderCheck(
                reader=reader.name, version=version, verdict=Verdict.MISSING, message=lacking
            )
        rows = self._counted(reader.name, reader.batches(place), expected.rows)
        verdict, message, found = _read(rows, schema, place)
        if verdict is Verdict.SAME and found != expected:
            verdict, message = Verdict.DIFFERS, _difference(found, expected)
        return ReaderCheck(
            reader=reader.name,
            version=version,
            verdict=verdict,
            rows=found.rows,
            columns=found.differing(expected) if found.rows else (),
            message=message,
        )

    def _counted(
        self, what: str, batches: Iterator[pa.RecordBatch], total: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches, and report the number of rows."""
        done = 0
        for batch in batches:
            done += batch.num_rows
            self.report(what, done, max(done, total))
            yield batch

    def _unread(self, name: str, address: str, error: SegtableError) -> PublishCheck:
        finding = _unreadable(name, str(error), unchecked=isinstance(error, StorageError))
        return PublishCheck(
            format=name, address=address, findings=(finding.of_table(self.ports.uri),)
        )

    def _unknown(self, name: str, head: Published, why: str) -> PublishCheck:
        return PublishCheck(
            format=name,
            address=head.address,
            event=head.event,
            findings=(_unknown_version(name, head, why).of_table(self.ports.uri),),
        )


def _read(
    rows: Iterator[pa.RecordBatch], schema: pa.Schema, place: PublishedPlace
) -> tuple[Verdict, str, Checksum]:
    """Return a reader's verdict, its error, and the checksum of its rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they advise faster ways of reading
        try:
            return Verdict.SAME, "", checksum_of(comparable(rows, schema))
        except Unlike as error:
            return Verdict.DIFFERS, str(error), Checksum()
        except BaseException as error:
            if not _of_library(error):
                raise
            verdict = Verdict.REFUSES if refuses(error) else Verdict.FAILS
            return verdict, _said(error, place), Checksum()


def _of_library(error: BaseException) -> bool:
    """Return whether a library raised an error; panics of Rust are not an ``Exception``."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _said(error: BaseException, place: PublishedPlace) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return redacted(SecretOptions(place.options).hidden_in(text))[:500]


def _difference(found: Checksum, expected: Checksum) -> str:
    """Return the difference between a reader's rows and the log's, in words."""
    if found.rows != expected.rows:
        return f"it shows {counted(found.rows, 'row')}, the log has {expected.rows:,}"
    columns = found.differing(expected)
    if not columns:
        return f"the values of {counted(found.rows, 'row')} are combined in other ways"
    return f"{counted(found.rows, 'row')}, but other values of {', '.join(columns)}"


def _findings(name: str, head: Published, seen: ReaderCheck, *, sound: bool) -> Iterator[Finding]:
    """Yield the problems of a reader; ``sound`` means that another one agrees with the log."""
    where = f"{name} version {head.number} in {seen.reader} {seen.version}".rstrip()
    if seen.verdict is Verdict.DIFFERS:
        yield Finding(
            code="published-rows",
            severity=Severity.WARNING if sound else Severity.CRITICAL,
            where=where,
            what=f"event {head.event} is published, but differs: {seen.message}",
            why=f"queries answer from other rows than those of the log{_AGREES if sound else ''}",
            do=_OTHER if sound else f"segtable publish TABLE --format {name} --full",
        )
    elif seen.verdict is Verdict.REFUSES:
        yield Finding(
            code="published-refused",
            severity=Severity.INFO,
            where=where,
            what=f"this reader does not support what is published: {seen.message}",
            why="it answers no query, rather than a wrong one",
            do="upgrade it, or use another reader",
        )
    elif seen.verdict is Verdict.FAILS:
        yield _failed(name, where, seen, sound=sound)


def _failed(name: str, where: str, seen: ReaderCheck, *, sound: bool) -> Finding:
    """Report a reader that failed: its own trouble if another one agrees with the log."""
    lost = Severity.CRITICAL if _lost(seen.message) else Severity.UNCHECKED
    return Finding(
        code="published-unreadable",
        severity=Severity.INFO if sound else lost,
        where=where,
        what=f"the reader failed: {seen.message}",
        why=f"queries of this reader fail{_AGREES if sound else ''}",
        do=_OTHER
        if sound
        else f"segtable verify TABLE, then segtable publish TABLE --format {name} --full",
    )


_AGREES = "; another reader agrees with the log"
_OTHER = "use another reader, or another version of this one"
_LOST = ("filenotfound", "no such file", "not found", "notfound")


def _lost(message: str) -> bool:
    """Return whether a reader says that a file is not there."""
    return any(each in message.lower() for each in _LOST)


def _no_reader(name: str, seen: Collection[ReaderCheck]) -> Finding:
    lacking = "; ".join(f"{each.reader}: {each.verdict}" for each in seen) or "none is known"
    return Finding(
        code="published-unchecked",
        severity=Severity.UNCHECKED,
        where=name,
        what=f"no reader could read what is published ({lacking})",
        why="nothing was compared with the log",
        do="install one of these readers, and run segtable publish TABLE --check",
    )


def _nothing_published(name: str) -> Finding:
    return Finding(
        code="not-published",
        severity=Severity.UNCHECKED,
        where=name,
        what="no version is published",
        why="there is nothing to compare",
        do=f"segtable publish TABLE --format {name}",
    )


def _unreadable(name: str, what: str, *, unchecked: bool) -> Finding:
    return Finding(
        code="published-unreadable",
        severity=Severity.UNCHECKED if unchecked else Severity.CRITICAL,
        where=name,
        what=what,
        why="its readers see a broken or a foreign table, and cleaning deletes nothing",
        do="follow the message, then segtable publish TABLE --check",
    )


def _unknown_version(name: str, head: Published, why: str) -> Finding:
    return Finding(
        code="published-unknown-version",
        severity=Severity.UNCHECKED,
        where=f"{name} version {head.number}",
        what=f"event {head.event} is published, and cannot be compared: {why}",
        why="its files may be cleaned, and its rows are not those of a kept version",
        do=f"segtable publish TABLE --format {name}",
    )
