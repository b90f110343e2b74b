"""Turn what is published in other formats into facts and words."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from airflow_provider_segtable.cli.display.drawing import grid
from airflow_provider_segtable.cli.display.output import Facts
from airflow_provider_segtable.core.counted import counted

if TYPE_CHECKING:
    from airflow_provider_segtable.health.publish_check import PublishCheck
    from airflow_provider_segtable.table.publishing.publisher import PublishedStatus

VERDICTS = {
    "same": "green",
    "differs": "bold red",
    "refuses": "yellow",
    "fails": "red",
    "missing": "dim",
}


def status_facts(status: "PublishedStatus") -> Facts:
    """Return what is published in a format, and how far it is behind."""
    return {
        "format": status.format,
        "enabled": status.enabled,
        "event": status.event,
        "lag_events": status.lag_events,
        "lag_s": status.lag_seconds,
        "address": status.address or None,
        "refusal": status.refusal or None,
        "error": status.error or None,
    }


def outcome_facts(outcome: Any) -> Facts:
    """Return the outcome of a publication; a key that it does not have is null."""
    keys = ("format", "event", "number", "address", "shown", "gone", "reason")
    return {
        "outcome": type(outcome).__name__,
        **{key: getattr(outcome, key, None) for key in keys},
        "unregistered": getattr(outcome, "unregistered", "") or None,
        "mended": getattr(outcome, "mended", "") or None,
    }


def outcome_line(facts: Facts) -> str:
    """Return the outcome of a publication in a line."""
    line = _LINES[facts["outcome"]].format_map(facts)
    missing, mended = facts["unregistered"], facts["mended"]
    line = f"{line}; not in its catalog: {missing}" if missing else line
    return f"{line}; what was there before was damaged: {mended}" if mended else line


_LINES: Mapping[str, str] = {
    "PublishedNow": "{format}: event {event} is published as version {number}: {shown:,} files "
    "shown anew, {gone:,} no longer; open {address}",
    "AlreadyPublished": "{format}: version {number} shows event {event} already; open {address}",
    "Refused": "{format}: not published: {reason}",
    "Overtaken": "{format}: other publishers were first each time; event {event} is published",
}


def check_facts(check: "PublishCheck") -> Facts:
    """Return what readers see of a format; findings are not in it."""
    return {
        "format": check.format,
        "address": check.address or None,
        "event": check.event,
        "rows": check.rows,
        "checksum": check.checksum or None,
        "readers": [
            {
                "reader": each.reader,
                "version": each.version or None,
                "verdict": each.verdict.value,
                "rows": each.rows,
                "columns": list(each.columns),
                "message": each.message or None,
            }
            for each in check.readers
        ],
    }


def draw_checks(checks: Iterable[Facts]) -> RenderableType:
    """Draw what readers see of each format."""
    parts: list[RenderableType] = []
    for check in checks:
        if check["event"] is None or not check["readers"]:
            continue
        title = f"{check['format']}: event {check['event']}, {counted(check['rows'], 'row')}"
        table = grid(title, "reader", "version", "sees", "rows", "", right=("rows",))
        for each in check["readers"]:
            table.add_row(
                each["reader"],
                each["version"] or "",
                Text(each["verdict"], style=VERDICTS[each["verdict"]]),
                f"{each['rows']:,}" if each["rows"] else "",
                escape(each["message"] or ""),
            )
        parts.append(table)
    return Group(*parts)
