"""A plain model of an append table, and the checkers that hold the real one against it.

The ledger knows which rows each append was to add, and which appends were acknowledged. After
every event the table must satisfy:

1. *atomic*: an append's rows are all there, exactly once, iff its commit id is in the log;
2. *durable*: what was acknowledged is in the log, now and at every later event;
3. *prefix*: rows at version n are those of the appends up to n, whatever was compacted;
4. *agreement*: the fold, the descriptors and the files say the same (``core.invariants``), and no
   file that a visible segment needs is gone;
5. *retention*: every version that is kept, for its age or by a tag, before an event or after it,
   has all the files that its visible segments name; and pending plans find their inputs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.events import Appended, Event
from airflow_provider_segtable.core.invariants import violations
from airflow_provider_segtable.core.state import State, apply
from airflow_provider_segtable.table.log import EventLog
from airflow_provider_segtable.table.ports import TablePorts
from airflow_provider_segtable.table.snapshot import Snapshot


@dataclass(slots=True)
class Ledger:
    """What should be in the table; ``row_column`` holds numbers that name rows uniquely."""

    row_column: str
    intended: dict[str, frozenset[int]] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    checked: State | None = None
    versions: dict[int, frozenset[str]] = field(default_factory=dict)
    rows_at: dict[int, frozenset[int]] = field(default_factory=dict)

    def intend(self, commit_id: str, rows: Iterable[int]) -> None:
        """Note that an append is about to be tried."""
        self.intended[commit_id] = frozenset(rows)

    def acknowledge(self, commit_id: str) -> None:
        """Note that an append was reported committed."""
        self.acknowledged.add(commit_id)

    def check(self, ports: TablePorts, *, each: bool = True, stepwise: bool = False) -> None:
        """Check the table after every event since the last call, or only after the last one.

        ``stepwise`` says that at most one event came since, and nothing happened after it.

        Raises:
            AssertionError: saying at which event what is wrong.
        """
        log = EventLog(ports.storage)
        appended: set[str] = set(self._appended_before())
        start = 0 if self.checked is None else self.checked.n + 1
        events = list(log.events(start))
        if stepwise:
            self._check_kept(ports)
        for event in events:
            self.checked = apply(self.checked, event)
            if isinstance(event.action, Appended):
                appended.add(event.commit)
            if each or event is events[-1]:
                self._check_state(ports, event, self.checked, appended)
        lost = sorted(self.acknowledged - appended)
        if lost:
            raise AssertionError(f"acknowledged appends are not in the log: {lost}")
        self._check_kept(ports)

    def _check_kept(self, ports: TablePorts) -> None:
        """Check that every version that can be read has its files."""
        if self.checked is None:
            return
        there = {entry.path for entry in ports.storage.list("data")}
        for n, paths in self.versions.items():
            gone = paths - there if self.checked.keeps(n) else ()
            if gone:
                after = f"after event {self.checked.n}"
                raise AssertionError(f"{after}: version {n} is kept, but {sorted(gone)} are gone")

    def _check_state(
        self, ports: TablePorts, event: Event, state: State, appended: set[str]
    ) -> None:
        visible = state.timeline.visible_segments()
        self.versions[state.n] = frozenset(s.path for s in visible if s.path)
        self.rows_at[state.n] = frozenset(r for c in appended for r in self.intended[c])
        problems = [*violations(state), *self._wrong_rows(ports, state, appended)]
        claimed = {i for plan in state.pending_plans() for i in plan.inputs}
        problems += [f"input {i} was cleaned" for i in claimed if i not in state.timeline]
        if problems:
            what = "\n  ".join(problems)
            raise AssertionError(f"after event {event.n} ({event.kind}):\n  {what}")

    def _appended_before(self) -> Iterator[str]:
        if self.checked is not None:
            yield from (c for c in self.checked.commits if c in self.intended)

    def _wrong_rows(self, ports: TablePorts, state: State, appended: set[str]) -> Iterator[str]:
        expected = Counter(row for commit in appended for row in self.intended[commit])
        try:
            table = Snapshot(ports=ports, state=state).to_arrow(columns=[self.row_column])
        except SegtableError as error:
            yield f"the snapshot cannot be read: {error}"
            return
        found = Counter(table.column(self.row_column).to_pylist())
        if found != expected:
            lost, extra = sorted(expected - found), sorted(found - expected)
            yield f"rows lost: {lost[:10]}; extra: {extra[:10]}"
