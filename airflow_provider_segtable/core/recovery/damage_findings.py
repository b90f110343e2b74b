"""Findings of ``segtable verify`` about damage: what each means, why it matters, the way out.

``where`` is a path below the table's root, or a version.
"""

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.segments.segment import Segment

_BUG = "stop compaction of this table, keep its log, and report this as a bug of segtable"
_BACKUP = "restore this file from a backup or another replica of the storage"


def damaged_file(segment: Segment, code: str, what: str) -> Finding:
    """Report a data file that differs from its descriptor in the log."""
    size = segment.shard.group_size
    group = f", one of a group of {size} that is read together" if size > 1 else ""
    return Finding(
        code=code,
        severity=Severity.CRITICAL,
        where=segment.path,
        what=f"file of segment {segment.id} ({segment.rows} rows{group}): {what}",
        why="scans of its time chunk fail, or give other rows than were committed",
        do=_restore(segment),
    )


def _restore(segment: Segment) -> str:
    made = segment.shard.minor_version or segment.shard.core
    away = f"restore {segment.path} from a backup; without one, move it away and"
    return (
        f"{away} fall back to what it was compacted from: segtable repair TABLE"
        if made
        else f"{away} go on without its rows: segtable repair TABLE --accept-loss"
    )


def unread_file(segment: Segment, error: SegtableError) -> Finding:
    """Report a data file that could not be checked because storage failed."""
    return Finding(
        code="unread",
        severity=Severity.UNCHECKED,
        where=segment.path,
        what=f"file of segment {segment.id} could not be read: {error}",
        why="nobody knows whether it is sound",
        do="make the storage readable from here, then verify again",
    )


def damaged_vectors(path: str, code: str, what: str, rows: int) -> Finding:
    """Report a file of deletion vectors that is missing or differs from the log."""
    return Finding(
        code=code,
        severity=Severity.CRITICAL,
        where=path,
        what=f"file of deletions ({rows} rows): {what}",
        why="scans of what may hold these rows fail; nothing else tells which rows were deleted",
        do=f"restore {path} from a backup; without one, move _segtable away, and rebuild the log "
        "with what is left of the deletions: segtable repair TABLE --deletes apply",
    )


def unread_vectors(path: str, error: SegtableError) -> Finding:
    """Report a file of deletion vectors that could not be checked because storage failed."""
    return Finding(
        code="unread",
        severity=Severity.UNCHECKED,
        where=path,
        what=f"file of deletions could not be read: {error}",
        why="nobody knows whether it is sound",
        do="make the storage readable from here, then verify again",
    )


def broken_event(where: str, what: str) -> Finding:
    """Report an event that is torn, misplaced, or cannot follow its predecessor."""
    return Finding(
        code="broken-event",
        severity=Severity.CRITICAL,
        where=where,
        what=what,
        why="the table cannot be read past this event, unless a later checkpoint is there",
        do=_BACKUP,
    )


def broken_invariant(n: int, what: str) -> Finding:
    """Report a state of the log that breaks an invariant."""
    return Finding(
        code="invariant",
        severity=Severity.CRITICAL,
        where=f"version {n}",
        what=what,
        why="the log itself says something that cannot be: readers see too much or too little",
        do=_BUG,
    )


def doubled_file(path: str, segments: tuple[Segment, ...]) -> Finding:
    """Report a file that several visible segments share."""
    names = ", ".join(str(segment.id) for segment in segments)
    return Finding(
        code="doubled-file",
        severity=Severity.CRITICAL,
        where=path,
        what=f"visible segments {names} have this one file",
        why="its rows are read more than once",
        do=_BUG,
    )


def wrong_checkpoint(where: str, n: int) -> Finding:
    """Report a readable checkpoint that differs from the fold of the log."""
    return Finding(
        code="wrong-checkpoint",
        severity=Severity.CRITICAL,
        where=where,
        what=f"the checkpoint of version {n} is not what the log's events give",
        why="whoever opens the table by it sees, and compacts, another table",
        do=f"delete {where}: it is a hint, the log is folded without it",
    )


def bad_checkpoint(path: str, error: str, *, other_format: bool) -> Finding:
    """Report a checkpoint that cannot be read."""
    return Finding(
        code="old-checkpoint" if other_format else "bad-checkpoint",
        severity=Severity.INFO if other_format else Severity.WARNING,
        where=path,
        what=error,
        why="a checkpoint is a hint: without it opening the table takes longer",
        do=f"delete {path}; the next one is written by itself",
    )


def log_gap(where: str, n: int, last: int) -> Finding:
    """Report a missing event in the middle of the log."""
    return Finding(
        code="log-gap",
        severity=Severity.CRITICAL,
        where=where,
        what=f"event {n} is missing, but later ones are there (up to {last})",
        why="the log ends before the gap for every reader; later commits are lost to them",
        do=_BACKUP,
    )


def log_without_base(where: str, first: int) -> Finding:
    """Report a log whose start expired, without a readable checkpoint to continue from."""
    return Finding(
        code="log-without-base",
        severity=Severity.CRITICAL,
        where=where,
        what=f"the log begins with event {first}, and no checkpoint from there on can be read",
        why="nobody can open the table",
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
        why="the tagged version cannot be read any more"
        if lost
        else "the version is lost with the events that still lead there, when they expire",
        do=_BACKUP if lost else f"delete {where}, and tag the version again",
    )
