"""Formats: how versions of a table are published for readers of other table formats.

1. A *published version* names data files where they lie, and the rows of them that are hidden. It
   shows exactly event n of the log, whose number it records. No data file is copied.
2. A *target* is the published table of one format in one table's root. Any number of publishers may
   put versions into it: each version is created by put-if-absent, under the number after the one
   that its publisher has read. A publisher whose number is taken reads the target again.
3. Published events only rise; a target never goes back.
4. Readers may have opened any published version. What the newest one names is needed, and what
   another one names for as long as the retention, counted from when it was replaced.
5. Some formats have catalogs beside the target. These follow: a version is published by its put,
   whether or not it becomes known elsewhere.
6. A target that cannot be read, or was not written by segtable, is an error, never an empty one.
   A target that is not there is None.
7. Whatever lies in the place of a target, unless it is another tool's table, a version with all
   files can be put after it: ``remains`` says after which number. Readers of that version need
   nothing that was there before.
8. A target may be removed, or its table dropped, while a version is put. So the publisher looks
   afterwards whether the version still *holds*; if not, it takes the version back. If it dies in
   between, the next publication is put after what it left.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from pyroaring import BitMap

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
    """A file that a revision adds, or of which it hides other rows than before.

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
        shown: files that it shows anew, or with other hidden rows, by path.
        data_change: False if the same rows are shown as before (compactions alone).
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
    """A file of a published version; ``own`` is what its format has to remember of it."""

    path: str
    key: str
    own: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published version.

    Attributes:
        number: its number in its own format.
        event: the event that it shows.
        commit: the commit id of that event; empty if no version can be put after this one but one
            with all files, for example because the table was moved.
        time: the time of that event.
        table_id: the id of the table.
        schema: the number of the table's schema.
        files: its files, by path.
        address: the URI that readers open.
        own: what its format has to remember.
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
    """What a published version itself says of a data file: its rows, and which are hidden."""

    rows: int
    hidden: BitMap = field(default_factory=BitMap)

    @property
    def shown(self) -> int:
        """Return the number of rows that readers see."""
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
            known: any earlier version of this target: only later ones are read. If it is not there
                any more, because the target was deleted, the target is read anew.

        Raises:
            ForeignTable: the folder has a table that segtable did not write.
            CorruptTable, StorageError: it cannot be read.
        """
        ...

    def remains(self) -> Published | None:
        """Return what a version with all files can be put after, whatever is there; or None.

        Its files are those that a decodable part of the target names, its table id is empty, and
        its event is -1 unless something in it says that segtable wrote it.

        Raises:
            ForeignTable: what can be decoded is another tool's.
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
        """Return whether a version that was just put has all that its readers need beside it."""
        ...

    def take_back(self, put: Published) -> None:
        """Delete the files of a version that this process put, unless another one follows it."""
        ...

    def contents(self, head: Published) -> Mapping[str, Contents]:
        """Return what readers see of each data file, from all that a version refers to, by path.

        Everything is read from the storage, as its readers do; data files alone are not.

        Raises:
            CorruptTable: a file that the version refers to is gone or broken.
        """
        ...

    def needed(self, since: Instant) -> frozenset[str]:
        """Return the paths of data files that readers may need.

        They are those of the newest version, and of each that was replaced after ``since``. If
        files of the newest version itself are gone, no reader opens it: only what can be decoded
        is needed.

        Raises:
            ForeignTable, CorruptTable, StorageError: it cannot be read: delete nothing.
        """
        ...

    def sweep(self, since: Instant, *, dry_run: bool = False) -> tuple[str, ...]:
        """Delete what no version needs that is the newest, or was replaced after ``since``.

        Only files of the target itself, such as old metadata; never data files.

        Returns:
            The paths, relative to the table's root.
        """
        ...


class Format(Protocol):
    """A table format that versions can be published in.

    Attributes:
        name: its name in properties and on the command line.
        title: its name in sentences.
        folders: the folders below a table's root that a target has, none other writes into.
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
        """Return why a version cannot be published, with the way out; empty if it can.

        Args:
            table: its definition.
            schemas: the numbers of the schemas that its shown files were written with.
        """
        ...

    def register(self, published: Published, properties: Mapping[str, str]) -> str:
        """Make the newest version known elsewhere, such as in a catalog, if properties ask for it.

        Args:
            published: the version, which may be known there already.
            properties: those of the table.

        Returns:
            Why it is not known there, with the way out; empty if it is, or need not be.
        """
        ...

    def is_own(self, path: str) -> bool:
        """Return whether the name of a file, relative to the root, is one that a target gives."""
        ...
