"""Published readers: libraries that read a table format, each as one function.

1. A reader opens one version of a published table, and yields its rows in batches; no table is
   held in memory. It never downloads anything: DuckDB uses its installed extensions alone.
2. A library that is not installed, or lacks an extension, is *missing*. One that says that it does
   not support the table *refuses*: it may be too old. Neither is damage.
3. Readers give the same values different types: text and lists with long offsets, maps as lists of
   entries, other units of time. ``comparable`` gives them the types of the table, exactly or not
   at all.
4. deltalake and Polars' Delta reader know the names that segtable's storage options have.
   pyiceberg's file access and DuckDB have names of their own; ``core.schemes`` translates S3's, the
   others come from the environment.
5. Delta Lake is read by deltalake, Polars and DuckDB; Apache Iceberg by pyiceberg, Polars and
   DuckDB. Without a catalog an Iceberg version is opened by its metadata, which has the name that
   it has in Hadoop's catalogs: ``metadata/vN.metadata.json`` below the address.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol
from urllib.parse import urlsplit

import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.schemes import SCHEMES, Scheme
from airflow_provider_segtable.core.secret import SecretOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPlace:
    """Where one published version is.

    Attributes:
        address: the published address.
        number: the number of the version.
        options: the options of the store.
    """

    address: str
    number: int
    options: Mapping[str, str] = field(default_factory=SecretOptions)

    @property
    def location(self) -> str:
        """Return the location for all readers: a path if it is local, because some refuse URIs."""
        return self.address.removeprefix("file://")

    @property
    def kind(self) -> Scheme | None:
        """Return the kind of its store; None for a path."""
        return SCHEMES.get(urlsplit(self.address).scheme)


class PublishedReader(Protocol):
    """A library that reads a table format."""

    @property
    def name(self) -> str:
        """Return its name in answers."""
        ...

    @property
    def package(self) -> str:
        """Return the distribution that it is installed by."""
        ...

    def lacking(self) -> str:
        """Return the missing packages, in words; empty if the reader can be used."""
        ...

    def batches(self, place: PublishedPlace) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a published version; any exception of the library may be raised."""
        ...


class Unlike(ValueError):
    """A reader shows other columns than the table has; the message names them."""


def installed(package: str) -> str:
    """Return the version of a distribution; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def not_installed(package: str) -> str:
    """Return that a distribution is not installed; empty if it is."""
    return "" if installed(package) else f"{package} is not installed"


_REFUSALS = ("not supported", "not yet supported", "unsupported", "not implemented")


def refuses(error: BaseException) -> bool:
    """Return whether an error of a library means that it does not support the table."""
    said = str(error).lower()
    return isinstance(error, NotImplementedError) or any(each in said for each in _REFUSALS)


def plain(kind: pa.DataType) -> pa.DataType:
    """Return a type in its simplest form: short offsets, maps as lists of entries."""
    if pa.types.is_map(kind):
        entry = pa.struct([("key", plain(kind.key_type)), ("value", plain(kind.item_type))])
        return pa.list_(entry)
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, plain(each.type)) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain(kind.value_type))
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


def comparable(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batches with the columns of a schema, in its order and in plain types.

    Raises:
        Unlike: columns are missing or added, or values do not fit the type.
    """
    wanted = pa.schema([(each.name, plain(each.type)) for each in schema])
    for batch in batches:
        if {*batch.schema.names} != {*wanted.names}:
            shown = ", ".join(batch.schema.names)
            raise Unlike(f"it shows the columns {shown}, the table has {', '.join(wanted.names)}")
        columns = [_cast(batch.column(each.name), each) for each in wanted]
        yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _cast(column: pa.Array, wanted: pa.Field) -> pa.Array:
    try:
        return column.cast(wanted.type)
    except pa.ArrowException as error:
        raise Unlike(
            f"column {wanted.name} is of type {column.type} and does not fit {wanted.type}: {error}"
        ) from None


# Options of the object store under the readers' names
def fileio_options(place: PublishedPlace) -> dict[str, str]:
    """Return the options of the store under the names of Iceberg's file access."""
    return place.kind.fileio_options(place.options) if place.kind else {}


def duckdb_secret(place: PublishedPlace) -> str:
    """Return the statement that gives DuckDB the options of the store; empty if it needs none."""
    if not place.kind or not (given := place.kind.duckdb_secret(place.options)):
        return ""
    fields = {name: quoted(value) for name, value in given.items()} | {"TYPE": given["TYPE"]}
    return f"CREATE SECRET ({', '.join(f'{name} {value}' for name, value in fields.items())})"


_CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


# DuckDB and its installed extensions
def lacking_extensions(wanted: Iterable[str]) -> str:
    """Return which extensions are not installed; empty if all are."""
    with _connect() as db:
        query = "SELECT extension_name FROM duckdb_extensions() WHERE installed"
        found = {name for (name,) in db.execute(query).fetchall()}
    missing = [each for each in wanted if each not in found]
    return f"duckdb has no extension {' and '.join(missing)}" if missing else ""


def rows_of(
    query: str, extensions: Iterable[str], place: PublishedPlace, *, first: Iterable[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query, after the statements ``first``."""
    secret = duckdb_secret(place)
    with _connect() as db:
        for each in (*extensions, *(["httpfs"] if secret else [])):
            db.execute(f"LOAD {each}")
        for statement in (*([secret] if secret else []), *first):
            db.execute(statement)
        yield from pa.RecordBatchReader.from_stream(db.sql(query))


def quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _connect() -> Any:
    import duckdb

    db = duckdb.connect(config=dict(_CONFIG))
    db.execute("SET enable_progress_bar = false")
    return db


# The readers of each format
@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryReader:
    """A library as ``PublishedReader``.

    Attributes:
        needs: the distributions that it needs; it is the first of them.
        read: yields the rows of a published version.
        extensions: extensions of DuckDB that it needs.
    """

    needs: tuple[str, ...]
    read: Callable[[PublishedPlace], Iterator[pa.RecordBatch]]
    extensions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return its name in answers."""
        return self.needs[0]

    @property
    def package(self) -> str:
        """Return the distribution that it is installed by."""
        return self.needs[0]

    def lacking(self) -> str:
        """Return what is not installed; empty if the reader can be used."""
        missing = next(filter(None, map(not_installed, self.needs)), "")
        return missing or (lacking_extensions(self.extensions) if self.extensions else "")

    def batches(self, place: PublishedPlace) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a published version."""
        return self.read(place)


def _deltalake(place: PublishedPlace) -> Iterator[pa.RecordBatch]:
    """Read by the SQL engine of delta-rs, which applies deletion vectors."""
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(
        place.location, version=place.number, storage_options=dict(place.options) or None
    )
    found = QueryBuilder().register("published", table).execute("SELECT * FROM published")
    yield from pa.RecordBatchReader.from_stream(found)


def _polars_delta(place: PublishedPlace) -> Iterator[pa.RecordBatch]:
    """Read by ``scan_delta``, which finds files by deltalake, and reads them itself."""
    import polars as pl

    yield from _collected(
        pl.scan_delta(
            place.location, version=place.number, storage_options=dict(place.options) or None
        )
    )


def _duckdb_delta(place: PublishedPlace) -> Iterator[pa.RecordBatch]:
    attach = f"ATTACH {quoted(place.location)} AS seen (TYPE delta, VERSION {place.number})"
    yield from rows_of("FROM seen", _DUCKDB_DELTA, place, first=(attach,))


def _pyiceberg(place: PublishedPlace) -> Iterator[pa.RecordBatch]:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(_metadata(place), fileio_options(place))
    yield from table.scan().to_arrow_batch_reader()


def _polars_iceberg(place: PublishedPlace) -> Iterator[pa.RecordBatch]:
    """Read by ``scan_iceberg``, which finds files by pyiceberg, and reads them itself."""
    import polars as pl

    options = fileio_options(place) or None
    yield from _collected(pl.scan_iceberg(_metadata(place), storage_options=options))


def _duckdb_iceberg(place: PublishedPlace) -> Iterator[pa.RecordBatch]:
    scan = f"FROM iceberg_scan({quoted(_metadata(place))})"
    yield from rows_of(scan, _DUCKDB_ICEBERG, place)


def _collected(frame: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a lazy frame of Polars, in any order."""
    for found in frame.collect_batches(maintain_order=False):
        yield from found.to_arrow().to_batches()


def _metadata(place: PublishedPlace) -> str:
    """Return the location of a version's metadata."""
    return f"{place.location}/metadata/v{place.number}.metadata.json"


_DUCKDB_DELTA = ("delta",)
_DUCKDB_ICEBERG = ("avro", "iceberg")

READERS: Mapping[str, tuple[PublishedReader, ...]] = {
    "delta": (
        LibraryReader(needs=("deltalake",), read=_deltalake),
        LibraryReader(needs=("polars", "deltalake"), read=_polars_delta),
        LibraryReader(needs=("duckdb",), read=_duckdb_delta, extensions=_DUCKDB_DELTA),
    ),
    "iceberg": (
        LibraryReader(needs=("pyiceberg",), read=_pyiceberg),
        LibraryReader(needs=("polars", "pyiceberg"), read=_polars_iceberg),
        LibraryReader(needs=("duckdb",), read=_duckdb_iceberg, extensions=_DUCKDB_ICEBERG),
    ),
}
"""The readers of each format, by its name."""
