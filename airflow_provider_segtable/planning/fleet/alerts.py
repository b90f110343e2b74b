"""Decide which missed objectives to say: once each, when a table has missed its own for so long.

1. An *episode* begins with the planner run that first finds a table missing its objective, and ends
   with the run that finds it met. A table that cannot be read stays in its episode, if it has one.
2. An episode is due once it has lasted, and was not said. Who says it notes so, and a failure to
   say it is made up for by the next run.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.time import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A table that misses its objective: since when, and whether that was said."""

    since: Instant
    said: bool = False


Episodes = Mapping[str, Episode]
"""By the names of tables."""


def episodes(
    known: Episodes, missing: Collection[str], unread: Collection[str], now: Instant
) -> Episodes:
    """Return the episodes after a planner run.

    Args:
        known: those before it.
        missing: tables that miss their objective.
        unread: tables that could not be read.
        now: the time of the run.
    """
    begun = {name: known.get(name, Episode(since=now)) for name in missing}
    return {**{name: known[name] for name in unread if name in known}, **begun}


def due(known: Episodes, after: int, now: Instant) -> tuple[str, ...]:
    """Return the tables to say, in order: their episodes have lasted ``after`` microseconds."""
    late = (name for name, each in known.items() if not each.said and now - each.since >= after)
    return tuple(sorted(late))


def all_said(known: Episodes, names: Collection[str]) -> Episodes:
    """Return the episodes after these tables were said."""
    return {name: replace(each, said=each.said or name in names) for name, each in known.items()}
