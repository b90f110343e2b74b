"""Publish the newest version of a table in a format.

1. ``read the target -> compare with the log -> open different files -> put``. The put is
   put-if-absent: if another publisher has put a version first, the publisher begins again, a
   bounded number of times. No lock is needed, and the event log records nothing of it.
2. Published events only rise. So if the target shows a later event than the publisher's state, the
   log is read on first. Only if the log was rebuilt is an earlier event published.
3. If no published file differs, nothing is put: the published version shows this event as well as
   its own.
4. After the put the log is read once more. If the version that was put is no longer kept, a
   cleaning may have deleted files of it, and the newest version is published after it. If the
   table was dropped meanwhile, the target is deleted: the drop may have listed files before the
   put. If another table is in its place, or the format was switched off, only this version is
   deleted.
5. After the put the target is read once more, too. If versions or other files that this one needs
   were removed, it is taken back, and the publisher begins again. A removal lists files once more,
   too (``table.publishing.targets``).
6. A damaged target that segtable wrote is published over: all files are published anew after the
   remains. So is any rubbish with ``full``; another tool's table never is.
7. A catalog follows: the version is published, whether or not it becomes known there. Until it is,
   each later publication tries it again.
8. The next publication makes up for a refusal, a failure or a lost race: in one version, however
   many events it is behind.

9. Compactions are published apart from changes of rows, if the events since the published version
   are few: an earlier version is put first (``table.publishing.revising``).
"""

from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    NotFound,
    OutcomeUnknown,
    PublishingRefused,
    SegtableError,
    TableGone,
)
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import Changes
from airflow_provider_segtable.formats.format import Format, Published, Revision, Target
from airflow_provider_segtable.planning.properties import (
    PublishSettings,
    property_of,
)
from airflow_provider_segtable.storage.together import together
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publications import Publication, Registration
from airflow_provider_segtable.table.publishing.refusing import refusal
from airflow_provider_segtable.table.publishing.revising import (
    Report,
    differing,
    everything,
    follows,
    last_apart,
    revision,
    silent,
)
from airflow_provider_segtable.table.publishing.targets import withdraw


class _Outcome:
    """The outcome of a publication, for scripts: a key that its type does not have is null."""

    __slots__ = ()

    def facts(self) -> Facts:
        """Return the outcome as plain JSON values."""
        keys = ("format", "event", "number", "address", "shown", "gone", "reason")
        return {
            "outcome": type(self).__name__,
            **{key: getattr(self, key, None) for key in keys},
            **{key: getattr(self, key, "") or None for key in ("unregistered", "mended")},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNow(_Outcome):
    """A version was put, which shows event ``event``.

    Attributes:
        format: the name of the format.
        event: the event.
        number: the number of the version in its own format.
        address: the URI that readers open.
        shown: number of files that were added, or show other rows than before.
        gone: number of files that the version no longer names.
        unregistered: the reason if the version is not in the catalog that properties name; else
            empty.
        mended: the damage of the published table that was repaired; empty if none was found.
    """

    format: str
    event: int
    number: int
    address: str
    shown: int
    gone: int
    unregistered: str = ""
    mended: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyPublished(_Outcome):
    """The newest published version shows the table as of event ``event``: nothing was put.

    If it was put for an earlier event, no later one has changed published files.
    ``unregistered`` is as for ``PublishedNow``.
    """

    format: str
    event: int
    number: int
    address: str
    unregistered: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(_Outcome):
    """The format cannot show the version; ``reason`` has the way out."""

    format: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtaken(_Outcome):
    """Other publishers put their versions first in each attempt; the last one shows ``event``."""

    format: str
    event: int


PublishOutcome: TypeAlias = PublishedNow | AlreadyPublished | Refused | Overtaken


TRIES = 8
"""Most attempts of a publication that other publishers overtake."""
FIRST_PAUSE_S = 0.005
"""Pause after the first lost race; it doubles each time."""


def publish(
    ports: TableContext,
    form: Format,
    state: State | None = None,
    *,
    full: bool = False,
    report: Report = silent,
    ahead: Published | None = None,
) -> PublishOutcome:
    """Publish the newest version of a table in a format.

    Args:
        ports: the table's ports.
        form: the format.
        state: the newest version, if the caller knows it; by default the log is read.
        full: publish all files anew over any damaged target.
        report: called with the current step, the number of files done, and of all files.
        ahead: the newest published version, if the caller has just read it.

    Raises:
        ForeignTable: another tool's table is in the place of the target.
        CorruptTable: a file of the table is damaged; or the target has files that are not known to
            be segtable's, and ``full`` is not given.
        TableGone: the table was dropped.
        StorageError: the storage failed; publish again.
    """
    with ports.publications.turn(form.name) as waited:
        if state is None:
            state = ports.log.load()
        elif waited:
            state = ports.log.refresh(state)
        ahead = None if waited else ahead
        return _Publisher(ports, form, state, full=full, report=report, ahead=ahead).run()


def read_ahead(ports: TableContext) -> tuple[State, dict[str, Published]]:
    """Return the newest version of the log, and the newest published ones, by format.

    They are requested together, where a request is a round trip and this process knows an earlier
    published version. One that cannot be read is left to ``publish``.

    Raises:
        TableGone, StorageError: the table's log cannot be read.
    """
    known = {name: last for name in ports.formats if (last := ports.publications.last(name))}
    if not known or not ports.storage.remote:
        return ports.log.load(), {}
    switched = PublishSettings.read(ports.log.known().table.properties).formats
    known = {name: known[name] for name in switched if name in known}

    def read(name: str) -> Published | None:
        with suppress(SegtableError):
            target = ports.formats[name].target(ports.storage, ports.randomness)
            return target.load(known[name].published)
        return None

    state, *found = together(
        ports.storage, ports.log.load, *(partial(read, name) for name in known)
    )
    return state, {name: each for name, each in zip(known, found, strict=True) if each is not None}


@dataclass(slots=True)
class _Publisher:
    """One publication: the version to publish, ``state``, and the newest published one."""

    ports: TableContext
    form: Format
    state: State
    full: bool = field(kw_only=True)
    report: Report = field(kw_only=True)
    ahead: Published | None = field(kw_only=True)
    published: Published | None = None
    mended: str = ""
    target: Target = field(init=False)
    switched_on: bool = field(init=False)

    def __post_init__(self) -> None:
        """Find the target."""
        self.target = self.form.target(self.ports.storage, self.ports.randomness)
        self.switched_on = self._is_on(self.state)

    def run(self) -> PublishOutcome:
        """Attempt the publication until there is an outcome, a bounded number of times."""
        attempt = 0
        while attempt < TRIES:
            outcome = self._attempt()
            if isinstance(outcome, PublishedNow) and outcome.event < self.state.n:
                continue  # an earlier version was put first
            if outcome is not None:
                return outcome
            jitter = 0.5 + self.ports.randomness.uniform() / 2
            self.ports.clock.sleep(FIRST_PAUSE_S * 2.0**attempt * jitter)
            self.state = self.ports.log.refresh(self.state)
            attempt += 1
        self._load(self.published)
        event = -1 if self.published is None else self.published.event
        return Overtaken(format=self.form.name, event=event)

    def _attempt(self) -> PublishOutcome | None:
        """Publish once; None means repeat, with the newest version."""
        last = self.ports.publications.last(self.form.name)
        self._load(None if last is None else last.published)
        if self.published is not None and self.published.event > self.state.n:
            self.state = self.ports.log.refresh(self.state)
        why = self._switched_off(self.state) or refusal(self.form, self.state)
        if why:
            return Refused(format=self.form.name, reason=why)
        changes = self._changes(self.state, last)
        if changes is None:
            return self._already()
        return self._put(*self._first(changes, last))

    def _first(self, changes: Changes, last: Publication | None) -> tuple[State, Changes]:
        """Return the version to put now, with its changes: an earlier one, or this (rule 9)."""
        log, published = self.ports.log, self.published
        if self.full or published is None or not follows(log, self.state, published):
            return self.state, changes
        stop = last_apart(log, self.state, published, changes, last)
        earlier = None if stop is None else self._changes(stop, last)
        return (self.state, changes) if stop is None or earlier is None else (stop, earlier)

    def _load(self, known: Published | None) -> None:
        """Read the target; if it is damaged, or for a full publication, read its remains."""
        ahead, self.ahead = self.ahead, None
        try:
            if not self.full:
                self.published = ahead or self.target.load(known)
                return
        except CorruptTable as error:
            remains = self.target.remains()
            if remains is not None and remains.event < 0:
                raise
            self.mended = f"{error}"
            self.published = remains
        else:
            self.published = self.target.remains()
        self.state = self.ports.log.refresh(self.state)  # at least to the event of the remains

    def _is_on(self, state: State) -> bool:
        return self.form.name in PublishSettings.read(state.table.properties).formats

    def _switched_off(self, state: State) -> str:
        """Return a message if the format was switched off meanwhile, else empty."""
        if not self.switched_on or self._is_on(state):
            return ""
        return f"{property_of(self.form.name)} was switched off meanwhile"

    def _changes(self, state: State, last: Publication | None) -> Changes | None:
        """Return the changes to publish; None if the published version shows them already."""
        published = self.published
        if self.full or published is None or not follows(self.ports.log, state, published):
            return everything(state, published)
        changes = differing(self.ports.log, state, published, last)
        same = published.schema == state.table.schema.number
        return changes if changes or not same else None

    def _already(self) -> PublishOutcome | None:
        published = self.published
        if published is None:
            return None
        self._keep(published, self.state)
        return AlreadyPublished(
            format=self.form.name,
            event=self.state.n,
            number=published.number,
            address=published.address,
            unregistered=self._registered(published),
        )

    def _put(self, state: State, changes: Changes) -> PublishOutcome | None:
        try:
            wanted = revision(self.ports, state, changes, self.published, self.report)
        except NotFound:
            newest = self.ports.log.refresh(state)
            if newest.n == state.n:
                raise
            return None  # a file was cleaned: the version is no longer the newest
        if wanted is None:
            return None
        try:
            put = self._created(wanted)
        except PublishingRefused as refused:
            return Refused(format=self.form.name, reason=f"{refused}")
        if put is None:
            return None
        newest, holds = self._looked_after(put, state)
        if off := self._switched_off(newest):
            self._take_back(put)
            return Refused(format=self.form.name, reason=off)
        if not holds:
            self._take_back(put)
            return None
        self._keep(put, state)
        self.full = False
        if state.n < newest.retained_from:
            return None
        return PublishedNow(
            format=self.form.name,
            event=put.event,
            number=put.number,
            address=put.address,
            shown=len(changes.shown),
            gone=len(changes.gone),
            unregistered=self._registered(put),
            mended=self.mended,
        )

    def _created(self, wanted: Revision) -> Published | None:
        """Create a version after the published one; None means read the target again."""
        try:
            return self.target.put(self.published, wanted)
        except OutcomeUnknown:
            return None
        except NotFound:  # the version before it was removed
            self.ports.publications.forget(self.form.name)
            return None

    def _registered(self, published: Published) -> str:
        """Register a version in catalogs, unless this process has; return the error, else empty."""
        publications, name = self.ports.publications, self.form.name
        properties = self.state.table.properties
        version = published.number, published.table_id, tuple(sorted(properties.items()))
        now, last = self.ports.clock.monotonic(), publications.registered(name)
        if last is not None and last.stands(version, now):
            return last.why
        why = self.form.register(published, properties)
        publications.register(name, Registration(version=version, why=why, at=now))
        return why

    def _looked_after(self, put: Published, state: State) -> tuple[State, bool]:
        """Return the newest version of the log, and whether the target holds (rules 4 and 5).

        Each look is after the put; which of both is first does not matter.
        """
        log = self.ports.log
        try:
            newest, holds = together(
                self.ports.storage, lambda: log.refresh(state), lambda: self.target.holds(put)
            )
        except TableGone:
            self._take_back(put)
            withdraw(self.ports, self.form)
            raise
        return newest, holds

    def _take_back(self, put: Published) -> None:
        self.target.take_back(put)
        self.ports.publications.forget(self.form.name)

    def _keep(self, published: Published, state: State) -> None:
        publication = Publication(published=published, state=state)
        self.ports.publications.keep(self.form.name, publication)
