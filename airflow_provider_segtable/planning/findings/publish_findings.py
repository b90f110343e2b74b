"""Findings about versions published in other table formats: damage, doubt, and lag.

1. Nothing here touches the table's own rows. Readers of the other format get errors, or old rows.
2. While a target cannot be decoded, cleaning deletes nothing: its readers may need any file.
3. Everything that is published can be published anew from the log.
"""

from collections.abc import Collection, Sequence

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.recovery.diagnosis import TABLE, Finding, Severity

LAG_S = 3600.0
"""Seconds after which a version that is not published is reported."""
NAMED = 3
"""Number of missing files that a finding names."""


def foreign_target(title: str, folders: Collection[str], error: str) -> Finding:
    """Report another tool's table in the place of a target."""
    where = ", ".join(folders)
    return Finding(
        code="foreign-table",
        severity=Severity.WARNING,
        where=where,
        what=f"another tool's {title} table is there: {error}",
        why="no version can be published there, and cleaning deletes nothing, because the readers "
        "of that table may need any file",
        do=f"move {where} to another place, if it is needed, or delete it",
    )


def damaged_target(title: str, name: str, folders: Collection[str], error: str) -> Finding:
    """Report a target that breaks its format."""
    where = ", ".join(folders)
    return Finding(
        code="damaged-published",
        severity=Severity.CRITICAL,
        where=where,
        what=f"what is published as {title} is damaged: {error}",
        why="its readers fail; cleaning deletes nothing while it cannot be decoded",
        do=f"publish it anew: segtable publish {TABLE} --format {name} --full; or remove it: "
        f"segtable publish {TABLE} --format {name} --remove",
    )


def unfinished_target(title: str, name: str, folder: str, files: int) -> Finding:
    """Report files of a target that has no version."""
    return Finding(
        code="unfinished-published",
        severity=Severity.INFO,
        where=folder,
        what=f"{counted(files, 'file')} of {title}, and no version that names them",
        why="the first publication was interrupted, or is on its way; readers find no table yet",
        do=f"publish it: segtable publish {TABLE} --format {name}",
    )


def missing_published(title: str, name: str, event: int, paths: Sequence[str]) -> Finding:
    """Report data files that the newest published version shows, and that are gone."""
    more = f", and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return Finding(
        code="missing-published-files",
        severity=Severity.CRITICAL,
        where=paths[0],
        what=f"the newest version published as {title}, of event {event}, shows "
        f"{counted(len(paths), 'file')} that are gone: {', '.join(paths[:NAMED])}{more}",
        why="its readers fail with a missing file",
        do=f"publish the newest version: segtable publish {TABLE} --format {name} --full; if the "
        "log shows these files, too, see their own findings",
    )


def lagging_target(
    title: str, name: str, event: int | None, lag_s: float, events: int | None
) -> Finding:
    """Report a format whose newest published version is old."""
    newer = "later events" if events is None else counted(events, "later event")
    shown = "nothing" if event is None else f"event {event}"
    return Finding(
        code="lagging-published",
        severity=Severity.WARNING,
        where=name,
        what=f"{title} shows {shown}, and for {lag_s / 3600:.1f} hours not what {newer} changed",
        why="its readers see old rows, and cleaning keeps the files of that version for them",
        do=f"publish it: segtable publish {TABLE} --format {name}; what fails after commits is a "
        "warning in the logs of the writers",
    )


def refused_target(title: str, name: str, reason: str) -> Finding:
    """Report a version that a format cannot show."""
    return Finding(
        code="unpublishable",
        severity=Severity.WARNING,
        where=name,
        what=f"the newest version cannot be published as {title}: {reason}",
        why="its readers see the last version that could be published",
        do=f"do what the reason says, or: segtable table set {TABLE} publish.{name}=off",
    )


def abandoned_target(title: str, name: str, event: int) -> Finding:
    """Report a published version that nothing keeps up."""
    return Finding(
        code="abandoned-published",
        severity=Severity.INFO,
        where=name,
        what=f"{title} shows event {event}, which is old, and publishing is off",
        why="its readers see old rows, and cleaning keeps the files of that version for them",
        do=f"switch it on: segtable table set {TABLE} publish.{name}=on; or remove it: segtable "
        f"publish {TABLE} --format {name} --remove",
    )
