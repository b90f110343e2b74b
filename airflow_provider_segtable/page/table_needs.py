"""Who would miss a table: the answer to "can I drop this?", and what would say so exactly.

1. Writers, consumers, tags and publications are in the log. Plain readers are not, unless the table
   records its reads (``statistics.reads``): so nothing here says that nobody needs a table.
2. The page drops nothing. It names the command that lists what would go.
"""

from collections.abc import Iterator, Sequence
from shlex import quote

from pydantic import Field

from airflow_provider_segtable.core.consumer import Consumer
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, MINUTE_US, SECOND_US, Instant
from airflow_provider_segtable.page.answer import Shown
from airflow_provider_segtable.planning.properties import PublishSettings

NAMED = 5
_UNITS = (("day", DAY_US), ("hour", HOUR_US), ("minute", MINUTE_US), ("second", SECOND_US))


class Needs(Shown):
    """Who would miss the table, a sentence each; and the command that lists what a drop deletes."""

    sentences: list[str]
    command: str = Field(description="deletes nothing")


def needs_of(state: State, now: Instant, uri: str) -> Needs:
    """Return who would miss a table.

    Args:
        state: its newest version.
        now: the wall clock, for ages.
        uri: its place.
    """
    sentences = [
        f"Its log was written {_ago(state.time, now)}.",
        *_consumers(state, now),
        *_kept(state),
        _readers(state),
    ]
    return Needs(sentences=sentences, command=f"segtable table drop {quote(uri)} --dry-run")


def _consumers(state: State, now: Instant) -> Iterator[str]:
    newest = sorted(state.consumers.items(), key=lambda item: -item[1].advanced_at)
    if not newest:
        yield "No consumer follows its changes."
        return
    names = ", ".join(f"{name} ({_advanced(each, now)})" for name, each in newest[:NAMED])
    yield f"{counted(len(newest), 'consumer')} of its changes: {names}."


def _advanced(consumer: Consumer, now: Instant) -> str:
    return f"read {_ago(consumer.advanced_at, now)}"


def _kept(state: State) -> Iterator[str]:
    if state.tags:
        yield f"{counted(len(state.tags), 'tag')}: {_listed(sorted(state.tags))}."
    formats = PublishSettings.read(state.table.properties).formats
    if formats:
        yield f"It is published as {_listed(formats)}: readers of that are not known here."


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _readers(state: State) -> str:
    if state.table.properties.get("statistics.reads", "off") == "off":
        return "Other readers are not known: statistics.reads is off."
    return "Its reads are recorded: segtable advise counts them."


def _ago(at: Instant, now: Instant) -> str:
    passed = max(0, now - at)
    unit, length = next((each for each in _UNITS if passed >= each[1]), _UNITS[-1])
    return f"{counted(passed // length, unit)} ago"
