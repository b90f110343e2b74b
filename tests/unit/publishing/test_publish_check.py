"""What the check says of readers that are right, wrong, too old, or not there."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.recovery.diagnosis import Severity
from airflow_provider_segtable.health.publish_check import PublishCheck, Verdict, check_published
from airflow_provider_segtable.health.published_readers import PublishedPlace
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.in_memory import context_in_memory
from tests.unit.publishing.conftest import DEFINITION
from tests.unit.publishing.plain_format import PlainTarget
from tests.unit.publishing.published_rows import compacted, stored
from tests.unit.table.conftest import rows

Turned = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class PlainReader:
    """A reader of the plain format; ``turned`` changes what it shows, ``error`` is its refusal."""

    name: ClassVar[str] = "plain"
    package: ClassVar[str] = "pyarrow"
    ports: TableContext
    turned: Turned = lambda found: found
    error: Exception | None = None
    missing: str = ""
    seen: list[PublishedPlace] = field(default_factory=list)

    def lacking(self) -> str:
        """Return what is not installed."""
        return self.missing

    def batches(self, place: PublishedPlace) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a version, file by file."""
        self.seen.append(place)
        if self.error is not None:
            raise self.error
        files = PlainTarget(self.ports.storage).version(place.number).files
        for path, each in files.items():
            found = stored(self.ports.files, path)
            hidden = {*each.own["hidden"]}
            kept = [at not in hidden for at in range(found.num_rows)]
            shown = found.filter(pa.array(kept, pa.bool_()))
            plain = [name for name in shown.column_names if not name.startswith("__")]
            yield from self.turned(shown.select(plain)).to_batches()


def checked(table: Table, **overrides: Any) -> PublishCheck:
    """Publish the table, and return what a reader sees of it."""
    table.publish(formats="delta")
    return seen(table, **overrides)


def seen(table: Table, **overrides: Any) -> PublishCheck:
    """Return what a reader sees of the table."""
    reader = PlainReader(table.ports, **overrides)
    (check,) = check_published(table.ports, ["delta"], readers={"delta": [reader]})
    return check


@pytest.fixture
def filled(table: Table) -> Table:
    """A table of thirty rows, four of which are deleted."""
    for turn in range(3):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
    table.delete("row in (3, 4, 14, 25)")
    return table


def test_a_reader_that_is_right_has_no_findings(filled: Table) -> None:
    """Deleted rows are not counted, before and after a compaction; the event is the table's."""
    for _ in range(2):
        check = checked(filled)
        (found,) = check.readers
        assert (found.verdict, found.rows, found.columns) == (Verdict.SAME, 26, ())
        assert (check.event, check.rows, check.findings) == (filled.state().n, 26, ())
        compacted(filled, "semi-major")


def test_an_older_version_is_compared_with_the_log_of_its_event(filled: Table) -> None:
    """What was committed after the published event is lag, and no difference."""
    event = checked(filled).event
    filled.append(rows(range(30, 40)))
    check = seen(filled)
    assert (check.event, check.rows) == (event, 26)
    assert check.findings == ()


def test_a_version_whose_event_expired_is_compared_with_the_newest_that_shows_the_same(
    filled: Table,
) -> None:
    """Events that change nothing that is published leave it comparable, whatever is cleaned."""
    compacted(filled, "semi-major")
    event = checked(filled).event
    filled.alter(set={"publish.on_commit": "off"})
    filled.ports.clock.sleep(86_400)
    clean(filled.ports, retention=Retention(hours=0, versions=1, orphan_hours=0))
    state = filled.state()
    assert state.retained_from > (event or 0)
    check = checked(filled)
    assert (check.event, check.rows, check.findings) == (event, 26, ())


@pytest.mark.parametrize(
    ("turned", "said", "columns"),
    [
        (lambda t: t.slice(1), "shows 20 rows, the log has 26", None),
        (lambda t: t.set_column(1, "row", pa.array([0] * len(t))), "other values of row", ("row",)),
        (lambda t: t.drop_columns(["name"]), "the table has", ()),
    ],
    ids=["lost", "changed", "column"],
)
def test_other_rows_are_named_by_column(
    filled: Table, turned: Turned, said: str, columns: tuple[str, ...] | None
) -> None:
    """The finding is critical, and its way out publishes in full."""
    check = checked(filled, turned=turned)
    (found,), (finding,) = check.readers, check.findings
    assert found.verdict is Verdict.DIFFERS
    assert said in finding.what
    assert columns is None or found.columns == columns
    assert (finding.code, finding.severity) == ("published-rows", Severity.CRITICAL)
    assert finding.do == f"segtable publish {filled.ports.uri} --format delta --full"


@pytest.mark.parametrize(
    ("overrides", "verdict", "codes", "severity"),
    [
        (
            {"error": NotImplementedError("deletion vectors")},
            Verdict.REFUSES,
            {"published-refused", "published-unchecked"},
            Severity.UNCHECKED,
        ),
        (
            {"missing": "it is not installed"},
            Verdict.MISSING,
            {"published-unchecked"},
            Severity.UNCHECKED,
        ),
        (
            {"error": FileNotFoundError("data/x.parquet")},
            Verdict.FAILS,
            {"published-unreadable", "published-unchecked"},
            Severity.CRITICAL,
        ),
    ],
    ids=["too-old", "missing", "lost-file"],
)
def test_a_reader_that_cannot_read_is_no_damage_unless_a_file_is_lost(
    filled: Table,
    overrides: dict[str, Any],
    verdict: Verdict,
    codes: set[str],
    severity: Severity,
) -> None:
    """Without any reader the check is incomplete, and says why."""
    check = checked(filled, **overrides)
    assert check.readers[0].verdict is verdict
    assert {each.code for each in check.findings} == codes
    assert max(each.severity.rank for each in check.findings) == severity.rank


@pytest.mark.parametrize(
    ("overrides", "verdict", "severity"),
    [
        ({"error": FileNotFoundError("data/x.parquet")}, Verdict.FAILS, Severity.INFO),
        ({"turned": lambda found: found.slice(1)}, Verdict.DIFFERS, Severity.WARNING),
    ],
)
def test_a_reader_that_is_wrong_where_another_one_agrees_has_its_own_trouble(
    filled: Table, overrides: dict[str, Any], verdict: Verdict, severity: Severity
) -> None:
    """Polars fails in folders with a space, pyiceberg reads null maps as empty: publish no more."""
    filled.publish(formats="delta")
    readers = {"delta": [PlainReader(filled.ports, **overrides), PlainReader(filled.ports)]}
    (check,) = check_published(filled.ports, ["delta"], readers=readers)
    assert [each.verdict for each in check.readers] == [verdict, Verdict.SAME]
    (finding,) = check.findings
    assert (finding.severity, finding.do[:18]) == (severity, "use another reader")


def test_credentials_of_the_store_are_not_in_messages(filled: Table) -> None:
    """A library's message may repeat them."""
    ports = replace(filled.ports, storage_options={"secret_access_key": "canary-1"})
    error = OSError("refused: canary-1")
    filled.publish(formats="delta")
    (check,) = check_published(
        ports, ["delta"], readers={"delta": [PlainReader(ports, error=error)]}
    )
    assert "***" in check.readers[0].message
    assert "canary" not in str(check)


def test_nothing_published_is_nothing_to_compare(filled: Table) -> None:
    """The way out is the command that publishes."""
    check = seen(filled)
    (finding,) = check.findings
    assert (check.event, finding.code) == (None, "not-published")
    assert finding.do == f"segtable publish {filled.ports.uri} --format delta"


def test_what_another_log_published_cannot_be_compared(filled: Table) -> None:
    """Neither a version of a rebuilt log, nor an unreadable one, is read by anyone."""
    filled.publish(formats="delta")
    fresh = create_table(context_in_memory(), DEFINITION)
    for entry in filled.ports.storage.list("_plain"):
        fresh.ports.storage.create(entry.path, filled.ports.storage.read(entry.path))
    check = seen(fresh)
    assert ([each.code for each in check.findings], check.readers) == (
        ["published-unknown-version"],
        (),
    )
    for entry in fresh.ports.storage.list("_plain"):
        fresh.ports.storage.replace(entry.path, b"{")
    (finding,) = seen(fresh).findings
    assert (finding.code, finding.severity) == ("published-unreadable", Severity.CRITICAL)


def test_progress_counts_rows(filled: Table) -> None:
    """First the log's rows, then those of each reader, up to all of them."""
    filled.publish(formats="delta")
    told: list[tuple[str, int, int]] = []
    check_published(
        filled.ports,
        ["delta"],
        readers={"delta": [PlainReader(filled.ports)]},
        report=lambda *each: told.append(each),
    )
    assert told[-1] == ("plain", 26, 26)
    assert {each[0] for each in told} == {"log", "plain"}
