"""Read a fleet file: TOML, with every fault named by file, line and the way out.

::

    [fleet]
    name = "lake"

    [budget]                                # of all tables together
    bytes_per_hour = "200 GiB"
    plans = 8

    [properties]                            # of all tables, unless they have their own
    compaction.min_segments = 8

    [windows]
    zone = "Europe/Berlin"
    major = ["22:00-06:00"]

    [groups.events]
    tables = ["events/*"]
    priority = 2
    objective = {files_read = 200, stale_index = "15m"}

    [tables."events/orders"]
    freeze = {until = 2027-01-03, reason = "year end"}

1. All faults of a file are said at once.
2. A group's ``quota`` has the names of ``[budget]``.
3. Properties are those of tables, less ``log_store.*``: each service reads these from its table.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.plan_kinds import kinds
from airflow_provider_segtable.core.paths import is_name
from airflow_provider_segtable.core.quantities import parse_duration, parse_size
from airflow_provider_segtable.core.schema import did_you_mean
from airflow_provider_segtable.core.time import Instant, instant
from airflow_provider_segtable.planning.fleet.fleet import (
    Budget,
    Fleet,
    Freeze,
    Given,
    Group,
    Objective,
    Scope,
)
from airflow_provider_segtable.planning.fleet.toml_lines import Key, TomlLines
from airflow_provider_segtable.planning.fleet.windows import parse_windows, parse_zone
from airflow_provider_segtable.planning.properties import (
    INDEX_PREFIX,
    IndexSettings,
    Policy,
    PublishSettings,
    Retention,
    names_index,
    wished_indexes,
)

UPKEEP = "upkeep"
"""The work beside plans: cleaning, publishing, verification."""
_OF_SCOPES = ("properties", "objective", "windows", "priority", "freeze", "enforce")
_OF_FILE = ("fleet", "budget", "groups", "tables", *_OF_SCOPES)
_FAMILIES: Mapping[str, Any] = MappingProxyType(
    {
        "compaction": Policy,
        "retention": Retention,
        INDEX_PREFIX: IndexSettings,
        "publish": PublishSettings,
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a line of a file."""

    source: str
    line: int
    reason: str

    def __str__(self) -> str:
        """Return ``file:line: reason``."""
        return f"{self.source}:{self.line}: {self.reason}"


class InvalidFleet(InvalidInput):
    """A fleet file has faults; ``faults`` has all of them, by line."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


def read_fleet(text: str, source: str) -> Fleet:
    """Return the fleet of a file.

    Args:
        text: what is in the file.
        source: the file's name, for messages.

    Raises:
        InvalidFleet: with all faults.
    """
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFleet((_syntax(error, text, source),)) from None
    reader = _Reader(source, TomlLines(text))
    fleet = reader.fleet(found)
    if reader.faults:
        raise InvalidFleet(tuple(sorted(reader.faults, key=lambda fault: fault.line)))
    return fleet


def _syntax(error: tomllib.TOMLDecodeError, text: str, source: str) -> Fault:
    reason, _, place = str(error).partition(" (at ")
    numbers = [word.strip(",)") for word in place.split()]
    line = int(numbers[1]) if numbers[:1] == ["line"] else len(text.splitlines())
    return Fault(source, max(line, 1), f"not TOML: {reason[:1].lower()}{reason[1:]}")


Parse = Callable[[object], object]
T = TypeVar("T")


class _Reader:
    """Reads one file, and collects its faults."""

    def __init__(self, source: str, lines: TomlLines) -> None:
        self.faults: list[Fault] = []
        self._source = source
        self._lines = lines
        self._zone: tzinfo = UTC

    def fleet(self, found: Mapping[str, Any]) -> Fleet:
        """Return the fleet; with faults it is not whole."""
        self._known(found, _OF_FILE, ())
        about = self._table(found, "fleet", ())
        self._known(about, ("name", "root"), ("fleet",))
        name = self._tried(("fleet", "name"), lambda: _name(about.get("name", "fleet")), "fleet")
        zone = self._table(found, "windows", ()).get("zone", "UTC")
        utc: tzinfo = UTC
        self._zone = self._tried(("windows", "zone"), lambda: parse_zone(_text(zone)), utc)
        groups = self._table(found, "groups", ())
        tables = self._table(found, "tables", ())
        return Fleet(
            name=name,
            source=self._source,
            root=self._tried(("fleet", "root"), lambda: _text(about.get("root", "")), ""),
            budget=self._budget(self._table(found, "budget", ()), ("budget",)),
            scope=self._scope(found, (), "all tables"),
            groups=tuple(self._group(groups, name) for name in groups),
            tables={
                name: self._own(self._table(tables, name, ("tables",)), name) for name in tables
            },
        )

    def _group(self, groups: Mapping[str, Any], name: str) -> Group:
        at: Key = ("groups", name)
        found = self._table(groups, name, ("groups",))
        self._known(found, ("tables", "without", "quota", *_OF_SCOPES), at)
        if not found.get("tables"):
            self._fault(at, f'group {name} has no tables: give globs, tables = ["{name}/*"]')
        return Group(
            name=name,
            tables=self._globs(found, "tables", at),
            without=self._globs(found, "without", at),
            scope=self._scope(found, at, f"group {name}"),
            quota=self._budget(self._table(found, "quota", at), (*at, "quota")),
        )

    def _own(self, found: Mapping[str, Any], name: str) -> Scope:
        self._known(found, _OF_SCOPES, ("tables", name))
        return self._scope(found, ("tables", name), f"table {name}")

    def _globs(self, found: Mapping[str, Any], key: str, at: Key) -> tuple[str, ...]:
        return self._tried((*at, key), lambda: _globs(found.get(key, [])), ())

    def _budget(self, found: Mapping[str, Any], at: Key) -> Budget:
        parsers: Mapping[str, Parse] = {
            "bytes_per_hour": parse_size,
            "task_minutes_per_hour": _positive,
            "plans": _count,
            "plans_per_table": _count,
        }
        return Budget(**self._parsed(found, parsers, at))

    def _scope(self, found: Mapping[str, Any], at: Key, name: str) -> Scope:
        given: dict[str, Given] = {}
        given |= self._properties(self._table(found, "properties", at), (*at, "properties"))
        given |= self._objective(self._table(found, "objective", at), (*at, "objective"))
        given |= self._windows(self._table(found, "windows", at), (*at, "windows"))
        single = {key: found[key] for key in ("priority", "freeze") if key in found}
        parsers: Mapping[str, Parse] = {"priority": _positive, "freeze": _freeze}
        given |= self._given("", single, self._parsed(single, parsers, at), at)
        enforce = found.get("enforce", False)
        if not isinstance(enforce, bool):
            self._fault((*at, "enforce"), f"enforce = {enforce!r} is neither true nor false")
        return Scope(name=name, given=given, enforce=enforce is True)

    def _properties(self, found: Mapping[str, Any], at: Key) -> dict[str, Given]:
        given: dict[str, Given] = {}
        for key, value in _flat(found):
            place, name = (*at, *key), ".".join(key)
            text = self._tried(place, partial(_property, name, value), None)
            if text is not None:
                given[name] = Given(value=text, text=text, line=self._lines.of(place))
        return given

    def _objective(self, found: Mapping[str, Any], at: Key) -> dict[str, Given]:
        return self._given("objective.", found, self._parsed(found, _AIMS, at), at)

    def _windows(self, found: Mapping[str, Any], at: Key) -> dict[str, Given]:
        if "zone" in found and at != ("windows",):
            reason = "one zone is for all windows: give it in [windows] of the file"
            self._fault((*at, "zone"), reason)
        of_kinds = {key: value for key, value in found.items() if key != "zone"}
        names = (*(kind.kind for kind in kinds()), UPKEEP)
        parsers = {name: lambda given: parse_windows(_texts(given), self._zone) for name in names}
        return self._given("window.", found, self._parsed(of_kinds, parsers, at), at)

    def _given(
        self, prefix: str, found: Mapping[str, Any], values: Mapping[str, Any], at: Key
    ) -> dict[str, Given]:
        return {
            f"{prefix}{key}": Given(
                value=value, text=_written(found[key]), line=self._lines.of((*at, key))
            )
            for key, value in values.items()
        }

    def _parsed(
        self, found: Mapping[str, Any], parsers: Mapping[str, Parse], at: Key
    ) -> dict[str, Any]:
        """Return the values of known keys that are right."""
        self._known(found, tuple(parsers), at)
        tried = {
            key: self._tried((*at, key), partial(_named, key, parse, found[key]), None)
            for key, parse in parsers.items()
            if key in found
        }
        return {key: value for key, value in tried.items() if value is not None}

    def _table(self, found: Mapping[str, Any], key: str, at: Key) -> Mapping[str, Any]:
        value = found.get(key, {})
        if isinstance(value, Mapping):
            return value
        reason = f"{key} = {value!r} is not a table of TOML: write [{key}] and its keys"
        self._fault((*at, key), reason)
        return {}

    def _known(self, found: Mapping[str, Any], known: tuple[str, ...], at: Key) -> None:
        for key in found:
            if key not in known:
                question, names = did_you_mean(key, known), ", ".join(known)
                self._fault((*at, key), f"{key!r} is unknown here: {question}known are {names}")

    def _tried(self, key: Key, parse: Callable[[], T], otherwise: T) -> T:
        """Return a parsed value; record a fault at the line of a key, and go on."""
        try:
            return parse()
        except InvalidInput as error:
            self._fault(key, str(error))
            return otherwise

    def _fault(self, key: Key, reason: str) -> None:
        self.faults.append(Fault(self._source, self._lines.of(key), reason))


# Values
def read_objective(given: Mapping[str, object]) -> Objective:
    """Return an objective that is given outside of a file, by the same keys and forms.

    Raises:
        InvalidInput: a key is unknown, a value has another form, or there is no aim.
    """
    unknown = next((key for key in given if key not in _AIMS), None)
    if unknown is not None:
        question, names = did_you_mean(unknown, tuple(_AIMS)), ", ".join(_AIMS)
        raise InvalidInput(f"{unknown!r} is not an aim: {question}known are {names}")
    found: dict[str, Any] = {key: _named(key, _AIMS[key], value) for key, value in given.items()}
    return Objective(**found)


def _named(key: str, parse: Parse, given: object) -> object:
    try:
        return parse(given)
    except InvalidInput as error:
        raise InvalidInput(f"{key}: {error}") from None


def _name(given: object) -> str:
    if not isinstance(given, str) or not is_name(given):
        raise InvalidInput(
            f"{given!r} is not a name for a fleet: use letters, digits, '.', '_' and '-', at most "
            "100; it is part of the ids of DAGs"
        )
    return given


def _flat(found: Mapping[str, Any], before: Key = ()) -> Iterator[tuple[Key, object]]:
    """Yield the values of nested tables with their keys."""
    for key, value in found.items():
        if isinstance(value, Mapping):
            yield from _flat(value, (*before, key))
        else:
            yield (*before, key), value


def _property(name: str, value: object) -> str:
    """Return a property's text, checked."""
    text = _property_text(name, value)
    _check_property(name, text)
    return text


def _property_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidInput(f"property {name} = {value!r} is neither a text nor a number")


def _check_property(name: str, text: str) -> None:
    family = _FAMILIES.get(name.partition(".")[0])
    if family is None:
        known = ", ".join(f"{each}.*" for each in _FAMILIES)
        more = " Set it on the table: its services read it there" if name[:9] == "log_store" else ""
        raise InvalidInput(f"{name!r} is not a property for a fleet: known are {known}.{more}")
    if names_index(name):
        wished_indexes({name: text})
    elif family is PublishSettings and name.startswith("publish.iceberg_"):
        raise InvalidInput(f"{name!r} names one table: set it on the table itself")
    else:
        family.read({name: text})


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise InvalidInput(f"{given!r} is not a text: put it in quotes")
    return given


def _texts(given: object) -> tuple[str, ...]:
    if not isinstance(given, list | tuple):
        raise InvalidInput(f"{given!r} is not a list: write it in brackets")
    return tuple(map(_text, given))


def _written(given: object) -> str:
    """Return a value about as the file has it."""
    if isinstance(given, Mapping):
        return ", ".join(f"{key} {_written(value)}" for key, value in given.items())
    if isinstance(given, list):
        return ", ".join(map(_written, given))
    return str(given).lower() if isinstance(given, bool) else str(given)


def _globs(given: object) -> tuple[str, ...]:
    globs = _texts(given)
    wrong = next((glob for glob in globs if _misplaced(glob)), None)
    if wrong is not None:
        raise InvalidInput(
            f"{wrong!r} is not a glob of tables: write a path below the root, such as events/*, "
            "or a URI"
        )
    return globs


def _misplaced(glob: str) -> bool:
    inside = glob.split("://", 1)[-1]
    return (
        not inside
        or inside.startswith("/") != glob.startswith(("/", "file:///"))
        or (".." in inside.split("/"))
    )


def _number(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InvalidInput(f"{given!r} is not a number")
    return given


def _positive(given: object) -> float:
    if not _number(given) > 0:
        raise InvalidInput(f"{given!r} is too low: more than 0")
    return _number(given)


def _count(given: object) -> int:
    if _number(given) < 1 or not isinstance(given, int):
        raise InvalidInput(f"{given!r} is not a whole number of at least 1")
    return given


def _share(given: object) -> float:
    if not 0 <= _number(given) <= 1:
        raise InvalidInput(f"{given!r} is not a share: 0 to 1")
    return _number(given)


def _freeze(given: object) -> Freeze | None:
    if isinstance(given, bool):
        return Freeze() if given else None
    if not isinstance(given, Mapping) or not set(given) <= {"from", "until", "reason"}:
        raise InvalidInput(
            f'{given!r} is not a freeze: write true, or {{until = 2027-01-03, reason = "..."}}; '
            "known are from, until, reason"
        )
    start, end = _time(given.get("from")), _time(given.get("until"))
    if start is not None and end is not None and end <= start:
        raise InvalidInput("a freeze that ends before it begins")
    return Freeze(start=start, end=end, reason=_text(given.get("reason", "")))


def _time(given: object) -> Instant | None:
    """Return a date's midnight or a time; without an offset it is UTC."""
    if given is None:
        return None
    if isinstance(given, datetime):
        return instant(given if given.tzinfo else given.replace(tzinfo=UTC))
    if isinstance(given, date):
        return instant(datetime(given.year, given.month, given.day, tzinfo=UTC))
    raise InvalidInput(f"{given!r} is not a date: write e.g. 2027-01-03, without quotes")


_AIMS: Mapping[str, Parse] = MappingProxyType(
    {
        "files_read": _positive,
        "overlap": _positive,
        "deleted": _share,
        "stale_index": parse_duration,
        "publish_lag": parse_duration,
        "hot": parse_duration,
    }
)
"""The parsers of an objective's keys."""
