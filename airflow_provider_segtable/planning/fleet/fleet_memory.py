"""What a planner remembers of a fleet between its runs, and which tables it looks at again.

1. Of each table a planner remembers its look (``fleet_plan.TableLook``) at one version. What a
   look finds is a function of the version, the settings, the code and the time; so while none of
   these changes anything, the remembered look is the one that a new look would give.
2. A table is looked at again if its settings are others (``settings_of_looks``), if a newer version
   is announced, or if its look is *due*: the earliest time at which the answer may be another one
   without any event, as a file gets old enough, a rest ends, or a lag grows.
3. A table with plans that are pending, or ids whose writer may be gone, is *unsettled*: whether the
   worker lives is not in its log. It is looked at in each run.
4. Announcements are hints. So nothing is remembered for longer than ``SWEEP_US``, whatever is
   announced, and a table of which nothing is announced is looked at. Each table has its own moment
   of that time (``swept_at``), so that each run has its share of such looks.
5. Only looks are remembered, no decision: budgets and windows change with the time, so remembered
   offers are ranked again in each run.
6. The memory may be lost, damaged or old. The worst is a look more, as rule 2 asks what is
   announced now; and at most ``SWEEP_US`` later a look that its table outran.
7. Facts about a table's reads are no events: they are those of its last look.
8. The names of the fleet's tables are remembered for ``LISTED_US``, if the globs stay the same.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.time import MINUTE_US, Instant
from airflow_provider_segtable.planning.fleet.fleet import Fleet, Scope, is_property
from airflow_provider_segtable.planning.fleet.fleet_plan import TableLook, frozen

SWEEP_US = 30 * MINUTE_US
LISTED_US = 10 * MINUTE_US


class Why(StrEnum):
    """Why a table is looked at."""

    UNKNOWN = "nothing is remembered of it"
    SETTINGS = "its settings or the code are others"
    UNSETTLED = "whether its workers and writers live is not in its log"
    DUE = "its plans may be others by now"
    SWEEP = "its last look is long ago"
    NEWER = "a newer version is announced"
    UNANNOUNCED = "nothing is announced of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A look at a table, for later runs.

    Attributes:
        look: what was found.
        at: when.
        settings: the digest of the settings by which it was found.
        due: when a look may find something else without an event; None: never.
        unsettled: plans are pending, or ids wait for their writer.
    """

    look: TableLook
    at: Instant
    settings: str
    due: Instant | None = None
    unsettled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTables:
    """The names of a fleet's tables, ascending; ``complete`` unless the search was cut short.

    ``unread`` has the error of each folder that cannot be listed, by name or URI. ``at`` is when
    the search began, ``globs`` the digest of what was searched for.
    """

    names: tuple[str, ...]
    listings: int
    complete: bool = True
    unread: Mapping[str, str] = field(default_factory=dict)
    at: Instant = 0
    globs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMemory:
    """What a planner remembers of a fleet: its tables by name, and the last search for them."""

    tables: Mapping[str, Remembered] = field(default_factory=dict)
    found: FoundTables | None = None


def why_look(
    known: Remembered | None, settings: str, now: Instant, announced: int | None
) -> Why | None:
    """Return why a table is looked at; None if the remembered look is as good.

    Args:
        known: what is remembered of it.
        settings: the digest of its settings now.
        now: the wall clock.
        announced: its newest announced version; None if there is none.
    """
    return why_anyway(known, settings, now) or _why_announced(known, announced)


def why_anyway(known: Remembered | None, settings: str, now: Instant) -> Why | None:
    """Return why a table is looked at, whatever is announced; None if announcements decide."""
    if known is None:
        return Why.UNKNOWN
    if known.settings != settings:
        return Why.SETTINGS
    if known.unsettled:
        return Why.UNSETTLED
    if known.due is not None and known.due <= now:
        return Why.DUE
    # A clock that was set back must not keep a look for longer.
    return None if known.at <= now < swept_at(known) else Why.SWEEP


def swept_at(known: Remembered) -> Instant:
    """Return when a look is repeated in any case: at most ``SWEEP_US`` later.

    That is the next moment of the table's own: looks that were taken together, as after a change
    of the code, are not repeated together.
    """
    own = zlib.crc32(known.look.table_id.encode()) * SWEEP_US >> 32
    return known.at + SWEEP_US - (known.at - own) % SWEEP_US


def _why_announced(known: Remembered | None, announced: int | None) -> Why | None:
    if announced is None:
        return Why.UNANNOUNCED
    return Why.NEWER if known is None or announced > known.look.version else None


def settings_of_looks(
    fleet: Fleet, tables: Iterable[str], now: Instant, code: str
) -> dict[str, str]:
    """Return a digest of each table's settings: all that its look depends on, beside the table.

    Args:
        fleet: the file.
        tables: the tables' names.
        now: the wall clock, for freezes: the tables of a frozen table's indexes are not planned.
        code: the version of the code.
    """
    digests: dict[tuple[int, ...], str] = {}
    found = {}
    for table in tables:
        scopes, ice = fleet.scopes(table), frozen(fleet, table, now) is not None
        alike = (ice, *map(id, scopes))  # a scope is one object for all of its tables
        if alike not in digests:
            digests[alike] = _digest([code, [*_counted(scopes)], ice])
        found[table] = digests[alike]
    return found


def _counted(scopes: Iterable[Scope]) -> Iterator[list[Any]]:
    """Yield the settings that a look depends on, of each scope that has any."""
    for scope in scopes:
        given = sorted((key, each.text) for key, each in scope.given.items() if _counts(key))
        if given:
            yield [scope.enforce, given]


def _counts(key: str) -> bool:
    return is_property(key) or key.startswith("objective.")


def globs_of(fleet: Fleet) -> str:
    """Return a digest of what a search for a fleet's tables depends on."""
    groups = [[group.tables, group.without] for group in fleet.groups]
    return _digest([fleet.root, groups, sorted(fleet.tables)])


def listed_already(found: FoundTables, globs: str, now: Instant) -> bool:
    """Return whether a search is recent, was for the same, and could list everything."""
    return not found.unread and found.globs == globs and found.at <= now < found.at + LISTED_US


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
