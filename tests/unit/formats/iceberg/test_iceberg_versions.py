"""How versions share manifests, what their snapshots say, and what other writers left."""

import json
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pytest
from pyroaring import BitMap

from airflow_provider_segtable.core.publishing import ShownFile
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import AddColumn, evolved
from airflow_provider_segtable.core.time import DAY_US, Interval
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.formats.format import NewFile, Published, Revision
from airflow_provider_segtable.formats.iceberg import manifest, names
from airflow_provider_segtable.formats.iceberg.iceberg_target import IcebergFormat, IcebergTarget
from airflow_provider_segtable.formats.iceberg.manifest import MANY
from airflow_provider_segtable.storage import MemoryStorage
from tests.support.builders import BASE, CHUNK, DEFINITION, JANUARY, first


class Lake:
    """A target in memory, and its newest version."""

    def __init__(self) -> None:
        """Begin empty."""
        self.storage = MemoryStorage("memory://t")
        self.known: Published | None = None
        self.event = 0

    def put(self, *files: NewFile, gone: Iterable[int] = (), clean: bool = False) -> Published:
        """Put the next version."""
        self.event += 1
        revision = Revision(
            event=self.event,
            time=BASE,
            commit=f"c{self.event}",
            table=DEFINITION,
            gone=frozenset(first(number).path for number in gone),
            shown={each.shown.path: each for each in files},
            data_change=not clean,
        )
        found = self.target.put(self.known, revision)
        assert found is not None
        self.known = found
        return found

    @property
    def target(self) -> IcebergTarget:
        """Return the target, opened anew."""
        return IcebergTarget(self.storage)

    def sizes(self, content: int = 0) -> list[int]:
        """Return the numbers of files in the manifests of the newest version."""
        assert self.known is not None
        mine = [each for each in self.known.own.manifests if each.content == content]
        return sorted(len(each.keys) for each in mine)

    def snapshot(self) -> dict[str, str]:
        """Return the summary of the newest snapshot."""
        assert self.known is not None
        summary: dict[str, str] = self.known.own.metadata["snapshots"][-1]["summary"]
        return summary


def file(number: int, *, hidden: int = 0) -> NewFile:
    """Return a file of ten rows, of which the first ones are hidden."""
    clips = (Interval(JANUARY.start + hidden, JANUARY.end),) if hidden else ()
    segment = replace(first(number, chunk=CHUNK), time_min=JANUARY.start + number)
    return NewFile(
        shown=ShownFile(segment=segment, clips=clips),
        hidden=BitMap(range(hidden)),
    )


MOST, SMALL = 200, 10


@pytest.fixture(autouse=True)
def small_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let manifests be full with fewer files."""
    monkeypatch.setattr(manifest, "MOST", MOST)
    monkeypatch.setattr(manifest, "SMALL", SMALL)


@pytest.fixture
def lake() -> Lake:
    """An empty target."""
    return Lake()


def test_manifests_are_full_and_few(lake: Lake) -> None:
    """However files come, small manifests are joined, and none has more than the limit."""
    lake.put(*map(file, range(MOST + 1)))
    assert lake.sizes() == [MOST // 2, MOST // 2 + 1]
    for number in range(MOST + 1, MOST + 1 + 2 * SMALL):
        lake.put(file(number))
    assert lake.sizes() == [SMALL, SMALL, MOST // 2, MOST // 2 + 1]
    for at in range(MANY):
        base = 10_000 + 100 * at
        lake.put(*map(file, range(base, base + SMALL)))
    assert len(lake.sizes()) < MANY
    assert sum(lake.sizes()) == MOST + 1 + 2 * SMALL + MANY * SMALL


def test_only_manifests_that_lost_a_file_are_written_anew(lake: Lake) -> None:
    """The others are shared with the version before."""
    before = lake.put(*map(file, range(3 * MOST)))
    after = lake.put(gone=[5])
    shared = {each.uri for each in before.own.manifests} & {e.uri for e in after.own.manifests}
    assert (len(before.own.manifests), len(shared)) == (3, 2)
    assert lake.target.load() == replace(after, own=lake.target.load(after).own)  # type: ignore[union-attr]


def test_a_key_is_remembered_though_no_row_is_hidden(lake: Lake) -> None:
    """A deletion may touch none of a file's rows: it needs no file of positions, but its key."""
    plain = replace(file(1, hidden=3), hidden=BitMap())
    lake.put(plain, file(2))
    found = lake.target.load()
    assert found is not None
    assert {each.key for each in found.files.values()} == {plain.shown.key, ""}
    assert lake.sizes(1) == []


def test_summaries_count_what_changed(lake: Lake) -> None:
    """Operations and totals are those that engines show of a table's history."""
    lake.put(file(1), file(2))
    assert lake.snapshot()["operation"] == "append"
    lake.put(file(1, hidden=4))
    assert lake.snapshot()["operation"] == "delete"
    lake.put(file(3), gone=[1, 2], clean=True)
    assert lake.snapshot()["operation"] == "replace"
    lake.put(file(4), gone=[3])
    summary = lake.snapshot()
    assert summary["operation"] == "overwrite"
    assert (summary["total-records"], summary["total-data-files"]) == ("10", "1")
    assert (summary["total-position-deletes"], summary["total-files-size"]) == ("0", "1000")
    assert (summary["segtable.event"], summary["segtable.commit"]) == ("4", "c4")


def test_times_of_snapshots_rise(lake: Lake) -> None:
    """Also if events have equal times, since readers find a version by its time."""
    for number in range(3):
        lake.put(file(number))
    assert lake.known is not None
    times = [each["timestamp-ms"] for each in lake.known.own.metadata["snapshot-log"]]
    assert times == sorted(set(times))


def test_snapshots_are_kept_as_long_as_their_versions(lake: Lake) -> None:
    """At most a hundred, and after a sweep only those that are still there."""
    for number in range(103):
        lake.put(file(number % 3, hidden=number % 2))
    assert lake.known is not None
    assert len(lake.known.own.metadata["snapshots"]) == 100
    lake.target.sweep(366 * 100 * DAY_US)
    lake.known = lake.target.load()
    lake.put(file(200))
    assert lake.known is not None
    assert len(lake.known.own.metadata["snapshots"]) == 2


def test_the_hint_names_the_newest_version(lake: Lake) -> None:
    """Also after a publisher that was slow, and wrote the hint last."""
    lake.put(file(1))
    known = lake.known
    lake.put(file(2))
    lake.storage.replace(names.HINT, b"1")
    assert lake.target.put(known, Revision(event=9, time=0, commit="c", table=DEFINITION)) is None
    lake.put(file(3))
    assert lake.storage.read(names.HINT) == b"3"


def test_a_version_of_another_writer_is_published_over(lake: Lake) -> None:
    """Its snapshot is not ours: what we published last is known, but without a commit."""
    ours = lake.put(file(1), file(2, hidden=2))
    theirs = dict(ours.own.metadata)
    snapshot = {**theirs["snapshots"][-1], "snapshot-id": 7, "sequence-number": 2, "summary": {}}
    theirs |= {"snapshots": [*theirs["snapshots"], snapshot], "current-snapshot-id": 7}
    theirs["last-sequence-number"] = 2
    lake.storage.create(names.version_path(2), json.dumps(theirs).encode())
    found = lake.target.load(ours)
    assert found is not None
    assert (found.number, found.event, found.commit, found.files) == (2, 1, "", ours.files)
    lake.known = found
    lake.put(file(1))
    assert lake.known.own.metadata["current-snapshot-id"] != 7
    assert lake.known.own.sequence == 3
    assert lake.target.needed(10**18) == {*ours.files}


def test_metadata_of_catalogs_is_left_alone(lake: Lake) -> None:
    """A catalog that the table is registered in writes metadata of its own beside ours."""
    lake.put(file(1))
    other = f"{names.METADATA}/00001-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
    lake.storage.create(other, b"{}")
    assert not names.is_own(other)
    lake.put(file(2))
    lake.target.sweep(10**18)
    assert lake.storage.read(other) == b"{}"
    assert lake.target.load() is not None


def test_what_a_catalog_left_of_a_dropped_table_is_not_foreign(lake: Lake) -> None:
    """It has the properties of a published table, so another one may be published there."""
    lake.put(file(1))
    left = lake.storage.read(names.version_path(1))
    lake = Lake()
    other = f"{names.METADATA}/00001-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
    lake.storage.create(other, left)
    assert lake.target.load() is None
    assert lake.put(file(1)).number == 1


@pytest.mark.parametrize(
    ("kind", "good"),
    [
        *(
            (name, True)
            for name in ("bool", "int8", "int64", "double", "date32[day]", "large_string")
        ),
        *((name, True) for name in ("timestamp[us]", "timestamp[us, tz=UTC]")),
        *((name, False) for name in ("timestamp[s]", "timestamp[ms, tz=UTC]")),
        *((name, True) for name in ("time64[us]", "fixed_size_binary[3]", "decimal128(5, 2)")),
        *((name, False) for name in ("uint8", "uint64", "halffloat", "timestamp[ns]")),
        ("timestamp[us, tz=Europe/Berlin]", True),
        *((name, False) for name in ("time32[ms]", "time64[ns]", "duration[us]")),
    ],
)
def test_types_that_readers_do_not_all_read_are_refused(kind: str, *, good: bool) -> None:
    """Also within lists, structs and maps; the reason names the column, its type and a way out."""
    types = [kind, f"list<item: {kind}>", f"struct<a: int64, b: list<item: {kind}>>"]
    for text in types:
        table = with_columns(Column(name="c", type=text))
        why = IcebergFormat().refusal(table, [0])
        assert (why == "") is good
        assert good or ("'c'" in why and "drop the column" in why)


def with_columns(*columns: Column) -> TableDefinition:
    """Return a table with further columns."""
    return replace(DEFINITION, schema=Schema((*DEFINITION.schema.columns, *columns)))


@pytest.mark.parametrize("kind", ["timestamp[s]", "list<item: timestamp[ms, tz=UTC]>"])
def test_dropped_times_in_milliseconds_are_refused_while_files_have_them(kind: str) -> None:
    """Iceberg's library skips row groups by their bounds, which it takes for microseconds."""
    earlier = with_columns(replace(Column(name="c", type=kind), id=90)).schema
    now = replace(DEFINITION, earlier=(earlier,), schema=replace(DEFINITION.schema, number=1))
    assert "column 'c' was dropped" in IcebergFormat().refusal(now, [0, 1])
    assert IcebergFormat().refusal(now, [1]) == ""


def test_event_times_in_milliseconds_are_refused_with_the_way_out() -> None:
    """Another table keeps them in microseconds: the type of the event time never changes."""
    at, *others = DEFINITION.schema.columns
    assert at.name == DEFINITION.time_column
    schema = Schema((replace(at, type="timestamp[ms, tz=UTC]"), *others))
    why = IcebergFormat().refusal(replace(DEFINITION, schema=schema), [0])
    assert "make a table whose event time is in microseconds" in why


def test_a_default_for_earlier_rows_is_refused_until_they_are_written_anew() -> None:
    """Files that lack the column would show nulls."""
    change = AddColumn(name="n", type="int64", default="7")
    schema = evolved(DEFINITION.schema, (), [change], DEFINITION.time_column)
    table = replace(DEFINITION, schema=schema, earlier=(DEFINITION.schema,))
    assert "'n' was added with the value 7" in IcebergFormat().refusal(table, [0, 1])
    assert IcebergFormat().refusal(table, [1]) == ""


def test_a_wide_struct_is_refused() -> None:
    """Fields within a column have no ids if there are more than a thousand."""
    wide = pa.schema([pa.field("c", pa.struct([(f"f{n}", pa.int8()) for n in range(1001)]))])
    table = with_columns(*from_arrow(wide).columns)
    assert "over 1,000 fields" in IcebergFormat().refusal(table, [0])
