"""Findings of ``segtable verify`` about damage: what each means, why it matters, the way out.

``where`` is a path below the table's root, or a version.
"""

from functools import partial

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.segments.segment import Segment

_critical = partial(Finding, severity=Severity.CRITICAL)

_BUG = "stop compaction of this table, keep its log, and report this as a bug of segtable"
_BACKUP = "restore this file from a backup or another replica of the storage"
_CONTINUE = (
    f"{_BACKUP}; without one, stop all writers, and let the log go on without it: segtable repair "
    "TABLE shows what comes back, and writes nothing without --yes"
)


def damaged_file(segment: Segment, code: str, what: str) -> Finding:
    """Report a data file that differs from its descriptor in the log."""
    size = segment.shard.group_size
    group = f", one of {size} in an atomic update group" if size > 1 else ""
    return _critical(
        code=code,
        where=segment.path,
        what=f"file of segment {segment.id} ({counted(segment.rows, 'row')}{group}): {what}",
        why="scans of its time chunk fail, or give other rows than were committed",
        do=_restore(segment),
    )


def _restore(segment: Segment) -> str:
    wrote = segment.file_id  # restored and carried-over segments have other ids
    made = segment.shard.base or wrote.partition in wrote.chunk.numbering.later
    away = f"restore {segment.path} from a backup; without one, move it away and"
    return (
        f"{away} fall back to its inputs: segtable repair TABLE"
        if made
        else f"{away} continue without its rows: segtable repair TABLE --accept-loss"
    )


def unread_file(segment: Segment, error: SegtableError) -> Finding:
    """Report a data file that could not be checked because storage failed."""
    what = f"file of segment {segment.id} could not be read: {error}"
    return unread(segment.path, what, code="unread")


def damaged_vectors(path: str, code: str, what: str, rows: int) -> Finding:
    """Report a file of deletion vectors that is missing or differs from the log."""
    return _critical(
        code=code,
        where=path,
        what=f"deletion vectors of {counted(rows, 'row')}: {what}",
        why="scans of segments that may have these rows fail; no other file records the deletions",
        do=f"restore {path} from a backup; without one, move _segtable away, and rebuild the log "
        "with the remaining deletions: segtable repair TABLE --deletes apply",
    )


def unread_vectors(path: str, error: SegtableError) -> Finding:
    """Report a file of deletion vectors that could not be checked because storage failed."""
    return unread(path, f"deletion vectors could not be read: {error}", code="unread")


def unread(where: str, what: str, *, code: str) -> Finding:
    """Report an object that could not be checked because storage failed."""
    return Finding(
        code=code,
        severity=Severity.UNCHECKED,
        where=where,
        what=what,
        why="damage there is unknown until the check is repeated",
        do="make the storage readable from this host, then run the check again",
    )


def broken_log_range(where: str, code: str, what: str) -> Finding:
    """Report committed records of the log store that are not those of the log."""
    return _critical(
        code=code,
        where=where,
        what=what,
        why="readers of the log store stop there, or miss records; scans do not depend on it",
        do="let readers begin again after a scan of the table; restore the files from a backup if "
        "records are needed by their offsets",
    )


def broken_event(where: str, what: str) -> Finding:
    """Report an event that is torn, misplaced, or cannot follow its predecessor."""
    return _critical(
        code="broken-event",
        where=where,
        what=what,
        why="the table cannot be read past this event, unless a later checkpoint exists",
        do=_CONTINUE,
    )


def broken_invariant(n: int, what: str) -> Finding:
    """Report a state of the log that breaks an invariant."""
    return _critical(
        code="invariant",
        where=f"version {n}",
        what=what,
        why="the log contradicts itself: readers see too many or too few rows",
        do=_BUG,
    )


def doubled_file(path: str, segments: tuple[Segment, ...]) -> Finding:
    """Report a file that several visible segments share."""
    names = ", ".join(str(segment.id) for segment in segments)
    return _critical(
        code="doubled-file",
        where=path,
        what=f"visible segments {names} share this file",
        why="its rows are read more than once",
        do=_BUG,
    )


def wrong_checkpoint(where: str, n: int) -> Finding:
    """Report a readable checkpoint that differs from the fold of the log."""
    return _critical(
        code="wrong-checkpoint",
        where=where,
        what=f"the checkpoint of version {n} differs from the log's events",
        why="readers and compactions that open the table by it work on a wrong state",
        do=f"delete {where}: the log can be read without it",
    )


def bad_checkpoint(path: str, error: str, *, other_format: bool) -> Finding:
    """Report a checkpoint that cannot be read."""
    return Finding(
        code="old-checkpoint" if other_format else "bad-checkpoint",
        severity=Severity.INFO if other_format else Severity.WARNING,
        where=path,
        what=error,
        why="without this checkpoint, opening the table takes longer",
        do=f"delete {path}; a writer writes the next one",
    )


def log_gap(where: str, n: int, last: int) -> Finding:
    """Report a missing event in the middle of the log."""
    return _critical(
        code="log-gap",
        where=where,
        what=f"event {n} is missing, but later events exist (up to {last})",
        why="for every reader the log ends before the gap, without the later commits",
        do=_CONTINUE,
    )


def log_without_base(where: str, first: int) -> Finding:
    """Report a log whose start expired, without a readable checkpoint to continue from."""
    return _critical(
        code="log-without-base",
        where=where,
        what=f"the log begins with event {first}, and no later checkpoint can be read",
        why="the table cannot be opened",
        do=f"restore {where} from a backup, or rebuild the log from the files: "
        "segtable repair TABLE",
    )


def bad_tag(where: str, name: str, what: str, *, lost: bool) -> Finding:
    """Report a missing or wrong checkpoint of a tagged version."""
    return Finding(
        code="bad-tag",
        severity=Severity.CRITICAL if lost else Severity.WARNING,
        where=where,
        what=f"tag {name!r}: {what}",
        why="the tagged version cannot be read"
        if lost
        else "the version is lost as soon as the events that lead to it expire",
        do=_BACKUP if lost else f"delete {where}, and tag the version again",
    )
