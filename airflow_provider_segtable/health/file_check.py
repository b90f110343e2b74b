"""Check data files against the descriptors that the log has of them.

1. A missing file is lost only if the newest version still has its segment.
2. A storage failure does not prove damage: a file that could not be read is UNCHECKED.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from airflow_provider_segtable.core.errors import (
    NotFound,
    SegtableError,
    StorageError,
    UnsupportedFormat,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, damaged_file, unread_file
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.inspection import inspect_bytes, inspect_footer, inspect_rows
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog

_HOPELESS = frozenset({"bad-footer", "foreign-file"})


@dataclass(slots=True, kw_only=True)
class FileCheck:
    """Checks of data files; thread-safe, because threads only append to ``missing``."""

    ports: TableContext
    state: State
    deep: bool
    checked: int = 0
    rows: int = 0
    missing: list[Segment] = field(default_factory=list)

    def check(self, segment: Segment) -> list[Finding]:
        """Check one segment's file."""
        try:
            problems = inspect_footer(self.ports.files, segment, self.state.table)
            codes = {each.code for each in problems}
            if self.deep and "wrong-checksum" not in codes:
                problems += inspect_bytes(self.ports.files, segment)
            if self.deep and not codes & _HOPELESS:
                problems += inspect_rows(self.ports.files, segment, self.state.table)
        except NotFound:
            self.missing.append(segment)
            return []
        except (StorageError, UnsupportedFormat) as error:
            return [unread_file(segment, error)]
        return [damaged_file(segment, each.code, each.what) for each in problems]

    def still_lost(self, log: EventLog) -> Iterator[Finding]:
        """Yield the missing files that the newest log still names."""
        if not self.missing:
            return
        try:
            newest = log.refresh(self.state)
        except SegtableError:
            newest = self.state  # the check of the log reports this error
        for segment in sorted(self.missing, key=lambda each: each.id):
            if segment.id in newest.timeline and segment.path not in newest.pending_delete:
                yield damaged_file(segment, "missing-file", "the file is missing")
