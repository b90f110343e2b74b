"""The checkers that hold a real append table against its plain model (``model``).

The ledger knows what each commit is to do, and which were acknowledged. After every event the
table must satisfy:

1. *atomic*: what a commit appends, deletes, overwrites, restores and alters is done as a whole,
   exactly once, iff its commit id is in the log;
2. *durable*: what was acknowledged is in the log, now and at every later event;
3. *prefix*: version n has the rows, columns and properties that the commits up to n left, whatever
   was compacted, cleaned or repaired;
4. *agreement*: the fold, the descriptors and the files say the same (``core.log.invariants``),
   and no file that a visible segment needs is gone;
5. *retention*: every version that is kept, for its age or by a tag, before an event or after it,
   has all the files that its visible segments name, and the deletions that apply to them; and
   pending plans find their inputs;
6. *end*: a dropped table has no later event, and the events of a table that is created in its
   place are by its own actors.

Files are read again only after an event that changes which files, deletions or columns are shown.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from airflow_provider_segtable.core.deletion import paths
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.events import Event, touched
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.families.table_events import TableAltered, TableDropped
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import joined
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.snapshot import Snapshot
from tests.every_reader import READERS, Live, Reader, Shown, base_files, disagreements, rows_of
from tests.simulation.model import Intention, Known, Landing, Model, columns_of

ASKED_EVERY = 6
"""Another way to read is asked after one event in so many of those that change what is read."""


@dataclass(slots=True)
class Ledger:
    """What should be in the table; ``columns`` says which are compared, all of them by default.

    ``first`` is the event that created the table; ``crowd`` ends the names of its authors.
    ``readers`` are the other ways to read that are asked. ``joined`` counts events that shared a
    file, also those that have expired since.
    """

    columns: tuple[str, ...] = ()
    key: ClassVar[str] = ""
    readers: ClassVar[tuple[Reader, ...]] = READERS
    first: int = 0
    crowd: str = ""
    intended: dict[str, Intention] = field(default_factory=dict)
    given: dict[str, list[frozenset[Known]]] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    checked: State | None = None
    landed: set[str] = field(default_factory=set)
    versions: dict[int, frozenset[str]] = field(default_factory=dict)
    models: dict[int, Model] = field(default_factory=dict)
    read: object = None
    looks: int = 0
    joined: int = 0

    def intend(self, commit_id: str, intention: Intention) -> None:
        """Note what is about to be tried."""
        self.intended[commit_id] = intention

    def give(self, commit_id: str, columns: frozenset[Known]) -> None:
        """Note the columns, besides the first ones, that the next attempt gives its rows."""
        self.given.setdefault(commit_id, []).append(columns)

    def finish(self, commit_id: str, *, landed: bool = True) -> None:
        """Note that a commit was reported done; or, if it did not land, that it had no effect."""
        self.finished.add(commit_id)
        if landed:
            self.acknowledged.add(commit_id)

    @property
    def idle(self) -> bool:
        """Tell whether all that anybody was given is committed, once all authors are done."""
        return True

    @property
    def newest(self) -> Model:
        """Return the newest model."""
        return self.models[max(self.models)]

    def check(self, ports: TableContext, *, each: bool = True, stepwise: bool = False) -> None:
        """Check the table after every event since the last call, or only after the last one.

        ``stepwise`` says that at most one event came since, and nothing happened after it.

        Raises:
            AssertionError: saying at which event what is wrong.
        """
        events = list(self._new_events(EventLog(ports.storage)))
        if stepwise:
            self._check_kept(ports)
        for event in events:
            self.replay(event)
            if not each:
                self.models = {event.n: self.models[event.n]}
            if each or event is events[-1]:
                self._check_state(ports, event, self.checked)
        lost = sorted(self.acknowledged - self.landed)
        if lost:
            raise AssertionError(f"acknowledged commits are not in the log: {lost}")
        self._check_kept(ports)

    def replay(self, event: Event) -> Model:
        """Move the model by the next event, without reading a file; return it."""
        self.joined += event.joined is not None
        before, self.checked = self.checked, apply(self.checked, event)
        if before is not None:
            _check_touched(before, self.checked, event)
        self._move(event)
        return self.models[event.n]

    def _new_events(self, log: EventLog) -> Iterator[Event]:
        """Yield the table's events since the last call."""
        if self.checked is not None and self.checked.dropped:
            return
        for event in log.events(self.first if self.checked is None else self.checked.n + 1):
            yield event
            if isinstance(event.action, TableDropped):
                return

    def check_versions(self, ports: TableContext, *, most: int) -> None:
        """Read kept versions again, ``most`` of them and the tagged ones: they are as they were.

        Raises:
            AssertionError: naming the version that is not.
        """
        log = EventLog(ports.storage)
        head = log.load()
        kept = range(head.retained_from, head.n + 1)
        for n in {*kept[:: max(1, len(kept) // most)], *head.tags.values()}:
            problems = list(self._wrong_rows(ports, log.version(n, head)))
            if problems:
                raise AssertionError(f"version {n}, read at the end: {problems[0]}")

    def _model_of(self, table: TableDefinition) -> Model:
        return Model.of(table)

    def _move(self, event: Event) -> None:
        """Move the model by an event."""
        model = self.models.get(event.n - 1, Model())
        by = event.author.partition(".")[0]
        if event.n > self.first and not by.endswith(self.crowd):
            raise AssertionError(f"event {event.n} is by {by}, who works on an earlier table")
        if isinstance(event.action, TableDefinition):
            model = self._model_of(event.action)
        if isinstance(event.action, Appended | RowsChanged | TableAltered | VersionRestored):
            if event.commit in self.landed:
                raise AssertionError(f"event {event.n} is commit {event.commit} a second time")
            self.landed.add(event.commit)
            landing = Landing(
                n=event.n,
                action=event.action,
                before=self.models.__getitem__,
                given=self.given.get(event.commit, (frozenset(),)),
            )
            model = self._intention(event.commit).done(model, landing)
        self.models[event.n] = model

    def _intention(self, commit_id: str) -> Intention:
        return self.intended[commit_id]

    def _check_kept(self, ports: TableContext) -> None:
        """Check that every version that can be read has its files."""
        if self.checked is None or self.checked.dropped:
            return
        there = {entry.path for at in ("data", "deletes") for entry in ports.storage.list(at)}
        for n, needed in self.versions.items():
            gone = needed - there if self.checked.keeps(n) else ()
            if gone:
                after = f"after event {self.checked.n}"
                raise AssertionError(f"{after}: version {n} is kept, but {sorted(gone)} are gone")

    def _check_state(self, ports: TableContext, event: Event, state: State) -> None:
        if state.dropped:
            return
        self.versions[state.n] = shown(state)
        problems = [*violations(state), *self._wrong_definition(state)]
        model = self.models[state.n]
        shows = _reading(state), model.rows, model.settled
        if shows != self.read:
            problems += self._wrong_rows(ports, state)
            problems += self._read_otherwise(replace(ports), state, [*self._asked(event)])
        self.read = shows
        claimed = {i for plan in state.pending_plans() for i in plan.inputs}
        problems += [f"input {i} was cleaned" for i in claimed if i not in state.timeline]
        if problems:
            what = "\n  ".join(problems)
            raise AssertionError(f"after event {event.n} ({event.kind}):\n  {what}")

    def _wrong_definition(self, state: State) -> Iterator[str]:
        model = self.models[state.n]
        if columns_of(state.table) != model.columns:
            yield f"columns are {state.table.schema.numbered}, not {model.columns}"
        if state.table.properties != model.properties:
            yield f"properties are {state.table.properties}, not {model.properties}"

    def _wrong_rows(self, ports: TableContext, state: State) -> Iterator[str]:
        try:
            yield from self.differences(Snapshot(ports=ports, state=state))
        except SegtableError as error:
            yield f"the snapshot cannot be read: {error}"

    def _asked(self, event: Event) -> Iterator[Reader]:
        """Yield which readers are asked after an event: one by turns; of new bases, theirs."""
        self.looks += 1
        turn, now = divmod(self.looks, ASKED_EVERY)
        if not now:
            yield self.readers[turn % len(self.readers)]
        if self.key and isinstance(event.action, PlanCompleted | VersionRestored):
            yield base_files

    def _read_otherwise(
        self, ports: TableContext, state: State, readers: Sequence[Reader] = READERS
    ) -> Iterator[str]:
        """Yield what other ways to read the newest version find; each event is asked another."""
        model = self.models[state.n]
        if (
            not readers
            or not model.settled
            or len(self.models) == 1
            or EventLog(ports.storage).load().n > state.n
        ):
            return
        names = self.columns or tuple(column.name for column in model.columns)
        names = tuple(sorted(names, key=lambda name: name != "row"))
        same = {c for c in model.columns if c.name in names}
        known = {n: m for n, m in self.models.items() if m.settled and same <= {*m.columns}}
        shown = Shown(names=names, rows=Rows(known, names), key=self.key)
        yield from disagreements(ports, shown, readers, state=state, live=self._live(names))

    def _live(self, names: Sequence[str]) -> Live | None:
        """Return the log stores that run, and what reads of these columns find with them."""
        del names
        return None

    def differences(self, snapshot: Snapshot) -> Iterator[str]:
        """Yield in what the rows of a version differ from the model's."""
        model = self.models[snapshot.state.n]
        if not model.settled:
            return
        names = self.columns or [column.name for column in model.columns]
        table = snapshot.to_arrow(columns=self.columns or None)
        if table.column_names != names and not self.columns:
            yield f"columns read are {table.column_names}, not {names}"
            return
        expected, found = Counter(model.shown(names)), rows_of(table)
        if found != expected:
            lost, extra = (sorted(map(str, some)) for some in (expected - found, found - expected))
            yield f"rows lost: {lost[:10]}; extra: {extra[:10]} ({', '.join(names)})"


@dataclass(frozen=True, slots=True)
class Rows(Mapping[int, Counter[tuple[Any, ...]]]):
    """The rows that models show, by version, made when they are first asked for."""

    models: Mapping[int, Any]
    names: Sequence[str]
    made: dict[int, Counter[tuple[Any, ...]]] = field(default_factory=dict)

    def __getitem__(self, n: int) -> Counter[tuple[Any, ...]]:
        """Return the rows of a version."""
        if n not in self.made:
            self.made[n] = Counter(self.models[n].shown(self.names))
        return self.made[n]

    def __iter__(self) -> Iterator[int]:
        """Yield the versions."""
        return iter(self.models)

    def __len__(self) -> int:
        """Return the number of versions."""
        return len(self.models)


def shown(state: State) -> frozenset[str]:
    """Return the files that a reader of a version opens."""
    visible = state.timeline.visible_segments()
    vectors = (path for segment in visible for path in paths(state.deletions(segment)))
    return frozenset((*(segment.path for segment in visible if segment.path), *vectors))


def _reading(state: State) -> object:
    """Return all that decides which rows a reader of a version finds."""
    visible = state.timeline.visible_segments()
    return visible, [dict(state.deletions(segment)) for segment in visible], state.table.schema


def _check_touched(before: State, after: State, event: Event) -> None:
    """Check that the event changed segments only in the intervals that its kind names."""
    named = touched(event.action)
    if named is None:
        return
    for piece in after.timeline.changed(before.timeline):
        if not any(each.encloses(piece) for each in joined(named)):
            raise AssertionError(f"event {event.n} ({event.kind}) changed {piece}, unnamed")
