"""Metadata storage: small objects, each created by exactly one writer.

Contract:

1. ``create`` is put-if-absent and durable when it returns (local files: fsync of the file and of
   its directory). Of any number of racing creators of one path exactly one returns; the others
   get ``AlreadyExists``. It never leaves a partial object under ``path``. ``ready`` is called
   before the object becomes visible, and may take long: it waits for files that the object names.
   If it raises, nothing is created.
2. ``create`` may raise ``AlreadyExists`` for its *own* earlier attempt (a retried request whose
   first reply was lost), and ``OutcomeUnknown`` if it lost the reply: callers compare content.
3. ``list`` yields entries in ascending order of path, and every object whose ``create`` had
   returned before the call.
4. ``replace`` overwrites, durably; it is for hints only, never for the log.
5. A readable object has durable bytes, but its name may not be durable yet: its author may have
   stopped before it synced the folder. ``flush`` makes the names in a folder durable. Call it
   before deleting files because of an object that another writer created.
6. No path leads out of the root, nor does a symbolic link: ``InvalidName``, ``UnsafePath``.
7. ``delete`` leaves folders on local disks; ``prune`` removes the empty ones.
8. ``turn`` is a hint: writers of one folder that take turns do not race, where a turn costs less
   than a lost race (on a local disk: the writers of one host). It may end
   early, or not be there at all, and never fails. A writer that has to wait may leave an *offer*,
   which the holder of a turn may claim and carry out (``Turn``).
9. ``folders`` names the folders directly below one: those that hold an object at any depth, and on
   a local disk empty ones, too. Names that no path may have are left out, and symbolic links.
10. ``remote`` says that a request costs a round trip. Then readers request several objects at once,
   and a guess that may fail is cheaper than a look before. It changes no result.
11. ``exists`` sees what ``list`` would, and costs one look, however many objects a folder has.
12. Errors are from ``core.errors``, with the full URI in the message.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.time import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One listed object: path relative to the table's root, size in bytes, last modification."""

    path: str
    size: int
    modified: Instant


class Turn(Protocol):
    """A writer's turn in a folder, and the offers of writers that wait for theirs.

    1. An offer is any bytes. A holder of a turn claims offers under a number, all at once for one
       number; each offer is claimed once. It ends the claim when the outcome of that number is
       certain.
    2. An offer ends with the wait of its author, and the author knows from then on whether it was
       claimed. If the claim has not ended, the number is known, too.
    3. So an offer that was not claimed when its author's turn began will never be. All else is for
       the log to tell: a claim says nothing about its success.
    """

    @property
    def claimed(self) -> bool:
        """Return whether another writer claimed the offer of this one."""
        ...

    @property
    def claimed_as(self) -> int | None:
        """Return the number of the claim on this writer's offer, if it has not ended."""
        ...

    def claim(self, number: int, most: int) -> Sequence[bytes]:
        """Claim waiting offers under a number, oldest first; claims of lower numbers end."""
        ...

    def end_claims(self) -> None:
        """End the claims of this turn: the outcome of their number is certain."""
        ...


class NoTurn:
    """The turn of a writer where there are none."""

    claimed = False
    claimed_as = None

    def claim(self, number: int, most: int) -> Sequence[bytes]:  # noqa: ARG002
        """Return no offers."""
        return ()

    def end_claims(self) -> None:
        """Do nothing."""


class Storage(Protocol):
    """The objects of one table, addressed by paths relative to its root."""

    @property
    def uri(self) -> str:
        """Return the table's root URI, for messages."""
        ...

    @property
    def remote(self) -> bool:
        """Return whether a request costs a round trip."""
        ...

    def read(self, path: str) -> bytes:
        """Return an object's bytes; ``NotFound`` if it does not exist."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is such an object."""
        ...

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Create an object that must not exist yet (put-if-absent, durable)."""
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a hint."""
        ...

    def flush(self, prefix: str) -> None:
        """Make all names in the folder ``prefix`` durable, whichever writer created them."""
        ...

    def turn(
        self, prefix: str, *, wait_s: float, offer: Callable[[], bytes | None] | None = None
    ) -> AbstractContextManager[Turn]:
        """Wait for this writer's turn in the folder ``prefix``, and hold it; never raises.

        Args:
            prefix: the folder.
            wait_s: the longest wait in seconds.
            offer: returns what to offer; called only if this writer has to wait. It does not raise.
        """
        ...

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Yield objects below the folder ``prefix``, ascending, with paths ``> after``."""
        ...

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Return the names of the folders directly below the folder ``prefix``, ascending."""
        ...

    def delete(self, path: str) -> None:
        """Delete an object; no error if it does not exist."""
        ...

    def prune(self, prefix: str) -> None:
        """Remove the empty folders below ``prefix``, and itself, with remains of killed writers.

        For places that nothing is written to any more. Object stores have no folders.
        """
        ...
