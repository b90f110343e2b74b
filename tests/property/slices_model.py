"""File slices as RFC-66 says them: instants, completion times, barriers; no roots, no versions.

1. Only completed files count. A file of a writer or a compaction that is pending, or was given up,
   is in no slice, and no barrier.
2. *Barriers* are the instants of the base files: when their compaction was requested. A log file
   is in the slice of the latest barrier before its completion time.
3. Log files that a completed log compaction replaced are left out; its output is a log file.
4. Log files that completed before the first barrier get a slice of their own (the RFC's text loses
   them): their barrier is the instant of the earliest of them.
5. As of a time: the same rules over what had completed by then, inclusive. The newest slice is
   read, "with everything after it".

``build_file_slices`` and what it calls keep the RFC's names and steps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class LogFile(NamedTuple):
    """A log file; ``compacted`` names the log files that it replaces."""

    name: str
    instant: int
    completed: int
    compacted: frozenset[str] = frozenset()


class BaseFile(NamedTuple):
    """A base file; its instant is that of its compaction."""

    name: str
    instant: int
    completed: int


@dataclass(slots=True)
class FileSlice:
    """A barrier, its base file (empty before the first one), and its log files by completion."""

    barrier: int
    base: str = ""
    logs: list[str] = field(default_factory=list)


def build_file_slices(bases: Iterable[BaseFile], logs: Iterable[LogFile]) -> list[FileSlice]:
    """Return the slices of a file group, the newest first."""
    base_files = sorted(bases, key=lambda base: base.instant, reverse=True)
    log_files = sorted(handle_log_compaction([*logs]), key=lambda log: log.completed)
    slices = {base.instant: FileSlice(base.instant, base.name) for base in base_files}
    barriers = get_file_slice_barriers(base_files, log_files)
    for log in log_files:
        barrier = find_file_slice(log, barriers)
        slices.setdefault(barrier, FileSlice(barrier)).logs.append(log.name)
    return [slices[barrier] for barrier in sorted(slices, reverse=True)]


def handle_log_compaction(logs: Sequence[LogFile]) -> list[LogFile]:
    """Return the log files without those that were log-compacted."""
    compacted = {name for log in logs for name in log.compacted}
    return [log for log in logs if log.name not in compacted]


def get_file_slice_barriers(bases: Sequence[BaseFile], logs: Sequence[LogFile]) -> list[int]:
    """Return the barriers, the latest first; the last one is of log files before the first base."""
    barriers = [base.instant for base in bases]
    if logs and (not bases or logs[0].completed < barriers[-1]):
        barriers.append(logs[0].instant)
    return barriers


def find_file_slice(log: LogFile, barriers: Sequence[int]) -> int:
    """Return the latest barrier before the completion of a log file."""
    return next(barrier for barrier in barriers if barrier < log.completed)


def as_of(
    bases: Iterable[BaseFile], logs: Iterable[LogFile], time: int
) -> tuple[list[BaseFile], list[LogFile]]:
    """Return the files that had completed by a time."""
    return (
        [base for base in bases if base.completed <= time],
        [log for log in logs if log.completed <= time],
    )
