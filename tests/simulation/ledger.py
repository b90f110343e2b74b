"""A plain model of an append table, and the checkers that hold the real one against it.

The ledger knows what each append and change is to do, and which were acknowledged. Its model is a
dictionary of rows that every commit moves. After every event the table must satisfy:

1. *atomic*: what a commit appends, deletes and updates is done as a whole, exactly once, iff its
   commit id is in the log;
2. *durable*: what was acknowledged is in the log, now and at every later event;
3. *prefix*: rows at version n are those that the commits up to n left, whatever was compacted;
4. *agreement*: the fold, the descriptors and the files say the same (``core.segments.invariants``),
   and no file that a visible segment needs is gone;
5. *retention*: every version that is kept, for its age or by a tag, before an event or after it,
   has all the files that its visible segments name, and the deletions that apply to them; and
   pending plans find their inputs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_segtable.core.deletes.deletion import paths
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.events import Appended, Event, RowsChanged
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.invariants import violations
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.snapshot import Snapshot

OVERWRITTEN = 2_000_000
"""Row numbers from here on are of overwriters: each overwrite replaces all of them."""

Rows = Mapping[int, int]
"""How often each row was changed, by its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intention:
    """What a commit is to do with the rows of these numbers; a merge sets their ``count``."""

    kind: str
    rows: tuple[int, ...]
    count: int = 0

    def done(self, rows: Rows) -> dict[int, int]:
        """Return the model after it."""
        match self.kind:
            case "append":
                return {**rows, **dict.fromkeys(self.rows, 0)}
            case "delete":
                return {row: count for row, count in rows.items() if row not in self.rows}
            case "overwrite":
                left = {row: count for row, count in rows.items() if row < OVERWRITTEN}
                return {**left, **dict.fromkeys(self.rows, 0)}
            case "update":
                return {row: count + (row in self.rows) for row, count in rows.items()}
            case _:
                return {**rows, **dict.fromkeys(self.rows, self.count)}


@dataclass(slots=True)
class Ledger:
    """What should be in the table: rows with a unique number ``row`` and a ``count``, if it has."""

    columns: tuple[str, ...] = ("row", "count")
    intended: dict[str, Intention] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    checked: State | None = None
    landed: set[str] = field(default_factory=set)
    versions: dict[int, frozenset[str]] = field(default_factory=dict)
    rows_at: dict[int, Rows] = field(default_factory=dict)

    def intend(self, commit_id: str, intention: Intention) -> None:
        """Note what is about to be tried."""
        self.intended[commit_id] = intention

    def finish(self, commit_id: str, *, landed: bool = True) -> None:
        """Note that a commit was reported done; or, if it did not land, that it had no effect."""
        self.finished.add(commit_id)
        if landed:
            self.acknowledged.add(commit_id)

    def check(self, ports: TableContext, *, each: bool = True, stepwise: bool = False) -> None:
        """Check the table after every event since the last call, or only after the last one.

        ``stepwise`` says that at most one event came since, and nothing happened after it.

        Raises:
            AssertionError: saying at which event what is wrong.
        """
        log = EventLog(ports.storage)
        start = 0 if self.checked is None else self.checked.n + 1
        events = list(log.events(start))
        if stepwise:
            self._check_kept(ports)
        for event in events:
            self.checked = apply(self.checked, event)
            self._move(event)
            if not each:
                self.rows_at = {event.n: self.rows_at[event.n]}
            if each or event is events[-1]:
                self._check_state(ports, event, self.checked)
        lost = sorted(self.acknowledged - self.landed)
        if lost:
            raise AssertionError(f"acknowledged commits are not in the log: {lost}")
        self._check_kept(ports)

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

    def _move(self, event: Event) -> None:
        """Move the model by an event."""
        rows = self.rows_at.get(event.n - 1, {})
        if isinstance(event.action, Appended | RowsChanged):
            if event.commit in self.landed:
                raise AssertionError(f"event {event.n} is commit {event.commit} a second time")
            self.landed.add(event.commit)
            rows = self.intended[event.commit].done(rows)
        self.rows_at[event.n] = rows

    def _check_kept(self, ports: TableContext) -> None:
        """Check that every version that can be read has its files."""
        if self.checked is None:
            return
        there = {entry.path for at in ("data", "deletes") for entry in ports.storage.list(at)}
        for n, needed in self.versions.items():
            gone = needed - there if self.checked.keeps(n) else ()
            if gone:
                after = f"after event {self.checked.n}"
                raise AssertionError(f"{after}: version {n} is kept, but {sorted(gone)} are gone")

    def _check_state(self, ports: TableContext, event: Event, state: State) -> None:
        self.versions[state.n] = shown(state)
        problems = [*violations(state), *self._wrong_rows(ports, state)]
        claimed = {i for plan in state.pending_plans() for i in plan.inputs}
        problems += [f"input {i} was cleaned" for i in claimed if i not in state.timeline]
        if problems:
            what = "\n  ".join(problems)
            raise AssertionError(f"after event {event.n} ({event.kind}):\n  {what}")

    def _wrong_rows(self, ports: TableContext, state: State) -> Iterator[str]:
        model = self.rows_at[state.n].items()
        expected = Counter(row[: len(self.columns)] for row in model)
        try:
            found = rows_of(Snapshot(ports=ports, state=state), self.columns)
        except SegtableError as error:
            yield f"the snapshot cannot be read: {error}"
            return
        if found != expected:
            lost, extra = sorted(expected - found), sorted(found - expected)
            yield f"rows lost: {lost[:10]}; extra: {extra[:10]} (number, count)"


def rows_of(
    snapshot: Snapshot, columns: Sequence[str] = ("row", "count")
) -> Counter[tuple[int, ...]]:
    """Return the rows of a version: each number with its count."""
    table = snapshot.to_arrow(columns=columns)
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def shown(state: State) -> frozenset[str]:
    """Return the files that a reader of a version opens."""
    visible = state.timeline.visible_segments()
    vectors = (path for segment in visible for path in paths(state.deletions(segment)))
    return frozenset((*(segment.path for segment in visible if segment.path), *vectors))
