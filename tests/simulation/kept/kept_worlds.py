"""A process that keeps a table open, beside others, while the log under it may become another one.

1. *Actions* are those of ``pairs``, of the process that keeps the table open, and of new ones.
2. *Worlds*: copies of the whole table are put back; its last events are torn, and repaired, so that
   numbers of events are used again; it is dropped and created anew. Nobody writes meanwhile.
3. *Oracle*: a table that is opened anew. After each step an open ``Table`` and Spark's kept tables
   answer every question as it does, or say that the table is gone, if it is.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa

from airflow_provider_segtable.core.errors import SegtableError, TableGone
from airflow_provider_segtable.core.log.log_paths import TIMELINE
from airflow_provider_segtable.core.tables.table_kind import DeletionForm
from airflow_provider_segtable.health.delete_recovery import Verdict
from airflow_provider_segtable.health.repair import Decisions, plan_repair, repair
from airflow_provider_segtable.library.table_facts import describe_facts
from airflow_provider_segtable.spark.source.kept_tables import KeptTables
from airflow_provider_segtable.spark.source.source_options import Place
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.key_entries import entries_of_keys, known_of_keys
from airflow_provider_segtable.table.publishing.publisher import AlreadyPublished, PublishedNow
from airflow_provider_segtable.table.table import Table
from tests.every_reader import decoded, rows_of
from tests.simulation.pairs.actions import ACTIONS, ACTORS, FORMATS, PlanFailed
from tests.simulation.pairs.pair import base, fitting
from tests.simulation.pairs.stage import Stage

Objects: TypeAlias = dict[str, Any]
Answers: TypeAlias = Mapping[str, object]
_KEYS = pa.array(range(1, 60), pa.int64())
_EVENTS = 8
"""The last events that are compared."""
_LOOKS = 0.6
"""How often the processes look at the table after a step."""
_SLOW = ("verify", "ask the doctor", "read", "drop", "drop and create")


def answers(ports: TableContext) -> Answers:
    """Return what a process says of a table: an error by its name.

    Raises:
        TableGone: the log has another table.
    """
    state, table = ports.log.load(), Table(ports)
    kind = state.table.kind.deletion
    rolls = kind is DeletionForm.PREDICATE
    some = table.scan(where="id >= 40", rolled_up=rolls)
    earlier = max(state.retained_from, state.n - 3)
    first = max(ports.log.first(), state.n - _EVENTS)
    asked: dict[str, Callable[[], object]] = {
        "files chosen": lambda: (some.explain().layers, some.explain().index_notes),
        "rows": lambda: rows_of(table.scan(rolled_up=rolls).to_arrow()),
        "chosen rows": lambda: rows_of(some.to_arrow()),
        "earlier rows": lambda: rows_of(table.scan(version=earlier, rolled_up=rolls).to_arrow()),
    }
    for n in range(first, state.n + 1):
        asked[f"event {n}"] = partial(ports.log.event, n)
    if kind is DeletionForm.TOMBSTONES:
        asked["rows of keys"] = lambda: rows_of(table.get(_KEYS))
    if not rolls:
        asked["changes"] = lambda: rows_of(
            table.scan(since_version=earlier, changes=True).to_arrow()
        )
    description = {**describe_facts(ports.uri, state), "settings": None}  # they have no order
    return {
        "state": (state.n, state.time, state.table.table_id),
        "description": description,
        **{name: _said(question) for name, question in asked.items()},
    }


def _said(question: Callable[[], object]) -> object:
    try:
        return question()
    except SegtableError as error:
        return type(error).__name__


def routes(ports: TableContext) -> Answers:
    """Return the entries by which a writer routes keys, from memory and from the index's files."""
    state = ports.log.load()
    found = {}
    for index in state.indexes.values():
        if not index.definition.kind.about_files and index.available_n:
            (key,) = index.definition.kind.divided_by
            wanted = pa.table({key: _KEYS})
            known = known_of_keys(ports, state, index, wanted)
            stored = entries_of_keys(ports, index, wanted)
            found[index.definition.name] = [
                sorted(map(str, e.to_pylist())) for e in (known, stored)
            ]
    return found


@dataclass
class KeptWorld:
    """One table, the processes that keep it open, and its copies."""

    kind: str
    draw: Random
    stage: Stage
    open: TableContext = field(init=False)
    driver: KeptTables = field(init=False)
    copies: list[Objects] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    @staticmethod
    def of(kind: str, seed: int) -> "KeptWorld":
        """Return a table of a kind."""
        return KeptWorld(kind, Random(seed), base(kind, "old").stage.copied())

    def __post_init__(self) -> None:
        """Open the table."""
        self.open = self.stage.ports("open")
        self.driver = KeptTables(lambda _: self.stage.ports("driver"))
        self.keep()

    def keep(self) -> None:
        """Keep a copy."""
        self.copies.append(copy(self.stage.storage._objects))

    def play(self, steps: int) -> None:
        """Take steps, and compare after each."""
        self.compare()
        for _ in range(steps):
            self.stage.clock.advance(1.0)
            step = self.draw.choices(
                (self.act, self.keep, self.put_back, self.repair, self.replace), (16, 2, 3, 3, 1)
            )[0]
            self.steps.append(step.__name__)
            step()
            if self.draw.random() < _LOOKS:
                self.compare()
        self.compare()

    def act(self) -> None:
        """Do something, in the process that has the table open or in a new one."""
        name = self.draw.choice([each for each in fitting(self.kind, "old") if each not in _SLOW])
        mine = self.draw.random() < 0.5
        ports = self.open if mine else self.stage.ports("other")
        self.steps[-1] = f"{name}{' by the open process' if mine else ''}"
        with suppress(SegtableError, PlanFailed):
            ACTIONS[name].go(ports, self.draw.randrange(ACTORS))
        if mine and self.draw.random() < 0.3:
            self.publish()

    def publish(self) -> None:
        """Publish by the open process; readers of the formats see the newest rows."""
        self.steps[-1] += ", published"
        try:
            outcomes = Table(self.open).publish(formats=FORMATS)
        except SegtableError as error:  # the table is gone, or an event is torn
            self.steps[-1] += f" not: {type(error).__name__}"
            return
        shown = decoded(self.open)
        for outcome in outcomes:
            if isinstance(outcome, PublishedNow | AlreadyPublished):
                assert not isinstance(shown[outcome.format], str), shown[outcome.format]
                _, rows = shown[outcome.format]
                assert len(rows) == self._to_show(), outcome

    def _to_show(self) -> int:
        state, table = self.open.log.load(), Table(self.open)
        if state.table.kind.deletion is DeletionForm.TOMBSTONES:
            return table.scan(base_only=True).count()
        return table.scan(rolled_up=state.table.kind.deletion is DeletionForm.PREDICATE).count()

    def put_back(self) -> None:
        """Put a copy back in place of all that is there."""
        self.stage.storage._objects = copy(self.draw.choice(self.copies))

    def repair(self) -> None:
        """Tear the last events, and repair the log; if that needs a decision, put them back."""
        objects, before = self.stage.storage._objects, copy(self.stage.storage._objects)
        log = sorted(path for path in objects if path.startswith(f"{TIMELINE}/"))
        for path in log[-self.draw.randrange(1, 3) :]:
            data, time = objects[path]
            objects[path] = data[: len(data) // 2], time
        try:
            ports = self.stage.ports("repairer")
            plan = plan_repair(ports, Decisions(accept_loss=True, deletes=Verdict.APPLY))
            repair(ports, plan)
        except SegtableError as error:
            self.steps[-1] += f" refused: {type(error).__name__}"
            self.stage.storage._objects = before

    def replace(self) -> None:
        """Drop the table and create another one in its place."""
        with suppress(SegtableError):
            ACTIONS["drop and create"].go(self.stage.ports("dropper"), self.draw.randrange(ACTORS))

    def compare(self) -> None:
        """Compare what all processes say with what a new one says."""
        fresh = self.stage.ports("fresh")
        right = answers(fresh)
        place = Place(uri=fresh.uri)
        told = self.driver.read(place, answers)
        assert not [*differing(told, right)], f"the driver: {[*differing(told, right)]}"
        try:
            found = answers(self.open)
        except TableGone:
            known = self.open.log._newest
            assert known is None or known.table.table_id != fresh.log.load().table.table_id
            self.steps[-1] += ", opened again"
            self.open = self.stage.ports("open")
            found = answers(self.open)
        assert not [*differing(found, right)], f"the open table: {[*differing(found, right)]}"
        for name, (known, stored) in routes(self.open).items():
            assert known == stored, f"routes of {name}: {known}, not {stored}"


def differing(found: Answers, right: Answers) -> Iterator[str]:
    """Yield what differs."""
    for name, answer in right.items():
        was = found.get(name)
        if isinstance(was, dict) and isinstance(answer, dict):
            yield from (f"{name}: {each}" for each in differing(was, answer))
        elif was != answer:
            yield f"{name}: {was}, not {answer}"
