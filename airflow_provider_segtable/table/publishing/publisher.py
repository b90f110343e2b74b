"""The publisher: put the newest version of a table into a target of another table format.

1. ``read the target -> compare with the log -> open what differs -> put``. The put is
   put-if-absent: if another publisher has put a version first, the publisher goes round again, a
   bounded number of times. Nobody needs a lock, and the event log records nothing of it.
2. Published events only rise. So if the target shows a later event than the publisher's state, the
   log is read on first. Only if the log was rebuilt is an earlier event published.
3. If nothing that is published differs, nothing is put: the published version shows this event as
   well as its own.
4. After the put the log is read once more. If the version that was put is no longer kept, a
   cleaning may have deleted files of it, and the newest version is published after it. If the
   table was dropped meanwhile, what is published is deleted: the drop may have come before the put.
   If another table is in its place, or the format was switched off, only this version is.
5. After the put the target is looked at once more, too. If versions or other files on which this
   one relies are gone, because somebody removed what is published, it is taken back, and the
   publisher goes round again. A removal looks once more, too (``table.publishing.removal``).
6. A damaged target that segtable wrote is published over: all files are published anew after
   whatever is there. So is any rubbish with ``full``; another tool's table never is.
7. A catalog follows: the version is published, whether or not it becomes known there. Until it is,
   each later publication tries it again.
8. The next publication makes up for a refusal, a failure or a lost race: in one version, however
   many events it is behind.
"""

from dataclasses import dataclass, field

from airflow_provider_segtable.core.errors import (
    CorruptTable,
    NotFound,
    OutcomeUnknown,
    PublishingRefused,
    TableGone,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import Changes
from airflow_provider_segtable.formats.format import Format, Published, Revision, Target
from airflow_provider_segtable.planning.properties.publish_settings import (
    PublishSettings,
    property_of,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.outcomes import (
    AlreadyPublished,
    Overtaken,
    PublishedNow,
    PublishOutcome,
    Refused,
)
from airflow_provider_segtable.table.publishing.publications import Publication, Registration
from airflow_provider_segtable.table.publishing.refusing import refusal
from airflow_provider_segtable.table.publishing.revising import (
    Report,
    differing,
    everything,
    follows,
    revision,
    silent,
)
from airflow_provider_segtable.table.publishing.targets import withdraw

TRIES = 8
"""Number of versions that other publishers may put first."""
FIRST_PAUSE_S = 0.005
"""Pause after the first lost race; it doubles each time."""


def publish(
    ports: TableContext,
    form: Format,
    state: State | None = None,
    *,
    full: bool = False,
    report: Report = silent,
) -> PublishOutcome:
    """Publish the newest version of a table in a format.

    Args:
        ports: the table's ports.
        form: the format.
        state: the version, which the caller knows to be the newest; by default the log is read.
        full: publish all files anew, whatever lies in the place of the target.
        report: called with what is being done, how many files of it are, and of how many.

    Raises:
        ForeignTable: another tool's table is in the place of the target.
        CorruptTable: a file of the table is damaged; or rubbish is in the place of the target
            which nothing shows to be segtable's, and ``full`` is not given.
        TableGone: the table was dropped.
        StorageError: the storage failed; publish again.
    """
    with ports.publications.turn(form.name) as waited:
        if state is None:
            state = ports.log.load()
        elif waited:
            state = ports.log.refresh(state)
        return _Publisher(ports, form, state, full=full, report=report).run()


@dataclass(slots=True)
class _Publisher:
    """One publication: ``state`` is the version to publish, ``published`` the newest that is."""

    ports: TableContext
    form: Format
    state: State
    full: bool = field(kw_only=True)
    report: Report = field(kw_only=True)
    published: Published | None = None
    mended: str = ""
    target: Target = field(init=False)
    switched_on: bool = field(init=False)

    def __post_init__(self) -> None:
        """Find the target."""
        self.target = self.form.target(self.ports.storage, self.ports.randomness)
        self.switched_on = self._is_on(self.state)

    def run(self) -> PublishOutcome:
        """Attempt it until there is an outcome, a bounded number of times."""
        for attempt in range(TRIES):
            outcome = self._attempt()
            if outcome is not None:
                return outcome
            jitter = 0.5 + self.ports.randomness.uniform() / 2
            self.ports.clock.sleep(FIRST_PAUSE_S * 2.0**attempt * jitter)
            self.state = self.ports.log.refresh(self.state)
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
        changes = self._changes(last)
        return self._already() if changes is None else self._put(changes)

    def _load(self, known: Published | None) -> None:
        """Read the target; of a damaged one, or for a full publication, what a version follows."""
        try:
            if not self.full:
                self.published = self.target.load(known)
                return
        except CorruptTable as error:
            remains = self.target.remains()
            if remains is not None and remains.event < 0:
                raise
            self.mended = f"{error}"
            self.published = remains
        else:
            self.published = self.target.remains()
        self.state = self.ports.log.refresh(self.state)  # whoever put that had read it

    def _is_on(self, state: State) -> bool:
        return self.form.name in PublishSettings.read(state.table.properties).formats

    def _switched_off(self, state: State) -> str:
        """Return that the format was switched off meanwhile, if it was."""
        if not self.switched_on or self._is_on(state):
            return ""
        return f"{property_of(self.form.name)} was switched off meanwhile"

    def _changes(self, last: Publication | None) -> Changes | None:
        """Return what is to be published; None if the published version shows it already."""
        published = self.published
        if self.full or published is None or not follows(self.ports.log, self.state, published):
            return everything(self.state, published)
        changes = differing(self.ports.log, self.state, published, last)
        same = published.schema == self.state.table.schema.number
        return changes if changes or not same else None

    def _already(self) -> PublishOutcome | None:
        published = self.published
        if published is None:
            return None
        self._keep(published)
        return AlreadyPublished(
            format=self.form.name,
            event=self.state.n,
            number=published.number,
            address=published.address,
            unregistered=self._registered(published),
        )

    def _put(self, changes: Changes) -> PublishOutcome | None:
        try:
            wanted = revision(self.ports, self.state, changes, self.published, self.report)
        except NotFound:
            newest = self.ports.log.refresh(self.state)
            if newest.n == self.state.n:
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
        newest = self._newest(put)
        if off := self._switched_off(newest):
            self._take_back(put)
            return Refused(format=self.form.name, reason=off)
        if not self.target.holds(put):
            self._take_back(put)
            return None
        self._keep(put)
        self.full = False
        if self.state.n < newest.retained_from:
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
        except NotFound:  # what it goes on from was removed
            self.ports.publications.forget(self.form.name)
            return None

    def _registered(self, published: Published) -> str:
        """Make a version known in catalogs, unless this process has; return why it is not."""
        publications, name = self.ports.publications, self.form.name
        properties = self.state.table.properties
        version = published.number, published.table_id, tuple(sorted(properties.items()))
        now, last = self.ports.clock.monotonic(), publications.registered(name)
        if last is not None and last.stands(version, now):
            return last.why
        why = self.form.register(published, properties)
        publications.register(name, Registration(version=version, why=why, at=now))
        return why

    def _newest(self, put: Published) -> State:
        """Return the newest version of the log, after a put (rule 4)."""
        try:
            return self.ports.log.refresh(self.state)
        except TableGone:
            self._take_back(put)
            withdraw(self.ports, self.form)
            raise

    def _take_back(self, put: Published) -> None:
        self.target.take_back(put)
        self.ports.publications.forget(self.form.name)

    def _keep(self, published: Published) -> None:
        publication = Publication(published=published, state=self.state)
        self.ports.publications.keep(self.form.name, publication)
