"""What cleanings of a large table leave to each other: notes about sidecars, and files in turns.

1. A cleaning notes for the next one which sidecars have no hidden segments
   (``table.log.sidecar_notes``).
2. One that need not look for orphans among all data files takes the next ``MOST_LISTED`` by name,
   and the next one those after them. At the end it begins anew.
3. Files are listed before the log is read, so that concurrent commits are included.
"""

from dataclasses import field
from itertools import chain, islice

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.indexes.index_state import INDEXES, folder
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import DATA
from airflow_provider_segtable.ports.storage import Entry, Storage
from airflow_provider_segtable.table.log.sidecar_notes import read_notes, write_notes
from airflow_provider_segtable.table.log.sidecars import has_sidecars
from airflow_provider_segtable.table.unnamed_files import unnamed_before, unnamed_nearby

MOST_LISTED = 16_384
SERVICE = "clean"
"""The name of the cleaner's notes about sidecars."""
BASIS = "hidden 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What a run notes for the next one of a large table.

    Attributes:
        listed: the last data file that was looked at; empty if the next run begins anew.
        unhidden: the sidecars without hidden segments.
    """

    listed: str = ""
    unhidden: frozenset[str] = field(default_factory=frozenset)

    @staticmethod
    def read(storage: Storage, state: State) -> "Notes":
        """Return the notes of the last run; none of a table without sidecars."""
        if not has_sidecars(state):
            return Notes()
        found = read_notes(storage, SERVICE, BASIS)
        return Notes(listed=found.get("", ""), unhidden=frozenset(found.keys() - {""}))

    def write(self, storage: Storage) -> None:
        """Keep the notes for the next run."""
        notes = {"": self.listed, **dict.fromkeys(sorted(self.unhidden), 0)}
        write_notes(storage, SERVICE, BASIS, notes)


def listed_files(
    storage: Storage, earlier: State, notes: Notes, *, whole: bool
) -> tuple[list[Entry], str | None]:
    """Return files that an earlier state does not name, and the last data file looked at.

    The latter is None if all data files were looked at, and empty at their end.
    """
    known = {folder(index.definition.id) for index in earlier.indexes.values()}
    folders = (f"{INDEXES}/{name}" for name in storage.folders(INDEXES))
    others = [entry for each in folders if each not in known for entry in storage.list(each)]
    if whole or not has_sidecars(earlier):
        return [*unnamed_before(chain(storage.list(DATA), others), earlier)], None
    part = [*islice(storage.list(DATA, after=notes.listed or None), MOST_LISTED)]
    last = part[-1].path if len(part) == MOST_LISTED else ""
    return unnamed_nearby([*part, *others], earlier), last
