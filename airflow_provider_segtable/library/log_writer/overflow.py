"""Records beyond a writer's memory, in temporary files, until their checkpoint.

A writer whose checkpoints are its caller's alone gets no room by waiting. So its bucket takes any
number of records, and those beyond a bound are written to a file and mapped into memory: readers,
the checkpoint and a new epoch use them as all others, and the system drops their pages when it
needs room.

1. A file is removed from its folder (``$TMPDIR``) when it is made, so nothing is left of a process
   that dies. Its space is free when nobody uses its records any more.
2. What is in memory since the last checkpoint stays below the bound, whatever comes.
"""

import mmap
import os
import tempfile

import pyarrow as pa

from airflow_provider_segtable.core.counted import MIB
from airflow_provider_segtable.core.errors import StorageError
from airflow_provider_segtable.disk.os_failures import writing

FILE_BYTES = 1024 * MIB
ALIGNMENT = 64


class Overflow:
    """Where the batches of one writer are kept.

    Args:
        memory_bytes: how much of them is in memory.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._most, self._used = memory_bytes, 0
        self._file: _MappedFile | None = None
        self.written = 0

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch, or the same records in a file.

        Raises:
            StorageFull, StorageError: the file cannot be written.
        """
        self._used += batch.nbytes
        if self._used <= self._most:
            return batch
        with writing(f"{tempfile.gettempdir()} (records beyond the memory of a log writer)"):
            return self._filed(batch)

    def emptied(self) -> None:
        """Begin anew: what was kept is committed."""
        self._used = 0
        self.close()

    def close(self) -> None:
        """Write to this file no more."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _filed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        data = batch.serialize()
        if self._file is None or self._file.room < data.size:
            self.close()
            self._file = _MappedFile(max(FILE_BYTES, data.size))
        self.written += data.size
        return pa.ipc.read_record_batch(self._file.added(data), batch.schema)


class _MappedFile:
    """A file without a name, of a size that it need not fill, as a whole in the address space."""

    def __init__(self, size: int) -> None:
        self._end, self._size = 0, size
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by ``close``
        os.ftruncate(self._file.fileno(), size)
        self._seen = memoryview(mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ))

    @property
    def room(self) -> int:
        return self._size - self._end

    def added(self, data: pa.Buffer) -> pa.Buffer:
        """Write bytes; return them as they are in the file."""
        start, left = self._end, memoryview(data)
        while left:  # written, not mapped for writing: a full disk is an error then, not a signal
            count = os.pwrite(self._file.fileno(), left, self._end)
            if not count:
                raise StorageError("a temporary file takes no more: free space on the device")
            self._end, left = self._end + count, left[count:]
        found = pa.py_buffer(self._seen[start : self._end])
        self._end += -self._end % ALIGNMENT
        return found

    def close(self) -> None:
        self._file.close()
