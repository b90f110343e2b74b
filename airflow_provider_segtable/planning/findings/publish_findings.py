"""Findings about versions published in other table formats: damage, doubt, and lag.

1. Nothing here touches the table's own rows. Readers of the other format get errors, or old rows.
2. While a target cannot be decoded, cleaning deletes nothing: its readers may need any file.
3. Everything that is published can be published anew from the log.
"""

from collections.abc import Collection, Mapping, Sequence

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
        what=f"the published {title} table is damaged: {error}",
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


def other_published_files(
    title: str, name: str, event: int, lacking: Sequence[str], extra: Sequence[str]
) -> Finding:
    """Report a published version that does not have the files of its event."""
    some = ", ".join((*lacking, *extra)[:NAMED])
    return Finding(
        code="published-files",
        severity=Severity.CRITICAL,
        where=name,
        what=f"event {event} is published as {title}, but lacks {counted(len(lacking), 'file')} of "
        f"it, and has {counted(len(extra), 'file')} that it does not have: {some}",
        why="its readers see other rows than the log has",
        do=f"segtable publish {TABLE} --format {name} --full",
    )


def other_published_rows(title: str, name: str, event: int, wrong: Mapping[str, str]) -> Finding:
    """Report a published version with other rows than its event; ``wrong`` says how, by chunk."""
    some = "; ".join(f"from {start} on {how}" for start, how in [*wrong.items()][:NAMED])
    more = f", and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
    return Finding(
        code="published-rows",
        severity=Severity.CRITICAL,
        where=name,
        what=f"event {event} is published as {title}, but {counted(len(wrong), 'time chunk')} "
        f"differ: {some}{more}",
        why="its readers see other rows than the log has",
        do=f"segtable publish {TABLE} --format {name} --full",
    )


def unbased_buckets(title: str, name: str, buckets: int, records: int, *, merged: int) -> Finding:
    """Report buckets of a primary-key table that have rows, and nothing to publish.

    ``merged`` is the number of these that a compaction merged and left without a base.
    """
    old = f"; a compaction has merged {merged} of them" if merged else ""
    return Finding(
        code="published-empty",
        severity=Severity.CRITICAL if merged else Severity.INFO,
        where=name,
        what=f"{counted(buckets, 'bucket')} with {counted(records, 'record')} have no base, so "
        f"{title} and base_only show nothing of them{old}",
        why="its readers miss rows that a scan has"
        if merged
        else "a semi-major compaction makes the base of a bucket, and none has run yet",
        do=f"segtable compact {TABLE} --kind semi-major",
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
        what=f"{title} shows {shown}, and lacks {newer} for {lag_s / 3600:.1f} hours",
        why="its readers see old rows, and cleaning keeps the files of that version for them",
        do=f"publish it: segtable publish {TABLE} --format {name}; a failure after a commit is a "
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
        do=f"follow the reason, or: segtable table set {TABLE} publish.{name}=off",
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
