"""Metadata storage adapters, and opening one from a URI.

``path`` or ``file://`` is a local folder; ``s3://``, ``gs://``, ``az://`` (``abfs[s]://``) a cloud
store, with options as obstore names them; ``memory://name`` one store a process, for tests.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    InvalidName,
    OutcomeUnknown,
    UnsafeStorage,
)
from airflow_provider_segtable.ports.clock import Chance
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage.local import LocalStorage
from airflow_provider_segtable.storage.memory import MemoryStorage

__all__ = ["LocalStorage", "MemoryStorage", "open_storage", "probe"]

SCHEMES = ("file", "s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "memory")
_CLIENT_FLAGS = frozenset({"allow_http", "allow_invalid_certificates"})
_MEMORY: dict[str, MemoryStorage] = {}


def open_storage(uri: str, storage_options: Mapping[str, str] | None = None) -> Storage:
    """Open the metadata storage of the table at ``uri``.

    Args:
        uri: see the module.
        storage_options: keys of the cloud store, e.g. ``aws_access_key_id``, ``endpoint``.

    Raises:
        InvalidName: if the URI's scheme is none of those above.
    """
    parts = urlsplit(uri)
    if not uri.strip():
        raise InvalidName("the table's URI is empty: give a path or s3://bucket/folder")
    if parts.scheme in ("", "file"):
        path = unquote(parts.path) if parts.scheme else uri
        return LocalStorage(Path(path).expanduser().absolute())
    if parts.scheme == "memory":
        return _MEMORY.setdefault(uri, MemoryStorage(uri))
    if parts.scheme in SCHEMES:
        return _cloud(uri.replace("s3a://", "s3://", 1), dict(storage_options or {}))
    raise InvalidName(
        f"{uri!r} has scheme {parts.scheme!r}: use a path or one of "
        f"{', '.join(f'{scheme}://' for scheme in SCHEMES)}"
    )


def _cloud(uri: str, options: dict[str, str]) -> Storage:
    from obstore.exceptions import BaseError  # noqa: PLC0415  # heavy; only cloud tables need it
    from obstore.store import from_url  # noqa: PLC0415

    from airflow_provider_segtable.storage.objects import ObjectStorage  # noqa: PLC0415

    flags = {k: v.lower() in ("1", "true") for k, v in options.items() if k in _CLIENT_FLAGS}
    config: Any = {k: v for k, v in options.items() if k not in _CLIENT_FLAGS}
    client: Any = {**flags, "timeout": "30s"}
    try:
        return ObjectStorage(uri, from_url(uri, config=config, client_options=client))
    except (BaseError, ValueError) as error:
        raise InvalidName(f"{uri}: {error}; check the URI and the storage options") from error


def probe(storage: Storage, chance: Chance) -> None:
    """Check that the store keeps put-if-absent, by creating one object twice.

    Raises:
        UnsafeStorage: if the second create succeeds, so commits would be lost.
    """
    path = f"_segtable/probe-{chance.token()}"
    storage.create(path, b"first")
    try:
        storage.create(path, b"second")
    except (AlreadyExists, OutcomeUnknown):
        return
    else:
        raise UnsafeStorage(
            f"{storage.uri} let two writers create {path}: it ignores conditional puts, so "
            "concurrent commits would be lost on it; use another store or endpoint"
        )
    finally:
        storage.delete(path)
