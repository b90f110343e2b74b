"""Draw facts as Rich tables and lines, for people.

1. Each function draws the facts of one command, which ``--json`` prints as they are: a table, its
   segments and events, plans and compactions, indexes, publications.
2. Tables are for narrow terminals: the widest columns are the last ones, and a column without
   information is left out.
3. An index, a log store and a publication are one line each, the same in every command.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby, islice
from shlex import quote

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.library.table_facts import index_line, keeps, log_store_line
from airflow_provider_segtable.planning.properties import DEFAULT, FAMILIES, INDEX_PREFIX
from airflow_provider_segtable.planning.selection import joined, ranges

STATE_STYLES = {"visible": "green", "standby": "yellow", "overshadowed": "dim", "tombstone": "dim"}
ENDED = {"completed": "green", "failed": "bold red"}
MOST_SKIPPED = 40
"""The most reasons that are drawn; ``--json`` has all."""
MOST_INTERVALS = 3
"""The most intervals that are drawn for one reason."""


def grid(title: str, *columns: str, right: Iterable[str] = ()) -> Table:
    """Return an empty table; the columns named in ``right`` hold numbers."""
    table = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="bold cyan",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for name in columns:
        number = name in right
        table.add_column(name, justify="right" if number else "left", no_wrap=number)
    return table


def captioned(table: Table, text: str) -> RenderableType:
    """Put a line below a table, aligned left even if the table is narrow."""
    return Group(table, Text(text, style="dim"))


def short_interval(text: str) -> str:
    """Return an interval, shortened at midnights: ``2013-01-01/2013-02-01``."""
    return text.replace("T00:00:00Z", "")


def short_time(text: str) -> str:
    """Return a time to the second: ``2026-01-31 12:00:00``."""
    return text[:19].replace("T", " ")


def age(seconds: float) -> str:
    """Return a length of time: ``12 s``, ``3 min 5 s``, ``2 h 10 min``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def definition(facts: Facts) -> RenderableType:
    """Draw a table's definition."""
    about = _labelled((name, escape(value)) for name, value in _definition_lines(facts))
    columns = grid("Columns", "name", "type", "null")
    for column in facts["schema"]:
        mark = "  [cyan](event time)[/]" if column["name"] == facts["time_column"] else ""
        null = "yes" if column["nullable"] else "no"
        columns.add_row(escape(column["name"]) + mark, escape(column["type"]), null)
    return Group(about, columns)


def _labelled(lines: Iterable[tuple[str, RenderableType]]) -> Table:
    """Return lines with their labels in a first column."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column()
    for label, value in lines:
        table.add_row(label, value)
    return table


def _definition_lines(facts: Facts) -> Iterable[tuple[str, str]]:
    yield "table", facts["table"]
    yield "name", facts["name"]
    yield "id", facts["id"]
    yield "created", facts["created"]
    yield "version", f"{facts['version']} (event number), {facts['changed']}"
    yield "chunks of a", facts["granularity"]
    yield "kind", "; ".join([facts["kind"], *_settings(facts["kind_settings"])])
    properties = ", ".join(f"{key}={value}" for key, value in facts["properties"].items())
    yield "properties", properties or "none (all defaults)"


def _settings(settings: Facts) -> Iterable[str]:
    for name, value in settings.items():
        text = value if isinstance(value, str) else ", ".join(value)
        yield f"{name.replace('_', ' ')}: {text or 'none'}"


def describe(facts: Facts, *, every_property: bool = False) -> RenderableType:
    """Draw a table's definition, contents, health and properties."""
    parts: list[RenderableType] = [definition(facts), _labelled(_contents(facts))]
    if facts["pending_plans"]:
        parts.append(plans("Pending plans", facts["pending_plans"]))
    return Group(*parts, settings(facts, every=every_property))


def written_report(facts: Facts) -> RenderableType:
    """Draw that a report was written: its file, and what it found."""
    found = counted(facts["findings"], "finding") if facts["findings"] else "no findings"
    lines = [f"{facts['file']}: version {facts['version']}, {found}", *facts["troubles"]]
    return Text("\n".join(lines))


def _contents(facts: Facts) -> Iterator[tuple[str, RenderableType]]:
    counts = facts["counts"]
    word = "record" if facts["file_groups"] else "row"  # several records may be one row
    rows = counted(counts["rows"], word)
    if counts["events"] != counts["rows"]:
        rows = f"{rows} of {counted(counts['events'], 'event')}"
    size = describe_size(counts["bytes"])
    yield "holds", f"{rows}, {size}, in {counted(counts['chunks'], 'chunk')}"
    if deleted := _deleted(counts):
        yield "of them", f"{deleted}, not yet removed from files"
    for override in facts["zones"]:
        buckets = f" in {override['buckets']} buckets" if "buckets" in override else ""
        yield f"by {override['granularity']}{buckets}", short_interval(override["interval"])
    hidden = f"{counts['hidden_segments']:,} hidden behind them"
    yield "segments", f"{counts['segments']:,} visible, {hidden}"
    yield "small", _small(counts["segments"], facts["health"])
    if facts["file_groups"]:
        yield "log files", _log_files(facts["file_groups"])
    for index in facts["indexes"]:
        yield "index", escape(f"{index['name']}: {index_line(index)}")
    if facts["log_store"]:
        yield "log store", escape(log_store_line(facts["log_store"]))
    for each in facts["published"]:
        yield f"as {each['format']}", escape(_published(each))
    pending = len(facts["pending_plans"])
    yield "plans", f"{pending} pending" if pending else "none pending"


def settings(facts: Facts, *, every: bool = False) -> RenderableType:
    """Draw the properties that were set, or all, with where their values come from."""
    shown = [each for each in facts["settings"] if every or each["source"] != DEFAULT]
    left = len(facts["settings"]) - len(shown)
    others = (
        f"{left} properties have their defaults: segtable table describe "
        f"{quote(facts['table'])} --properties"
    )
    if not shown:
        return Text(others)
    table = grid("Properties", "property", "value", "from")
    for each in shown:
        style = "dim" if each["source"] == DEFAULT else ""
        table.add_row(escape(each["key"]), escape(each["value"]), each["source"], style=style)
    return captioned(table, others) if left else table


def _deleted(counts: Facts) -> str:
    """Describe deletes not yet rewritten; the rows of predicate deletes are not counted."""
    parts = []
    if counts["deleted_rows"]:
        parts.append(f"{counts['deleted_rows']:,} deleted")
    if counts["deleted_predicates"]:
        parts.append(counted(counts["deleted_predicates"], "pending predicate delete"))
    return ", ".join(parts)


def _small(visible: int, health: Facts) -> Text:
    small = health["small_segments"]
    below = describe_size(health["small_below_bytes"])
    if not small:
        return Text(f"none under {below}", style="green")
    worst = short_interval(str(health["worst_interval"]))
    most = f"most in {worst} ({health['worst_small_segments']})"
    return Text(f"{small:,} of {visible:,} under {below}; {most}", style="yellow")


def _published(facts: Facts) -> str:
    """Describe a publication: its event, its lag, the address to open."""
    trouble = facts["error"] or facts["refusal"]
    if facts["event"] is None:
        return trouble or "nothing is published yet"
    late = age(facts["lag_s"] or 0)
    lag = f"{counted(facts['lag_events'] or 0, 'event')} behind ({late})"
    if facts["lag_events"] is None:
        lag = f"{late} old, by a version that the log does not have"
    parts = [f"event {facts['event']}", "up to date" if facts["lag_events"] == 0 else lag]
    parts += [] if facts["enabled"] else ["switched off"]
    line = f"{', '.join(parts)}; open {facts['address']}"
    return f"{line}; {trouble}" if trouble else line


def _log_files(groups: Facts) -> Text:
    """Describe the log files that readers of a primary-key table merge."""
    if not groups["log_files"]:
        return Text(f"none above the base files of {counted(groups['buckets'], 'bucket')}", "green")
    where = f"{short_interval(str(groups['worst_interval']))} bucket {groups['worst_bucket']}"
    return Text(
        f"{groups['log_files']:,} ({describe_size(groups['log_bytes'])}, "
        f"{groups['log_share']:.0%} of the bytes) in {counted(groups['buckets'], 'bucket')}, most "
        f"in {where} ({groups['worst_log_files']}); a read merges "
        f"{groups['read_amplification']:g} runs a bucket"
    )


def plans(title: str, pending: Iterable[Facts]) -> Table:
    """Draw plans and their progress."""
    table = grid(title, "plan", "status", "interval", "segments", "reason", right=("segments",))
    for plan in pending:
        table.add_row(
            plan["plan"],
            plan["status"],
            short_interval(plan["interval"]),
            str(plan["segments"]),
            escape(plan["reason"]),
        )
    return table


def segments(facts: Facts) -> RenderableType:
    """Draw segments in root order, one table per time chunk, to fit in 80 columns."""
    all_of_them, base = facts["segments"], facts["base_version"]
    by_chunk = groupby(all_of_them, key=lambda s: (str(s["interval"]), int(s["version"])))
    chunks = [
        _chunk(short_interval(interval) + _version(version, base), list(members))
        for (interval, version), members in by_chunk
    ]
    rows = sum(segment["rows"] for segment in all_of_them)
    size = describe_size(sum(segment["bytes"] for segment in all_of_them))
    return Group(
        Text(f"Segments at version {facts['version']}", style="bold"),
        *chunks,
        Text(
            f"{counted(len(all_of_them), 'segment')}, {counted(rows, 'row')}, {size}", style="dim"
        ),
    )


def _version(version: int, base: int) -> str:
    return "" if version == base else f", a new version of {short_time(iso(version))}"


def _chunk(title: str, members: Sequence[Facts]) -> Table:
    """Draw a chunk; events and order have a column only if they add information."""
    rolled = any(segment["events"] != segment["rows"] for segment in members)
    ordered = any(segment["clustering"] for segment in members)
    keyed = ["bucket"] if members[0]["file"] else []
    numbers = [*keyed, "partition", "root", "minor", "rows", *(["events"] if rolled else [])]
    numbers += ["size", "row groups"]
    order = ["sorted by"] if ordered else []
    file = ["file"] if keyed else []
    table = grid(title, *numbers, *order, *file, "state", right=numbers)
    for segment in members:
        start, end = segment["root"]
        state = "tombstone" if segment["tombstone"] else segment["state"]
        table.add_row(
            *([str(segment["bucket"])] if keyed else []),
            str(segment["partition"]),
            Text(f"[{start}, {end})"),
            str(segment["minor_version"]),
            f"{segment['rows']:,}",
            *([f"{segment['events']:,}"] if rolled else []),
            describe_size(segment["bytes"]),
            str(segment["row_groups"]),
            *([escape(segment["clustering"])] if ordered else []),
            *([segment["file"]] if keyed else []),
            Text(state, style=STATE_STYLES[state], no_wrap=True),
        )
    return table


def timeline(facts: Facts) -> RenderableType:
    """Draw events, oldest first."""
    table = grid("Timeline", "n", "time", "author", "event", "change", right=("n",))
    for event in facts["events"]:
        table.add_row(
            str(event["n"]),
            Text(short_time(event["time"]), no_wrap=True),
            Text(event["author"]),
            event["kind"],
            Text(event["summary"] + _fed(event)),
        )
    if not facts["earlier"]:
        return table
    return captioned(table, f"{facts['earlier']:,} earlier events: --limit 0 shows all")


def _fed(event: Facts) -> str:
    """Return which indexes an event feeds, beside one that it builds."""
    fed = [index for index in event["feeds"] if index not in event["summary"]]
    return f"; feeds {', '.join(fed)}" if fed else ""


def plan(facts: Facts) -> RenderableType:
    """Draw the chosen plans, and the reasons for skipping the rest."""
    chosen = grid(
        "To compact, best first" if facts["dry_run"] else "Requested, best first",
        "plan",
        "segments",
        "size",
        "why",
        right=("segments", "size"),
    )
    for launch in facts["chosen"]:
        size = describe_size(launch["bytes"])
        chosen.add_row(launch["plan"], str(launch["segments"]), size, Text(launch["reason"]))
    parts: list[RenderableType] = [chosen if facts["chosen"] else Text("Nothing to compact.")]
    if facts["skipped"]:
        parts.append(skipped(facts["skipped"]))
    for name, why in facts["requested_indexes"].items():
        verb = "would be requested" if facts["dry_run"] else "requested"
        parts.append(Text(f"index {name} {verb}: {why}"))
    for plan_id, holder in facts["running"].items():
        parts.append(Text(f"running: {plan_id} by {holder}"))
    for plan_id, why in facts["yielded"].items():
        parts.append(Text(f"pending: {plan_id} {why}"))
    for plan_id, why in facts["abort_reasons"].items():
        parts.append(Text(f"aborted: {plan_id}, {why}", style="yellow"))
    if facts["voided"]:
        parts.append(Text(f"voided: {counted(len(facts['voided']), 'id')} without a live writer"))
    return Group(*parts)


def skipped(entries: Iterable[Facts]) -> RenderableType:
    """Draw the skipped intervals, those with one reason together."""
    table = grid("Skipped", "by", "interval", "partitions", "why")
    groups: dict[tuple[str, ...], list[str]] = {}
    lines = ([e["interval"], e["kind"], _place(e), e["reason"]] for e in entries)
    for interval, *rest in joined(lines):
        groups.setdefault(tuple(rest), []).append(short_interval(interval))
    for (kind, where, reason), found in islice(groups.items(), MOST_SKIPPED):
        more = f" and {len(found) - MOST_INTERVALS} more" if len(found) > MOST_INTERVALS else ""
        table.add_row(kind, "\n".join(found[:MOST_INTERVALS]) + more, where, Text(reason))
    left = len(groups) - MOST_SKIPPED
    return captioned(table, f"and {left} more: --json lists all") if left > 0 else table


def _place(entry: Facts) -> str:
    """Return the partitions of a skipped part, with their bucket if there is one."""
    bucket = "" if entry["bucket"] is None else f"bucket {entry['bucket']}: "
    return f"{bucket}{partitions(entry['partitions'])}"


def partitions(numbers: list[int]) -> str:
    """Return partition numbers as ranges: ``0-11, 32768``; ``all`` if there are none."""
    return ranges(numbers) or "all"


def compaction(facts: Facts) -> RenderableType:
    """Draw the outcome of each plan, and how many are left."""
    if not facts["plans"] and not facts["unreadable_indexes"]:
        return Text("Nothing to compact.")
    table = grid(
        "Compaction", "plan", "ended", "segments", "rows", "size", "message", right=("rows", "size")
    )
    for result in facts["plans"]:
        done = result["ended"] == "completed"
        table.add_row(
            result["plan"],
            Text(result["ended"], style=ENDED.get(result["ended"], "yellow")),
            f"{result['segments_in']} -> {result['segments_out']}" if done else "",
            f"{result['rows']:,}" if done else "",
            describe_size(result["bytes"]) if done else "",
            Text(result["message"]),
        )
    left = len(facts["left"])
    notes = [f"plans left: {left}; run the same command again"] if left else []
    notes += [
        f"index {name} cannot be read, so reads open the files: {why}\n"
        f"  way out: segtable index rebuild {quote(facts['table'])} {name}"
        for name, why in facts["unreadable_indexes"].items()
    ]
    return captioned(table, "\n".join(notes)) if notes else table


ACTIONS = {"adopt": "green", "copy": "yellow", "refuse": "red", "skip": "dim"}
"""The style of each action on a file; ``skip`` is drawn in the totals alone."""


def adoption(facts: Facts) -> RenderableType:
    """Draw what becomes of each file of a folder, and the totals."""
    title = "plan" if facts["dry_run"] else "files"
    table = grid(f"{facts['name']}: {title}", "rows", "action", "chunk", "file", "reason")
    for file in facts["files"]:
        action, chunk = file["action"], file["chunk"] or ""
        if action != "skip":
            table.add_row(
                f"{file['rows']:,}",
                Text(action, style=ACTIONS[action]),
                short_interval(chunk),
                Text(file["file"]),
                Text(file["reason"]),
            )
    lines = (
        f"{action}: {counted(some['files'], 'file')}, {counted(some['rows'], 'row')}, "
        f"{describe_size(some['bytes'])}"
        for action, some in facts["totals"].items()
        if some["files"]
    )
    others = facts["others"]
    more = [f"{counted(others, 'other file')}, not Parquet by name"] if others else []
    return captioned(table, "\n".join((*lines, *more)))


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
    """Draw the outcome of index runs, and the chunks that they left."""
    if not facts["runs"]:
        return Text("There are no indexes.")
    numbers = ("pieces", "files", "chunks left")
    table = grid("Index runs", "index", "ended", *numbers, "message", right=numbers)
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
    """Draw the cost of a read without indexes, with each, and with all."""
    plans: Sequence[Facts] = facts["plans"]
    numbers = ("files opened", "row groups", "bytes read")
    title = f"{facts['where']} at version {facts['version']}"
    table = grid(title, "with", *numbers, "note", right=numbers)
    for each in plans:
        names, notes = each["indexes"], each["notes"]
        note = notes[0]["text"] if notes and len(names) == 1 else ""
        table.add_row(
            Text(_these(names)),
            f"{each['files_opened']:,} of {each['files']:,}",
            f"{each['row_groups_read']:,}",
            describe_size(each["bytes_read"]),
            Text(note),
        )
    if len(plans) > 1:
        return table
    way = f"segtable index create {quote(facts['table'])} NAME"
    return captioned(table, f"There are no indexes: {way}")


def _these(names: Sequence[str]) -> str:
    if not names:
        return "no index"
    return names[0] if len(names) == 1 else f"all {len(names)} indexes"


VERDICTS = {
    "same": "green",
    "differs": "bold red",
    "refuses": "yellow",
    "fails": "red",
    "missing": "dim",
}


def outcome_line(facts: Facts) -> str:
    """Return the outcome of a publication in a line."""
    line = _LINES[facts["outcome"]].format_map(facts)
    missing, mended = facts["unregistered"], facts["mended"]
    line = f"{line}; not in its catalog: {missing}" if missing else line
    return f"{line}; the version before was damaged: {mended}" if mended else line


_LINES: Mapping[str, str] = {
    "PublishedNow": "{format}: event {event} is published as version {number}: {shown:,} files "
    "shown anew, {gone:,} no longer; open {address}",
    "AlreadyPublished": "{format}: version {number} shows event {event} already; open {address}",
    "Refused": "{format}: not published: {reason}",
    "Overtaken": "{format}: other publishers were first each time; event {event} is published",
}


def draw_checks(checks: Iterable[Facts]) -> RenderableType:
    """Draw the verdict of each reader of each format."""
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


def property_list() -> str:
    """Return all properties, one paragraph a family; those of indexes begin with their names."""
    named = {INDEX_PREFIX: [f"{INDEX_PREFIX}.NAME (the index to have)"]}
    lists = (
        ", ".join((*named.get(family, ()), *(f"{family}.{each.name}" for each in fields(default))))
        for family, default in FAMILIES.items()
    )
    return "Properties:\n\n" + "\n\n".join(lists)
