"""Batches of a stream: where one ends that follows a table.

1. A stream reads one window of versions after another. Only versions with rows for it, its *steps*,
   make a batch: compactions, cleanings and consumers' positions make no empty ones.
2. Limits bound what a batch has: versions that changed rows, and files and bytes that these added.
   A version is never divided, so a batch has at least one, whatever its size.
3. A batch ends right before the first step that it has no room for. So rows that were deleted by
   then are not in it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.reads.effects import Came, Differs, effects


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How many versions, files and bytes a batch has at most; None: any number."""

    versions: int | None = None
    files: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        """Refuse limits below 1."""
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and value < 1:
                raise InvalidInput(f"a batch of at most {value} {each.name}: give at least 1")

    def allow(self, versions: int, files: int, size: int) -> bool:
        """Return whether a batch may have as much."""
        given = ((versions, self.versions), (files, self.files), (size, self.size))
        return all(most is None or value <= most for value, most in given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A version that may have rows for a stream, and the files and bytes that it added."""

    n: int
    files: int = 0
    size: int = 0

    @staticmethod
    def of(event: Event, *, changes: bool) -> "Step | None":
        """Return what an event adds to a stream; None if nothing.

        Args:
            event: the event.
            changes: the stream reads every change of a row, not rows added alone.
        """
        found = effects(event.action)
        came = [s for each in found if isinstance(each, Came) for s in each.segments]
        if not came and (not found or not (changes or _differs(event))):
            return None
        return Step(n=event.n, files=len(came), size=sum(segment.size for segment in came))


def _differs(event: Event) -> bool:
    """Return whether an event may bring rows back under roots of its own."""
    return any(isinstance(each, Differs) for each in effects(event.action))


def batch_end(steps: Iterable[Step], limits: BatchLimits, last: int) -> int | None:
    """Return the version with which the batch of the first steps ends; None if there are none.

    Args:
        steps: the steps after the batch before, up to ``last``, in order.
        limits: how much the batch has at most.
        last: the version with which it ends if they allow all steps.
    """
    versions, files, size = 0, 0, 0
    for step in steps:
        versions, files, size = versions + 1, files + step.files, size + step.size
        if versions > 1 and not limits.allow(versions, files, size):
            return step.n - 1
    return last if versions else None
