"""The result of an append as facts, read from the log."""

from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.cli.display.output import Facts
from airflow_provider_segtable.core.log.events import Appended, line

if TYPE_CHECKING:
    from airflow_provider_segtable.table.load import Loaded


def append_facts(table: Any, loaded: "Loaded") -> Facts:
    """Return the result of one append; ``version`` is null if there were no rows to append."""
    done = loaded.result
    facts: Facts = {
        "file": loaded.file,
        "version": done.n,
        "appended_before": loaded.before,
        "segments": done.segments,
        "rows": done.rows,
    }
    if done.segments == 0:
        return {**facts, "version": None, "bytes": 0, "summary": "no rows: nothing to append"}
    event = table.ports.log.event(done.n)
    if event is None or not isinstance(event.action, Appended):
        return {**facts, "bytes": None, "summary": "appended before: its event was cleaned"}
    told = line(event.action)
    return {
        **facts,
        "bytes": sum(segment.size for segment in event.action.segments),
        "summary": f"appended before: {told}" if loaded.before else told,
    }
