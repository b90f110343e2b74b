"""A service account of Google for pyarrow, which takes none as an argument.

1. pyarrow's client reads the file that ``GOOGLE_APPLICATION_CREDENTIALS`` names when the client is
   made, and never again. So the variable has the account's file just for that moment.
2. The key as text is put into a private file for the same moment.
3. One client is made at a time, so that each gets its own account.
"""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_MUTEX = threading.Lock()


@contextmanager
def service_account(file: str, key: str) -> Iterator[None]:
    """Let clients that are made meanwhile have an account.

    Args:
        file: the file of the account; empty if the key is given, or if the environment is to tell.
        key: the same as JSON text.
    """
    if not file and not key:
        yield
        return
    with _MUTEX, _file_of(file, key) as path:
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = path
        try:
            yield
        finally:
            if before is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = before


@contextmanager
def _file_of(file: str, key: str) -> Iterator[str]:
    if file:
        yield file
        return
    with tempfile.NamedTemporaryFile("w", prefix="segtable-", suffix=".json") as made:
        made.write(key)
        made.flush()
        yield made.name
