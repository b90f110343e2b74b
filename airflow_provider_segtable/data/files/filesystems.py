"""Object stores as ``pyarrow.fs`` file systems: one set of options for tables and for input files.

Options have obstore's names, so that one set serves the log and the data files. Options that only
obstore supports (time-outs, retries) are ignored here.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from pyarrow import fs

from airflow_provider_segtable.core.errors import InvalidName

Place: TypeAlias = tuple[fs.FileSystem, str]
"""A file system, and a path in it."""


def object_store(uri: str, options: Mapping[str, str]) -> Place:
    """Return the file system of a URI, and the path of the object or folder there.

    Args:
        uri: of one of the schemes in ``STORES``.
        options: storage options by obstore's names.

    Raises:
        InvalidName: an Azure URI names no account.
    """
    parts = urlsplit(uri)
    return STORES[parts.scheme](parts, _normalised(options))


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


def _s3(parts: SplitResult, options: Mapping[str, str]) -> Place:
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
    return filesystem, _object_root(parts)


def _gcs(parts: SplitResult, options: Mapping[str, str]) -> Place:
    endpoint = options.get("endpoint", options.get("base_url", ""))
    scheme, _, host = endpoint.rpartition("://")
    filesystem = fs.GcsFileSystem(
        anonymous=_yes(options, "skip_signature"),
        endpoint_override=host or None,
        scheme=scheme or "https",
    )
    return filesystem, _object_root(parts)


def _azure(parts: SplitResult, options: Mapping[str, str]) -> Place:
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
    return filesystem, f"{container}{unquote(parts.path)}"


STORES: Mapping[str, Callable[[SplitResult, Mapping[str, str]], Place]] = {
    "s3": _s3,
    "s3a": _s3,
    "gs": _gcs,
    "az": _azure,
    "abfs": _azure,
    "abfss": _azure,
}
