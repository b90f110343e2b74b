"""Keep what a planner remembers of its fleet: one object at the root of the tables.

1. A planner run is a process of its own, on any worker. So it reads ``_segtable_fleet/NAME/memory``
   at its begin, and writes it at its end: one request each.
2. The object is a cache. One that is absent, damaged, of another fleet or of other code is ignored,
   with a line in the log: the planner then looks at each table. Failing to write it is no error.
3. It is JSON, compressed. A dataclass is the list of its fields' values, which is small; so the
   names of all fields are in the head, and another list of them is another format.
4. Only planners that request plans write it. Two of them at once do no harm: the last one wins, and
   what it wrote is compared with the announced versions by the next.
"""

import json
import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from airflow_provider_segtable import __version__
from airflow_provider_segtable.core.errors import NotFound, SegtableError
from airflow_provider_segtable.core.log.events import misfit
from airflow_provider_segtable.planning.fleet.fleet_memory import FleetMemory, FoundTables
from airflow_provider_segtable.ports.storage import Storage

FOLDER = "_segtable_fleet"
_LOG = logging.getLogger(__name__)
T = TypeVar("T")


def memory_path(fleet: str) -> str:
    """Return the path of a fleet's memory below the root of its tables."""
    return f"{FOLDER}/{fleet}/memory"


def read_memory(storage: Storage | None, fleet: str) -> FleetMemory:
    """Return what the last planner of a fleet remembered; an empty memory if there is none.

    Args:
        storage: the root of the fleet's tables; None if they have none in common.
        fleet: the name of the fleet.
    """
    path = memory_path(fleet)
    if storage is None:
        return FleetMemory()
    try:
        return decode_memory(storage.read(path), fleet)
    except NotFound:
        _LOG.info("%s/%s is not there: each table is looked at", storage.uri, path)
    except (SegtableError, OSError, ValueError, zlib.error) as error:
        _LOG.warning("%s/%s is not used: %s", storage.uri, path, error)
    return FleetMemory()


def last_search(storage: Storage | None, fleet: str) -> FoundTables | None:
    """Return the last search for a fleet's tables that a planner remembers, if it remembers any.

    Args:
        storage: as ``read_memory``.
        fleet: the name of the fleet.
    """
    if storage is None:
        return None
    with suppress(SegtableError, OSError, ValueError, TypeError, LookupError, zlib.error):
        plain = _body(storage.read(memory_path(fleet)), fleet)[_names(FleetMemory).index("found")]
        return None if plain is None else _checked(plain, FoundTables)
    return None


def write_memory(storage: Storage | None, fleet: str, memory: FleetMemory) -> None:
    """Keep a memory for the next planner, as ``read_memory`` finds it; a failure is logged."""
    try:
        if storage is not None:
            storage.replace(memory_path(fleet), encode_memory(memory, fleet))
    except (SegtableError, OSError) as error:
        _LOG.warning("the memory of fleet %s is not kept: %s", fleet, error)


def encode_memory(memory: FleetMemory, fleet: str) -> bytes:
    """Return the bytes of a memory."""
    body = {"head": _head(fleet), "memory": _dataclass_writer(FleetMemory)(memory)}
    return zlib.compress(json.dumps(body, separators=(",", ":")).encode(), 1)


def decode_memory(data: bytes, fleet: str) -> FleetMemory:
    """Return the memory of a fleet from its bytes.

    Raises:
        ValueError, zlib.error: it is damaged, of another fleet, or of other code.
    """
    plain = _body(data, fleet)
    return _checked(plain, FleetMemory)


def _body(data: bytes, fleet: str) -> Any:
    """Return the plain form of a memory; errors as ``decode_memory``."""
    body = json.loads(zlib.decompress(data))
    if not isinstance(body, dict) or body.get("head") != _head(fleet):
        raise ValueError(f"it is not the memory of fleet {fleet} in this format")
    return body.get("memory")


def _checked(plain: Any, kind: type[T]) -> T:
    """Return a value from its plain form, with the declared types; errors as ``decode_memory``."""
    try:
        found: T = _dataclass_reader(kind)(plain)
    except (SegtableError, TypeError, AttributeError, LookupError) as error:
        raise ValueError(f"it is damaged: {error}") from error
    if wrong := misfit(found):
        raise ValueError(f"it is damaged: {wrong}")
    return found


def _head(fleet: str) -> list[Any]:
    return [fleet, __version__, *sorted(_shape(FleetMemory))]


# Values as plain JSON, by their declared types
_Change = Callable[[Any], Any]


@lru_cache(maxsize=64)
def _writer(hint: Any) -> _Change | None:
    """Return what makes a value of a declared type plain; None if it is plain already."""
    inside, origin = get_args(hint), get_origin(hint)
    if origin in (Union, UnionType):
        return _optional(_writer(_only(inside)))
    if origin is tuple:
        return _each(_writer(inside[0]), list)
    if inside:
        return _entries(_writer(inside[1]))
    return _dataclass_writer(hint) if is_dataclass(hint) else None


def _dataclass_writer(kind: Any) -> _Change:
    names, changes = _names(kind), _changes(kind, _writer)

    def write(value: Any) -> Any:
        plain = [getattr(value, name) for name in names]
        for at, change in changes:
            plain[at] = change(plain[at])
        return plain

    return write


@lru_cache(maxsize=64)
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


@lru_cache(maxsize=64)
def _reader(hint: Any) -> _Change | None:
    """Return what makes a value of a declared type from its plain form; None if that is it."""
    inside, origin = get_args(hint), get_origin(hint)
    if origin in (Union, UnionType):
        return _optional(_reader(_only(inside)))
    if origin is tuple:
        return _each(_reader(inside[0]), tuple)
    if inside:
        return _entries(_reader(inside[1]))
    return _dataclass_reader(hint) if is_dataclass(hint) else None


def _dataclass_reader(kind: Any) -> _Change:
    names, changes = _names(kind), _changes(kind, _reader)

    def read(plain: Any) -> Any:
        values = [*plain]
        for at, change in changes:
            values[at] = change(values[at])
        return kind(**dict(zip(names, values, strict=True)))

    return read


def _only(kinds: tuple[Any, ...]) -> Any:
    """Return the type of a value that may be absent."""
    (kind,) = (each for each in kinds if each is not NoneType)
    return kind


def _optional(change: _Change | None) -> _Change | None:
    return change and (lambda value: None if value is None else change(value))


def _each(change: _Change | None, kind: _Change) -> _Change:
    return kind if change is None else lambda some: kind(map(change, some))


def _entries(change: _Change | None) -> _Change:
    if change is None:
        return dict
    return lambda some: {key: change(each) for key, each in some.items()}


def _changes(kind: Any, of: Callable[[Any], _Change | None]) -> list[tuple[int, _Change]]:
    """Return the changes of a dataclass's fields, with their places."""
    some = enumerate(map(of, _hints(kind).values()))
    return [(at, change) for at, change in some if change is not None]


def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields, in their order."""
    hints = get_type_hints(kind)
    return {name: hints[name] for name in _names(kind)}


def _shape(hint: Any) -> Iterator[str]:
    """Yield each dataclass below a type with its fields' names."""
    if is_dataclass(hint):
        yield f"{hint}: {', '.join(_hints(hint))}"
        for each in _hints(hint).values():
            yield from _shape(each)
    for each in get_args(hint):
        yield from _shape(each)
