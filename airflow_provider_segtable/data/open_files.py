"""Open a table's data files from its URI and storage options alone, in any process.

Files on object stores, through ``pyarrow.fs``:

1. Closing an object's stream is the commit: it makes the whole object visible.
2. pyarrow cannot abort an upload: an uncommitted sink is closed and its object deleted. If the
   process dies before that, it leaves an object that the log never names, or an unfinished
   multipart upload: both are garbage.
3. Whether the name is taken is asked while the first bytes are collected, and answered before any
   is sent. The check is not a lock, and none is needed: names include a random token. So a small
   file is one request for the check and one for its bytes, and one left uncommitted sends nothing.
   Of a large one, pyarrow uploads several parts at a time in the background.
4. Options have obstore's names, so that one set serves the log, the data files and input files
   (``object_store``). Options that only obstore supports (time-outs, retries) are ignored here.
   What only obstore takes from the environment (``AWS_ENDPOINT_URL``) is taken from it here.
5. pyarrow sends a request for the size of each file that it opens. A process that has the table's
   storage reads through it (``RangeReader``): a file whose size the log records (``open_known``)
   sends none, and each answer repeats the size, so a wrong one is an error at the first read. A
   file that is read as a whole (``open_whole``) is one request. Tasks have pyarrow alone.

Files in memory, in layers and in folders:

6. ``memory://name`` is one store per process, shared by all its users; for tests.
7. ``LayeredFiles`` only reads the files below it, and keeps new files in memory. The files in
   memory are plain bytes by path, so that a task in another process may have them, too.
8. ``NestedFiles`` is a folder of other data files, for a table that lies inside another one.
"""

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CorruptTable,
    InvalidName,
    NotFound,
)
from airflow_provider_segtable.core.paths import inside
from airflow_provider_segtable.core.schemes import SCHEMES, Memory, ObjectStore, store_of
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.data.google_account import service_account
from airflow_provider_segtable.data.local_files import LocalFiles, copy_in_pieces, truncated
from airflow_provider_segtable.disk import accessing
from airflow_provider_segtable.ports.files import DataFiles, RangeReader, Ready, Sink, Source

if TYPE_CHECKING:
    from pyarrow import fs

# Files on object stores
COLLECTED = 4 << 20
"""The bytes of an object up to which none is sent before its commit."""
PART = 8 << 20
"""The most bytes of one request, so that large ranges are read by several at once."""
PARTS_AT_ONCE = 8
MOST_WASTE_PERCENT = 10
"""The most bytes between joined ranges, by their bytes: a request costs less than many bytes."""


class _Input(Protocol):
    def size(self) -> int: ...

    def read_at(self, nbytes: int, offset: int) -> bytes: ...


class _Output(Protocol):
    def write(self, data: bytes) -> int: ...

    def close(self) -> None: ...


@contextmanager
def _accessing(path: str) -> Iterator[None]:
    """Translate an object store's error; Google's client reports a bad request as a bad value."""
    from pyarrow import ArrowInvalid

    with accessing(path):
        try:
            yield
        except ArrowInvalid as error:
            raise OSError(str(error)) from error


Range: TypeAlias = tuple[int, int]
"""The start and the end of some bytes of a file."""


def joined_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Return the requests for some ranges: neighbours are one, unless the gap costs too much."""
    found: list[Range] = []
    useful = 0
    for start, end in sorted(ranges):
        begin, until = found[-1] if found else (start, start)
        most = (useful + end - start) * (100 + MOST_WASTE_PERCENT) // 100
        if found and (start <= until or end - begin <= min(most, PART)):
            useful += max(0, end - max(start, until))
            found[-1] = (begin, max(end, until))
        else:
            useful = end - start
            found.append((start, end))
    return found


class ArrowSource:
    """An open object."""

    def __init__(self, path: str, file: _Input, size: int) -> None:
        """Read from an Arrow random access file of ``size`` bytes."""
        self.path = path
        self.size = size
        self._file = file
        self._loaded: list[tuple[int, bytes]] = []

    def load(self, ranges: Iterable[Range]) -> None:
        """Load ranges that are read soon, in parallel; those loaded before are forgotten."""
        wanted = joined_ranges(ranges)
        pieces = [
            (at, min(at + PART, end)) for start, end in wanted for at in range(start, end, PART)
        ]
        self._loaded = []
        with ThreadPoolExecutor(PARTS_AT_ONCE, "segtable-load") as pool:
            some = [*pool.map(lambda piece: self._read(piece[0], piece[1] - piece[0]), pieces)]
        found = dict(zip((start for start, _ in pieces), some, strict=True))
        for start, end in wanted:
            parts = [found[at] for at in range(start, end, PART)]
            self._loaded.append((start, parts[0] if len(parts) == 1 else b"".join(parts)))

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``."""
        for start, data in self._loaded:
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
        return self._read(offset, length)

    def _read(self, offset: int, length: int) -> bytes:
        with _accessing(self.path):
            data = self._file.read_at(length, offset) if length else b""
        if len(data) != length:
            raise truncated(self.path, offset + len(data), length - len(data))
        return data


def wrong_size(path: str, size: int, logged: int) -> CorruptTable:
    """Return the error of a file that has not the size that the log records."""
    return CorruptTable(f"{path} has {size} bytes, the log has {logged}: restore the file")


class _KnownFile:
    """An object of a known size, which is read by ranges."""

    def __init__(self, reader: RangeReader, path: str, size: int) -> None:
        self._reader = reader
        self._path = path
        self._size = size

    def size(self) -> int:
        return self._size

    def read_at(self, nbytes: int, offset: int) -> bytes:
        data, size = self._reader.read_range(self._path, offset, nbytes)
        if size != self._size:
            raise wrong_size(self._path, size, self._size)
        return data


class ArrowSink:
    """An object being uploaded; its first bytes are collected in memory."""

    def __init__(self, path: str, start: Callable[[], _Output]) -> None:
        """Write to the Arrow output stream that ``start`` returns, once it is needed."""
        self.path = path
        self.position = 0
        self.committed = False
        self._start = start
        self._held: bytearray | None = bytearray()
        self._stream: _Output | None = None

    def write(self, data: bytes) -> None:
        """Append bytes."""
        if self._held is not None and self.position + len(data) <= COLLECTED:
            self._held += data
        else:
            with _accessing(self.path):
                self._started().write(data)
        self.position += len(data)

    def _started(self) -> _Output:
        """Return the stream, which has the bytes collected so far."""
        if self._stream is None:
            self._stream = self._start()
        if self._held is not None:
            held, self._held = bytes(self._held), None
            self._stream.write(held)
        return self._stream

    def copy_from(self, source: Source, offset: int, length: int) -> None:
        """Append a range of another file, streamed in bounded pieces."""
        copy_in_pieces(source, self, offset, length)

    def commit(self) -> None:
        """Finish the upload; the object is visible afterwards."""
        with _accessing(self.path):
            self._started().close()
        self.committed = True

    def begin_commit(self, threads: Executor) -> Ready:
        """Finish the upload in the background."""
        done = threads.submit(self.commit)
        self.committed = True

        def wait() -> None:
            done.result()

        return wait

    def discard(self) -> bool:
        """Close the stream of an uncommitted object; return whether anything was sent."""
        if self._stream is None:
            return False
        self._stream.close()
        return True


class ArrowFiles:
    """``ports.files.DataFiles`` on any ``pyarrow.fs`` file system."""

    remote = True

    def __init__(
        self, filesystem: "fs.FileSystem", root: str, reader: RangeReader | None = None
    ) -> None:
        """Keep data files below ``root`` (``bucket/prefix``); rule 5 has the ``reader``."""
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._reader = reader

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open an object for reading."""
        with _accessing(path):
            target = self._full(path)
            file = self._filesystem.open_input_file(target)
            source = ArrowSource(path, file, _size(self._filesystem, target, file))
        with file:
            yield source

    def open_known(self, path: str, size: int) -> AbstractContextManager[Source]:
        """Open an object of a known size: nothing is sent before its bytes are read."""
        if self._reader is None:
            return self.open(path)
        inside(path, self._root)
        return nullcontext(ArrowSource(path, _KnownFile(self._reader, path, size), size))

    def open_whole(self, path: str) -> AbstractContextManager[Source]:
        """Open an object that is read as a whole, by one request."""
        if self._reader is None:
            return self.open(path)
        data, _ = self._reader.read_range(inside(path, self._root), 0, None)
        return nullcontext(MemorySource(path, data))

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new object."""
        target = self._full(path)
        pool = ThreadPoolExecutor(1, "segtable-check")
        taken = pool.submit(self._is_there, target)
        pool.shutdown(wait=False)

        def start() -> _Output:
            if taken.result():
                raise FileExistsError(errno.EEXIST, "exists", target)
            stream: _Output = self._filesystem.open_output_stream(target)
            return stream

        sink = ArrowSink(path, start)
        try:
            yield sink
        finally:
            if not sink.committed:
                with contextlib.suppress(OSError):  # garbage at worst, see rule 2
                    if sink.discard():
                        self._filesystem.delete_file(target)

    def _is_there(self, target: str) -> bool:
        """Return whether an object exists, by one request."""
        try:
            self._filesystem.open_input_file(target).close()
        except FileNotFoundError:
            return False
        return True

    def delete(self, path: str) -> None:
        """Delete an object; no error if it is missing."""
        with _accessing(path), contextlib.suppress(FileNotFoundError):
            self._filesystem.delete_file(self._full(path))

    def _full(self, path: str) -> str:
        return f"{self._root}/{inside(path, self._root)}"


def _size(filesystem: "fs.FileSystem", target: str, file: _Input) -> int:
    """Return an open object's size without reading it.

    For Google Cloud Storage, pyarrow's ``size`` begins to read the whole object.
    """
    if filesystem.type_name != "gcs":
        return file.size()
    size: int = filesystem.get_file_info(target).size
    return size


class OpenedLater:
    """A file of a known size that is opened at the first read.

    Parquet's reader has threads of its own, which open no file: it is opened before it is given to
    the reader (``opened``).
    """

    def __init__(self, files: DataFiles, path: str, size: int, until: ExitStack) -> None:
        """Open a file of ``files`` when it is read, and close it with ``until``."""
        self.path = path
        self.size = size
        self._files = files
        self._until = until
        self._source: Source | None = None

    def opened(self) -> Source:
        """Return the open file.

        Raises:
            NotFound: it is missing.
            CorruptTable: it has another size.
        """
        if self._source is None:
            source = self._until.enter_context(self._files.open(self.path))
            if source.size != self.size:
                raise wrong_size(self.path, source.size, self.size)
            self._source = source
        return self._source

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``; errors as of opening the file."""
        return self.opened().read_at(offset, length)


def is_remote(files: DataFiles) -> bool:
    """Return whether a request for a file costs a round trip: such adapters say so."""
    return bool(getattr(files, "remote", False))


def open_known(files: DataFiles, path: str, size: int) -> AbstractContextManager[Source]:
    """Open a file whose size the log records, without a request for it where one is a round trip.

    Raises:
        NotFound: it is missing; perhaps only when it is read.
        CorruptTable: when it is read, if it has another size.
    """
    known = getattr(files, "open_known", None)
    return files.open(path) if known is None else known(path, size)


def open_whole(files: DataFiles, path: str) -> AbstractContextManager[Source]:
    """Open a file that is read as a whole, by one request if that is possible."""
    whole = getattr(files, "open_whole", None)
    return files.open(path) if whole is None else whole(path)


def load_ranges(source: Source, ranges: Iterable[Range]) -> None:
    """Load ranges of an open file that are read soon; only sources with round trips can."""
    load = getattr(source, "load", None)
    if load is not None:
        load(ranges)


Place: TypeAlias = "tuple[fs.FileSystem, str]"
"""A file system, and a path in it."""


def object_store(uri: str, options: Mapping[str, str]) -> Place:
    """Return the file system of a URI, and the path of the object or folder there.

    Args:
        uri: of the scheme of an object store.
        options: storage options by obstore's names.

    Raises:
        InvalidName: of another scheme, or an Azure URI that names no account.
    """
    from pyarrow import fs

    parts = urlsplit(uri)
    store = store_of(parts.scheme)
    if store is None:
        raise InvalidName(f"{redacted(uri)!r} is in no object store")
    made = store.filesystem(parts, store.completed(options, os.environ))
    with service_account(made.account_file, made.account_key):
        return getattr(fs, made.kind)(**made.arguments), made.path


__all__ = ["ArrowFiles", "LocalFiles", "MemoryFiles", "SinkFile", "open_files"]


# Files in memory


class MemorySource:
    """Bytes as a data file."""

    def __init__(self, path: str, data: bytes) -> None:
        """Serve ``data``."""
        self.path = path
        self.size = len(data)
        self._data = data

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``."""
        if offset < 0 or offset + length > self.size:
            missing = offset + length - self.size
            raise truncated(self.path, self.size, missing)
        return self._data[offset : offset + length]


class MemorySink:
    """A file being collected in memory."""

    def __init__(self, path: str, store: dict[str, bytes]) -> None:
        """Publish into ``store`` on commit."""
        self.path = path
        self._store = store
        self._data = bytearray()

    @property
    def position(self) -> int:
        """Return the number of bytes written so far."""
        return len(self._data)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._data += data

    def copy_from(self, source: Source, offset: int, length: int) -> None:
        """Append a range of another file."""
        copy_in_pieces(source, self, offset, length)

    def commit(self) -> None:
        """Make the file visible."""
        if self._store.setdefault(self.path, data := bytes(self._data)) is not data:
            raise AlreadyExists(f"{self.path} exists already; data files are never overwritten")

    def begin_commit(self, threads: Executor) -> None:
        """Commit."""
        del threads
        self.commit()


class MemoryFiles:
    """``ports.files.DataFiles`` in this process's memory."""

    def __init__(self) -> None:
        """Start empty."""
        self.store: dict[str, bytes] = {}

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading."""
        if inside(path, "memory") not in self.store:
            raise NotFound(f"{path} is not there")
        yield MemorySource(path, self.store[path])

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file."""
        if inside(path, "memory") in self.store:
            raise AlreadyExists(f"{path} exists already; data files are never overwritten")
        yield MemorySink(path, self.store)

    def delete(self, path: str) -> None:
        """Delete a file; no error if it is missing."""
        self.store.pop(inside(path, "memory"), None)


class SinkFile(io.RawIOBase):
    """A ``Sink`` as a writable Python file, for pyarrow; closing it commits nothing."""

    def __init__(self, sink: Sink) -> None:
        """Append to ``sink``."""
        self._sink = sink

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._sink.position

    def write(self, data: Any) -> int:
        """Append bytes."""
        self._sink.write(data)
        return len(data)


# Opening by URI
_MEMORY: dict[str, MemoryFiles] = {}


def open_files(
    uri: str,
    storage_options: Mapping[str, str] | None = None,
    *,
    reader: RangeReader | None = None,
) -> DataFiles:
    """Open the data files of the table at ``uri``.

    Args:
        uri: a path, or a URI of a scheme in ``core.schemes``.
        storage_options: options by obstore's names, e.g. ``aws_access_key_id``, ``endpoint``,
            ``region``, ``allow_http``, ``account_name``, ``account_key``, ``skip_signature``.
        reader: reads objects of the table by ranges, if this process has its storage (rule 5).

    Raises:
        InvalidName: for any other scheme.
    """
    if "://" not in uri:
        return LocalFiles(Path(uri).absolute())
    parts = urlsplit(uri)
    match SCHEMES.get(parts.scheme):
        case None:
            known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            raise InvalidName(
                f"{redacted(uri)!r} has an unknown scheme: use a path or one of {known}"
            )
        case ObjectStore():
            return ArrowFiles(*object_store(uri, storage_options or {}), reader)
        case Memory():
            root = f"{parts.scheme}://{parts.netloc}{unquote(parts.path)}"
            return _MEMORY.setdefault(root.rstrip("/"), MemoryFiles())
        case _:
            return LocalFiles(Path(unquote(parts.netloc + parts.path)))


# Layers and folders of other data files
class LayeredFiles:
    """``ports.files.DataFiles`` whose new files end with the process."""

    def __init__(self, below: DataFiles, held: Mapping[str, bytes] | None = None) -> None:
        """Read ``below``; begin with the files ``held`` in memory."""
        self._below = below
        self._above = MemoryFiles()
        self._above.store.update(held or {})

    @property
    def remote(self) -> bool:
        """Return whether a request for a file below costs a round trip."""
        return is_remote(self._below)

    @property
    def held(self) -> Mapping[str, bytes]:
        """Return the files in memory."""
        return self._above.store

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file of either layer for reading."""
        layer = self._above if path in self._above.store else self._below
        with layer.open(path) as source:
            yield source

    def open_known(self, path: str, size: int) -> AbstractContextManager[Source]:
        """Open a file of a known size of either layer."""
        held = path in self._above.store
        return self.open(path) if held else open_known(self._below, path, size)

    def open_whole(self, path: str) -> AbstractContextManager[Source]:
        """Open a file of either layer that is read as a whole."""
        return self.open(path) if path in self._above.store else open_whole(self._below, path)

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file in memory."""
        with self._above.create(path) as sink:
            yield sink

    def delete(self, path: str) -> None:
        """Delete a file in memory; those below stay."""
        self._above.delete(path)


def held_files(files: DataFiles) -> Mapping[str, bytes]:
    """Return the data files that only this process has."""
    return files.held if isinstance(files, LayeredFiles) else {}


class NestedFiles:
    """``ports.files.DataFiles`` below a folder of other files, with their guarantees.

    A file that is read has its path below the folder: its footer has the same path. One that is
    being written names itself by its path from the outer root, in messages.
    """

    def __init__(self, outer: DataFiles, folder: str) -> None:
        """Use the files of ``outer`` below ``folder``."""
        self._outer = outer
        self._folder = inside(folder, "the table")

    @property
    def remote(self) -> bool:
        """Return whether a request costs a round trip."""
        return is_remote(self._outer)

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading."""
        with self._outer.open(self._at(path)) as source:
            yield _InnerSource(path, source)

    @contextmanager
    def open_known(self, path: str, size: int) -> Iterator[Source]:
        """Open a file of a known size."""
        with open_known(self._outer, self._at(path), size) as source:
            yield _InnerSource(path, source)

    @contextmanager
    def open_whole(self, path: str) -> Iterator[Source]:
        """Open a file that is read as a whole."""
        with open_whole(self._outer, self._at(path)) as source:
            yield _InnerSource(path, source)

    def create(self, path: str) -> AbstractContextManager[Sink]:
        """Start a new file."""
        return self._outer.create(self._at(path))

    def delete(self, path: str) -> None:
        """Delete a file; no error if it does not exist."""
        self._outer.delete(self._at(path))

    def _at(self, path: str) -> str:
        return f"{self._folder}/{inside(path, self._folder)}"


class _InnerSource:
    """An open file under its path below a folder."""

    def __init__(self, path: str, source: Source) -> None:
        """Read from ``source``."""
        self.path = path
        self.size = source.size
        self._source = source

    def load(self, ranges: Iterable[Range]) -> None:
        """Load ranges that are read soon, if that is a gain."""
        load_ranges(self._source, ranges)

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``."""
        return self._source.read_at(offset, length)
