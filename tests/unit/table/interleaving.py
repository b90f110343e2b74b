"""Ports of a process that others overtake, or that dies, right before one of its events.

``before_event(ports, deed)`` returns the same ports as a process of their own. When it is about to
create an event in the table's log, the deed is done first: whatever others do there, or
``die``. So an interleaving is written down as nested calls.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count

from airflow_provider_segtable.core.log.log_paths import TIMELINE
from airflow_provider_segtable.ports.storage import Entry, NoTurn, Storage, Turn
from airflow_provider_segtable.table.context import TableContext
from tests.support.clock import FakeRandomness

_SEEDS = count(1000)


class Killed(BaseException):
    """The process is gone: no clean-up code reaches anything."""


def die() -> None:
    """End the process here."""
    raise Killed


@dataclass(slots=True)
class Overtaken:
    """A storage that does a deed before it creates an object in a folder, with a word in it."""

    inner: Storage
    folder: str
    word: bytes
    deeds: list[Callable[[], object]] = field(default_factory=list)
    dead: bool = False

    @property
    def uri(self) -> str:
        """Return the root URI."""
        return self._alive().uri

    @property
    def remote(self) -> bool:
        """Return whether a request costs a round trip."""
        return self._alive().remote

    def read(self, path: str) -> bytes:
        """Read."""
        return self._alive().read(path)

    def exists(self, path: str) -> bool:
        """Look."""
        return self._alive().exists(path)

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Do the deed, then create."""
        if self.deeds and path.startswith(self.folder) and self.word in data:
            self._do(self.deeds.pop())
        if ready is None:
            self._alive().create(path, data)
        else:
            self._alive().create(path, data, ready=ready)

    def replace(self, path: str, data: bytes) -> None:
        """Overwrite."""
        self._alive().replace(path, data)

    def flush(self, prefix: str) -> None:
        """Settle."""
        self._alive().flush(prefix)

    def turn(
        self,
        prefix: str,  # noqa: ARG002
        *,
        wait_s: float,  # noqa: ARG002
        offer: Callable[[], bytes | None] | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[Turn]:
        """Take no turn: a process of another host, which those of the deed do not wait for."""
        return nullcontext(NoTurn())

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """List."""
        return self._alive().list(prefix, after=after)

    def delete(self, path: str) -> None:
        """Delete."""
        self._alive().delete(path)

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Name folders."""
        return self._alive().folders(prefix)

    def prune(self, prefix: str) -> None:
        """Prune."""
        self._alive().prune(prefix)

    def _do(self, deed: Callable[[], object]) -> None:
        try:
            deed()
        except Killed:
            self.dead = True
            raise

    def _alive(self) -> Storage:
        if self.dead:
            raise Killed
        return self.inner


def before_event(
    ports: TableContext, deed: Callable[[], object], folder: str = TIMELINE, word: str = ""
) -> TableContext:
    """Return ports of another process that does a deed right before it creates an event.

    Args:
        ports: the ports of a table.
        deed: what happens first.
        folder: of which log; the table's own by default.
        word: which event: the first one with this word in it.
    """
    storage = Overtaken(ports.storage, folder, word.encode(), [deed])
    return replace(ports, storage=storage, randomness=FakeRandomness(next(_SEEDS)))
