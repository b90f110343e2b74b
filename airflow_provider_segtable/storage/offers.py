"""Offers of writers that wait for their turn in a folder of a local disk.

1. The writers of one host take turns by a lock on a folder (``disk``). One that waits leaves an
   *offer* beside it: a file ``offers/<time>-<token>``, renamed into place, not synced. The holder
   of the turn carries it out together with its own work. Nothing depends on it: an offer that is
   lost costs its author an attempt of its own.
2. A *claim* renames an offer to ``<name>.<number>``. Renaming and deleting a name are atomic, so
   either a holder has the offer or its author has taken it back, never both.
3. When its wait ends, an author deletes its offer. If that name is gone, the offer was claimed. If
   there is a claim, its number says which outcome the author has to look for. If there is none, the
   claim has ended, so that outcome is certain and can be read.
4. A claim ends by deletion: by its holder, or by a later one that knows a higher number. An offer
   whose author died is claimed like any other; after ``LONGEST_S`` it is deleted instead.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.disk import Folders

NAME = "offers"
UNKNOWN = 1 << 62
"""The number of a claim that cannot be looked for: no outcome is certain then."""
LONGEST_S = 60.0
"""An offer is not older than this, unless its author has died."""


def folder_beside(prefix: str) -> str:
    """Return the folder of the offers of writers that take turns in a folder."""
    return f"{prefix.rpartition('/')[0]}/{NAME}".lstrip("/")


class LocalTurn:
    """``ports.storage.Turn`` on a local disk."""

    def __init__(
        self, folders: Folders, prefix: str, offer: Callable[[], bytes | None] | None
    ) -> None:
        """Offer the result of ``offer`` if this writer has to wait; it may be None."""
        self._folders = folders
        self._path = folder_beside(prefix)
        self._offer = offer
        self._claims: list[str] = []
        self.claimed = False
        self.claimed_as: int | None = None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Offer, and take the offer back."""
        name = ""
        with _quietly():
            data = self._offer() if self._offer is not None else None
            name = "" if data is None else self._put(data)
        try:
            yield
        finally:
            if name:
                with _quietly():
                    self._withdraw(name)

    def claim(self, number: int, most: int) -> Sequence[bytes]:
        """Claim waiting offers under a number, oldest first; claims of lower numbers end."""
        found: list[bytes] = []
        with _quietly(), self._folders.opened(self._path) as folder:
            for name in _names(folder):
                offer, _, claimed = name.partition(".")
                if not offer:
                    continue  # not in its place yet
                if claimed or _is_old(offer):
                    if not claimed or int(claimed) < number:
                        _delete(folder, name)
                elif len(found) < most and (data := self._claimed(folder, name, number)):
                    found.append(data)
        return found

    def end_claims(self) -> None:
        """End the claims of this turn: the outcome of their number is certain."""
        if not self._claims:
            return
        with _quietly(), self._folders.opened(self._path) as folder:
            while self._claims:
                _delete(folder, self._claims.pop())

    def _put(self, data: bytes) -> str:
        name = f"{time.time_ns():020d}-{secrets.token_hex(8)}"
        with self._folders.at(f"{self._path}/{name}", make=True) as (folder, _):
            temporary = f".{name}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            fd = os.open(temporary, flags, 0o644, dir_fd=folder)
            try:
                os.write(fd, data)
            finally:
                os.close(fd)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return name

    def _withdraw(self, name: str) -> None:
        self.claimed, self.claimed_as = True, UNKNOWN
        with self._folders.opened(self._path) as folder:
            try:
                os.unlink(name, dir_fd=folder)
            except FileNotFoundError:
                claims = [each for each in _names(folder) if each.startswith(f"{name}.")]
                self.claimed_as = int(claims[0].rpartition(".")[2]) if claims else None
            else:
                self.claimed, self.claimed_as = False, None

    def _claimed(self, folder: int, name: str, number: int) -> bytes:
        """Return the content of an offer that is claimed; empty if another one was faster."""
        claim = f"{name}.{number}"
        try:
            os.rename(name, claim, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            return b""
        self._claims.append(claim)
        fd = os.open(claim, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
        with os.fdopen(fd, "rb") as file:
            return file.read()


def _quietly() -> AbstractContextManager[None]:
    """Return the context of calls that may fail: offers are hints."""
    return contextlib.suppress(OSError, SegtableError)


def _is_old(name: str) -> bool:
    begun = name.partition("-")[0]
    return not begun.isdigit() or time.time_ns() - int(begun) > LONGEST_S * 1e9


def _names(folder: int) -> list[str]:
    """Return the names in a folder, sorted: the oldest first."""
    with os.scandir(folder) as entries:
        return sorted(each.name for each in entries)


def _delete(folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
