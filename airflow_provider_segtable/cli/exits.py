"""Exit codes for scripts, so that they need not parse messages.

====  ==================================================================================
   0  done
   1  failed: the table, the storage or a plan; the message has the way out
   2  the command line or a value on it is wrong; nothing was written
   3  something is missing here: ZooKeeper, Java, a Python package, or the session was lost
   4  conflict with another writer, or a lost reply: run the command again
   5  `verify`, `doctor` or `publish --check` found something wrong
   6  one of these could not check everything, and found nothing wrong in the rest
   7  `doctor` found nothing worse than warnings; `compact --all` could not read an index
 130  interrupted
====  ==================================================================================
"""

from enum import IntEnum

from airflow_provider_segtable.core.errors import (
    CommitConflict,
    CommitUnknown,
    CoordinationError,
    EnvironmentIncomplete,
    InvalidInput,
    LockRevoked,
    LockTimeout,
    OutcomeUnknown,
    SegtableError,
)


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


_FAMILIES: tuple[tuple[type[SegtableError], Exit], ...] = (
    (InvalidInput, Exit.USAGE),
    (LockTimeout, Exit.AGAIN),
    (LockRevoked, Exit.AGAIN),
    (CommitConflict, Exit.AGAIN),
    (CommitUnknown, Exit.AGAIN),
    (OutcomeUnknown, Exit.AGAIN),
    (CoordinationError, Exit.MISSING),
    (EnvironmentIncomplete, Exit.MISSING),
)


def exit_code(error: SegtableError) -> Exit:
    """Return the exit code of an error's family."""
    return next((code for kind, code in _FAMILIES if isinstance(error, kind)), Exit.FAILED)
