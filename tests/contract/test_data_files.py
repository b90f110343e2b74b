"""The contract of ``ports.files``, the same for every adapter."""

import errno
import os
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import boto3
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CorruptTable,
    CredentialsExpired,
    InvalidName,
    NotFound,
    ReadOnlyStorage,
    StorageError,
    StorageFull,
)
from airflow_provider_segtable.data.jobs.concat import Grain
from airflow_provider_segtable.data.jobs.minor_job import run_minor
from airflow_provider_segtable.data.open_files import (
    ArrowFiles,
    LayeredFiles,
    LocalFiles,
    MemoryFiles,
    NestedFiles,
    open_files,
    open_known,
    open_whole,
)
from airflow_provider_segtable.data.parquet.descriptor import read_descriptor
from airflow_provider_segtable.disk import accessing
from airflow_provider_segtable.ports.files import DataFiles, RangeReader
from airflow_provider_segtable.storage import open_storage
from tests.unit.data.making import MOVE, REWRITE, content, job, rich, written

PATH = "data/20130101T000000_20130201T000000/00001-0123456789abcdef.parquet"
BUCKET = "segtable-contract"


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """Return the storage options of a moto server that has a bucket."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_endpoint": f"http://{host}:{port}",
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    client = boto3.client(
        "s3",
        endpoint_url=options["aws_endpoint"],
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=BUCKET)
    client.close()
    yield options
    server.stop()


@pytest.fixture
def threads() -> Iterator[Executor]:
    """Return threads for commits in the background; two, so that one may wait."""
    with ThreadPoolExecutor(2) as made:
        yield made


@pytest.fixture(params=["local", "arrow", "memory", "s3", "s3 by ranges"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> DataFiles:
    """Return an empty store."""
    match request.param:
        case "local":
            return LocalFiles(tmp_path / "not" / "there" / "yet")
        case "arrow":  # object stores have no directories, so this one gets them beforehand
            for folder in (Path(PATH).parent, "a", "b"):
                (tmp_path / folder).mkdir(parents=True)
            return ArrowFiles(fs.LocalFileSystem(), str(tmp_path))
        case "memory":
            return MemoryFiles()
        case "s3":
            return open_files(_place(request), request.getfixturevalue("s3"))
    return by_ranges(request)


def _place(request: pytest.FixtureRequest) -> str:
    """Return a place of the test's own."""
    name = request.node.name.replace("[", "-").replace(" ", "-").strip("]")
    return f"s3://{BUCKET}/{name}"


def by_ranges(request: pytest.FixtureRequest) -> DataFiles:
    """Return files in S3 that are read through the table's storage."""
    uri, options = _place(request), request.getfixturevalue("s3")
    storage = open_storage(uri, options)
    assert isinstance(storage, RangeReader)
    return open_files(uri, options, reader=storage)


def write(files: DataFiles, path: str, data: bytes) -> None:
    with files.create(path) as sink:
        sink.write(data)
        sink.commit()


def read(files: DataFiles, path: str) -> bytes:
    with files.open(path) as source:
        assert source.path == path
        return source.read_at(0, source.size)


def test_what_is_committed_can_be_read(files: DataFiles) -> None:
    """After commit the whole file is there, and readable by ranges."""
    with files.create(PATH) as sink:
        sink.write(b"hello ")
        sink.write(b"world")
        assert (sink.path, sink.position) == (PATH, 11)
        sink.commit()
    with files.open(PATH) as source:
        assert source.size == 11
        assert source.read_at(6, 5) == b"world"
        assert source.read_at(3, 0) == b""
    assert read(files, PATH) == b"hello world"


def test_a_commit_that_was_begun_ends(files: DataFiles, threads: Executor) -> None:
    """The file is there once it is waited for, however often, and no other before."""
    with files.create(PATH) as sink:
        sink.write(b"hello")
        ready = sink.begin_commit(threads)
    for wait in (ready, ready):
        if wait is not None:
            wait()
    assert read(files, PATH) == b"hello"


def test_nothing_is_visible_without_commit(files: DataFiles) -> None:
    """A sink that is left without commit leaves nothing, and the name is free again."""
    with files.create(PATH) as sink:
        sink.write(b"half")
    with pytest.raises(NotFound, match=PATH), files.open(PATH):
        pass
    write(files, PATH, b"whole")
    assert read(files, PATH) == b"whole"


def test_nothing_is_visible_after_an_error(files: DataFiles) -> None:
    """A sink that is left by an exception leaves nothing."""

    def fails() -> None:
        with files.create(PATH) as sink:
            sink.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with pytest.raises(NotFound), files.open(PATH):
        pass


def test_nothing_is_overwritten(files: DataFiles) -> None:
    """Creating a file that is there raises AlreadyExists and leaves it as it was."""
    write(files, PATH, b"first")
    with pytest.raises(AlreadyExists, match=PATH):
        write(files, PATH, b"second")
    assert read(files, PATH) == b"first"


def test_a_missing_file_is_not_found(files: DataFiles) -> None:
    """Opening what is not there raises NotFound with the path."""
    with pytest.raises(NotFound, match=PATH), files.open(PATH):
        pass


def test_a_file_of_a_known_size_is_read_by_ranges(files: DataFiles) -> None:
    """Also one that is read as a whole, and one below a folder."""
    write(files, PATH, b"hello world")
    folder, _, name = PATH.rpartition("/")
    for opened in (
        open_known(files, PATH, 11),
        open_whole(files, PATH),
        open_known(NestedFiles(files, folder), name, 11),
        open_whole(LayeredFiles(files), PATH),
    ):
        with opened as source:
            assert source.size == 11
            assert source.read_at(6, 5) == b"world"
            assert source.read_at(3, 0) == b""
            assert source.read_at(0, 11) == b"hello world"


@pytest.mark.parametrize("size", [5, 12, 900])
def test_a_wrong_size_is_an_error_of_the_table(request: pytest.FixtureRequest, size: int) -> None:
    """A file that is shorter or longer than the log has it is named, with both sizes."""
    files = by_ranges(request)
    write(files, PATH, b"hello world")
    with (
        pytest.raises(CorruptTable, match=f"{PATH} has 11 bytes, the log has {size}"),
        open_known(files, PATH, size) as source,
    ):
        source.read_at(size - 2, 2)


def test_a_missing_file_of_a_known_size_is_not_found(files: DataFiles) -> None:
    """When it is opened, or when it is read."""
    for known in (open_known, lambda files, path, _: open_whole(files, path)):
        with pytest.raises(NotFound, match=PATH), known(files, PATH, 11) as source:
            source.read_at(0, 11)


def test_delete_is_idempotent(files: DataFiles) -> None:
    """Deleting twice is no error, and the file is gone."""
    write(files, PATH, b"x")
    files.delete(PATH)
    files.delete(PATH)
    with pytest.raises(NotFound), files.open(PATH):
        pass


@pytest.mark.parametrize(("offset", "length"), [(0, 3 << 20), (1, 100), (12345, 2 << 20), (5, 0)])
def test_ranges_are_copied(files: DataFiles, offset: int, length: int) -> None:
    """``copy_from`` appends exactly the range, between what is written before and after."""
    data = bytes(range(256)) * (12 << 10)
    write(files, "a/source", data)
    with files.create("b/sink") as sink, files.open("a/source") as source:
        sink.write(b"before")
        sink.copy_from(source, offset, length)
        assert sink.position == 6 + length
        sink.write(b"after")
        sink.commit()
    assert read(files, "b/sink") == b"before" + data[offset : offset + length] + b"after"


def test_copies_between_stores(files: DataFiles) -> None:
    """A source of any other store can be copied from."""
    other = MemoryFiles()
    write(other, "a", b"0123456789")
    with files.create("b/sink") as sink, other.open("a") as source:
        sink.copy_from(source, 2, 5)
        sink.commit()
    assert read(files, "b/sink") == b"23456"


def test_reading_past_the_end_is_an_error(files: DataFiles) -> None:
    """A range that the file does not have is a truncated file, never fewer bytes."""
    write(files, PATH, b"0123")
    with files.open(PATH) as source, pytest.raises(CorruptTable, match="truncated"):
        source.read_at(2, 3)
    with (
        files.create("b/sink") as sink,
        files.open(PATH) as source,
        pytest.raises(CorruptTable, match="truncated"),
    ):
        sink.copy_from(source, 2, 3)


@pytest.mark.parametrize("grain", [MOVE, REWRITE])
def test_segments_are_written_and_compacted(files: DataFiles, grain: Grain) -> None:
    """Ingest and the minor kernel work on every store."""
    tables = [rich(50, seed) for seed in range(3)]
    segments = written(files, tables)
    results = run_minor(job(segments, grain=grain), files)
    assert content(files, results).equals(pa.concat_tables(tables))
    assert read_descriptor(files, results[0].path) == results[0]


def test_local_files_leave_no_temporaries(tmp_path: Path) -> None:
    """Committed or not, a sink's temporary file is gone, and readers never see a half file."""
    files = LocalFiles(tmp_path)
    with files.create(PATH) as sink:
        sink.write(b"x")
        (temporary,) = (tmp_path / PATH).parent.iterdir()
        assert temporary.name.startswith(".")
        assert temporary.suffix == ".tmp"
    assert not list((tmp_path / PATH).parent.iterdir())
    write(files, PATH, b"x")
    assert [entry.name for entry in (tmp_path / PATH).parent.iterdir()] == [Path(PATH).name]


def test_two_sinks_of_one_name_meet_at_commit(tmp_path: Path) -> None:
    """If two write the same name at once, the first commit wins and the second is told."""
    files = LocalFiles(tmp_path)
    with files.create(PATH) as one, files.create(PATH) as other:
        one.write(b"one")
        other.write(b"other")
        one.commit()
        with pytest.raises(AlreadyExists):
            other.commit()
    assert read(files, PATH) == b"one"


def test_commit_is_durable_before_it_is_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, then name, then directory: each new directory's parent is synced as well."""
    calls: list[str] = []
    link = os.link

    def place(fd: int) -> str:
        return os.path.relpath(Path(f"/proc/self/fd/{fd}").readlink(), tmp_path)

    def traced_fsync(fd: int) -> None:
        calls.append(f"fsync {place(fd)}")
        os.fsync(fd)

    def traced_link(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        calls.append(f"link {place(dst_dir_fd)}/{target}")
        link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "link", traced_link)
    with LocalFiles(tmp_path, sync=traced_fsync).create("data/chunk/file") as sink:
        (temporary,) = (tmp_path / "data" / "chunk").iterdir()
        sink.commit()
    assert calls == [
        "fsync ..",
        "fsync .",
        "fsync data",
        f"fsync data/chunk/{temporary.name}",
        "link data/chunk/file",
        "fsync data/chunk",
    ]


def test_a_local_commit_goes_on_after_its_sink(tmp_path: Path, threads: Executor) -> None:
    """The file is visible when it is durable, and whoever waits for it learns of an error."""
    begun, may_sync, broken = threading.Event(), threading.Event(), threading.Event()

    def sync(fd: int) -> None:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            begun.set()
            assert may_sync.wait(60)
            if broken.is_set():
                raise OSError(errno.EIO, "broken")

    files = LocalFiles(tmp_path, sync=sync)
    with files.create("a/good") as sink:
        ready = sink.begin_commit(threads)
    assert begun.wait(60)
    with pytest.raises(NotFound), files.open("a/good"):
        pass
    may_sync.set()
    assert ready is not None
    ready()
    broken.set()
    with files.create("a/bad") as sink:
        ready = sink.begin_commit(threads)
    assert ready is not None
    with pytest.raises(StorageError, match="a/bad"):
        ready()
    assert [each.name for each in (tmp_path / "a").iterdir()] == ["good"]


def test_a_kernel_that_cannot_copy_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file system has no ``copy_file_range``, bytes are read and written."""

    def cannot(*_: object) -> int:
        raise OSError(errno.EXDEV, "cross-device")

    monkeypatch.setattr(os, "copy_file_range", cannot)
    files = LocalFiles(tmp_path)
    write(files, "a/source", b"0123456789")
    with files.create("b/sink") as sink, files.open("a/source") as source:
        sink.copy_from(source, 2, 5)
        sink.commit()
    assert read(files, "b/sink") == b"23456"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, StorageFull),
        (errno.EDQUOT, StorageFull),
        (errno.EMFILE, StorageFull),
        (errno.EROFS, ReadOnlyStorage),
        (errno.EACCES, ReadOnlyStorage),
        (errno.ENOENT, NotFound),
        (errno.EEXIST, AlreadyExists),
        (errno.EIO, StorageError),
    ],
)
def test_system_errors_are_told_apart(code: int, kind: type[StorageError]) -> None:
    """Each errno becomes the error of the tree that says what to do."""
    with pytest.raises(StorageError, match=PATH) as caught, accessing(PATH):
        raise OSError(code, os.strerror(code))
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("AWS Error ACCESS_DENIED during HeadObject", ReadOnlyStorage, "check permissions"),
        ("ExpiredToken: The provided token has expired", CredentialsExpired, "renew them"),
        ("Signature not valid in the specified time frame", CredentialsExpired, "renew them"),
        ("HTTP status 400 during HeadObject: No response body", StorageError, "have expired"),
    ],
)
def test_answers_of_object_stores_are_told_apart(
    text: str, kind: type[StorageError], says: str
) -> None:
    """An error without a number is an object store's: its text decides, and no disk is blamed."""
    with pytest.raises(StorageError, match=says) as caught, accessing(PATH):
        raise OSError(text)
    assert type(caught.value) is kind
    assert "disk" not in str(caught.value)


class RefusingFileSystem:
    """A file system whose client reports a refused request as a bad value, as Google's does."""

    def open_input_file(self, path: str) -> object:
        """Refuse it."""
        raise pa.ArrowInvalid(f"{path}: <Code>ExpiredToken</Code>")


def test_a_refused_request_is_no_bad_value() -> None:
    """No error of pyarrow leaves the adapter."""
    files = ArrowFiles(RefusingFileSystem(), "bucket/table")
    with pytest.raises(CredentialsExpired, match=PATH), files.open(PATH):
        pass


def test_a_full_disk_is_storage_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that finds no space is StorageFull, and nothing stays."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space")

    files = LocalFiles(tmp_path)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageFull, match=PATH):
        write(files, PATH, b"x")
    assert not [entry for entry in tmp_path.rglob("*") if entry.is_file()]


def test_an_unknown_bucket_is_not_found(s3: dict[str, str]) -> None:
    """Writing to a bucket that is not there is an error of the tree with the path."""
    files = open_files("s3://no-such-bucket/x", s3)
    with pytest.raises(StorageError, match=PATH):
        write(files, PATH, b"x")


def test_uris_choose_the_adapter(tmp_path: Path) -> None:
    """Paths and file URIs are one place; memory is shared by name; others are refused."""
    write(open_files(str(tmp_path)), PATH, b"x")
    assert read(open_files(f"file://{tmp_path}"), PATH) == b"x"
    write(open_files("memory://one"), PATH, b"1")
    assert read(open_files("memory://one"), PATH) == b"1"
    with pytest.raises(NotFound), open_files("memory://two").open(PATH):
        pass
    with pytest.raises(InvalidName, match="ftp"):
        open_files("ftp://host/x")
    with pytest.raises(InvalidName, match="account"):
        open_files("az://container/x")


def test_azure_and_google_open_without_a_request() -> None:
    """Options named as obstore names them open the other object stores, too."""
    azure = {"azure_storage_account_name": "acc", "azure_storage_account_key": "a2V5"}
    assert isinstance(open_files("az://container/table", azure), ArrowFiles)
    private = {"endpoint": "https://acc.privatelink.blob.core.windows.net"}
    assert isinstance(open_files("az://container/table", azure | private), ArrowFiles)
    uri = "abfss://container@acc.dfs.core.windows.net/table"
    assert isinstance(open_files(uri, {"account_key": "a2V5"}), ArrowFiles)
    assert isinstance(open_files("gs://bucket/table", {"skip_signature": "true"}), ArrowFiles)
