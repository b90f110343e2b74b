"""Published readers: libraries that read a table format, each as one small adapter.

1. A reader opens one version of a published table, and yields its rows in batches; no table is
   held in memory. It never downloads anything.
2. A library that is not installed, or lacks an extension, is *missing*. One that says that it does
   not support the table *refuses*: it may be too old. Neither is damage.
3. Readers give the same values different types: text and lists with long offsets, maps as lists of
   entries, other units of time. ``comparable`` gives them the types of the table, exactly or not
   at all.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar, Protocol

import pyarrow as pa

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
        """Return what all readers open: a path if it is local, which some take no URI for."""
        return self.address.removeprefix("file://")


class PublishedReader(Protocol):
    """A library that reads a table format.

    Attributes:
        name: its name in answers.
        package: the distribution that it is installed by.
    """

    name: ClassVar[str]
    package: ClassVar[str]

    def lacking(self) -> str:
        """Return what is not installed; empty if the reader can be used."""
        ...

    def batches(self, place: PublishedPlace) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a published version; any exception of the library may be raised."""
        ...


class Unlike(ValueError):
    """A reader shows other columns than the table has; the message says which."""


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
    """Return whether a library says that it does not support what it found."""
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
