"""Claims: names in a group that one client holds at a time, with a content that all can read.

Contract:

1. A claim is made at once or not at all: no queue. It ends with its release, with its holder's
   session, and with ``Coordinator.forget`` of its table.
2. ``number`` grows: a later claim of the same name has a higher one, within one life of the
   coordinator. A reader that sees another number sees another claim.
3. Its state is HELD, DOUBTFUL (connection suspended: it may have ended) or LOST (final).
4. The content is a few short texts. Readers see all of an ``update``, or nothing of it.
5. A claim is a hint: it says where something is served. The table's log decides what is committed.
6. Errors: ``LockLost`` if an update cannot be made, because the claim is lost or doubtful;
   ``InvalidInput`` for a name with a '/', or a content above 64 kB; else those of ``Coordinator``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from airflow_provider_segtable.core.time import Instant


class LeaseState(StrEnum):
    """The state of a claim, or of a lease."""

    HELD = "held"
    DOUBTFUL = "doubtful"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A live claim, as every client sees it; ``since`` is the coordinator's time."""

    name: str
    number: int
    content: Mapping[str, str]
    since: Instant


class Claim(Protocol):
    """A name that this client holds, as long as its session lives."""

    @property
    def number(self) -> int:
        """Return the number of the claim, higher than those of earlier claims of its name."""
        ...

    @property
    def state(self) -> LeaseState:
        """Return the known state of the claim."""
        ...

    def update(self, content: Mapping[str, str]) -> None:
        """Replace the content; raise ``LockLost`` unless the claim is held."""
        ...

    def release(self) -> None:
        """End the claim; no error if it has ended already."""
        ...
