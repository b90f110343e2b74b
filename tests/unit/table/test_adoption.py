"""Adoption: files of a folder become files of a table, and stay where they are."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import CorruptTable, InvalidInput, TableGone
from airflow_provider_segtable.core.log.families.append_events import Adopted
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import AddColumn, RenameColumn
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.adoption.decision import Action
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.local_files import LocalFiles
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.health.verify import same_state, verify
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import CleaningRun, clean
from airflow_provider_segtable.storage.local import LocalStorage, SystemClock, SystemRandomness
from airflow_provider_segtable.table import adoption
from airflow_provider_segtable.table.adopted_files import (
    AdoptionRecord,
    listed_records,
    record_path,
)
from airflow_provider_segtable.table.adoption import (
    Adoption,
    AdoptionRequest,
    adopt,
    plan_adoption,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.table import create_table
from tests.support.in_memory import in_another_process

DAY = datetime(2026, 1, 5, tzinfo=UTC)
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.int64()), ("name", pa.string())])
NOW = Retention(hours=0, versions=1, orphan_hours=0)


@pytest.fixture
def ports(service: MemoryService, tmp_path: Path) -> TableContext:
    """A place on disk, with locks in memory: compactions open files by their address."""
    return local_context(tmp_path, service)


def local_context(root: Path, service: MemoryService) -> TableContext:
    """Return the context of a folder, with locks in memory."""
    clock = SystemClock()
    return TableContext(
        uri=str(root),
        storage=LocalStorage(root),
        files=LocalFiles(root),
        clock=clock,
        randomness=SystemRandomness(),
        author="first",
        optional_coordinator=MemoryCoordinator(clock, service),
    )


def rows(day: int, numbers: range, hours: int = 24) -> pa.Table:
    """Return rows of a day, evenly within the first hours of it."""
    start, step = DAY + timedelta(days=day), timedelta(hours=hours) / (len(numbers) or 1)
    at = [start + step * place for place in range(len(numbers))]
    names = [None if n % 3 == 0 else f"n{n % 3}" for n in numbers]
    return pa.table({"at": at, "row": list(numbers), "name": names}, schema=SCHEMA)


def put(ports: TableContext, path: str, table: pa.Table, **options: object) -> bytes:
    """Put a Parquet file beside the log, as another program does; return its bytes."""
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    ports.storage.replace(path, stream.getvalue())
    return stream.getvalue()


def three_days(ports: TableContext) -> None:
    """Put two files a day, of ten rows each: rows 0 to 59."""
    for number in range(6):
        some = rows(number // 2, range(number * 10, number * 10 + 10))
        put(ports, f"day={number // 2}/part-{number}.parquet", some)


def adopted(ports: TableContext, **request: object) -> Adoption:
    """Adopt the files of a folder whose names have a column ``day``."""
    return adopt(ports, AdoptionRequest(**{"ignored": ("day",), **request}))  # type: ignore[arg-type]


def cleaned(ports: TableContext) -> CleaningRun:
    """Clean when the coarse clock of the storage has passed the newest event."""
    for _ in range(10_000):
        reading = ports.check_storage_clock()
        if min(reading.at, reading.theirs) > ports.log.load().time:
            break
    return clean(ports, retention=NOW)


def numbers(ports: TableContext) -> list[int]:
    """Return the numbers of all rows, sorted."""
    return sorted(Table(ports).scan().to_arrow().column("row").to_pylist())


def paths(ports: TableContext) -> list[str]:
    """Return the paths of the user's files that are there."""
    return [e.path for e in ports.storage.list("") if e.path.startswith("day=")]


def test_files_are_adopted_where_they_are(ports: TableContext) -> None:
    """The table has all rows, in files that nobody wrote again."""
    three_days(ports)
    before = {path: ports.storage.read(path) for path in paths(ports)}
    done = adopted(ports)
    assert [len(done.those(action)) for action in Action] == [6, 0, 0, 0]
    assert (done.created, done.table.granularity, done.table.time_column) == (True, "day", "at")
    assert numbers(ports) == [*range(60)]
    assert {path: ports.storage.read(path) for path in paths(ports)} == before
    assert not [*ports.storage.list("data")]
    event = ports.log.event(done.events[0])
    assert event is not None
    assert isinstance(event.action, Adopted)
    assert verify(ports, deep=True, all_versions=True).sound


def test_a_second_run_adopts_what_came_since(ports: TableContext) -> None:
    """Files are adopted once, and only new ones again."""
    three_days(ports)
    adopted(ports)
    assert not adopted(ports).events
    put(ports, "day=7/late.parquet", rows(7, range(60, 70)))
    done = adopted(ports)
    assert [d.facts.path for d in done.those(Action.ADOPT)] == ["day=7/late.parquet"]
    assert len(done.those(Action.SKIP)) == 6
    assert numbers(ports) == [*range(70)]


def test_a_dry_run_writes_nothing(ports: TableContext) -> None:
    """It says what a run would do."""
    three_days(ports)
    before = [*ports.storage.list("")]
    plan = plan_adoption(ports, AdoptionRequest(ignored=("day",)))
    assert plan.dry_run
    assert plan.version is None
    assert len(plan.those(Action.ADOPT)) == 6
    assert [*ports.storage.list("")] == before


@pytest.mark.parametrize("kind", ["minor", "semi-major", "major"])
def test_compaction_replaces_adopted_files_and_cleaning_deletes_them(
    ports: TableContext, kind: str
) -> None:
    """Files of other programs beside them are never touched."""
    three_days(ports)
    adopted(ports)
    table = Table(ports)
    table.append(rows(0, range(60, 65)))
    put(ports, "day=0/other.parquet", rows(0, range(100, 110)))
    ports.storage.replace("notes.txt", b"mine")
    table.compact(kind)
    assert numbers(ports) == [*range(65)]
    assert all(not s.adopted for s in table.state().timeline.each_visible())
    assert verify(ports, deep=True).sound
    run = cleaned(ports)
    assert len([path for path in run.files if path.startswith("day=")]) == 6
    assert paths(ports) == ["day=0/other.parquet"]
    assert ports.storage.read("notes.txt") == b"mine"
    assert numbers(ports) == [*range(65)]
    assert verify(ports, deep=True).sound


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_deleted_rows_stay_away(ports: TableContext, kind: str) -> None:
    """Rows of adopted files have addresses, by which deletes find them."""
    three_days(ports)
    adopted(ports)
    table = Table(ports)
    table.delete("row >= 5 and row < 25")
    left = [*range(5), *range(25, 60)]
    assert numbers(ports) == left
    table.compact(kind)
    assert numbers(ports) == left
    assert verify(ports, deep=True, all_versions=True).sound


@pytest.mark.parametrize("compacted", [False, True])
def test_the_log_is_rebuilt_from_the_records(ports: TableContext, compacted: bool) -> None:  # noqa: FBT001
    """Footers of adopted files say nothing; the records of their adoption do."""
    three_days(ports)
    adopted(ports)
    table = Table(ports)
    table.append(rows(0, range(60, 65)))
    if compacted:
        table.compact("minor")
    for entry in [*ports.storage.list("_segtable/timeline")]:
        ports.storage.delete(entry.path)
    for entry in [*ports.storage.list("_segtable/checkpoints")]:
        ports.storage.delete(entry.path)
    fresh = in_another_process(ports, MemoryService())
    plan = plan_repair(fresh)
    assert not plan.blocking
    repair(fresh, plan)
    assert numbers(fresh) == [*range(65)]
    assert verify(fresh, deep=True).sound
    assert not adopted(fresh).events


def test_a_file_that_was_written_again_is_found(ports: TableContext) -> None:
    """Its footer differs from the one that the log knows, even if its size is the same."""
    three_days(ports)
    adopted(ports)
    old = ports.storage.read("day=0/part-0.parquet")
    new = put(ports, "day=0/part-0.parquet", rows(0, range(10)).slice(0, 9))
    ports.storage.replace("day=0/part-0.parquet", new.ljust(len(old), b"\0")[: len(old)])
    with pytest.raises(CorruptTable):
        numbers(ports)
    assert not verify(ports).sound


def test_a_dropped_table_takes_its_adopted_files_along(ports: TableContext) -> None:
    """Adopted means owned; files that were not adopted stay."""
    three_days(ports)
    adopted(ports)
    put(ports, "day=0/other.parquet", rows(0, range(100, 110)))
    drop(ports)
    assert paths(ports) == ["day=0/other.parquet"]


def test_a_file_in_the_place_of_an_adopted_one_is_not_deleted(ports: TableContext) -> None:
    """Neither by cleaning nor by dropping: it is the user's."""
    three_days(ports)
    adopted(ports)
    Table(ports).compact("major")
    mine = put(ports, "day=0/part-0.parquet", rows(0, range(80, 88)))
    cleaned(ports)
    assert paths(ports) == ["day=0/part-0.parquet"]
    put(ports, "day=7/late.parquet", rows(7, range(60, 70)))
    adopted(ports)
    other = put(ports, "day=7/late.parquet", rows(7, range(60, 69)))
    done = drop(ports)
    assert done.kept == ("day=7/late.parquet",)
    assert ports.storage.read("day=0/part-0.parquet") == mine
    assert ports.storage.read("day=7/late.parquet") == other


def test_without_a_file_to_adopt_there_is_no_table(ports: TableContext) -> None:
    """The error names a file and its reason."""
    put(ports, "day=0/x.parquet", rows(0, range(3)))
    with pytest.raises(InvalidInput, match=r"day=0/x.parquet: column 'day' is only in the names"):
        adopt(ports, AdoptionRequest())
    assert [entry.path for entry in ports.storage.list("")] == ["day=0/x.parquet"]


def test_a_checkpoint_of_adopted_files_has_a_format_of_its_own(ports: TableContext) -> None:
    """An older segtable refuses it by its number; the state is the same."""
    three_days(ports)
    adopted(ports)
    state = ports.log.load()
    data = write_checkpoint(state)
    assert json.loads(pq.read_metadata(io.BytesIO(data)).metadata[b"segtable"])["format"] == 11
    assert same_state(read_checkpoint(data), state)


def test_records_go_when_their_files_are_long_gone(ports: TableContext) -> None:
    """First they are marked; the newest one stays, so that no number comes twice."""
    three_days(ports)
    adopted(ports)
    put(ports, "day=7/late.parquet", rows(7, range(60, 70)))
    adopted(ports)
    table = Table(ports)
    table.append(rows(0, range(70, 75)))
    table.compact("major")
    cleaned(ports)
    assert [*listed_records(ports.storage)] == [0, 1]
    put(ports, "day=0/part-0.parquet", rows(0, range(75, 78)))
    done = plan_adoption(ports, AdoptionRequest(ignored=("day",)))
    assert "adopted before" in done.those(Action.COPY)[0].reason
    run = cleaned(ports)
    assert run.records == (record_path(0), record_path(0).replace("json", "gone"))
    assert [*listed_records(ports.storage)] == [1]
    assert len(adopted(ports).events) == 1
    assert [*listed_records(ports.storage)] == [1, 2]
    assert numbers(ports) == [*range(78)]


def test_versions_and_tags_keep_adopted_files(ports: TableContext) -> None:
    """A restore makes them visible again."""
    three_days(ports)
    adopted(ports)
    table = Table(ports)
    table.tag("moved")
    table.append(rows(0, range(60, 65)))
    table.delete("row < 10")
    table.compact("major")
    cleaned(ports)
    assert len(paths(ports)) == 6
    assert sorted(table.scan(tag="moved").to_arrow().column("row").to_pylist()) == [*range(60)]
    table.restore(tag="moved")
    assert numbers(ports) == [*range(60)]
    assert verify(ports, deep=True, all_versions=True).sound
    table.compact("major")
    assert numbers(ports) == [*range(60)]


def test_conditions_skip_adopted_files_and_row_groups(ports: TableContext) -> None:
    """By their event times, the statistics of their row groups, and indexes."""
    for number in range(20):
        some = rows(number // 10, range(number * 10, number * 10 + 10))
        put(ports, f"day={number // 10}/{number}.parquet", some, row_group_size=5)
    adopted(ports)
    table = Table(ports)
    assert table.scan(interval="2026-01-06/2026-01-07").to_arrow().num_rows == 100
    for indexed in (False, True):
        if indexed:
            table.create_index("numbers", "column_stats", columns=["row"])
            table.run_index("numbers")
        scan = table.scan(where="row = 25")
        assert scan.to_arrow().column("row").to_pylist() == [25]
        found = scan.explain().facts
        assert (found["files_opened"], found["row_groups_read"]) == (1 if indexed else 20, 1)
    assert verify(ports, deep=True).sound


def test_columns_are_altered_after_an_adoption(ports: TableContext) -> None:
    """Files without ids are found by the first names."""
    three_days(ports)
    adopted(ports)
    table = Table(ports)
    table.alter(
        columns=[
            RenameColumn(name="name", new="label"),
            AddColumn(name="more", type="int64", default="7"),
        ]
    )
    table.alter(columns=[AddColumn(name="name", type="string")])
    table.append(rows(0, range(60, 63)).rename_columns({"name": "label"}))
    for kind in ("", "minor", "major"):
        if kind:
            table.compact(kind)
        found = table.scan().to_arrow()
        assert found.column("label").null_count == 21
        assert (found.column("name").null_count, found.num_rows) == (63, 63)
        assert set(found.column("more").to_pylist()) == {7}
    assert verify(ports, deep=True).sound


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("_delta_log/00000000000000000000.json", "a Delta table"),
        ("trips/_delta_log/00000000000000000000.json", "a Delta table"),
        (".hoodie/hoodie.properties", "a Hudi table"),
        ("metadata/v1.metadata.json", "an Iceberg table"),
        ("data/part-0.parquet", "keeps its own files in data/"),
        ("deletes/x", "keeps its own files in deletes/"),
    ],
)
def test_folders_of_other_tables_are_refused(ports: TableContext, path: str, word: str) -> None:
    """Another log says which of their files count; and cleaning deletes strange files in data/."""
    three_days(ports)
    ports.storage.replace(path, b"{}")
    with pytest.raises(InvalidInput, match=word):
        adopted(ports)
    assert not [*ports.storage.list("_segtable")]


def test_settings_that_the_table_does_not_have_are_refused(ports: TableContext) -> None:
    """They were given at the creation."""
    three_days(ports)
    adopted(ports)
    for given in ({"granularity": "hour"}, {"time_column": "row"}, {"ignored": ("name",)}):
        with pytest.raises(InvalidInput):
            adopted(ports, **given)


def test_thousands_of_files_in_several_events(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some time chunks at a time: their ids are locked in one transaction."""
    monkeypatch.setattr(adoption, "CHUNKS_AN_EVENT", 2)
    three_days(ports)
    put(ports, "day=7/late.parquet", rows(7, range(60, 70)))
    assert len(adopted(ports).events) == 2
    assert numbers(ports) == [*range(70)]


@pytest.mark.parametrize("killed", [False, True])
def test_a_record_of_a_dropped_table_is_not_finished_by_a_later_one(
    ports: TableContext,
    service: MemoryService,
    monkeypatch: pytest.MonkeyPatch,
    killed: bool,  # noqa: FBT001
) -> None:
    """The later table decides by its own columns; and a living author removes its record."""
    put(ports, "one.parquet", rows(0, range(10)))
    adopt(ports, AdoptionRequest())
    put(ports, "two.parquet", rows(1, range(10, 20), hours=1))
    encoded = AdoptionRecord.encoded

    def too_late(record: AdoptionRecord) -> bytes:
        drop(in_another_process(ports, service), force=True)
        create_table(in_another_process(ports, service), narrow_table())
        if killed:
            monkeypatch.setattr(adoption, "commit", dies)
        return encoded(record)

    with monkeypatch.context() as held:
        held.setattr(AdoptionRecord, "encoded", too_late)
        with pytest.raises(KeyboardInterrupt if killed else TableGone):
            adopt(ports, AdoptionRequest())
    monkeypatch.undo()
    fresh = in_another_process(ports, service)
    assert len([*listed_records(fresh.storage)]) == killed
    done = adopt(fresh, AdoptionRequest())
    assert "the table has no column 'name'" in done.those(Action.REFUSE)[0].reason
    assert numbers(fresh) == []
    done = adopt(fresh, AdoptionRequest(ignored=("name",)))
    assert [each.facts.path for each in done.those(Action.ADOPT)] == ["two.parquet"]
    assert numbers(fresh) == [*range(10, 20)]
    assert verify(fresh, deep=True).sound


def narrow_table() -> TableDefinition:
    """Return a table without the column ``name``."""
    return TableDefinition(
        table_id="another",
        name="narrow",
        schema=from_arrow(SCHEMA.remove(2)),
        time_column="at",
        granularity=Granularity.HOUR,
    )


def dies(*_: object) -> None:
    """End as a killed process does."""
    raise KeyboardInterrupt
