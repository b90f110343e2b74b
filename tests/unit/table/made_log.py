"""A log in memory with one event a second, and a storage that notes what is read of it."""

from collections.abc import Callable

from airflow_provider_segtable.core.log.events import Action, Event, encode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.log_paths import TIMELINE, event_path, expired_path, number
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.log.event_log import EventLog
from tests.support.builders import BASE, DEFINITION, first

SECOND = 1_000_000


class Noted(MemoryStorage):
    """A storage that notes which events are read, and acts before it reads some paths."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__("memory://noted")
        self.events: list[int | None] = []
        self.before: dict[str, Callable[[], None]] = {}

    def read(self, path: str) -> bytes:
        """Act once if wanted, note and read."""
        self.before.pop(path, lambda: None)()
        if path.startswith(TIMELINE):
            self.events.append(number(path))
        return super().read(path)

    def reads(self) -> list[int | None]:
        """Return the events that were read since the last call."""
        found, self.events = self.events, []
        return found


class Made:
    """A log with one event a second, and the state after each of them."""

    def __init__(self, events: int = 10, actions: dict[int, Action] | None = None) -> None:
        """Put events 0 to ``events``: appends, unless ``actions`` has another."""
        self.storage = Noted()
        self.states: list[State] = []
        for n in range(events + 1):
            self.put((actions or {}).get(n, Appended(segments=(first(n),)) if n else DEFINITION))

    def put(self, action: Action) -> None:
        """Put the next event."""
        n = len(self.states)
        event = Event(n=n, time=BASE + n * SECOND, commit=f"c{n}", author="me", action=action)
        self.storage.create(event_path(n), encode(event))
        self.states.append(apply(self.states[-1] if n else None, event))

    def checkpoints(self, *numbers: int) -> None:
        """Write checkpoints, the last one of which is named as the newest."""
        for n in numbers:
            EventLog(self.storage).checkpoint(self.states[n])

    def expire(self, n: int) -> None:
        """Let the events below ``n`` expire."""
        self.storage.create(expired_path(n), b"")
        for old in range(n):
            self.storage.delete(event_path(old))

    @property
    def log(self) -> EventLog:
        """Return a reader that has read nothing yet."""
        self.storage.reads()
        return EventLog(self.storage)
