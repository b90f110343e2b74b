"""The form of every answer: the data, of which version, how old, and why it is not newer.

1. Times are texts in ISO 8601, UTC. Ages and durations are in seconds, sizes in bytes.
2. ``late`` is empty while the answer is as new as the table. Otherwise it says in a sentence why
   the table could not be asked, and the data are the last known ones.
3. Lists are bounded: they have ``limit`` and ``total`` (``Listed``).
4. An error is a ``Problem``; no text of it holds a credential (``core.secret``).
"""

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_segtable.core.errors import SegtableError

T = TypeVar("T")

MOST_LISTED = 1000
Limit = Annotated[int, Field(ge=1, le=MOST_LISTED)]
"""The most entries of a list."""


class Shown(BaseModel):
    """The base of what the page shows: frozen, and without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Answer(Shown, Generic[T]):
    """What is known of a table, or of the fleet."""

    version: int | None = Field(description="newest event of the table; null for a fleet")
    as_of: str = Field(description="when this was the newest, ISO 8601 UTC")
    age_seconds: float = Field(description="seconds since then")
    late: str = Field(default="", description="why it could not be refreshed; empty if it was")
    data: T


class Listed(Shown, Generic[T]):
    """A part of a list."""

    total: int = Field(description="entries in all")
    offset: int = Field(default=0, description="entries before the first one here")
    limit: int
    entries: list[T]


def about_bytes(value: object) -> int:
    """Return about what a value of an answer takes in memory; entries of a list count alike."""
    match value:
        case BaseModel():
            return _OBJECT + sum(map(about_bytes, vars(value).values()))
        case str():
            return _OBJECT + len(value)
        case dict():
            return _OBJECT + len(value) * sum(map(about_bytes, next(iter(value.items()), ())))
        case list() | tuple():
            return _OBJECT + len(value) * sum(map(about_bytes, value[:1]))
        case _:
            return _OBJECT


_OBJECT = 64


class Problem(Shown):
    """An error: its kind, a sentence, and the way out."""

    error: str
    message: str
    way_out: str = ""


class Unanswered(SegtableError):
    """Nothing is known yet, and the store does not answer; or too many requests wait for it."""


class NotSetUp(SegtableError):
    """The page does not know where tables are; the message says how to name the place."""
