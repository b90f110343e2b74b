"""Forged metadata and symbolic links: nothing outside a table is read or deleted for them."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.deletion import VectorFile
from airflow_provider_segtable.core.errors import CorruptTable, UnsafePath
from airflow_provider_segtable.core.log.events import Action, Event, encode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.cleaning_events import Swept
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.families.tag_events import Tagged
from airflow_provider_segtable.core.log.log_paths import LAST, checkpoint_path, event_path
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment, Shard
from airflow_provider_segtable.data.local_files import LocalFiles
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.spark.driver.file_locations import spark_paths
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import SCHEMA, contents, rows

NOW = Retention(hours=0, versions=1, orphan_hours=0)
PATHS = ("../outside/victim", "/{root}/outside/victim", "data/../../outside/victim", "")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with six segments and a file of vectors, and a file beside it that is no table's."""
    place = tmp_path_factory.mktemp("made")
    Table.create(str(place / "table"), schema=SCHEMA, time_column="at", granularity="hour")
    ports = opened(place / "table")
    for turn in range(3):
        Table(ports).append(rows(turn))
    Table(ports).delete("row = 0")
    (place / "outside").mkdir()
    (place / "outside/victim").write_bytes(b"precious")
    return place


@pytest.fixture
def ports(made: Path, tmp_path: Path) -> TableContext:
    """A copy of it that a test may spoil."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return opened(tmp_path / "table")


def opened(table: Path) -> TableContext:
    ports = open_context(str(table), author="test")
    return replace(ports, optional_coordinator=MemoryCoordinator(ports.clock, MemoryService()))


def forged(some: Segment, path: str) -> Segment:
    shard = Shard.first_generation(77)
    return replace(some, id=some.id.chunk.segment(77), shard=shard, path=path)


def appended(some: Segment, path: str) -> Action:
    return Appended(segments=(forged(some, path),))


def changed(some: Segment, path: str) -> Action:
    return RowsChanged(
        kind="delete",
        segments=(),
        vectors=(VectorFile(path=path, size=1, rows={some.id: 1}),),
        seen=1,
        matched=1,
        reason="forged",
    )


def restored(some: Segment, path: str) -> Action:
    return TableRepaired(segments=(forged(some, path),), lost=(), voided=(), reason="forged")


def swept(_: Segment, path: str) -> Action:
    return Swept(paths=(path,))


def tagged(_: Segment, path: str) -> Action:
    return Tagged(name=path, n=1)


def forge(ports: TableContext, path: str, kind: Callable[[Segment, str], Action]) -> int:
    """Put an event with a sound checksum that names a path; return its number."""
    state = EventLog(ports.storage).load()
    some = next(iter(state.timeline.segments()))
    action = kind(some, path.replace("{root}", str(Path(ports.uri).parent).strip("/")))
    event = Event(n=state.n + 1, time=state.time + 1, commit="x", author="x", action=action)
    ports.storage.create(event_path(event.n), encode(event))
    return event.n


def untouched(ports: TableContext) -> bool:
    return (Path(ports.uri).parent / "outside/victim").read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        *((appended, path) for path in PATHS),
        *((kind, PATHS[0]) for kind in (changed, restored, swept, tagged)),
    ],
)
def test_an_event_that_leads_out_is_refused(
    ports: TableContext, kind: Callable[[Segment, str], Action], path: str
) -> None:
    """Whoever reads the log is told which event; nothing outside is read or deleted."""
    n = forge(ports, path, kind)
    for reader in (contents, lambda p: clean(p, retention=NOW), examine):
        with pytest.raises(CorruptTable, match=f"{n:020d}.json: "):
            reader(ports)
    assert untouched(ports)
    (finding,) = verify(ports).findings
    assert (finding.code, finding.where) == ("broken-event", event_path(n))


def test_repair_puts_such_an_event_aside(ports: TableContext) -> None:
    """The log goes on before it, with all rows, and the event is evidence in lost/."""
    before = contents(ports)
    n = forge(ports, PATHS[0], appended)
    repair(ports, plan_repair(ports))
    assert contents(ports) == before
    assert [e.path for e in ports.storage.list("_segtable/lost") if f"{n:020d}" in e.path]
    assert untouched(ports)


def pending_delete(state: State, path: str) -> State:
    return replace(state, pending_delete=frozenset({path}))


def in_vectors(state: State, path: str) -> State:
    ((root, (one, *_)), *_) = state.vectors.items()
    return replace(state, vectors={root: (replace(one, path=path),)})


def in_tags(state: State, path: str) -> State:
    return replace(state, tags={path: 1})


@pytest.mark.parametrize(
    ("kind", "path"),
    [*((pending_delete, path) for path in PATHS), (in_vectors, PATHS[0]), (in_tags, PATHS[0])],
)
def test_a_checkpoint_that_leads_out_is_not_believed(
    ports: TableContext, kind: Callable[[State, str], State], path: str
) -> None:
    """It is refused, and the log folded instead: rows are right, and cleaning stays inside."""
    before = contents(ports)
    state = EventLog(ports.storage).load()
    forged_one = write_checkpoint(kind(state, path))
    with pytest.raises(CorruptTable, match=r"nothing was read|cannot name"):
        read_checkpoint(forged_one)
    ports.storage.replace(checkpoint_path(state.n), forged_one)
    ports.storage.replace(LAST, f'{{"n": {state.n}}}'.encode())
    assert contents(ports) == before
    assert [f.code for f in verify(ports).findings] == ["bad-checkpoint"]
    clean(ports, retention=NOW)
    assert untouched(ports)
    assert contents(ports) == before


def moved_out(inside: Path) -> Path:
    """Put a link in the place of a file or folder, which moves out of the table."""
    target = Path(str(inside).partition("/table/")[0]) / "outside" / inside.name
    inside.rename(target)
    inside.symlink_to(target)
    return target


def some_file(ports: TableContext) -> Path:
    return Path(ports.uri) / min(e.path for e in ports.storage.list("data"))


@pytest.mark.parametrize("levels", [0, 1, 2])
def test_no_link_below_data_is_followed(ports: TableContext, levels: int) -> None:
    """A file, its time chunk's folder, or all of data/: readers, cleaners and repair refuse it."""
    state = EventLog(ports.storage).load()
    file = some_file(ports)
    link = (file, *file.parents)[levels]
    target = moved_out(link)
    (victim,) = [target] if levels == 0 else sorted(target.rglob(file.name))
    data = victim.read_bytes()
    named = str(link.relative_to(ports.uri))
    for reader in (contents, lambda p: clean(p, retention=NOW), plan_repair):
        with pytest.raises(UnsafePath, match=f"{named} is a symbolic link"):
            reader(ports)
    with pytest.raises(UnsafePath, match=named):
        list(spark_paths(ports.uri, {}, state.timeline.segments()))
    told = [f"{f.what} {f.do}" for f in (*verify(ports).findings, *examine(ports).findings)]
    assert any(f"{named} is a symbolic link" in each for each in told)
    if levels:
        with pytest.raises(UnsafePath):
            ports.files.delete(str(file.relative_to(ports.uri)))
        with (
            pytest.raises(UnsafePath),
            ports.files.create(f"{file.parent.relative_to(ports.uri)}/x"),
        ):
            pass
    else:
        ports.files.delete(named)  # takes away the link alone
    assert victim.read_bytes() == data


def test_no_link_below_deletes_is_followed(ports: TableContext) -> None:
    """A file of vectors is no exception."""
    target = moved_out(Path(ports.uri) / "deletes")
    with pytest.raises(UnsafePath, match="deletes is a symbolic link"):
        contents(ports)
    with pytest.raises(UnsafePath, match="deletes is a symbolic link"):
        clean(ports, retention=NOW)
    assert list(target.iterdir())


def test_a_link_to_a_table_is_a_table(ports: TableContext, tmp_path: Path) -> None:
    """The root itself is the user's word, and may be a link."""
    (tmp_path / "alias").symlink_to(ports.uri)
    alias = ports.at(str(tmp_path / "alias"))
    before = contents(ports)
    assert contents(alias) == before
    clean(alias, retention=NOW)
    assert contents(ports) == before


def test_a_link_that_appears_after_the_look_is_not_followed(
    ports: TableContext, tmp_path: Path
) -> None:
    """Folders are opened one by one, so it does not matter when the link was put there."""
    files = LocalFiles(ports.uri)
    file = some_file(ports)
    path = str(file.relative_to(ports.uri))
    with files.open(path) as source:
        moved_out(file.parent)
        assert source.read_at(0, 4) == b"PAR1"  # it was opened inside
    for use in (lambda: files.delete(path), lambda: files.open(path).__enter__()):
        with pytest.raises(UnsafePath):
            use()
    assert (tmp_path / "outside" / file.parent.name / file.name).exists()


def test_a_vector_may_not_name_what_is_no_vector(ports: TableContext) -> None:
    """Not even below the table: cleaning would take a segment's file for a file of vectors."""
    path = str(some_file(ports).relative_to(ports.uri))
    n = forge(ports, path, changed)
    with pytest.raises(CorruptTable, match=f"{n:020d}.*below deletes/"):
        clean(ports, retention=NOW)
    assert (Path(ports.uri) / path).exists()
