"""The publishing of ``Table``: its versions as tables of other formats, which others read in place.

Published are the data files as they are; nothing is copied. ``publish.delta`` and
``publish.iceberg`` say in which formats each commit is published by its author.

Source of the idea: Delta's UniForm and Apache XTable, which write the metadata of one format beside
that of another.
"""

from collections.abc import Mapping, Sequence

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.formats.format import Format
from airflow_provider_segtable.planning.properties import OFF, PublishSettings, property_of
from airflow_provider_segtable.table.alteration import Alteration, alter
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.publisher import (
    PublishedStatus,
    PublishOutcome,
    publish,
    published_status,
)
from airflow_provider_segtable.table.publishing.revising import Report, silent
from airflow_provider_segtable.table.publishing.targets import remove_published


class TablePublishing:
    """The part of ``Table`` that is about other formats."""

    __slots__ = ()
    ports: TableContext

    def publish(
        self,
        *,
        formats: Sequence[str] | str | None = None,
        full: bool = False,
        report: Report = silent,
    ) -> tuple[PublishOutcome, ...]:
        """Publish the newest version in other table formats; return an outcome for each.

        Readers of these formats see the data files where they lie, without the deleted rows. An
        outcome is ``PublishedNow``, ``AlreadyPublished``, ``Refused`` with the reason, or
        ``Overtaken`` if other publishers put their versions first, again and again.

        Args:
            formats: ``delta``, ``iceberg``, or several; by default those that are switched on in
                the properties.
            full: publish all files anew, whatever lies where they are published: damage of any
                kind is published over, but for another tool's table.
            report: called with what is being done, how many files of it are, and of how many.

        Raises:
            InvalidInput: a format is unknown, or none is given and none is switched on.
            ForeignTable: another tool's table is where the version would be published.
            CorruptTable: a file of the table is damaged; or rubbish is where the version would be
                published that nothing shows to be segtable's: publish it with ``full``.
            StorageError: the storage failed; publish again.
        """
        state = self.ports.log.load()
        switched = PublishSettings.read(state.table.properties).formats
        given = [formats] if isinstance(formats, str) else formats
        names = switched if given is None else tuple(dict.fromkeys(given))
        if not names:
            raise InvalidInput(
                f"{self.ports.uri} is published in no format: name one of "
                f"{', '.join(self.ports.formats)}, or set {property_of('delta')} = on"
            )
        forms = [self._format(name) for name in names]
        return tuple(publish(self.ports, form, state, full=full, report=report) for form in forms)

    def published(self) -> Mapping[str, PublishedStatus]:
        """Return what is published, by format: its event, its lag, and where readers open it.

        Formats that are switched on are there even if nothing is published in them yet.
        """
        return published_status(self.ports)

    def unpublish(self, name: str, *, dry_run: bool = False) -> tuple[str, ...]:
        """Delete what is published in a format; return the paths of the files of it.

        Its property is switched off first. The table and its data files stay as they are.

        Args:
            name: ``delta`` or ``iceberg``.
            dry_run: return what would be deleted; delete nothing.

        Raises:
            InvalidInput: the format is unknown.
            ForeignTable: another tool's table is there; nothing was deleted.
            CommitConflict, CommitUnknown: as for ``alter``; nothing was deleted.
            StorageError: unpublish it again.
        """
        form = self._format(name)
        properties = self.ports.log.load().table.properties
        if not dry_run and name in PublishSettings.read(properties).formats:
            wanted = Alteration(set={property_of(name): OFF})
            alter(self.ports, wanted, commit_id=self.ports.randomness.token())
        return remove_published(self.ports, form, dry_run=dry_run)

    def _format(self, name: str) -> Format:
        form = self.ports.formats.get(name)
        if form is None:
            known = ", ".join(self.ports.formats)
            raise InvalidInput(f"format {name!r} is unknown: choose one of {known}")
        return form
