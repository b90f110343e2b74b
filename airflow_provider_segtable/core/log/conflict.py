"""A change that may not be committed: a value, not a fault."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """The change cannot be committed; ``winner`` is the event that forbids it, if any."""

    reason: str
    winner: int | None = None
