"""The result of an append as facts, read from the log."""

from typing import Any

from airflow_provider_segtable.cli.display.output import Facts
from airflow_provider_segtable.core.log.events import line


def append_facts(table: Any, n: int, file: str, *, again: bool) -> Facts:
    """Return the result of one append, from the log."""
    action = table.ports.log.event(n).action
    segments = action.segments
    return {
        "file": file,
        "version": n,
        "appended_before": again,
        "segments": len(segments),
        "rows": sum(segment.rows for segment in segments),
        "bytes": sum(segment.size for segment in segments),
        "summary": f"{'appended before: ' if again else ''}{line(action)}",
    }
