"""A table in memory whose commits can be made to go wrong, one by one."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from airflow_provider_segtable.core.errors import (
    OutcomeUnknown,
    StorageError,
    StorageFull,
)
from airflow_provider_segtable.core.log.events import Action, Event, encode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.committer import Change
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import create_table
from tests.support.builders import BASE, DEFINITION, first
from tests.support.clock import FakeClock, FakeRandomness


@dataclass(slots=True)
class Trap:
    """A storage whose creates and reads can be made to go wrong, one by one."""

    inner: MemoryStorage
    traps: list[Callable[[str, bytes], None]] = field(default_factory=list)
    unreadable: int = 0
    creates: int = 0

    @property
    def uri(self) -> str:
        """Return the root URI."""
        return self.inner.uri

    def create(self, path: str, data: bytes) -> None:
        """Spring the next trap, or create."""
        self.creates += 1
        if self.traps:
            self.traps.pop(0)(path, data)
        else:
            self.inner.create(path, data)

    def read(self, path: str) -> bytes:
        """Fail as often as wanted, or read."""
        if self.unreadable:
            self.unreadable -= 1
            raise StorageError(path)
        return self.inner.read(path)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def memory_context() -> TableContext:
    """Return the context of a new table in memory, whose storage has traps."""
    clock = FakeClock(BASE)
    storage = MemoryStorage(clock=clock)
    made = TableContext(
        uri="memory://t",
        storage=storage,
        files=MemoryFiles(),
        clock=clock,
        randomness=FakeRandomness(),
        author="me",
    )
    create_table(made, DEFINITION)
    return replace(made, storage=Trap(storage))  # type: ignore[arg-type]


def load(ports: TableContext) -> State:
    return EventLog(ports.storage).load()


def append(
    partition: int, commit_id: str = "mine", guard: Callable[[], None] = lambda: None
) -> Change:
    action = Appended(segments=(first(partition),))
    return Change(action=action, commit_id=commit_id, guard=guard)


def rival(
    ports: TableContext, partition: int, action: Action | None = None
) -> Callable[[str, bytes], None]:
    """Somebody else's event takes the number first."""

    def strike(path: str, data: bytes) -> None:
        state = load(ports)
        event = Event(
            n=state.n + 1,
            time=state.time + 1,
            commit=f"rival-{partition}",
            author="rival",
            action=action or append(partition).action,
        )
        ports.storage.inner.create(event_path(event.n), encode(event))  # type: ignore[attr-defined]
        ports.storage.inner.create(path, data)  # type: ignore[attr-defined]

    return strike


def traps(ports: TableContext) -> list[Callable[[str, bytes], None]]:
    return ports.storage.traps  # type: ignore[attr-defined,no-any-return]


def lost_reply(ports: TableContext, *, landed: bool) -> Callable[[str, bytes], None]:
    def strike(path: str, data: bytes) -> None:
        if landed:
            ports.storage.inner.create(path, data)  # type: ignore[attr-defined]
        raise OutcomeUnknown("lost")

    return strike


def full(path: str, _: bytes) -> None:
    raise StorageFull(path)
