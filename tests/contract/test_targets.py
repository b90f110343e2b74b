"""One suite for the targets of every format in which versions are published.

Each check takes ``place``, which opens the same target anew at every call, as several publishers
would. Data files are named and never read: no target opens them.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from airflow_provider_segtable.core.errors import (
    ForeignTable,
    OutcomeUnknown,
    SegtableError,
    StorageError,
    StorageFull,
)
from airflow_provider_segtable.core.publishing import ShownFile
from airflow_provider_segtable.core.time import DAY_US, Instant, Interval
from airflow_provider_segtable.formats.format import (
    ColumnStats,
    FileStats,
    Format,
    NewFile,
    Published,
    Revision,
    Target,
)
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage import LocalStorage, MemoryStorage
from airflow_provider_segtable.storage.local import SystemClock
from tests.examples import examples
from tests.support.builders import DEFINITION, JANUARY, first

ALWAYS: Instant = 0
NEVER: Instant = 100 * 366 * DAY_US
"""Times before and after every put."""
FOREIGN: Mapping[str, tuple[str, str]] = {
    "delta": (
        "_delta_log/00000000000000000000.json",
        """{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
{"metaData": {"id": "a", "format": {"provider": "parquet", "options": {}}, "schemaString":
"{}", "partitionColumns": [], "configuration": {}}}
""".replace('\n"', '"'),
    ),
    "iceberg": (
        "_iceberg/metadata/v1.metadata.json",
        """{"format-version": 2, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
"location": "x", "last-sequence-number": 0, "last-updated-ms": 1, "last-column-id": 1,
"current-schema-id": 0, "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
"default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}],
"last-partition-id": 999, "default-sort-order-id": 0, "properties": {}, "snapshots": [],
"sort-orders": [{"order-id": 0, "fields": []}]}""",
    ),
}
"""An empty table that another tool wrote, by format: the path of its first file, and its text."""
STATS = FileStats(
    columns={
        1: ColumnStats(low=JANUARY.start, high=JANUARY.start, nulls=0, size=40),
        2: ColumnStats(nulls=10),
    },
    split_offsets=(4,),
)


@dataclass(frozen=True)
class Place:
    """A table's root; calling it opens its target, as another process would."""

    kind: Format
    storage: Storage

    def __call__(self, storage: Storage | None = None) -> Target:
        """Return the target, through another storage if one is given."""
        return self.kind.target(storage or self.storage)

    def files(self) -> dict[str, bytes]:
        """Return all files below the root."""
        return {e.path: self.storage.read(e.path) for e in self.storage.list("")}

    def later(self) -> Instant:
        """Return a time after all files of now, and before every later one."""
        for n in count():
            newest = max(each.modified for each in self.storage.list(""))
            self.storage.replace(f"clock/{n}", b"")
            (probe,) = (e for e in self.storage.list("clock") if e.path == f"clock/{n}")
            self.storage.delete(f"clock/{n}")
            if probe.modified > newest + 1:
                return probe.modified - 1
        raise AssertionError


@pytest.fixture(params=sorted(FORMATS))
def kind(request: pytest.FixtureRequest) -> Format:
    """Each format."""
    return FORMATS[request.param]


@pytest.fixture(params=["memory", "local"])
def place(request: pytest.FixtureRequest, kind: Format, tmp_path: Path) -> Place:
    """One empty root."""
    if request.param == "memory":
        return Place(kind, MemoryStorage(clock=SystemClock()))
    return Place(kind, LocalStorage(str(tmp_path / "a table")))


def new_file(number: int, *, hidden: int = 0, deletes: int = 0) -> NewFile:
    """Return a file, of which clips hide as many rows."""
    segment = first(number, rows=10)
    clips = (Interval(JANUARY.start + deletes, JANUARY.end),) if hidden else ()
    rows = BitMap(range(deletes % 5, deletes % 5 + hidden))
    return NewFile(shown=ShownFile(segment=segment, clips=clips), stats=STATS, hidden=rows)


def revision(event: int, *files: NewFile, gone: tuple[NewFile, ...] = (), **other: Any) -> Revision:
    """Return the change that event ``event`` made."""
    return Revision(
        **{
            "event": event,
            "time": SystemClock().now(),
            "commit": f"c{event}",
            "table": DEFINITION,
            "gone": frozenset(each.shown.path for each in gone),
            "shown": {each.shown.path: each for each in files},
            **other,
        }
    )


def put(target: Target, known: Published | None, change: Revision) -> Published:
    """Put a version that no other publisher is in the way of."""
    found = target.put(known, change)
    assert found is not None
    return found


def facts(published: Published | None) -> Any:
    """Return what any publisher has to find of a version."""
    assert published is not None
    keys = {path: each.key for path, each in published.files.items()}
    assert all(path == each.path for path, each in published.files.items())
    head = (published.event, published.commit, published.time, published.table_id)
    return published.number, head, published.schema, published.address, keys


def test_nothing_is_published_at_first(place: Place) -> None:
    """An empty root has no version, needs nothing, and loading it writes nothing."""
    assert place().load() is None
    assert place().needed(ALWAYS) == frozenset()
    assert place().sweep(NEVER) == ()
    assert place.files() == {}


def test_a_put_version_is_what_others_load(place: Place) -> None:
    """Event, commit, time, table, schema and the key of each file come back."""
    files = new_file(1), new_file(2, hidden=3), new_file(3, hidden=1, deletes=7)
    change = revision(42, *files)
    made = put(place(), None, change)
    assert facts(place().load()) == facts(made)
    head = (made.event, made.commit, made.time, made.table_id, made.schema)
    assert head == (42, "c42", change.time, DEFINITION.table_id, 0)
    assert {path: each.key for path, each in made.files.items()} == {
        each.shown.path: each.shown.key for each in files
    }
    assert made.address == place().address


def test_a_version_without_files_is_a_version(place: Place) -> None:
    """An empty table can be published, filled, and emptied again."""
    one = put(place(), None, revision(0))
    two = put(place(), one, revision(1, new_file(1)))
    three = put(place(), two, revision(2, gone=(new_file(1),)))
    assert [dict(each.files) for each in (one, three)] == [{}, {}]
    assert facts(place().load()) == facts(three)


def test_of_two_publishers_one_is_refused_and_reads_again(place: Place) -> None:
    """The number that both want is the first one's; the other's put changes no version."""
    start = put(place(), None, revision(1, new_file(1)))
    mine, other = place().load(), place().load()
    won = put(place(), mine, revision(2, new_file(2, hidden=2)))
    assert place().put(other, revision(3, new_file(3, hidden=2))) is None
    assert facts(place().load()) == facts(place().load(start)) == facts(won)
    last = put(place(), place().load(other), revision(3, new_file(3, hidden=2)))
    assert {*last.files} == {new_file(n).shown.path for n in (1, 2, 3)}


def test_two_first_publishers_make_one_table(place: Place) -> None:
    """A first version is created by one publisher, too."""
    won = put(place(), None, revision(1, new_file(1)))
    assert place().put(None, revision(1, new_file(1))) is None
    assert facts(place().load()) == facts(won)


def test_another_table_replaces_all(place: Place) -> None:
    """A version of a new table at the same place shows its own files only."""
    old = put(place(), None, revision(5, new_file(1), new_file(2, hidden=2)))
    table = replace(DEFINITION, table_id="22222222-2222-3333-4444-555555555555")
    new = put(place(), old, revision(2, new_file(3), table=table))
    assert facts(place().load()) == facts(place().load(old)) == facts(new)
    assert (set(new.files), new.event) == ({new_file(3).shown.path}, 2)
    assert new.table_id == table.table_id


def test_the_newest_version_and_those_replaced_lately_are_needed(place: Place) -> None:
    """A version is needed while it is the newest one, and for the retention after that."""
    known = put(place(), None, revision(1, new_file(1)))
    known = put(place(), known, revision(2, new_file(2), gone=(new_file(1),)))
    since = place.later()
    known = put(place(), known, revision(3, new_file(3), gone=(new_file(2),)))
    one, two, three = (new_file(n).shown.path for n in (1, 2, 3))
    assert place().needed(NEVER) == {three}
    assert place().needed(since) == {two, three}
    assert place().needed(ALWAYS) == {one, two, three}


def test_a_sweep_deletes_what_no_version_needs(place: Place) -> None:
    """The newest version stays as it was, for its publisher, for later ones, and the next put."""
    known = put(place(), None, revision(0, *(new_file(n) for n in range(12))))
    for n in range(1, 25):
        change = new_file(n % 12, hidden=n % 3, deletes=n)
        known = put(place(), known, revision(n, change))
    before = place.files()
    assert place().sweep(ALWAYS) == ()
    swept = place().sweep(NEVER, dry_run=True)
    assert place.files() == before
    assert swept == place().sweep(NEVER)
    assert {*before} - {*place.files()} == {*swept} != set()
    assert place().sweep(NEVER) == ()
    assert facts(place().load()) == facts(place().load(known)) == facts(known)
    known = put(place(), known, revision(30, new_file(40, hidden=1)))
    assert facts(place().load()) == facts(known)
    assert place().needed(NEVER) == {*known.files}


def test_a_sweep_leaves_recent_versions(place: Place) -> None:
    """A version that was replaced after the given time keeps all that its readers open."""
    known = put(place(), None, revision(0, new_file(0, hidden=1), new_file(1)))
    for n in range(1, 12):
        known = put(place(), known, revision(n, new_file(0, hidden=1, deletes=n)))
    since = place.later()
    needed = place().needed(since)
    for n in range(12, 15):
        known = put(place(), known, revision(n, new_file(n), gone=(new_file(n - 1),)))
    assert place().needed(since) >= needed
    wanted = place().needed(since)
    place().sweep(since)
    assert place().needed(since) == wanted
    assert place().needed(ALWAYS) >= wanted


def test_what_a_lost_race_left_is_swept(place: Place) -> None:
    """A publisher that was too late leaves nothing for good; what the winner wrote stays."""
    known = put(place(), None, revision(1, new_file(1)))
    won = put(place(), known, revision(2, new_file(1, hidden=4, deletes=1)))
    clean = {*place.files()}
    assert place().put(known, revision(3, new_file(1, hidden=5, deletes=2))) is None
    left = {*place.files()} - clean
    assert left <= {*place().sweep(NEVER)}
    assert not left & {*place.files()}
    assert facts(place().load()) == facts(won)


def test_all_files_have_names_of_the_format(place: Place) -> None:
    """Each is own, in the format's folders; names of others there are not, and are left alone."""
    known = None
    for n in range(25):
        known = put(place(), known, revision(n, new_file(n % 4, hidden=n % 2, deletes=n)))
    made = {*place.files()}
    assert all(place.kind.is_own(path) for path in made)
    assert {path.split("/")[0] for path in made} <= {*place.kind.folders}
    strange = {f"{folder}/notes.txt" for folder in place.kind.folders}
    strange |= {new_file(1).shown.path, "_segtable/timeline/00000000000000000001.json"}
    assert not any(place.kind.is_own(path) for path in strange)
    for path in strange:
        place.storage.create(path, b"mine")
    assert facts(place().load()) == facts(known)
    place().sweep(NEVER)
    assert strange <= {*place.files()}


def test_a_foreign_table_is_an_error(place: Place) -> None:
    """It is neither loaded, nor written over, nor swept."""
    path, text = FOREIGN[place.kind.name]
    place.storage.create(path, text.encode())
    for act in (
        lambda: place().load(),
        lambda: place().needed(ALWAYS),
        lambda: place().sweep(NEVER),
    ):
        with pytest.raises(ForeignTable, match=r"a table|memory://"):
            act()
    with suppress(ForeignTable):
        assert place().put(None, revision(1, new_file(1))) is None
    assert place.files()[path] == text.encode()
    with pytest.raises(ForeignTable):
        place().load()


def test_an_unreadable_version_is_an_error(place: Place) -> None:
    """Damage to the newest version's files is never an empty or an older version."""
    known = put(place(), None, revision(1, new_file(1)))
    before = {*place.files()}
    put(place(), known, revision(2, new_file(2)))
    for path in {*place.files()} - before:
        place.storage.replace(path, b"\x00 torn")
    for act in (lambda: place().load(), lambda: place().needed(ALWAYS)):
        with pytest.raises(SegtableError):
            act()


@dataclass
class Failing:
    """A storage whose nth creation fails, before or after the object is there."""

    inner: Storage
    at: int
    landed: bool
    creations: int = 0

    def __getattr__(self, name: str) -> Any:
        """Return what the storage has."""
        return getattr(self.inner, name)

    def create(self, path: str, data: bytes, **ready: Any) -> None:
        """Create an object, or fail."""
        self.creations += 1
        if self.creations != self.at:
            return self.inner.create(path, data, **ready)
        if self.landed:
            self.inner.create(path, data, **ready)
            raise OutcomeUnknown(f"{path}: the reply was lost")
        raise StorageFull(f"{path}: no space is left")


@pytest.mark.parametrize("landed", [False, True])
def test_a_failing_put_leaves_the_old_version_or_the_new_one(place: Place, *, landed: bool) -> None:
    """Wherever it fails, others find a whole version, and the next put succeeds."""
    known = put(place(), None, revision(0, new_file(0)))
    for at in count(1):
        failing = Failing(place.storage, at, landed)
        change = revision(at, new_file(at, hidden=1, deletes=at))
        try:
            known = put(place(failing), known, change)
        except StorageError:
            found = place().load(known)
            assert facts(found) == facts(place().load())
            assert found is not None
            assert found.event in (known.event, at)
            assert found.event == known.event or landed
            known = found
        if failing.creations < at:
            return


def steps() -> st.SearchStrategy[list[tuple[int, int, int, bool]]]:
    """Draw steps: a file, how many of its rows are hidden, a file that goes, who loads anew."""
    files = st.integers(0, 5)
    return st.lists(st.tuples(files, st.integers(0, 2), files, st.booleans()), max_size=30)


@pytest.mark.parametrize("name", sorted(FORMATS))
@examples(15)
@given(steps())
def test_every_way_to_load_agrees(name: str, acts: list[tuple[int, int, int, bool]]) -> None:
    """Loading anew, or on from any earlier version, finds what was put, also after sweeps."""
    place = Place(FORMATS[name], MemoryStorage(clock=SystemClock()))
    draw = Random(len(acts))
    model: dict[str, str] = {}
    past: list[Published] = []
    for event, (there, hidden, gone, sweeps) in enumerate(acts):
        change = new_file(there, hidden=hidden, deletes=event)
        dropped = new_file(gone) if gone != there else new_file(99)
        leaves = (dropped,) if dropped.shown.path in model else ()
        known = past[-1] if past else None
        past.append(put(place(), known, revision(event, change, gone=leaves)))
        model.pop(dropped.shown.path, None)
        model[change.shown.path] = change.shown.key
        if sweeps and event % 5 == 4:
            place().sweep(NEVER)
        assert facts(place().load(draw.choice(past))) == facts(place().load()) == facts(past[-1])
        assert facts(past[-1])[-1] == model
    assert place().needed(NEVER) == {*model}
