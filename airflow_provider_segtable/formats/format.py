"""Formats: how versions of a table are published for readers of other table formats.

1. A *published version* names data files in their place, and the hidden rows in them. It shows
   exactly event n of the log, and records this number. No data file is copied.
2. A *target* is the published table of one format in one table's root. Any number of publishers may
   put versions into it: each version is created by put-if-absent, under the number after the one
   that its publisher has read. A publisher whose number is taken reads the target again.
3. Published events only rise; a target never returns to an earlier one.
4. Readers may have opened any published version. The files of the newest one are needed, and those
   of a replaced one for as long as the retention, counted from its replacement.
5. Some formats have catalogs beside the target. These follow: a version is published by its put,
   whether or not it becomes known elsewhere.
6. A target that cannot be read, or was not written by segtable, is an error, never an empty one.
   An absent target is None.
7. A version with all files can be put after any damaged target, unless it is another tool's table:
   ``remains`` returns the number to follow. Readers of that version need no earlier file.
8. A target may be removed, or its table dropped, while a version is put. So the publisher checks
   afterwards whether the version still *holds*; if not, it takes the version back. If it dies in
   between, the next publication is put after its remains.
"""

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, ClassVar, Protocol

from pyroaring import BitMap

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.publishing import ColumnStats, FileStats, ShownFile
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.clock import Randomness
from airflow_provider_segtable.ports.storage import Storage

__all__ = [
    "ColumnStats",
    "Contents",
    "FileStats",
    "Format",
    "NewFile",
    "Published",
    "PublishedFile",
]
__all__ += ["Revision", "ShownFile", "Target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file that a revision adds, or whose hidden rows it changes.

    ``hidden`` are the positions in the file of all hidden rows.
    """

    shown: ShownFile
    stats: FileStats = field(default_factory=FileStats)
    hidden: BitMap = field(default_factory=BitMap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The change from a published version to the next one.

    Attributes:
        event: the event whose version is published.
        time: its time.
        commit: its commit id.
        table: the table's definition in that version.
        gone: paths of files that the version no longer shows.
        shown: new files, and files with other hidden rows, by path.
        data_change: False if the rows are the same as before (compactions alone).
        rules: the number of the rules by which its files were chosen (``core.publishing``).
    """

    event: int
    time: Instant
    commit: str
    table: TableDefinition
    gone: frozenset[str] = frozenset()
    shown: Mapping[str, NewFile] = field(default_factory=dict)
    data_change: bool = True
    rules: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFile:
    """A file of a published version; ``own`` is its format's private data."""

    path: str
    key: str
    own: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published version.

    Attributes:
        number: its number in its own format.
        event: the event that it shows.
        commit: the commit id of that event; empty if only a version with all files can follow this
            one, for example because the table was moved.
        time: the time of that event.
        table_id: the id of the table.
        schema: the number of the table's schema.
        files: its files, by path.
        address: the URI that readers open.
        own: its format's private data.
        rules: the number of the rules by which its files were chosen.
    """

    number: int
    event: int
    commit: str
    time: Instant
    table_id: str
    schema: int
    files: Mapping[str, PublishedFile]
    address: str
    own: Any = None
    rules: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The number of rows of a data file, and its hidden rows, as its published version has them."""

    rows: int
    hidden: BitMap = field(default_factory=BitMap)

    @property
    def shown(self) -> int:
        """Return the number of visible rows."""
        return self.rows - len(self.hidden)


class Target(Protocol):
    """The published table of one format, in the root of a table."""

    @property
    def address(self) -> str:
        """Return the URI that readers open."""
        ...

    def load(self, known: Published | None = None) -> Published | None:
        """Return the newest published version; None if there is none.

        Args:
            known: any earlier version of this target: only later ones are read. If it was deleted
                with the target, the target is read anew.

        Raises:
            ForeignTable: the folder has a table that segtable did not write.
            CorruptTable, StorageError: it cannot be read.
        """
        ...

    def remains(self) -> Published | None:
        """Return the remains of any target, for a version with all files to follow; None if empty.

        Its files are those that a decodable part of the target names, its table id is empty, and
        its event is -1 unless something in it shows that segtable wrote it.

        Raises:
            ForeignTable: the decodable part is another tool's.
            StorageError: the storage cannot be read.
        """
        ...

    def put(self, known: Published | None, revision: Revision) -> Published | None:
        """Put a version after ``known``; None if another publisher took its number.

        Without ``known``, or if it is of another table or ``remains``, the revision has all files.

        Raises:
            PublishingRefused: the format cannot show one of the files.
            StorageError: the version was not put, or may have been (``OutcomeUnknown``).
        """
        ...

    def holds(self, put: Published) -> bool:
        """Return whether all files that readers of a version just put need are present."""
        ...

    def take_back(self, put: Published) -> None:
        """Delete the files of a version that this process put, unless another one follows it."""
        ...

    def contents(self, head: Published) -> Mapping[str, Contents]:
        """Return the rows of each data file and its hidden ones, from a version's files, by path.

        As its readers do, this reads all files from the storage, except data files.

        Raises:
            CorruptTable: a file that the version refers to is missing or broken.
        """
        ...

    def needed(self, since: Instant) -> frozenset[str]:
        """Return the paths of data files that readers may need.

        They are those of the newest version, and of each that was replaced after ``since``. If
        metadata files of the newest version are missing, no reader opens it: only its decodable
        part is needed.

        Raises:
            ForeignTable, CorruptTable, StorageError: it cannot be read: delete nothing.
        """
        ...

    def sweep(self, since: Instant, *, dry_run: bool = False) -> tuple[str, ...]:
        """Delete files that only versions replaced before ``since`` reference.

        Only files of the target itself, such as old metadata; never data files.

        Returns:
            The paths, relative to the table's root.
        """
        ...


class Format(Protocol):
    """A table format for publishing versions.

    Attributes:
        name: its name in properties and on the command line.
        title: its name in sentences.
        folders: the target's own folders below a table's root.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    folders: ClassVar[tuple[str, ...]]

    def target(self, storage: Storage, randomness: Randomness | None = None) -> Target:
        """Return the target in a table's root.

        Args:
            storage: the root.
            randomness: names the files of each attempt to put a version; the system's if None.
        """
        ...

    def refusal(self, table: TableDefinition, schemas: Collection[int]) -> str:
        """Return the reason if a version cannot be published, with the way out, else empty.

        Args:
            table: its definition.
            schemas: the numbers of the schemas that its shown files were written with.
        """
        ...

    def register(self, published: Published, properties: Mapping[str, str]) -> str:
        """Register the newest version elsewhere, such as in a catalog, if properties name one.

        Args:
            published: the version, which may be known there already.
            properties: those of the table.

        Returns:
            The reason if it could not be registered, with the way out, else empty.
        """
        ...

    def is_own(self, path: str) -> bool:
        """Return whether a target gives such a name to its files, relative to the root."""
        ...
