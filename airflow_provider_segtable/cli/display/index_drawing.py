"""Draw the facts of indexes (``index_facts``)."""

from collections.abc import Sequence
from shlex import quote

from rich.console import RenderableType
from rich.text import Text

from airflow_provider_segtable.cli.display.drawing import ENDED, age, captioned, grid
from airflow_provider_segtable.cli.display.index_facts import keeps
from airflow_provider_segtable.cli.display.output import Facts
from airflow_provider_segtable.core.counted import counted, describe_size


def drawn_indexes(facts: Facts) -> RenderableType:
    """Draw the indexes of a table."""
    some: Sequence[Facts] = facts["indexes"]
    if not some:
        return Text("There are no indexes.")
    numbers = ("files", "size")
    title = f"Indexes at version {facts['version']}"
    table = grid(title, "index", "keeps", "status", *numbers, "behind", "plan", right=numbers)
    for each in some:
        style = "green" if each["current"] else "yellow"
        table.add_row(
            Text(each["name"]),
            Text(keeps(each)),
            Text(each["status"], style=style, no_wrap=True),
            _covered(each),
            "" if each["own_bytes"] is None else describe_size(each["own_bytes"]),
            Text(_behind(each)),
            Text(_plan(each)),
        )
    problems = [f"{each['name']}: {each['problem']}" for each in some if each["problem"]]
    return captioned(table, "\n".join([*problems, *_next(facts)]))


def drawn_values(facts: Facts) -> RenderableType:
    """Draw the values of the columns of an index."""
    numbers = ("nulls", "distinct, about", "rows")
    known = max(each["files"] for each in facts["columns"])
    title = f"Index {facts['index']}: {known:,} of {counted(facts['files'], 'file')}"
    table = grid(title, "column", "least", "greatest", *numbers, right=numbers)
    for each in facts["columns"]:
        high = f"{_value(each['high'])}{' or NaN' if each['nan'] else ''}"
        counts = (f"{each[key]:,}" for key in ("nulls", "distinct", "rows"))
        table.add_row(Text(each["column"]), Text(_value(each["low"])), Text(high), *counts)
    return table


def _value(value: object) -> str:
    return "" if value is None else str(value)


def drawn_runs(facts: Facts) -> RenderableType:
    """Draw how the runs of indexes ended, and what they left."""
    if not facts["runs"]:
        return Text("There are no indexes.")
    numbers = ("pieces", "files", "chunks left")
    table = grid("Index runs", "index", "ended", *numbers, "what", right=numbers)
    for each in facts["runs"]:
        table.add_row(
            Text(each["index"]),
            Text(each["ended"], style=ENDED.get(each["ended"], "yellow")),
            *(f"{each[key]:,}" for key in ("pieces", "files", "left")),
            Text(each["message"]),
        )
    left = [each["index"] for each in facts["runs"] if each["left"]]
    again = f"Next: segtable index run {quote(facts['table'])} {' '.join(left)}"
    return captioned(table, again) if left else table


def drawn_requests(facts: Facts) -> RenderableType:
    """Draw the pending plans of indexes."""
    if not facts["plans"]:
        return Text("There are no indexes.")
    table = grid("Index plans", "index", "plan", "status", "why")
    for each in facts["plans"]:
        cells = (each["index"], each["plan"] or "", each["status"] or "", each["reason"])
        table.add_row(*map(Text, cells))
    return table


def _covered(facts: Facts) -> str:
    if facts["files"] is None:
        return "unreadable"
    return f"{facts['indexed']:,} of {facts['files']:,}"


def _behind(facts: Facts) -> str:
    if facts["current"]:
        return ""
    commits, since = facts["lag_commits"], age(facts["lag_s"])
    return f"{counted(commits, 'commit')}, {since}" if commits else since


def _plan(facts: Facts) -> str:
    if facts["plan"] is None:
        return ""
    return f"{facts['plan_status']}, {age(facts['plan_age_s'])}"


def _next(facts: Facts) -> list[str]:
    left = [each["name"] for each in facts["indexes"] if not each["current"]]
    if not left:
        return []
    run = f"segtable index run {quote(facts['table'])} {' '.join(left)}"
    if facts["planner_builds"]:
        return [f"Next: the planner's DAG builds the rest; or build it now: {run}"]
    return [f"Next: {run} (the planner does not build it: compaction.indexes is off)"]


def drawn_savings(facts: Facts) -> RenderableType:
    """Draw what a read opens and reads without indexes, with each, and with all."""
    plans: Sequence[Facts] = facts["plans"]
    numbers = ("files opened", "row groups", "bytes read")
    title = f"{facts['where']} at version {facts['version']}"
    table = grid(title, "with", *numbers, "what", right=numbers)
    for each in plans:
        names, notes = each["indexes"], each["notes"]
        what = notes[0]["text"] if notes and len(names) == 1 else ""
        table.add_row(
            Text(_these(names)),
            f"{each['files_opened']:,} of {each['files']:,}",
            f"{each['row_groups_read']:,}",
            describe_size(each["bytes_read"]),
            Text(what),
        )
    if len(plans) > 1:
        return table
    way = f"segtable index create {quote(facts['table'])} NAME"
    return captioned(table, f"There are no indexes: {way}")


def _these(names: Sequence[str]) -> str:
    if not names:
        return "no index"
    return names[0] if len(names) == 1 else f"all {len(names)} indexes"
