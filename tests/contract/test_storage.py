"""One suite for every storage adapter, and a crippled one that it must catch.

Each check takes ``place``, which opens the same storage anew at every call, as several processes
would.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    InvalidName,
    NotFound,
    StorageError,
    StorageFull,
    UnsafeStorage,
)
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage import (
    LocalStorage,
    MemoryStorage,
    check_uri,
    open_storage,
    probe,
)
from tests.support.clock import FakeRandomness
from tests.support.s3 import LoopbackS3

Place = Callable[[], Storage]

RACERS = 16
NAMES = ["t/.x", "t/a", "t/a b", "t/a%20b", "t/a%b", "t/a-1/z", "t/ab/c", "t/b"]
NAMES += ["t/c-d", "t/c/e", "t/ü"]  # a folder sorts as its name with the slash
_places = count()


@pytest.fixture(params=["memory", "local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Opens one fresh storage, as often as it is called."""
    name = f"contract-{next(_places)}/a table"
    options: dict[str, str] = {}
    if request.param == "memory":
        uri = f"memory://{name}"
    elif request.param == "local":
        uri = str(tmp_path / name)
    else:
        server: LoopbackS3 = request.getfixturevalue("s3")
        uri, options = server.uri(name), server.storage_options
    return lambda: open_storage(uri, options)


class CarelessStorage(MemoryStorage):
    """A store that ignores the condition of a conditional put."""

    def create(self, path: str, data: bytes) -> None:
        """Overwrite."""
        self.replace(path, data)


class ForgetfulStorage(MemoryStorage):
    """A store that says yes, keeps the name, and loses the bytes."""

    def create(self, path: str, data: bytes) -> None:
        """Create it empty."""
        super().create(path, data[:0])


def exactly_one_wins(place: Place) -> None:
    """Race 16 creators, each through a handle of its own, for one name."""
    gate = threading.Barrier(RACERS)

    def race(number: int) -> int | None:
        storage = place()
        gate.wait(120)
        try:
            storage.create("timeline/0", f"by {number}".encode())
        except AlreadyExists:
            return None
        return number

    with ThreadPoolExecutor(RACERS) as pool:
        winners = [number for number in pool.map(race, range(RACERS)) if number is not None]
    assert len(winners) == 1
    assert place().read("timeline/0") == f"by {winners[0]}".encode()


def test_exactly_one_racing_creator_wins(place: Place) -> None:
    """Of 16 racing creators of one name one returns, and its bytes are what is read."""
    exactly_one_wins(place)


def test_the_race_catches_a_store_that_ignores_conditions() -> None:
    """The suite is not blind: without put-if-absent its race test fails."""
    careless = CarelessStorage()
    with pytest.raises(AssertionError):
        exactly_one_wins(lambda: careless)


@pytest.mark.parametrize("broken", [CarelessStorage, ForgetfulStorage])
def test_the_probe_refuses_a_broken_store(broken: type[MemoryStorage]) -> None:
    """A store that overwrites, or loses what it accepted, is refused with its name."""
    with pytest.raises(UnsafeStorage, match=r"memory://here does not keep put-if-absent"):
        probe(broken("memory://here"), FakeRandomness())


def test_the_probe_survives_a_drop_of_an_earlier_table() -> None:
    """Whoever drops it deletes all that lies there, also a probe between its two creates."""
    dropped: list[str] = []

    class Dropped(MemoryStorage):
        """A store in whose place a table is dropped meanwhile."""

        def create(self, path: str, data: bytes) -> None:
            """Create it; the first one is deleted at once."""
            super().create(path, data)
            if not dropped:
                dropped.append(path)
                self.delete(path)

    store = Dropped("memory://here")
    probe(store, FakeRandomness())
    assert dropped
    assert list(store.list("")) == []


def test_the_probe_accepts_and_leaves_nothing(place: Place) -> None:
    """A sound store passes the start-up check, and the check cleans up."""
    probe(place())
    assert list(place().list("")) == []


def test_racing_writers_fill_numbers_without_gaps(place: Place) -> None:
    """Six writers, each taking the next free number, make a log without holes or twins."""
    each = 5

    def write(writer: int) -> list[int]:
        storage, mine, n = place(), list[int](), 0
        while len(mine) < each:
            try:
                storage.create(f"timeline/{n:04d}", f"{writer}".encode())
                mine.append(n)
            except AlreadyExists:
                n += 1
        return mine

    with ThreadPoolExecutor(6) as pool:
        owned = {n: writer for writer, mine in enumerate(pool.map(write, range(6))) for n in mine}
    assert sorted(owned) == list(range(6 * each))
    assert all(place().read(f"timeline/{n:04d}") == f"{owned[n]}".encode() for n in owned)


def test_what_was_created_is_read_everywhere(place: Place) -> None:
    """Bytes come back whole through another handle: none, some, and more than a part's 5 MiB."""
    for path, data in (("empty", b""), ("a/b/c", b"some"), ("large", b"0123456789" * 600_000)):
        place().create(path, data)
        assert place().read(path) == data


def test_a_second_create_fails_and_changes_nothing(place: Place) -> None:
    """The loser is told, with the full URI, and the winner's bytes stay."""
    storage = place()
    storage.create("t/0", b"first")
    with pytest.raises(AlreadyExists) as caught:
        storage.create("t/0", b"second")
    assert f"{storage.uri}/t/0" in str(caught.value)
    assert storage.read("t/0") == b"first"


def test_an_object_waits_for_what_it_names(place: Place) -> None:
    """It is not visible before; if that fails, it is not created, and its name is free."""

    def failing() -> None:
        raise StorageFull("no space")

    with pytest.raises(StorageFull):
        place().create("a/b", b"some", ready=failing)
    assert list(place().list("")) == []
    seen: list[int] = []
    place().create("a/b", b"some", ready=lambda: seen.append(len(list(place().list("")))))
    assert (seen, place().read("a/b")) == ([0], b"some")


def test_what_is_not_there_is_not_found(place: Place) -> None:
    """A missing object, in a missing folder too, is NotFound with the full URI."""
    storage = place()
    storage.create("t/0", b"")
    for path in ("t/1", "u/1", "t"):
        with pytest.raises(NotFound) as caught:
            storage.read(path)
        assert f"{storage.uri}/{path}" in str(caught.value)


def test_replace_creates_and_overwrites(place: Place) -> None:
    """A hint is whatever was written last."""
    storage = place()
    for data in (b"1", b"two", b""):
        storage.replace("hints/_last", data)
        assert place().read("hints/_last") == data


def test_delete_is_idempotent(place: Place) -> None:
    """Deleting twice, or in a folder that never was, is no error; the name is free again."""
    storage = place()
    storage.create("t/0", b"first")
    for path in ("t/0", "t/0", "u/v/w"):
        storage.delete(path)
    with pytest.raises(NotFound):
        storage.read("t/0")
    storage.create("t/0", b"again")
    assert storage.read("t/0") == b"again"


def test_pruning_keeps_what_is_there(place: Place, tmp_path: Path) -> None:
    """Empty folders and temporaries of killed writers go; objects and foreign files stay."""
    storage = place()
    for path in ("a/b/c/1", "a/b/d/2", "e/3"):
        storage.create(path, b"x")
    storage.delete("a/b/c/1")
    for local in tmp_path.rglob("c"):
        (local / ".1.0123abcd.tmp").write_bytes(b"half")
    storage.prune("a")
    storage.prune("absent")
    assert [entry.path for entry in storage.list("")] == ["a/b/d/2", "e/3"]
    assert not [*tmp_path.rglob("c")]
    storage.delete("a/b/d/2")
    storage.prune("a")
    assert not [*tmp_path.rglob("a")]
    storage.create("a/b/d/2", b"again")
    assert storage.read("a/b/d/2") == b"again"


def test_lists_are_in_order_of_the_whole_path(place: Place) -> None:
    """Entries ascend by path, not by folder, with sizes and relative paths."""
    storage = place()
    for size, path in enumerate(reversed(NAMES)):
        storage.create(path, b"x" * size)
    storage.create("tt/no", b"")
    entries = list(place().list("t"))
    assert [entry.path for entry in entries] == NAMES
    assert [entry.size for entry in entries] == list(reversed(range(len(NAMES))))
    assert [entry.path for entry in storage.list("t/")] == NAMES
    assert [entry.path for entry in storage.list("")] == [*NAMES, "tt/no"]


def test_lists_begin_after_any_path(place: Place) -> None:
    """``after`` may name an object, something between two, a folder, or lie outside."""
    storage = place()
    for path in NAMES:
        storage.create(path, b"")
    for after in (*NAMES, "t", "t/", "t/a-1", "t/a-1/", "t/aa", "t/a-1/zz", "s", "u"):
        found = [entry.path for entry in storage.list("t", after=after)]
        assert found == [path for path in NAMES if path > after], after


def test_a_folder_that_never_was_lists_nothing(place: Place) -> None:
    """An empty place is empty, not an error."""
    assert list(place().list("timeline")) == []


def test_folders_are_named_one_level_deep(place: Place) -> None:
    """Each once, in order, whatever is below; objects are none, nor what begins with the name."""
    storage = place()
    assert storage.folders("") == storage.folders("never/was") == ()
    for path in ("b/c/d", "b/e", "a/x/y", "a/x/z", "bc/f", "loose", "b.d/g"):
        storage.create(path, b"")
    assert storage.folders("") == ("a", "b", "b.d", "bc")
    assert storage.folders("b") == storage.folders("b/") == ("c",)
    assert storage.folders("a/x") == ()
    with pytest.raises(InvalidName):
        storage.folders("../other")


def test_modified_times_are_near_now_and_ordered(place: Place) -> None:
    """Modification times are microseconds since the epoch, of this century."""
    storage = place()
    storage.create("t/0", b"")
    (entry,) = storage.list("t")
    assert 1_600_000_000_000_000 < entry.modified < 7_000_000_000_000_000


@pytest.mark.parametrize("path", ["", "/", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a\0b"])
def test_paths_that_leave_the_table_are_refused(place: Place, path: str) -> None:
    """No call reaches anything outside the root; the bad path is shown."""
    storage = place()
    calls: list[Callable[[], object]] = [
        lambda: storage.read(path),
        lambda: storage.create(path, b""),
        lambda: storage.replace(path, b""),
        lambda: storage.delete(path),
    ]
    for call in calls:
        with pytest.raises(InvalidName) as caught:
            call()
        assert repr(path) in str(caught.value)


def test_opening_writes_nothing(tmp_path: Path) -> None:
    """Looking at a place where no table is leaves no folder behind."""
    storage = open_storage(str(tmp_path / "none"))
    with pytest.raises(NotFound):
        storage.read("_segtable/timeline/0")
    assert list(storage.list("_segtable")) == []
    storage.delete("x")
    assert list(tmp_path.iterdir()) == []


NO_PLACES = """
    hdfs://host/t  s3://  s3:///t  s3:/bucket/t  s3://bucket/t#1  s3://bucket/t?x=1  s3://[bucket
    s3://bucket/a/../b  file://host/t  file://  memory://  az://container/t
"""


@pytest.mark.parametrize("uri", ["", "a\0b", *NO_PLACES.split()])
def test_a_place_that_is_none_is_refused(uri: str) -> None:
    """A bad URI is shown as given, with what would be right."""
    with pytest.raises(InvalidName) as caught:
        open_storage(uri)
    assert repr(uri)[1:-1] in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "way_out"),
    [
        ("hdfs://host/t", r"HDFS holds no tables.*object store.*engine spark"),
        ("viewfs://cluster/t", "HDFS holds no tables"),
        ("wasbs://c@account.blob.core.windows.net/t", "write abfss://"),
    ],
)
def test_a_store_that_holds_no_tables_is_refused_with_a_way_out(uri: str, way_out: str) -> None:
    """HDFS and retired connectors are refused by name, wherever a table's URI is given."""
    with pytest.raises(InvalidName, match=way_out):
        open_storage(uri)
    with pytest.raises(InvalidName, match=way_out):
        check_uri(uri)


def test_an_unknown_option_is_named() -> None:
    """A misspelt storage option is refused before anything is sent."""
    with pytest.raises(InvalidName, match="acces_key_id"):
        open_storage("s3://bucket/t", {"acces_key_id": "x"})


@pytest.mark.parametrize("name", ["plain", "with space", "with%20percent", "ünïcode"])
@pytest.mark.parametrize("kind", ["path", "file", "s3"])
def test_log_and_data_files_meet(
    kind: str, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """One URI is one place, whether the log or the data files are opened from it."""
    options: dict[str, str] = {}
    uri = f"{tmp_path}/{name}" if kind == "path" else f"file://{tmp_path}/{name}"
    if kind == "s3":
        server: LoopbackS3 = request.getfixturevalue("s3")
        uri, options = server.uri(name), server.storage_options
    open_storage(uri, options).create("data/x", b"here")
    with open_files(uri, options).open("data/x") as source:
        assert source.read_at(0, source.size) == b"here"


_paths = st.sampled_from(["a", "a-b", "a/b", "a/b-c", "a/b/c", "a/c", "b", "b.x/y", "b/x"])


def test_turns_are_taken_one_after_another(place: Place) -> None:
    """A turn ends, may be nested in vain, and needs no folder: it is a hint that never fails."""
    storage = place()
    for _ in range(2):
        with storage.turn("t", wait_s=20), place().turn("t", wait_s=0.01):
            storage.replace("t/a", b"1")
    assert storage.read("t/a") == b"1"


_operations = st.lists(
    st.tuples(st.sampled_from(["create", "replace", "delete", "read", "list"]), _paths, _paths),
    max_size=25,
)


def _outcome(storage: Storage, operation: tuple[str, str, str]) -> object:
    kind, path, other = operation
    try:
        match kind:
            case "create":
                storage.create(path, other.encode())
            case "replace":
                storage.replace(path, other.encode())
            case "delete":
                storage.delete(path)
            case "read":
                return storage.read(path)
            case _:
                return [(e.path, e.size) for e in storage.list(path, after=other)]
    except (AlreadyExists, NotFound) as error:
        return type(error)
    return None


@given(operations=_operations)
def test_memory_and_local_agree(
    operations: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any history has the same outcomes in memory as on disk, but that no file is a folder too."""
    memory = MemoryStorage()
    local = LocalStorage(tmp_path_factory.mktemp("agree"), sync=lambda _: None)
    for operation in operations:
        try:
            found = _outcome(local, operation)
        except StorageError:
            return  # a file stands where a folder is needed, which only a file system minds
        assert found == _outcome(memory, operation)
