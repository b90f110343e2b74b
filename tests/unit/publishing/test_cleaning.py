"""Cleaning and drop heed what was published: heads, replaced versions, doubts, races."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import CorruptTable, ForeignTable, StorageError
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned, Keep
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import ShownFile
from airflow_provider_segtable.formats.format import NewFile, Published, Revision
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.table import Table, create_table
from tests.unit.publishing.plain_format import FOLDER, PlainFormat
from tests.unit.services.conftest import rows
from tests.unit.services.test_cleaning import (
    DEFINITION,
    NOW,
    compact_all,
    files,
    frequent_checkpoints,
    needed,
    pass_hours,
    ports,
)

__all__ = ["frequent_checkpoints", "ports"]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> PlainFormat:
    """Publish in one format, the smallest."""
    for name in tuple(FORMATS):
        monkeypatch.delitem(FORMATS, name)  # type: ignore[arg-type]
    made = PlainFormat()
    monkeypatch.setitem(FORMATS, "plain", made)  # type: ignore[arg-type]
    return made


def put(ports: TableContext, state: State | None = None) -> Published:
    """Publish a version in full."""
    state = state or Table(ports).state()
    target = PlainFormat().target(ports.storage)
    known = target.load()
    shown = {s.path: NewFile(shown=ShownFile(segment=s)) for s in visible(state)}
    gone = frozenset(known.files if known else ()) - shown.keys()
    revision = Revision(
        event=state.n, time=state.time, commit="", table=state.table, gone=gone, shown=shown
    )
    published = target.put(known, revision)
    assert published
    return published


def visible(state: State) -> list[Any]:
    return [segment for segment in state.timeline.visible_segments() if segment.path]


def test_files_of_a_head_stay(ports: TableContext) -> None:
    """Hidden segments that the newest published version shows stay, and say why."""
    head = put(ports)
    compact_all(ports)
    dry = clean(ports, retention=NOW, dry_run=True)
    run = clean(ports, retention=NOW)
    assert dry == run
    assert run.segments == ()
    assert set(run.kept.values()) == {Keep.PUBLISHED}
    assert head.files.keys() <= files(ports)


def test_files_of_a_replaced_version_stay_for_the_retention(ports: TableContext) -> None:
    """Readers may have opened it: its files go once it was replaced longer ago than that."""
    first = put(ports)
    compact_all(ports)
    pass_hours(ports, 1)
    put(ports)
    day = replace(NOW, hours=24)
    pass_hours(ports, 23)
    assert first.files.keys() <= files(ports)
    run = clean(ports, retention=replace(NOW, hours=23.5))
    assert set(run.kept.values()) == {Keep.PUBLISHED}
    assert run.targets == {}
    pass_hours(ports, 2)
    run = clean(ports, retention=day)
    assert {s.path for s in run.segments} == first.files.keys()
    assert run.targets == {"plain": (f"{FOLDER}/{0:020d}.json",)}
    assert files(ports) == needed(ports)


def test_obsolete_files_of_targets_stay_as_long_as_orphans(ports: TableContext) -> None:
    """A publisher may be about to name what lies there, so nothing young is swept."""
    for _ in range(2):
        put(ports)
    assert clean(ports, retention=replace(NOW, orphan_hours=72)).targets == {}
    pass_hours(ports, 73)
    assert clean(ports, retention=replace(NOW, orphan_hours=72)).targets


def test_files_that_only_a_head_names_are_no_orphans(ports: TableContext) -> None:
    """A file that the log has forgotten stays while a published version shows it."""
    state = Table(ports).state()
    lost = replace(visible(state)[0], path="data/x/00000-lost.parquet")
    ports.storage.create(lost.path, b"x")
    shown = {lost.path: NewFile(shown=ShownFile(segment=lost))}
    target = PlainFormat().target(ports.storage)
    revision = Revision(event=1, time=1, commit="", table=state.table, shown=shown)
    assert target.put(None, revision)
    for dry_run in (True, False):
        run = clean(ports, retention=NOW, dry_run=dry_run)
        assert (run.orphans, run.published) == ((), (lost.path,))
    put(ports)
    pass_hours(ports, 0.01)
    run = clean(ports, retention=NOW)
    assert [each.path for each in run.orphans] == [lost.path]


class Before(MemoryStorage):
    """A storage that lets another process act right before the event of a cleaner, or after."""

    def __init__(self, inner: TableContext, act: Callable[[], object], *, after: bool) -> None:
        super().__init__(clock=inner.clock)
        assert isinstance(inner.storage, MemoryStorage)
        self._objects = inner.storage._objects
        self.act, self.after, self.waits = act, after, True

    def create(self, path: str, data: bytes, **given: Any) -> None:
        """Let the other act, once."""
        mine = b'"Cleaned"' in data and self.waits
        self.waits = self.waits and not mine
        if mine and not self.after:
            self.act()
        super().create(path, data, **given)
        if mine and self.after:
            self.act()


@pytest.mark.parametrize("after", [False, True])
def test_a_version_that_is_put_during_a_cleaning_keeps_its_files(
    ports: TableContext, *, after: bool
) -> None:
    """A slow publisher puts an old event while its files are given up: they are not deleted."""
    old = Table(ports).state()
    compact_all(ports)
    racing = Before(ports, lambda: put(ports, old), after=after)
    run = clean(replace(ports, storage=racing), retention=NOW)
    assert run.segments
    assert Table(ports).state().retained_from > old.n  # so the publisher publishes once more
    assert {s.path for s in visible(old)} <= files(ports)
    assert set(clean(ports, retention=NOW).published) == {s.path for s in visible(old)}
    put(ports)
    pass_hours(ports, 0.01)
    clean(ports, retention=NOW)
    assert files(ports) == needed(ports)
    assert not Table(ports).state().pending_delete


@pytest.mark.parametrize(
    ("said", "error"), [(b"{}", ForeignTable), (b"rubbish", CorruptTable), (b"", CorruptTable)]
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_in_doubt_nothing_is_deleted(
    ports: TableContext, said: bytes, error: type[Exception], *, dry_run: bool
) -> None:
    """A target that is unreadable, or of another tool, is an error before anything is written."""
    compact_all(ports)
    ports.storage.create(f"{FOLDER}/{0:020d}.json", said)
    there, n = files(ports), Table(ports).state().n
    with pytest.raises(error):
        clean(ports, retention=NOW, dry_run=dry_run)
    assert (files(ports), Table(ports).state().n) == (there, n)


def test_a_target_that_fails_at_the_second_look_saves_the_files(ports: TableContext) -> None:
    """Segments have left the log then, but their files wait for the next cleaning."""
    compact_all(ports)
    rubbish = f"{FOLDER}/{0:020d}.json"
    racing = Before(ports, lambda: ports.storage.create(rubbish, b"rubbish"), after=True)
    there = files(ports)
    with pytest.raises((CorruptTable, StorageError)):
        clean(replace(ports, storage=racing), retention=NOW)
    assert isinstance(ports.log.event(Table(ports).state().n).action, Cleaned)  # type: ignore[union-attr]
    assert files(ports) == there
    ports.storage.delete(rubbish)
    assert clean(ports, retention=NOW).files
    assert files(ports) == needed(ports)


def test_what_was_published_goes_with_the_table(ports: TableContext) -> None:
    """A drop deletes the target; what else lies in its folders stays, and is named."""
    put(ports)
    ports.storage.create(f"{FOLDER}/mine.txt", b"x")
    told = drop(ports, dry_run=True)
    assert told.kept == drop(ports).kept == (f"{FOLDER}/mine.txt",)
    assert [each.path for each in ports.storage.list(FOLDER)] == [f"{FOLDER}/mine.txt"]
    fresh = replace(ports)
    create_table(fresh, replace(DEFINITION, table_id="u"))
    Table(fresh).append(rows(1))
    assert put(fresh).number == 0


def test_another_tools_table_outlives_a_drop(ports: TableContext) -> None:
    """A table that segtable did not publish is not its own, whatever its files are called."""
    path = f"{FOLDER}/{0:020d}.json"
    ports.storage.create(path, b"{}")
    assert drop(ports).kept == (path,)
    assert ports.storage.read(path) == b"{}"


def test_an_unreadable_target_goes_with_the_table(ports: TableContext) -> None:
    """Its files are told by their names, as all files of a table are."""
    ports.storage.create(f"{FOLDER}/{0:020d}.json", b"rubbish")
    assert drop(ports).kept == ()
    assert not [*ports.storage.list(FOLDER)]
