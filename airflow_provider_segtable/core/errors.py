"""The one error tree of segtable.

Every error that crosses the package border is one of these; adapters translate the errors of
their libraries. A message names the offending value and the way out.

An error class says with which exit code it ends a process (``exit_code``), and subclasses inherit
it. The command line and the Spark applications end with this code; an operator fails its task
without a retry if the code is ``Exit.USAGE``. So a new error is a class here and its raising place.

::

    SegtableError
    ├── InvalidInput                the caller's value is wrong; nothing was written
    │   ├── SchemaMismatch
    │   ├── TimeOutOfRange          null, or outside the years that a table can hold
    │   ├── InvalidName
    │   ├── SegmentsRefused         chosen segments cannot be compacted together
    │   ├── NeedsSpark              this process cannot evaluate it, Spark may
    │   └── LimitReached            ids or minor versions are used up
    ├── TableError                  the table is not in the state that the caller expects
    │   ├── NotATable
    │   │   └── TableGone           it was dropped
    │   ├── TableExists
    │   ├── TableInUse              others hold locks on the table
    │   ├── VersionExpired          cleaned: too old, and not tagged
    │   │   └── WindowExpired       a window's start was cleaned, or rows it lost
    │   ├── RestoreRefused          the version cannot come back by metadata alone
    │   ├── PublishingRefused       this version cannot be published in that format
    │   ├── ForeignTable            another tool's table is where ours would be published
    │   ├── UnsupportedFormat       written by a newer segtable
    │   └── CorruptTable            a file of the table breaks the format
    │       ├── ChecksumMismatch    its bytes differ from those written
    │       └── OtherFormat         a checkpoint of a format that is not read here
    ├── StorageError
    │   ├── NotFound
    │   ├── LogExpired              events were cleaned while they were read
    │   ├── AlreadyExists           put-if-absent lost
    │   ├── ReadOnlyStorage
    │   ├── CredentialsExpired      renew them; nothing is wrong with the table
    │   ├── StorageFull
    │   ├── UnsafePath              a symbolic link is in the way; none is followed
    │   ├── UnsafeStorage           the store ignores put-if-absent
    │   └── OutcomeUnknown          the reply was lost; the write may have happened
    ├── CoordinationError
    │   ├── CoordinatorUnavailable  no ZooKeeper
    │   ├── AccessRefused           ZooKeeper refuses this user, or access to these nodes
    │   ├── UnreadableNode          a ZooKeeper node does not have segtable's format
    │   ├── LockTimeout             still held by others at the deadline
    │   ├── LockLost                the session ended or is doubtful: do not commit
    │   │   └── LockRevoked         a higher priority took it
    │   └── ClockSkew
    ├── CommitError
    │   ├── CommitConflict          another writer's event forbids this one; names the winner
    │   │   └── ChangeConflict      other writers kept changing the same rows
    │   ├── CommitUnknown           the outcome of the commit is unknown
    │   └── RowsOutOfBalance        rows out != rows in
    ├── LogStoreError
    │   ├── Fenced                  a newer writer or service has replaced this one
    │   ├── LogStoreFull            buffers are full of records that no checkpoint committed yet
    │   ├── OffsetGap               a checkpoint does not begin where the last one ended
    │   ├── LogStoreUnavailable     no log store answers, or it was shut down
    │   │   └── LogStoreGone        nothing listens at its address any more
    │   ├── LogStoreServed          services of other processes have the buckets
    │   └── CheckpointPending       an earlier checkpoint is neither committed nor abandoned
    ├── ExecutionFailed             the engine under the work (Spark) failed; nothing committed
    └── EnvironmentIncomplete       this machine lacks something
        ├── JavaMissing
        └── DependencyMissing
"""

from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """The exit codes of ``segtable``."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    MISSING = 3
    AGAIN = 4
    WRONG = 5
    UNCHECKED = 6
    WARNED = 7
    INTERRUPTED = 130


class SegtableError(Exception):
    """The base of all errors that segtable raises.

    Attributes:
        exit_code: exit code of a process that the error ends.
    """

    exit_code: ClassVar[int] = Exit.FAILED


class InvalidInput(SegtableError):
    """The caller's value is wrong; nothing was written."""

    exit_code = Exit.USAGE


class SchemaMismatch(InvalidInput):
    """Columns or types differ from the table's schema."""


class TimeOutOfRange(InvalidInput):
    """An event time is null or outside the years a table can hold."""


class InvalidName(InvalidInput):
    """A name, URI or id has a form that segtable does not accept."""


class SegmentsRefused(InvalidInput):
    """Chosen segments cannot be compacted so; the message names one, and the reason."""


class NeedsSpark(InvalidInput):
    """This process cannot evaluate an expression or request; Spark may."""


class LimitReached(InvalidInput):
    """Partition ids or minor versions of a time chunk are used up; they never wrap."""


class TableError(SegtableError):
    """The table is not in the state that the caller expects."""


class NotATable(TableError):
    """There is no segtable table at this place."""


class TableGone(NotATable):
    """The table was dropped; the message says when and by whom."""


class TableExists(TableError):
    """A table is already there."""


class TableInUse(TableError):
    """Others hold locks on the table; the message names them."""


class VersionExpired(TableError):
    """The version is no longer kept; the message names the oldest kept one."""


class WindowExpired(VersionExpired):
    """The changes after a start are no longer kept; the message names the oldest start."""


class RestoreRefused(TableError):
    """The version cannot be restored by metadata; the message has the reason and the way out."""


class UnsupportedFormat(TableError):
    """A newer segtable wrote the table or event."""


class PublishingRefused(TableError):
    """A version cannot be published in a format; the message says why, and the way out."""


class ForeignTable(TableError):
    """Another tool's table is where a version would be published."""


class CorruptTable(TableError):
    """A file of the table breaks the format."""


class ChecksumMismatch(CorruptTable):
    """A file's bytes differ from those written; the message names the file."""


class OtherFormat(CorruptTable):
    """A checkpoint has a format that this segtable does not read; the log is read instead."""


class StorageError(SegtableError):
    """The storage failed; the path is in the message."""


class NotFound(StorageError):
    """No object at this path."""


class LogExpired(StorageError):
    """A cleaning deleted events of the log while they were read: read it again."""


class AlreadyExists(StorageError):
    """Put-if-absent lost: the object is there already."""


class ReadOnlyStorage(StorageError):
    """The storage refuses writes."""


class CredentialsExpired(StorageError):
    """The store no longer accepts a token that has ended; the message says how to renew it."""


class StorageFull(StorageError):
    """No space, quota or file handles left."""


class UnsafePath(StorageError):
    """A symbolic link lies on the way to a file of the table; it is never followed."""


class UnsafeStorage(StorageError):
    """The store accepts a second create of one name: commits would be lost on it."""


class OutcomeUnknown(StorageError):
    """The reply was lost: the write may or may not have happened."""

    exit_code = Exit.AGAIN


class CoordinationError(SegtableError):
    """The coordination service failed."""

    exit_code = Exit.MISSING


class CoordinatorUnavailable(CoordinationError):
    """No ZooKeeper answers at the address."""


class AccessRefused(CoordinationError):
    """ZooKeeper refuses the user or password, or its nodes belong to another user."""


class UnreadableNode(CoordinationError):
    """A ZooKeeper node may be a lock but cannot be read; the message names it."""


class LockTimeout(CoordinationError):
    """Other holders still had the requested locks at the deadline."""

    exit_code = Exit.AGAIN


class LockLost(CoordinationError):
    """The lease is lost or doubtful: work under it must not be committed."""


class LockRevoked(LockLost):
    """A request of higher priority took the lock; the message names its holder."""

    exit_code = Exit.AGAIN


class ClockSkew(CoordinationError):
    """This host's clock differs too much from the coordinator's or the storage's."""


class CommitError(SegtableError):
    """A change could not be committed."""


class CommitConflict(CommitError):
    """An event that landed first forbids this change; the message names it."""

    exit_code = Exit.AGAIN


class ChangeConflict(CommitConflict):
    """Other writers kept changing the same rows; the message names the last winning event."""


class CommitUnknown(CommitError):
    """The outcome of the commit was still unknown after the last attempt to learn it."""

    exit_code = Exit.AGAIN


class RowsOutOfBalance(CommitError):
    """Rows out differ from rows in; the commit was refused."""


class LogStoreError(SegtableError):
    """The log store failed or refused."""


class Fenced(LogStoreError):
    """A newer writer or service has replaced this one; the message has both epochs."""


class LogStoreFull(LogStoreError):
    """Buffers were full of uncommitted records until the deadline; nothing was appended."""


class OffsetGap(LogStoreError):
    """A checkpoint's offsets do not follow the committed ones; nothing was committed."""


class LogStoreUnavailable(LogStoreError):
    """No log store answers at the address, or it was shut down."""


class LogStoreGone(LogStoreUnavailable):
    """Nothing listens at a store's address: its process has ended, and its records are lost."""


class LogStoreServed(LogStoreError):
    """A store beside its writer was asked for, and running services have the buckets."""


class CheckpointPending(LogStoreError):
    """An earlier checkpoint is neither committed nor abandoned."""


class ExecutionFailed(SegtableError):
    """The engine that ran the work (Spark) failed; nothing was committed."""


class EnvironmentIncomplete(SegtableError):
    """This machine lacks something segtable needs."""

    exit_code = Exit.MISSING


class JavaMissing(EnvironmentIncomplete):
    """Java 17 or newer is not on this machine."""


class DependencyMissing(EnvironmentIncomplete):
    """An optional Python package is not installed, or two that exclude each other are."""
