"""A fleet: groups of tables with inherited settings, and what they share.

1. A *scope* holds settings: ``[properties]``, ``[objective]`` ... at the top of the file apply to
   all tables, those of a group to its tables, and those of ``[tables."NAME"]`` to one table.
2. A table belongs to the first group in the file whose globs match its name. It is in the fleet if
   there is such a group, or an entry of its own.
3. For each setting the most special scope that gives it counts. A table's own properties win over
   all scopes, except over those that say ``enforce``::

       default < file < group < table in the file < the table's own < enforced, in the same order

4. Globs are of names below the root, or of URIs. ``*`` matches within one part of a path, ``**``
   any number of parts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from functools import lru_cache

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.time import Instant, iso
from airflow_provider_segtable.planning.fleet.windows import Windows

MINUTES_PER_HOUR = 60
_WILD = re.compile(r"[*?]")


# What tables share
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of work that is begun; None: no limit.

    Attributes:
        bytes_per_hour: bytes of inputs of plans that are requested within an hour.
        task_minutes_per_hour: expected minutes of tasks of these plans.
        plans: plans that are pending or running at once.
        plans_per_table: the same in each table.
    """

    bytes_per_hour: int | None = None
    task_minutes_per_hour: float | None = None
    plans: int | None = None
    plans_per_table: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What readers of a table should meet; None: no aim.

    Attributes:
        files_read: files that hold rows of one day of event time, the most of any day.
        overlap: files that hold one instant of event time, the most on average in any chunk.
        deleted: share of deleted rows that files still have, at most 1.
        stale_index: age of the oldest commit that an index lacks, in microseconds.
        publish_lag: age of the oldest commit that a publication lacks, in microseconds.
        hot: the time before the newest event that these are about, in microseconds; None: all.
    """

    files_read: float | None = None
    overlap: float | None = None
    deleted: float | None = None
    stale_index: int | None = None
    publish_lag: int | None = None
    hot: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A time in which no plan of a table begins; open sides have no end."""

    start: Instant | None = None
    end: Instant | None = None
    reason: str = ""

    def holds(self, now: Instant) -> bool:
        """Return whether a table is frozen."""
        return (self.start is None or self.start <= now) and (self.end is None or now < self.end)

    def __str__(self) -> str:
        """Return the time and the reason."""
        since = f"from {iso(self.start)} " if self.start is not None else ""
        until = (
            f"until {iso(self.end)}" if self.end is not None else "until the file says otherwise"
        )
        return f"frozen {since}{until}{': ' if self.reason else ''}{self.reason}"


# Scopes
@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A value in the file: parsed, as written, and the line that gives it."""

    value: object
    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The settings of the file, of a group, or of one table.

    ``given`` are values by key: ``compaction.target_size`` (a text), ``objective.files_read``,
    ``window.major``, ``priority``, ``freeze``.
    """

    name: str
    given: Mapping[str, Given] = field(default_factory=dict)
    enforce: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Tables by globs, their scope, and what they may use of the budget together."""

    name: str
    tables: tuple[str, ...]
    without: tuple[str, ...] = ()
    scope: Scope
    quota: Budget = Budget()

    def holds(self, table: str) -> bool:
        """Return whether the globs match a table's name."""
        return _any(self.tables, table) and not _any(self.without, table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A fleet file; ``root`` is where names of tables begin, unless a connection says it."""

    name: str
    source: str
    root: str = ""
    budget: Budget = Budget()
    scope: Scope
    groups: tuple[Group, ...] = ()
    tables: Mapping[str, Scope] = field(default_factory=dict)
    _groups: dict[str, Group | None] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def group_of(self, table: str) -> Group | None:
        """Return the first group whose globs match; it is searched for once."""
        if table not in self._groups:
            self._groups[table] = next((each for each in self.groups if each.holds(table)), None)
        return self._groups[table]

    def holds(self, table: str) -> bool:
        """Return whether a table is in the fleet."""
        return table in self.tables or self.group_of(table) is not None

    def may_hold_below(self, folder: str) -> bool:
        """Return whether a folder may have tables of the fleet below it."""
        globs = (*(glob for group in self.groups for glob in group.tables), *self.tables)
        return any(_may_begin(glob, folder) for glob in globs)

    def scopes(self, table: str) -> tuple[Scope, ...]:
        """Return the scopes that apply to a table, the most general first."""
        group = self.group_of(table)
        found = (self.scope, group.scope if group else None, self.tables.get(table))
        return tuple(scope for scope in found if scope is not None)

    def prefixes(self) -> tuple[str, ...]:
        """Return where tables can be: the parts of the globs before any wildcard.

        None of them is below another one; an empty one is the whole root.
        """
        globs = {*(glob for group in self.groups for glob in group.tables), *self.tables}
        found = sorted({_literal(glob) for glob in globs})
        return tuple(each for at, each in enumerate(found) if not _below(each, found[:at]))


def _literal(glob: str) -> str:
    """Return the parts of a glob before the first with a wildcard; all, if none has one."""
    parts = glob.split("/")
    wild = next((at for at, part in enumerate(parts) if _WILD.search(part)), len(parts))
    return "/".join(parts[:wild])


def _below(path: str, others: Iterable[str]) -> bool:
    return any(not other or path.startswith(f"{other}/") for other in others)


def _may_begin(glob: str, folder: str) -> bool:
    parts, names = glob.split("/"), folder.split("/") if folder else []
    for part, name in zip(parts, names, strict=False):
        if "**" in part:
            return True
        if not _pattern(part).fullmatch(name):
            return False
    return len(parts) > len(names)


def _any(globs: Iterable[str], table: str) -> bool:
    return any(_pattern(glob).fullmatch(table) for glob in globs)


@lru_cache(maxsize=4096)
def _pattern(glob: str) -> re.Pattern[str]:
    """Return the regular expression of a glob."""
    forms = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    return re.compile("".join(forms.get(part, re.escape(part)) for part in parts))


# The settings of one table
DEFAULT, OWN = "default", "the table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """One setting of a table, and where its value comes from.

    ``source`` is ``default``, ``the table`` with its event, or the scope with file and line.
    ``over`` is what it wins over: sources with the values that they gave.
    """

    key: str
    value: str
    source: str
    over: tuple[tuple[str, str], ...] = ()

    def facts(self) -> Facts:
        """Return the setting as plain JSON values."""
        over = [{"source": source, "value": value} for source, value in self.over]
        return {"key": self.key, "value": self.value, "source": self.source, "over": over}


Sourced = Mapping[str, tuple[str, str]]
"""Values as text with their sources, by key."""


def effective(fleet: Fleet, table: str, own: Sourced, defaults: Sourced) -> tuple[Effective, ...]:
    """Return each setting of a table.

    Args:
        fleet: the file.
        table: the table's name below the root, or its URI.
        own: the table's properties, with what set them.
        defaults: what holds if nobody gives a value.

    Returns:
        Settings that someone gives, by key, then those that have their default.
    """
    layers = tuple(_layers(fleet, table, own))
    keys = sorted({key for layer in layers for key in layer})
    given = tuple(_strongest(key, layers, defaults) for key in keys)
    rest = (key for key in defaults if key not in keys)
    return (*given, *(_strongest(key, (), defaults) for key in rest))


def properties_of(fleet: Fleet, table: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return the properties by which a table of the fleet is planned."""
    layers = _layers(fleet, table, {key: (value, OWN) for key, value in own.items()})
    merged: dict[str, str] = {}
    for layer in layers:
        merged |= {key: value for key, (value, _) in layer.items() if is_property(key)}
    return merged


def objective_of(fleet: Fleet, table: str) -> Objective:
    """Return the objective of a table."""
    given = settings_of(fleet, table)
    found = {name.name: given.get(f"objective.{name.name}") for name in fields(Objective)}
    return Objective(**found)  # type: ignore[arg-type]


def priority_of(fleet: Fleet, table: str) -> float:
    """Return how many times the gain of a table's plans counts."""
    return float(str(_setting(fleet, table, "priority") or 1.0))


def windows_of(fleet: Fleet, table: str, kind: str) -> Windows:
    """Return when plans of a kind may begin."""
    found = _setting(fleet, table, f"window.{kind}")
    return found if isinstance(found, Windows) else Windows()


def freeze_of(fleet: Fleet, table: str) -> Freeze | None:
    """Return the time in which no plan of a table begins."""
    found = _setting(fleet, table, "freeze")
    return found if isinstance(found, Freeze) else None


def settings_of(fleet: Fleet, table: str) -> Mapping[str, object]:
    """Return what the file gives a table, enforced or not; the most special scope counts."""
    return {key: given.value for scope in fleet.scopes(table) for key, given in scope.given.items()}


def _setting(fleet: Fleet, table: str, key: str) -> object:
    """Return one of the values of ``settings_of``; None if the file has none."""
    given = (scope.given.get(key) for scope in reversed(fleet.scopes(table)))
    return next((each.value for each in given if each is not None), None)


def is_property(key: str) -> bool:
    """Return whether a setting is a property, which tables may have of their own."""
    return "." in key and key.partition(".")[0] not in ("objective", "window")


def _layers(fleet: Fleet, table: str, own: Sourced) -> Iterator[Sourced]:
    """Yield what applies to a table, the weakest first."""
    scopes = fleet.scopes(table)
    for scope in scopes:
        if not scope.enforce:
            yield _sourced(fleet, scope)
    yield own
    for scope in scopes:
        if scope.enforce:
            yield _sourced(fleet, scope)


def _sourced(fleet: Fleet, scope: Scope) -> Sourced:
    where = f"{fleet.source}:{{line}} {scope.name}{', enforced' if scope.enforce else ''}"
    return {key: (given.text, where.format(line=given.line)) for key, given in scope.given.items()}


def _strongest(key: str, layers: Sequence[Sourced], defaults: Sourced) -> Effective:
    found = [layer[key] for layer in (defaults, *layers) if key in layer]
    value, source = found.pop()
    over = tuple((where, other) for other, where in reversed(found))
    return Effective(key=key, value=value, source=source, over=over)
