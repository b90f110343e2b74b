"""The publishing of ``Table``: its versions as tables of other formats, read in place.

The data files are published as they are; nothing is copied. With ``publish.delta`` and
``publish.iceberg`` the author of each commit publishes it in these formats.

Source of the idea: Delta's UniForm and Apache XTable, which write the metadata of one format beside
that of another.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.formats.format import Format
from airflow_provider_segtable.planning.properties import OFF, PublishSettings, property_of
from airflow_provider_segtable.table.context import TableContext

if TYPE_CHECKING:
    from airflow_provider_segtable.table.publishing.publisher import PublishOutcome
    from airflow_provider_segtable.table.publishing.revising import Report
    from airflow_provider_segtable.table.publishing.status import PublishedStatus


class TablePublishing:
    """The part of ``Table`` that is about other formats."""

    __slots__ = ()
    ports: TableContext

    def publish(
        self,
        *,
        formats: Sequence[str] | str | None = None,
        full: bool = False,
        report: "Report | None" = None,
    ) -> "tuple[PublishOutcome, ...]":
        """Publish the newest version in other table formats; return an outcome for each.

        Readers of these formats see the data files where they lie, without the deleted rows. An
        outcome is ``PublishedNow``, ``AlreadyPublished``, ``Refused`` with the reason, or
        ``Overtaken`` if other publishers put their versions first, again and again.

        Args:
            formats: ``delta``, ``iceberg``, or several; by default the formats that the properties
                switch on.
            full: publish all files anew over any damaged target, except another tool's table.
            report: called with the current step, the number of files done, and of all files.

        Raises:
            InvalidInput: a format is unknown, or none is given and none is switched on.
            ForeignTable: another tool's table is in the place of the target.
            CorruptTable: a file of the table is damaged; or the target has files that are not
                known to be segtable's: publish it with ``full``.
            StorageError: the storage failed; publish again.
        """
        from airflow_provider_segtable.table.publishing.publisher import publish
        from airflow_provider_segtable.table.publishing.revising import silent

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
        seen = report or silent
        return tuple(publish(self.ports, form, state, full=full, report=seen) for form in forms)

    def published(self) -> "Mapping[str, PublishedStatus]":
        """Return the published version by format: its event, its lag, and its address.

        Formats that are switched on are included even if nothing is published in them yet.
        """
        from airflow_provider_segtable.table.publishing.status import published_status

        return published_status(self.ports)

    def unpublish(self, name: str, *, dry_run: bool = False) -> tuple[str, ...]:
        """Delete the target of a format; return the paths of its files.

        Its property is switched off first. The table and its data files stay as they are.

        Args:
            name: ``delta`` or ``iceberg``.
            dry_run: only return the paths; delete nothing.

        Raises:
            InvalidInput: the format is unknown.
            ForeignTable: another tool's table is there; nothing was deleted.
            CommitConflict, CommitUnknown: as for ``alter``; nothing was deleted.
            StorageError: unpublish it again.
        """
        from airflow_provider_segtable.table.alteration import Alteration, alter
        from airflow_provider_segtable.table.publishing.targets import remove_published

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
