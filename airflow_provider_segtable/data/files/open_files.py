"""Opening a table's data files from its URI and storage options alone, in any process.

1. Options have obstore's names, so that one set serves the log and the data files. Options that
   only obstore supports (time-outs, retries) are ignored here.
2. ``memory://name`` is one store per process, shared by all its users; for tests.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from pyarrow import fs

from airflow_provider_segtable.core.errors import AlreadyExists, InvalidName, NotFound
from airflow_provider_segtable.core.paths import inside
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.data.files.arrow_files import ArrowFiles
from airflow_provider_segtable.data.files.local_files import LocalFiles, copy_in_pieces, truncated
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source

__all__ = ["ArrowFiles", "JoiningFile", "LocalFiles", "MemoryFiles", "SinkFile", "open_files"]


HELD = 64 << 10
"""The most bytes that ``JoiningFile`` holds."""


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


class JoiningFile(SinkFile):
    """A ``SinkFile`` that joins small writes; whoever uses the sink itself calls ``settle`` first.

    It does not write when it is closed or collected: then the sink may be closed, too.
    """

    def __init__(self, sink: Sink) -> None:
        """Append to ``sink``."""
        super().__init__(sink)
        self._held = bytearray()

    def tell(self) -> int:
        """Return the number of bytes written, including those still held."""
        return self._sink.position + len(self._held)

    def write(self, data: Any) -> int:
        """Append bytes, now or later."""
        if len(self._held) + len(data) > HELD:
            self.settle()
        if len(data) > HELD:
            return super().write(data)
        self._held += data
        return len(data)

    def settle(self) -> None:
        """Pass on what is held."""
        if self._held:
            held, self._held = bytes(self._held), bytearray()
            self._sink.write(held)


_MEMORY: dict[str, MemoryFiles] = {}


def open_files(uri: str, storage_options: Mapping[str, str] | None = None) -> DataFiles:
    """Open the data files of the table at ``uri``.

    Args:
        uri: a path, ``file://``, ``s3://``, ``gs://``, ``az://``, ``abfs[s]://`` or ``memory://``.
        storage_options: options by obstore's names, e.g. ``aws_access_key_id``, ``endpoint``,
            ``region``, ``allow_http``, ``account_name``, ``account_key``, ``skip_signature``.

    Raises:
        InvalidName: for any other scheme.
    """
    if "://" not in uri:
        return LocalFiles(Path(uri).absolute())
    parts = urlsplit(uri)
    if parts.scheme not in _SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
        raise InvalidName(f"{redacted(uri)!r} has an unknown scheme: use a path or one of {known}")
    return _SCHEMES[parts.scheme](parts, _normalised(storage_options or {}))


def _normalised(options: Mapping[str, str]) -> dict[str, str]:
    prefixes = ("aws_", "google_", "azure_storage_", "azure_")
    named: dict[str, str] = {}
    for key, value in options.items():
        short = key.lower()
        prefix = next((prefix for prefix in prefixes if short.startswith(prefix)), "")
        named[short.removeprefix(prefix)] = str(value)
    return named


def _yes(options: Mapping[str, str], key: str) -> bool:
    return options.get(key, "").lower() in {"1", "true", "yes", "on"}


def _object_root(parts: SplitResult) -> str:
    return f"{parts.netloc}{unquote(parts.path)}".rstrip("/")


def _local(parts: SplitResult, _: Mapping[str, str]) -> DataFiles:
    return LocalFiles(Path(unquote(parts.netloc + parts.path)))


def _memory(parts: SplitResult, _: Mapping[str, str]) -> DataFiles:
    return _MEMORY.setdefault(_object_root(parts), MemoryFiles())


def _s3(parts: SplitResult, options: Mapping[str, str]) -> DataFiles:
    endpoint = options.get("endpoint", options.get("endpoint_url", ""))
    scheme, _, host = endpoint.rpartition("://")
    plain = scheme == "http" or (not scheme and _yes(options, "allow_http"))
    filesystem = fs.S3FileSystem(
        access_key=options.get("access_key_id"),
        secret_key=options.get("secret_access_key"),
        session_token=options.get("session_token", options.get("token")),
        anonymous=_yes(options, "skip_signature"),
        region=options.get("region", options.get("default_region")),
        endpoint_override=host or None,
        scheme="http" if plain else "https",
        force_virtual_addressing=_yes(options, "virtual_hosted_style_request"),
    )
    return ArrowFiles(filesystem, _object_root(parts))


def _gcs(parts: SplitResult, options: Mapping[str, str]) -> DataFiles:
    endpoint = options.get("endpoint", options.get("base_url", ""))
    scheme, _, host = endpoint.rpartition("://")
    filesystem = fs.GcsFileSystem(
        anonymous=_yes(options, "skip_signature"),
        endpoint_override=host or None,
        scheme=scheme or "https",
    )
    return ArrowFiles(filesystem, _object_root(parts))


def _azure(parts: SplitResult, options: Mapping[str, str]) -> DataFiles:
    container, _, host = parts.netloc.partition("@")
    account = host.partition(".")[0] or options.get("account_name")
    if not account:
        raise InvalidName(
            f"{parts.geturl()!r} names no account: give the storage option account_name, "
            "or write abfs://container@account.dfs.core.windows.net/path"
        )
    filesystem = fs.AzureFileSystem(
        account_name=account,
        account_key=options.get("account_key", options.get("access_key")),
        sas_token=options.get("sas_token"),
    )
    return ArrowFiles(filesystem, f"{container}{unquote(parts.path)}")


_SCHEMES: dict[str, Callable[[SplitResult, Mapping[str, str]], DataFiles]] = {
    "file": _local,
    "s3": _s3,
    "s3a": _s3,
    "gs": _gcs,
    "az": _azure,
    "abfs": _azure,
    "abfss": _azure,
    "memory": _memory,
}
