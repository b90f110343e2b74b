"""What must hold at the end of a keyed stress run, told as problems.

1. *Model*: the events that were seen are replayed in order, each commit with the records that its
   name says, merged in record order (``tests/simulation/keyed/records``). A commit that landed
   twice, or changes that no version explains, are problems there.
2. *Writers*: none had an error, none ended by itself. Each acknowledged commit is in the log, under
   the event that the writer was told, and its files were created once: nothing began again.
3. *Readers*: every version that was read while all went on, every version that is still kept, read
   as of its completion time, and the tagged ones, show the rows of the model. So does the copy of
   the follower at the end of each window, the newest version included.
4. *Table*: ``verify --deep`` finds nothing, no lock is left, and once everything
   unnamed is cleaned exactly the files that the log names are there, and the rows are the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import DATA
from airflow_provider_segtable.services.cleaning import clean as clean_once
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table
from tests.simulation.keyed.keyed_ledger import KeyedLedger, written_records
from tests.simulation.keyed.records import KeyChange, Upsert
from tests.simulation.model import Intention
from tests.stress.keyed import workload
from tests.stress.keyed.notes import notes_in
from tests.stress.keyed.services import COLUMNS, digest, digest_of

NOTHING = Retention(hours=0, versions=1, orphan_hours=0, consumer_hours=0)
MOST_SHOWN = 5

Notes = Mapping[str, Sequence[Mapping[str, Any]]]


class Intents(dict[str, Intention]):
    """What each commit is to do; its commit id says it."""

    def __init__(self, folder: Path, events: Sequence[Event]) -> None:
        """Read what changers noted, and whose streams are whose."""
        super().__init__()
        self.streams = workload.streams_in(folder)
        self.begun: dict[str, int] = {}
        for notes in notes_in(folder, "begun").values():
            for each in notes:  # the first attempt looked first
                self.begun.setdefault(each["commit"], each["begun"])
        self.kind = next(e.action for e in events if e.n == 0).kind  # type: ignore[union-attr]
        self.kept = open_files(str(folder / "kept"))

    def __missing__(self, commit_id: str) -> Intention:
        """Return what a commit does."""
        name, turn = workload.writer_and_turn(commit_id, self.streams)
        if name.startswith("spark"):
            return Upsert(records=workload.streamed(int(name[-1]), turn))
        if not name.startswith("changer"):
            return Upsert(records=workload.records_of(name, turn))
        return KeyChange(
            keys=workload.changed_keys(name, turn),
            text=workload.changed_text(name, turn),
            begun=self.begun[commit_id],
            written=partial(written_records, self.kept, self.kind),
        )


@dataclass(slots=True)
class Verdict:
    """What a run must have left, by the events that were seen of it."""

    ports: TableContext
    folder: Path
    events: Sequence[Event]
    digests: dict[int, str] = field(default_factory=dict)

    def problems(self) -> Iterator[str]:
        """Yield all that is wrong."""
        try:
            self._replay()
        except AssertionError as wrong:
            yield f"the model: {wrong}"
            return
        yield from self._of_writers()
        for kind in ("looks", "windows"):
            yield from self._of_notes(kind, notes_in(self.folder, kind))
        yield from self._of_versions()
        yield from self._of_files()

    def _replay(self) -> None:
        ledger = KeyedLedger(intended=Intents(self.folder, self.events))
        before = None
        for event in self.events:
            model = ledger.replay(event)
            if model.rows is before:
                self.digests[event.n] = self.digests[event.n - 1]
            else:
                self.digests[event.n] = digest(model.shown(COLUMNS))
            before = model.rows

    def _of_writers(self) -> Iterator[str]:
        for name, notes in notes_in(self.folder, "errors").items():
            yield from (f"{name}: {each['error']}" for each in notes[:MOST_SHOWN])
        landed = {e.commit: e for e in self.events if isinstance(e.action, Appended)}
        for name, notes in notes_in(self.folder, "acks").items():
            for ack in notes:
                yield from (f"{name}: {ack}: {what}" for what in _of_ack(ack, landed))

    def _of_notes(self, kind: str, notes: Notes) -> Iterator[str]:
        for name, each in ((name, each) for name, some in notes.items() for each in some):
            n = each["version"]
            yield from (f"{name}, {kind}, version {n}: {what}" for what in each.get("wrong", ()))
            if each.get("digest") != self.digests[n] or each.get("read", n) != n:
                yield f"{name}, {kind}: version {n} has other rows than the model"

    def _of_versions(self) -> Iterator[str]:
        head = self.ports.log.load()
        kept = {n: {"as_of": self.events[n].time} for n in range(head.retained_from, head.n + 1)}
        tagged = {n: {"tag": tag} for tag, n in head.tags.items()}
        for n, named in (*kept.items(), *tagged.items()):
            try:
                snapshot = Table(self.ports).snapshot(**named)
                found = snapshot.state.n, digest_of(snapshot)
            except SegtableError as error:
                found = n, f"{type(error).__name__}: {error}"
            if found != (n, self.digests[n]):
                yield f"{named}, read at the end, is not version {n} of the model: {found}"

    def _of_files(self) -> Iterator[str]:
        found = verify(self.ports, deep=True)
        yield from (f"verify: {finding}" for finding in found.findings if not found.sound)
        yield from violations(self.ports.log.load())
        clean_once(self.ports, retention=NOTHING)
        head = self.ports.log.load()
        named = {s.path for s in head.timeline.segments() if s.path}
        there = {entry.path for entry in self.ports.storage.list(DATA)}
        if named != there:
            lost, left = len(named - there), len(there - named)
            yield f"after cleaning, {lost} files are lost, {left} unnamed ones are left"
        if digest_of(Table(self.ports).snapshot()) != self.digests[len(self.events) - 1]:
            yield "cleaning changed the rows"
        locks = self.ports.coordinator.locks(head.table.table_id)
        yield from (f"lock {lock.group} is left" for lock in locks)


def _of_ack(ack: Mapping[str, Any], landed: Mapping[str, Event]) -> Iterator[str]:
    event = landed.get(ack["commit"])
    if ack["n"] is None:
        return  # a change that found no row
    if event is None or event.n != ack["n"]:
        yield f"it is event {event and event.n} of the log"
        return
    assert isinstance(event.action, Appended)
    files = len(event.action.segments)
    if ack["files"] not in (0, files):
        yield f"its writer created {ack['files']} files for {files}: it began again"


def orphans(ports: TableContext) -> int:
    """Return how many data files no version names: dead writers' and workers'."""
    named = {s.path for s in ports.log.load().timeline.segments()}
    return sum(entry.path not in named for entry in ports.storage.list(DATA))
