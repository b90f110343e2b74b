"""Watch a table: ask one question whenever the answer may have changed.

::

    a sensor, an operator ──> Question ──┬── wait_here      in the task's process
                                         └── TableTrigger   in the triggerer
                                               stored: the path of its class, and its fields

1. A question is a frozen dataclass. Its fields are plain JSON values: names and numbers, never
   credentials, because Airflow stores them. Its verdict is pure; ``answer`` reads the values that
   the verdict needs. So all modes of a sensor and all waits of an operator agree.
2. There is one trigger, ``TableTrigger``, for all questions. It stores its question by itself, and
   looks up the connection when it runs. A new question needs no trigger of its own.
3. ZooKeeper's announcements wake a wait early; the table alone decides. Without ZooKeeper a wait
   looks every ``poll_interval`` seconds. While ZooKeeper is unreachable it looks, and tries
   ZooKeeper again, every ``OUTAGE_S`` seconds, if that is more often.
4. Blocking calls run in the trigger's own thread, so a long wait takes none of the few threads
   that all triggers of a triggerer share.
5. A trigger never raises: an error ends as an event with status ``error``. A failing storage is
   retried several times before that.
6. A deadline is a point in time, so a triggerer that takes over a trigger does not extend it.
7. A trigger that fires at once may have its task start again before the scheduler has heard of the
   end of the process that deferred it; then Airflow takes the task for killed, and fails it. So no
   trigger fires within its first ``HEARD_S`` seconds.
8. When a person ends a deferred task, Airflow tells its trigger (3.3 and later), which cancels the
   plans that it waits for (``services.cancelling``), as a task does that waits itself.
9. Earlier versions had a trigger for each question, stored with the question's fields beside its
   own. Airflow's database may have some of them, so each is kept as a ``FormerTrigger``.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Self

from airflow.providers.common.compat.sdk import BaseHook
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CoordinationError,
    InvalidInput,
    SegtableError,
    StorageError,
)
from airflow_provider_segtable.core.log.author import same_task
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.core.time import SECOND_US, Instant
from airflow_provider_segtable.hooks.segtable import Place

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.table.context import TableContext

STORAGE_TRIES = 5
OUTAGE_S = 30.0
HEARD_S = 10.0
"""How long a scheduler may take to hear of the end of a process; it looks each second or two."""
OF_NO_USE = "of no use"
"""The status of an event that ends a useless wait: the answer would never come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer to a question: a message, and the event that ends the wait, or None to go on.

    The event's ``status`` is ``success`` unless it says otherwise (``OF_NO_USE``).
    """

    message: str
    event: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(ABC):
    """Condition on a table that ends a wait; a base class. A trigger stores its fields.

    Attributes:
        table: path below the connection's root, or URI.
    """

    table: str
    least_poll_s: ClassVar[float] = 0.0
    """Least seconds between looks in the triggerer, unless ZooKeeper announces an event."""

    @abstractmethod
    def answer(self, ports: "TableContext", state: "State") -> Answer:
        """Answer for one state of the table; may raise ``StorageError``."""

    @property
    def own_plans(self) -> Sequence[str]:
        """Return the ids of the plans that are carried out for the waiting task."""
        return ()

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the question with these fields, as JSON has them: lists are tuples."""
        found: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()
        }
        return cls(**found)

    def fields(self) -> dict[str, Any]:
        """Return the fields as JSON has them: tuples are lists."""
        given = asdict(self)
        return given | {name: [*each] for name, each in given.items() if isinstance(each, tuple)}


def question_type(path: str) -> type[Question]:
    """Return the class at a path, ``module.Class``.

    Raises:
        InvalidInput: there is no question at this path.
    """
    try:
        found = resolve_name(path)
    except (ImportError, AttributeError, ValueError):
        found = None
    if not (isinstance(found, type) and issubclass(found, Question)):
        raise InvalidInput(
            f"{path!r} is not a question of a trigger: install the same version of this package "
            "for workers and the triggerer"
        )
    return found


def class_path(of: type) -> str:
    """Return the path of a class, by which Airflow imports it."""
    return f"{of.__module__}.{of.__qualname__}"


class Watch:
    """The blocking half of a wait; used from one thread."""

    def __init__(self, place: Place, question: Question) -> None:
        self._place = place
        self._question = question
        self._open = ExitStack()
        self._ports: TableContext | None = None
        self._state: State | None = None
        self._failures = 0

    def look(self) -> Answer:
        """Ask the table now; tolerate a few storage failures in a row."""
        try:
            if self._ports is None:
                ports = self._place.table_ports(self._question.table)
                self._ports = self._open.enter_context(ports)
            log = self._ports.log
            self._state = log.refresh(self._state) if self._state else log.load()
            answer = self._question.answer(self._ports, self._state)
        except StorageError:
            self._failures += 1
            if self._failures >= STORAGE_TRIES:
                raise
            return Answer(message="the storage failed; trying again")
        self._failures = 0
        return answer

    def wait(self, seconds: float) -> float:
        """Wait for a new version; return how many seconds to sleep before the next look."""
        if self._ports is None or self._state is None or self._ports.optional_coordinator is None:
            return seconds
        try:
            self._ports.coordinator.wait_head(
                self._state.table.table_id, beyond=self._state.n, wait_s=seconds
            )
        except CoordinationError:
            return min(seconds, OUTAGE_S)
        return 0.0

    def close(self) -> None:
        """End the session with ZooKeeper."""
        try:
            self._open.close()
        except SegtableError:
            return  # the session has ended already


class TableTrigger(BaseTrigger):
    """Fire when a question about a table is answered.

    Its one event is ``{"status": "success" | "of no use" | "error" | "timeout", "message": ...}``;
    an answer's event has its own fields, too.

    Args:
        question: the condition to wait for, or the path of its class, as stored.
        fields: the fields of a stored question.
        segtable_conn_id: the connection.
        poll_interval: seconds between looks, if ZooKeeper announces nothing.
        deadline: when to give up, in microseconds since the epoch; never if None.

    Raises:
        InvalidInput: no question is at the path.
    """

    def __init__(
        self,
        question: Question | str,
        fields: Mapping[str, Any] | None = None,
        *,
        segtable_conn_id: str,
        poll_interval: float = 30.0,
        deadline: Instant | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if isinstance(question, str):
            question = question_type(question).of(fields or {})
        self.question = question
        self.segtable_conn_id = segtable_conn_id
        self.poll_interval = poll_interval
        self.deadline = deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to rebuild this trigger."""
        return class_path(TableTrigger), {
            "question": class_path(type(self.question)),
            "fields": self.question.fields(),
            "segtable_conn_id": self.segtable_conn_id,
            "poll_interval": self.poll_interval,
            "deadline": self.deadline,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event."""
        loop = asyncio.get_running_loop()
        heard = loop.time() + HEARD_S
        try:
            event = await self._awaited()
        except Exception as error:  # noqa: BLE001  # the task sees an event, not an exception
            event = {"status": "error", "message": redacted(f"{type(error).__name__}: {error}")}
        await asyncio.sleep(max(0.0, heard - loop.time()))
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """Cancel the task's plans; Airflow calls this when a person ends the task (rule 8)."""
        if self.question.own_plans:
            ti: Any = self.task_instance
            task = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}"
            place = Place.of(await BaseHook.aget_connection(self.segtable_conn_id)).masked()
            await asyncio.to_thread(self._cancel, place, task)

    def _cancel(self, place: Place, task: str) -> None:
        from airflow_provider_segtable.services.cancelling import cancel
        from airflow_provider_segtable.table.context import this_process

        author = f"{this_process()} {task}"
        with place.table_ports(self.question.table, author=author) as ports:
            mine = partial(same_task, author)
            cancel(ports, self.question.own_plans, mine, f"the task {task} was ended")

    async def _awaited(self) -> Mapping[str, Any]:
        place = Place.of(await BaseHook.aget_connection(self.segtable_conn_id)).masked()
        own = ThreadPoolExecutor(1, thread_name_prefix="segtable-trigger")
        watch = Watch(place, self.question)
        loop = asyncio.get_running_loop()
        said = ""
        try:
            while True:
                answer = await loop.run_in_executor(own, watch.look)
                pause = min(self.poll_interval, seconds_until(self.deadline))
                event = ended(answer, in_time=pause > 0)
                if event is not None:
                    return event
                if answer.message != said:
                    said = answer.message
                    self.log.info("%s", said)
                await asyncio.sleep(await loop.run_in_executor(own, watch.wait, pause))
        finally:
            own.submit(watch.close)
            own.shutdown(wait=False)


class FormerTrigger(TableTrigger):
    """Trigger that an earlier version stored, with its question's fields; a base class.

    Its fields are those of ``asks``, and the arguments of ``TableTrigger``.
    """

    asks: ClassVar[type[Question]]
    poll_s: ClassVar[float] = 30.0

    def __init__(
        self,
        *,
        segtable_conn_id: str,
        poll_interval: float | None = None,
        deadline: Instant | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(
            self.asks.of(fields),
            segtable_conn_id=segtable_conn_id,
            poll_interval=self.poll_s if poll_interval is None else poll_interval,
            deadline=deadline,
        )


def wait_here(
    place: Place,
    question: Question,
    *,
    poll_interval: float,
    deadline: Instant,
    report: Callable[[str], None],
) -> Mapping[str, Any]:
    """Wait in this process as a trigger does; return the event.

    Args:
        place: the connection's settings.
        question: the condition to wait for.
        poll_interval: seconds between looks, if ZooKeeper announces nothing.
        deadline: when to give up.
        report: called with each new message.
    """
    from airflow_provider_segtable.storage.local import SystemClock

    watch, clock = Watch(place, question), SystemClock()
    said = ""
    try:
        while True:
            answer = watch.look()
            pause = min(poll_interval, seconds_until(deadline))
            event = ended(answer, in_time=pause > 0)
            if event is not None:
                return event
            if answer.message != said:
                said = answer.message
                report(said)
            clock.sleep(watch.wait(pause))
    finally:
        watch.close()


def ended(answer: Answer, *, in_time: bool) -> Mapping[str, Any] | None:
    """Return the event that ends a wait, or None to go on."""
    if answer.event is not None:
        return {"status": "success", "message": answer.message, **answer.event}
    return None if in_time else {"status": "timeout", "message": answer.message}


def deadline_after(seconds: float) -> Instant:
    """Return the deadline that many seconds from now."""
    from airflow_provider_segtable.storage.local import SystemClock

    return SystemClock().now() + int(seconds * SECOND_US)


def seconds_until(deadline: Instant | None) -> float:
    """Return the seconds until a deadline; 0 or less if it has passed."""
    from airflow_provider_segtable.storage.local import SystemClock

    if deadline is None:
        return float("inf")
    return (deadline - SystemClock().now()) / SECOND_US
