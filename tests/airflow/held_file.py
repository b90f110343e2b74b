"""Hold a process back as it opens a file: a lease of Linux (``man 2 fcntl``, F_SETLEASE)."""

import fcntl
import signal
from pathlib import Path
from types import TracebackType
from typing import Self


class HeldFile:
    """Let other processes wait in ``open`` of a file, for up to 45 s, until the block ends.

    The kernel announces them by SIGIO, which would end this process; ``wanted`` says the same.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open()
        self._before = signal.signal(signal.SIGIO, signal.SIG_IGN)

    def __enter__(self) -> Self:
        """Take the lease; nobody else may have opened the file yet."""
        fcntl.fcntl(self._file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the lease up; the others go on."""
        fcntl.fcntl(self._file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        self._file.close()
        signal.signal(signal.SIGIO, self._before)

    @property
    def wanted(self) -> bool:
        """Return whether a process waits."""
        return fcntl.fcntl(self._file, fcntl.F_GETLEASE) != fcntl.F_WRLCK
