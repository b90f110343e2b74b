"""The publisher: one version for any number of events, in whatever company."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import NotFound, OutcomeUnknown, TableGone
from airflow_provider_segtable.core.publishing import shown_files
from airflow_provider_segtable.core.tables.evolution import AddColumn, DropColumn
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.publishing import publisher
from airflow_provider_segtable.table.publishing.publisher import (
    AlreadyPublished,
    Overtaken,
    PublishedNow,
    PublishOutcome,
    Refused,
)
from airflow_provider_segtable.table.publishing.revising import everything, revision
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.in_memory import context_in_memory
from tests.unit.publishing.conftest import DEFINITION, again
from tests.unit.publishing.plain_format import FOLDER, PlainTarget
from tests.unit.table.conftest import rows


def publish(table: Table, *, full: bool = False) -> PublishOutcome:
    """Publish the newest version."""
    (outcome,) = table.publish(formats="delta", full=full)
    return outcome


def target(table: Table) -> PlainTarget:
    return PlainTarget(table.ports.storage)


def versions(table: Table) -> list[str]:
    """Return the paths of the published versions."""
    return [each.path for each in table.ports.storage.list(FOLDER)]


def is_published(table: Table) -> bool:
    """Return whether the newest published version shows the newest version."""
    found, state = target(table).load(), table.state()
    shown = {path: file.key for path, file in shown_files(state).items()}
    return found is not None and {path: each.key for path, each in found.files.items()} == shown


@dataclass
class Beside:
    """A storage or data files, beside whose next calls something else happens."""

    inner: Any
    method: str
    about: str
    acts: list[Callable[[], object]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        """Return what the inner one has; let the next act happen before a call about a path."""
        found = getattr(self.inner, name)
        if name != self.method:
            return found

        def called(path: str, *args: Any, **kwargs: Any) -> Any:
            if path.startswith(self.about):
                self.seen.append(path)
                if self.acts:
                    self.acts.pop(0)()
            return found(path, *args, **kwargs)

        return called


def racing(table: Table, *acts: Callable[[], object]) -> Table:
    """Return the table in a process in which these acts happen before puts of versions."""
    storage = Beside(table.ports.storage, "create", FOLDER, [*acts])
    return Table(replace(table.ports, storage=storage))  # type: ignore[arg-type]


def test_a_version_is_published_once(table: Table) -> None:
    """The first publication puts a version, the second one finds it."""
    table.append(rows(range(10)))
    first = publish(table)
    assert isinstance(first, PublishedNow)
    assert (first.event, first.number, first.shown, first.gone) == (1, 0, 2, 0)
    found = publish(again(table))
    assert isinstance(found, AlreadyPublished)
    assert (found.event, found.number, found.address) == (1, 0, first.address)
    assert len(versions(table)) == 1


def test_many_events_are_one_version(table: Table) -> None:
    """However far behind, one publication shows the newest version, and opens only new files."""
    table.append(rows(range(10)))
    publish(table)
    for turn in range(1, 6):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
    table.delete("row < 5")
    files = Beside(table.ports.files, "open", "data/")
    outcome = publish(Table(replace(table.ports, files=files)))  # type: ignore[arg-type]
    assert isinstance(outcome, PublishedNow)
    assert (outcome.event, outcome.number, outcome.shown) == (table.state().n, 1, 12)
    assert is_published(table)
    files.seen.clear()
    table.append(rows(range(60, 70)))
    publish(Table(replace(table.ports, files=files)))  # type: ignore[arg-type]
    assert len({*files.seen}) == 2


def test_events_that_change_nothing_put_nothing(table: Table) -> None:
    """A tag leaves the version of the append; it shows the tag's event as well."""
    table.append(rows(range(10)))
    publish(table)
    table.tag("now")
    found = publish(table)
    assert isinstance(found, AlreadyPublished)
    assert found.event == table.state().n == 2
    assert len(versions(table)) == 1
    assert table.published()["delta"].lag_events == 0


def test_a_new_schema_is_a_new_version(table: Table) -> None:
    """A column more is published, though no file differs."""
    table.append(rows(range(10)))
    publish(table)
    table.alter(columns=[AddColumn(name="more", type="int64")])
    assert table.published()["delta"].lag_events == 1
    outcome = publish(table)
    assert isinstance(outcome, PublishedNow)
    assert (outcome.shown, outcome.gone) == (0, 0)
    found = target(table).load()
    assert found is not None
    assert found.schema == 1


def test_the_loser_of_a_race_goes_round_again(table: Table) -> None:
    """A rival's version of an older event is followed by ours."""
    table.append(rows(range(10)))
    other = again(table)

    def rival() -> None:
        table.append(rows(range(10, 20)))
        publish(other)
        table.append(rows(range(20, 30)))

    outcome = publish(racing(table, rival))
    assert isinstance(outcome, PublishedNow)
    assert (outcome.event, outcome.number) == (3, 1)
    assert is_published(table)


def test_the_loser_finds_its_version_published(table: Table) -> None:
    """A rival that publishes the same version saves us the work."""
    table.append(rows(range(10)))
    outcome = publish(racing(table, lambda: publish(again(table))))
    assert isinstance(outcome, AlreadyPublished)
    assert len(versions(table)) == 1


def test_a_publisher_that_always_loses_gives_up(table: Table) -> None:
    """After so many rivals the outcome is a value, with the event that is published."""

    def rival() -> None:
        table.append(rows(range(10)))
        publish(again(table))
        table.append(rows(range(10)))

    outcome = publish(racing(table, *[rival] * publisher.TRIES))
    assert outcome == Overtaken(format="delta", event=table.state().n - 1)


def test_a_lost_reply_is_looked_up(table: Table) -> None:
    """A put that landed without a reply is found, and not put twice."""
    table.append(rows(range(10)))

    def lost() -> None:
        publish(again(table))
        raise OutcomeUnknown("the reply was lost")

    assert isinstance(publish(racing(table, lost)), AlreadyPublished)
    assert len(versions(table)) == 1


def test_a_process_goes_on_from_what_others_published(table: Table) -> None:
    """Two processes that publish in turns look at the difference only, and agree with the log."""
    other = again(table)
    for turn in range(3):
        for each in (table, other):
            each.append(rows(range(turn * 10, turn * 10 + 10)))
            outcome = publish(each)
            assert isinstance(outcome, PublishedNow)
            assert (outcome.shown, outcome.gone) == (2, 0)
            assert is_published(table)


def test_lost_folders_are_published_in_full(table: Table) -> None:
    """A target that somebody deleted is put again, by the process that had put it, too."""
    table.append(rows(range(10)))
    publish(table)
    for path in versions(table):
        table.ports.storage.delete(path)
    table.append(rows(range(10, 20)))
    outcome = publish(table)
    assert isinstance(outcome, PublishedNow)
    assert (outcome.number, outcome.shown) == (0, 4)
    assert is_published(table)


def test_full_publishes_every_file_anew(table: Table) -> None:
    """The version is put although the target shows it."""
    table.append(rows(range(10)))
    publish(table)
    outcome = publish(table, full=True)
    assert isinstance(outcome, PublishedNow)
    assert (outcome.number, outcome.shown, outcome.gone) == (1, 2, 0)


@pytest.mark.parametrize("rebuilt", [False, True])
def test_another_log_is_published_in_full(table: Table, *, rebuilt: bool) -> None:
    """A head of another table, or of an event that the log never had, is replaced by all files."""
    for turn in range(3):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
    publish(table)
    table_id = DEFINITION.table_id if rebuilt else "other"
    fresh = create_table(context_in_memory(), replace(DEFINITION, table_id=table_id))
    fresh.append(rows(range(10)))
    fresh.append(rows(range(10)))
    for entry in table.ports.storage.list(FOLDER):
        fresh.ports.storage.create(entry.path, table.ports.storage.read(entry.path))
    assert fresh.published()["delta"].lag_events is None
    outcome = publish(fresh)
    assert isinstance(outcome, PublishedNow)
    assert (outcome.event, outcome.shown) == (2, 4)
    assert is_published(fresh)


def test_a_version_that_is_kept_no_more_is_followed_by_the_newest(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a cleaning has passed the version by, its files may be gone: another one is put."""
    table.append(rows(range(10)))
    log = table.ports.log
    refresh, cleaned = log.refresh, []

    def passed_by(state: Any) -> Any:
        found = refresh(state)
        cleaned.append(found.n)
        return replace(found, retained_from=found.n + 1) if len(cleaned) == 1 else found

    monkeypatch.setattr(log, "refresh", passed_by)
    table.publish(formats="delta")
    assert len(versions(table)) >= 1
    assert len(cleaned) >= 2
    assert is_published(table)


def test_a_version_of_a_dropped_table_is_withdrawn(table: Table) -> None:
    """A put that comes after the drop leaves nothing that a later table would stumble over."""
    table.append(rows(range(10)))
    publish(table)
    table.append(rows(range(10, 20)))
    late = racing(table, lambda: drop(replace(table.ports)))
    with pytest.raises(TableGone):
        publish(late)
    assert versions(table) == []


def test_a_file_that_was_cleaned_meanwhile_makes_it_go_round(table: Table) -> None:
    """The version has become old while its files were opened: the newest one is published."""
    table.append(rows(range(10)))
    state = table.state()
    path = next(iter(shown_files(state)))

    def cleaned() -> None:
        table.delete("row >= 0")
        raise NotFound(path)

    files = Beside(table.ports.files, "open", path, [cleaned])
    ports = replace(table.ports, files=files)  # type: ignore[arg-type]
    outcome = publisher.publish(ports, FORMATS["delta"], state)
    assert isinstance(outcome, PublishedNow)
    assert outcome.event == 2


def test_a_missing_file_is_an_error(table: Table) -> None:
    """If the newest version lacks a file, nothing is put."""
    table.append(rows(range(10)))
    table.ports.files.delete(next(iter(shown_files(table.state()))))
    with pytest.raises(NotFound):
        publish(table)
    assert versions(table) == []


@pytest.mark.parametrize("used", [False, True])
def test_only_schemas_of_shown_files_are_refused(table: Table, *, used: bool) -> None:
    """A column that was dropped is in the way while a file with it is shown."""
    table.alter(columns=[AddColumn(name="person", type="string")])
    if used:
        table.append(rows(range(10)).append_column("person", [["x"] * 10]))
    table.alter(columns=[DropColumn(name="person")])
    table.append(rows(range(10)))
    outcome = publish(table)
    refused = Refused(format="delta", reason="schema 1 has a column 'person': drop it")
    assert outcome == refused if used else isinstance(outcome, PublishedNow)


def test_only_rows_that_change_are_data_changes(table: Table) -> None:
    """Streaming readers of the format skip versions that show the same rows as before."""
    table.append(rows(range(10)))
    publish(table)
    table.alter(columns=[AddColumn(name="more", type="int64")])
    assert changes_data(table.ports) is False
    table.delete("row = 3")
    assert changes_data(table.ports) is True
    table.tag("later")
    assert changes_data(table.ports) is True


def changes_data(ports: TableContext) -> bool:
    state = ports.log.load()
    made = revision(ports, state, everything(state, None), PlainTarget(ports.storage).load())
    assert made is not None
    return made.data_change


@contextmanager
def unchanged(table: Table) -> Iterator[None]:
    """Claim that the data files of a table stay as they are."""
    before = {*table.ports.files.store}  # type: ignore[attr-defined]
    yield
    assert {*table.ports.files.store} == before  # type: ignore[attr-defined]


def test_unpublishing_deletes_the_target_alone(published: Table) -> None:
    """The property is off, the published versions are gone, rows and other files are not."""
    published.append(rows(range(10)))
    published.ports.storage.create(f"{FOLDER}/notes.txt", b"mine")
    with unchanged(published):
        going = published.unpublish("delta", dry_run=True)
        assert published.published()["delta"].enabled
        assert published.unpublish("delta") == going == (*sorted(going, reverse=True),)
    assert versions(published) == [f"{FOLDER}/notes.txt"]
    assert published.published() == {}
    published.append(rows(range(10, 20)))
    assert published.published() == {}
    assert published.snapshot().to_arrow().num_rows == 20


@pytest.mark.parametrize("tags", [0, 70])
def test_a_new_process_finds_what_differs(table: Table, tags: int) -> None:
    """By two states of the log, or after very many events by the keys of files: the same."""
    table.append(rows(range(10)))
    publish(again(table, 1))
    table.append(rows(range(10, 20)))
    table.delete("row = 3")
    for number in range(tags):
        table.tag(f"t{number}")
    outcome = publish(again(table, 2))
    assert isinstance(outcome, PublishedNow)
    assert (outcome.shown, outcome.gone) == (3, 0)
    assert is_published(table)
