"""Schemes of URIs: where tables and files can be, and how each library opens such a place.

1. A ``Scheme`` answers for one kind of store: how obstore and pyarrow open it, its location for
   Spark, its name in assets, its console, and its options for readers of published formats.
   ``SCHEMES`` finds it by the scheme of a URI. A new object store is one class in this module.
2. The classes of obstore and pyarrow are named here as texts, and their arguments are plain values.
   ``storage`` and ``data`` import the libraries and make the objects.
3. Options have obstore's names: any case, with or without the store's prefix (``aws_region``).
4. Nothing here is read or written, and no URI is looked up.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar
from urllib.parse import SplitResult, quote, unquote, urlsplit

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidName
from airflow_provider_segtable.core.secret import is_secret_name

Options = Mapping[str, str]
Setting = Callable[[str], str | None]
"""Returns a setting of Hadoop by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Arguments of obstore for the bucket or container of a URI.

    Attributes:
        kind: the class in ``obstore.store``.
        bucket: the bucket or container; empty if the URI names none.
        options: options that the URI gives, beside those of the user.
    """

    kind: str
    bucket: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem:
    """Arguments of ``pyarrow.fs`` for a URI.

    Attributes:
        kind: the class in ``pyarrow.fs``.
        arguments: its keyword arguments, some of them credentials.
        path: the path of the URI in this file system.
        account_file: a service account's file, which is no argument.
        account_key: the same as JSON text.
    """

    kind: str
    arguments: Mapping[str, Any] = field(repr=False)
    path: str
    account_file: str = ""
    account_key: str = field(default="", repr=False)


class Scheme:
    """One kind of store.

    Attributes:
        names: its schemes in URIs, the usual one first, each with its name in assets' URIs.
        examples: forms of its URIs, for messages.
    """

    names: ClassVar[Mapping[str, str]]
    examples: ClassVar[tuple[str, ...]]

    def spark_root(self, place: SplitResult, options: Options) -> str:
        """Return the store's root as Hadoop names it; empty if Spark cannot read the store."""
        return ""

    def console_page(self, place: SplitResult) -> str:
        """Return the address of the console's page that lists a folder; empty without a console."""
        return ""

    def fileio_options(self, options: Options) -> dict[str, str]:
        """Return the options under the names of Iceberg's file access, as far as it has any."""
        return {}

    def duckdb_secret(self, options: Options) -> dict[str, str]:
        """Return the fields of DuckDB's secret, its ``TYPE`` first; empty if it needs none."""
        return {}

    def hadoop_options(self, place: SplitResult, setting: Setting) -> dict[str, str]:
        """Return the options that Hadoop's settings give for a URI; empty without its keys."""
        return {}


class LocalDisk(Scheme):
    """A folder of this machine, or of a shared mount."""

    names: ClassVar[Mapping[str, str]] = {"file": "file"}
    examples = ("a local path", "file:///path")


class Memory(Scheme):
    """A store in this process, shared by all its users; for tests."""

    names: ClassVar[Mapping[str, str]] = {"memory": "memory"}
    examples = ("memory://name",)


class ObjectStore(Scheme):
    """A store that obstore and pyarrow reach.

    Attributes:
        prefixes: prefixes that the names of its options may have, the longer first.
        surroundings: options that obstore takes from the environment and pyarrow does not; names
            for one thing are together.
    """

    prefixes: ClassVar[tuple[str, ...]] = ()
    surroundings: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def client(self, place: SplitResult) -> Client:
        """Return how obstore opens the bucket of a URI."""
        raise NotImplementedError

    def filesystem(self, place: SplitResult, options: Options) -> FileSystem:
        """Return how pyarrow opens a URI.

        Raises:
            InvalidName: the URI and the options do not say enough.
        """
        raise NotImplementedError

    def bare(self, options: Options) -> dict[str, str]:
        """Return the options by their names in small letters, without the store's prefix."""
        named: dict[str, str] = {}
        for key, value in options.items():
            short = key.lower()
            prefix = next((each for each in self.prefixes if short.startswith(each)), "")
            named[short.removeprefix(prefix)] = str(value)
        return named

    def completed(self, options: Options, environment: Options) -> Options:
        """Return the options, with those of the environment that only obstore reads there."""
        around = {
            name: value
            for name, value in environment.items()
            if name.lower().startswith(self.prefixes)
        }
        given, there = self.bare(options), self.bare(around)
        missing = (names for names in self.surroundings if not given.keys() & set(names))
        return {name: there[name] for names in missing for name in names if there.get(name)} | given


class S3(ObjectStore):
    """Amazon S3, and stores that speak its protocol."""

    names: ClassVar[Mapping[str, str]] = {"s3": "s3", "s3a": "s3"}
    examples = ("s3://bucket/path",)
    prefixes = ("aws_",)
    surroundings = (
        ("endpoint", "endpoint_url_s3", "endpoint_url"),
        ("allow_http",),
        ("region", "default_region"),
        ("skip_signature",),
        ("virtual_hosted_style_request",),
    )

    def client(self, place: SplitResult) -> Client:
        return Client(kind="S3Store", bucket=place.netloc)

    def filesystem(self, place: SplitResult, options: Options) -> FileSystem:
        given = self.bare(options)
        host, secure = _endpoint(given, "endpoint", "endpoint_url_s3", "endpoint_url")
        arguments = {
            "access_key": given.get("access_key_id"),
            "secret_key": given.get("secret_access_key"),
            "session_token": _first(given, "session_token", "token"),
            "anonymous": _yes(given, "skip_signature"),
            "region": _first(given, "region", "default_region"),
            "endpoint_override": host or None,
            "scheme": "https" if secure else "http",
            "force_virtual_addressing": _yes(given, "virtual_hosted_style_request"),
            "allow_delayed_open": True,  # a small file is one request
        }
        return FileSystem(kind="S3FileSystem", arguments=arguments, path=_path(place))

    def spark_root(self, place: SplitResult, options: Options) -> str:
        return f"s3a://{place.netloc}"

    def console_page(self, place: SplitResult) -> str:
        prefix = quote(f"{place.path.strip('/')}/", safe="")
        bucket = quote(place.netloc)
        return f"https://console.aws.amazon.com/s3/buckets/{bucket}?prefix={prefix}"

    def fileio_options(self, options: Options) -> dict[str, str]:
        given = self.bare(options)
        named = {
            "s3.access-key-id": given.get("access_key_id"),
            "s3.secret-access-key": given.get("secret_access_key"),
            "s3.session-token": _first(given, "session_token", "token"),
            "s3.region": _first(given, "region", "default_region"),
            "s3.endpoint": _first(given, "endpoint", "endpoint_url"),
        }
        return {name: value for name, value in named.items() if value is not None}

    def hadoop_options(self, place: SplitResult, setting: Setting) -> dict[str, str]:
        def of(name: str) -> str:
            own = setting(f"fs.s3a.bucket.{place.netloc}.{name}")
            return own or setting(f"fs.s3a.{name}") or ""

        key, secret = of("access.key"), of("secret.key")
        if not key or not secret:
            return {}
        secure = of("connection.ssl.enabled").lower() != "false"
        host = of("endpoint")
        endpoint = host if not host or "://" in host else f"http{'s' * secure}://{host}"
        named = {
            "access_key_id": key,
            "secret_access_key": secret,
            "session_token": of("session.token"),
            "region": of("endpoint.region"),
            "endpoint": endpoint,
            "allow_http": "true" if endpoint.startswith("http://") else "",
            "virtual_hosted_style_request": _virtual(of("path.style.access"), endpoint),
        }
        return {name: value for name, value in named.items() if value}

    def duckdb_secret(self, options: Options) -> dict[str, str]:
        given = self.bare(options)
        named = {
            "TYPE": "s3",
            "KEY_ID": given.get("access_key_id"),
            "SECRET": given.get("secret_access_key"),
            "SESSION_TOKEN": _first(given, "session_token", "token"),
            "REGION": _first(given, "region", "default_region"),
        }
        host, secure = _endpoint(given, "endpoint", "endpoint_url")
        if host:
            named |= {"ENDPOINT": host, "URL_STYLE": "path", "USE_SSL": str(secure).lower()}
        return {name: value for name, value in named.items() if value is not None}


class GoogleCloud(ObjectStore):
    """Google Cloud Storage."""

    names: ClassVar[Mapping[str, str]] = {"gs": "gs"}
    examples = ("gs://bucket/path",)
    prefixes = ("google_",)

    def client(self, place: SplitResult) -> Client:
        return Client(kind="GCSStore", bucket=place.netloc)

    def filesystem(self, place: SplitResult, options: Options) -> FileSystem:
        given = self.bare(options)
        scheme, _, host = (_first(given, "endpoint", "base_url") or "").rpartition("://")
        arguments = {
            "anonymous": _yes(given, "skip_signature"),
            "endpoint_override": host or None,
            "scheme": scheme or "https",
        }
        files = ("service_account", "service_account_path", "application_credentials")
        known = not arguments["anonymous"]
        return FileSystem(
            kind="GcsFileSystem",
            arguments=arguments,
            path=_path(place),
            account_file=_first(given, *files) or "" if known else "",
            account_key=given.get("service_account_key", "") if known else "",
        )

    def spark_root(self, place: SplitResult, options: Options) -> str:
        return f"gs://{place.netloc}"

    def console_page(self, place: SplitResult) -> str:
        path = quote(place.path.strip("/"))
        return f"https://console.cloud.google.com/storage/browser/{quote(place.netloc)}/{path}"


class Azure(ObjectStore):
    """Azure Blob Storage. The account is in the URI (``abfss://``) or in the options (``az://``)."""

    names: ClassVar[Mapping[str, str]] = {"az": "az", "abfs": "abfss", "abfss": "abfss"}
    examples = ("az://container/path", "abfss://container@account.dfs.core.windows.net/path")
    prefixes = ("azure_storage_", "azure_")
    surroundings = (
        ("account_name",),
        ("account_key", "access_key", "sas_token"),
        ("endpoint",),
    )

    def client(self, place: SplitResult) -> Client:
        container, _, host = place.netloc.partition("@")
        account = {"account_name": host.partition(".")[0]} if host else {}
        return Client(kind="AzureStore", bucket=container, options=account)

    def filesystem(self, place: SplitResult, options: Options) -> FileSystem:
        given = self.bare(options)
        arguments = {
            "account_name": self._account(place, given),
            "account_key": _first(given, "account_key", "access_key"),
            "sas_token": given.get("sas_token"),
        }
        arguments |= self._authorities(given, arguments["account_name"])
        path = f"{place.netloc.partition('@')[0]}{unquote(place.path)}"
        return FileSystem(kind="AzureFileSystem", arguments=arguments, path=path)

    def spark_root(self, place: SplitResult, options: Options) -> str:
        if place.scheme != "az":
            return f"{place.scheme}://{place.netloc}"
        account = self._account(place, self.bare(options))
        return f"abfss://{place.netloc}@{account}.dfs.core.windows.net"

    def _authorities(self, given: Options, account: str | None) -> dict[str, str]:
        """Return where pyarrow finds the services of an endpoint that the options name.

        An authority that begins with a dot follows the account's name; any other one precedes it.
        """
        endpoint = _first(given, "endpoint", "blob_endpoint", "endpoint_url")
        if endpoint is None:
            return {}
        place = urlsplit(endpoint)
        host = place.netloc.removeprefix(f"{account}")
        return {
            "blob_storage_authority": host,
            "blob_storage_scheme": place.scheme,
            "dfs_storage_authority": host.replace(".blob.", ".dfs.", 1),
            "dfs_storage_scheme": place.scheme,
        }

    def _account(self, place: SplitResult, given: Options) -> str:
        account = place.netloc.partition("@")[2].partition(".")[0] or given.get("account_name")
        if not account:
            raise InvalidName(
                f"{place.geturl()!r} names no account: give the storage option account_name, "
                "or write abfs://container@account.dfs.core.windows.net/path"
            )
        return account


def hadoop_options(uri: str, options: Options, setting: Setting) -> dict[str, str]:
    """Return storage options, completed by Hadoop's settings if they name no credentials.

    Args:
        uri: the table.
        options: the storage options that were given; each one comes first.
        setting: Hadoop's settings of this process.
    """
    scheme, mark, _ = uri.partition("://")
    kind = SCHEMES.get(scheme)
    if not mark or kind is None or any(is_secret_name(name) for name in options):
        return dict(options)
    return {**kind.hadoop_options(urlsplit(uri), setting), **options}


def _first(options: Options, *names: str) -> str | None:
    """Return the value of the first name that is given."""
    return next((options[name] for name in names if name in options), None)


def _yes(options: Options, name: str) -> bool:
    return options.get(name, "").lower() in {"1", "true", "yes", "on"}


def _virtual(path_style: str, endpoint: str) -> str:
    """Return whether the bucket is in the host, as Hadoop's settings have it."""
    return "" if not endpoint else str(path_style.lower() != "true").lower()


def _endpoint(options: Options, *names: str) -> tuple[str, bool]:
    """Return an endpoint's host, and whether it is reached over TLS."""
    scheme, _, host = (_first(options, *names) or "").rpartition("://")
    return host, not (scheme == "http" or (not scheme and _yes(options, "allow_http")))


def _path(place: SplitResult) -> str:
    return f"{place.netloc}{unquote(place.path)}".rstrip("/")


# Add a store here.
KINDS: tuple[Scheme, ...] = (LocalDisk(), S3(), GoogleCloud(), Azure(), Memory())

SCHEMES: dict[str, Scheme] = {name: kind for kind in KINDS for name in kind.names}
"""The kinds of stores by the schemes of their URIs."""


# Stores that hold files and no tables: their names get the way out into the message.
NO_TABLES: Mapping[str, str] = {
    **dict.fromkeys(
        ("hdfs", "viewfs", "webhdfs"),
        "HDFS holds no tables, since its clients here have no put-if-absent: keep the table in an "
        "object store or on a mounted disk, and load files from HDFS by Spark (engine spark)",
    ),
    **dict.fromkeys(
        ("wasb", "wasbs", "adl"),
        "this connector of Azure was retired: write "
        "abfss://container@account.dfs.core.windows.net/path",
    ),
}
"""Schemes that are refused with a way out of their own."""


def store_of(scheme: str) -> ObjectStore | None:
    """Return the object store of a scheme; None for other kinds and unknown schemes."""
    found = SCHEMES.get(scheme)
    return found if isinstance(found, ObjectStore) else None


def object_stores() -> list[str]:
    """Return the schemes of object stores."""
    return [name for name, kind in SCHEMES.items() if isinstance(kind, ObjectStore)]


def examples() -> str:
    """Return the forms of URIs, for messages."""
    return ", ".join(each for kind in _distinct() for each in kind.examples)


def usual() -> str:
    """Return the usual schemes of lasting stores, for texts: ``file://, s3://, gs:// or az://``."""
    lasting = (kind for kind in _distinct() if not isinstance(kind, Memory))
    *most, last = (f"{next(iter(kind.names))}://" for kind in lasting)
    return f"{', '.join(most)} or {last}"


def asset_name(scheme: str) -> str:
    """Return the name of a scheme in the URIs of assets: aliases have one."""
    kind = SCHEMES.get(scheme)
    return kind.names[scheme] if kind else scheme


def _distinct() -> list[Scheme]:
    return list(dict.fromkeys(SCHEMES.values()))
