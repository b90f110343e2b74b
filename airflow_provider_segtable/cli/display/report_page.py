"""A table's report as one HTML file: for a ticket or an e-mail, without script, fetches or fonts.

1. Every text is escaped (``markup``); a strict content policy stands in the file itself.
2. Light and dark follow the reader's system. It prints, and reads on a phone.
3. The sections: findings with their remedies, numbers, the segment map, growth, plans and reasons,
   plans that ended, events, properties.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files

from airflow_provider_segtable.cli.display.drawing import short_interval, short_time
from airflow_provider_segtable.cli.display.markup import Child, Markup, element, together
from airflow_provider_segtable.cli.display.report_map import drawn_map
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.core.quantities import describe_duration
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.library.growth import GrowthPoint
from airflow_provider_segtable.library.table_facts import index_line, log_store_line
from airflow_provider_segtable.library.table_report import TableReport
from airflow_provider_segtable.planning.fleet.rests import gained
from airflow_provider_segtable.planning.properties import DEFAULT
from airflow_provider_segtable.planning.selection import Skipped

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
MODES = (
    ("generation", "generation", "as appended", "compacted most"),
    ("sorted", "sorted share", "unsorted", "sorted"),
    ("small", "small files", "large enough", "all are small"),
    ("deleted", "deleted share", "no row deleted", "all deleted"),
    ("age", "age", "newest", "oldest"),
)
"""The colours of the map: name, label, and the words at both ends of the scale."""
NONE = "\N{EN DASH}"
PLANS = 12
REASONS = 12
ENDED = ("", "plan", "gain", "#files", "#bytes", "#took")


def report_page(report: TableReport) -> str:
    """Return the report as an HTML document."""
    facts = report.facts
    style = (files("airflow_provider_segtable.cli.display") / "report.css").read_text("utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{facts['name']} · segtable"),
        element("style", Markup(style)),
    )
    sections = together(_header(report), _tiles(facts), *_sections(report), _footer(report))
    body = element("body", element("main", sections))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _sections(report: TableReport) -> Iterator[Markup]:
    yield _findings(report)
    if report.shapes.shapes:
        yield _map(report)
    if len(report.points) > 1:
        yield _section("Growth", element("div", *_charts(report.points), class_="charts"))
    yield from _plans(report)
    if report.events:
        yield _section("Last events", _events(report.events))
    yield from _more(report.facts)


def _section(title: str, *content: Child, note: str = "") -> Markup:
    heading = element("h2", title, *([element("small", note)] if note else []))
    return element("section", heading, *content)


def _header(report: TableReport) -> Markup:
    facts = report.facts
    kind = f"{facts['kind']} table, chunks of {_article(facts['granularity'])}"
    return element(
        "header",
        element("h1", facts["name"]),
        element("p", f"version {facts['version']:,}, {short_time(facts['changed'])} UTC"),
        element("p", kind),
        element("p", facts["table"], class_="place"),
    )


def _article(granularity: str) -> str:
    return "all time" if granularity == "all" else f"a{'n' * (granularity == 'hour')} {granularity}"


def _footer(report: TableReport) -> Markup:
    made = f"Made by segtable {report.package} at {short_time(iso(report.made))} UTC"
    return element("footer", ". ".join([made, *report.troubles]))


def _tiles(facts: Facts) -> Markup:
    counts, health = facts["counts"], facts["health"]
    small = health["small_segments"]
    tiles = [
        ("rows", f"{counts['rows']:,}", ""),
        ("bytes", describe_size(counts["bytes"]), ""),
        ("files", f"{counts['segments']:,}", ""),
        ("small files", f"{small:,}", "warning" if small > counts["segments"] / 2 else ""),
        ("time chunks", f"{counts['chunks']:,}", ""),
        ("deleted rows", f"{counts['deleted_rows']:,}", ""),
        ("hidden segments", f"{counts['hidden_segments']:,}", ""),
    ]
    return element(
        "div",
        *(
            element(
                "div", element("b", value), element("span", name), class_=f"tile {mark}".strip()
            )
            for name, value, mark in tiles
        ),
        class_="tiles",
    )


def _findings(report: TableReport) -> Markup:
    if not report.findings:
        well = element("p", element("span", "well", class_="chip ok"), "no findings", class_="well")
        return _section("Health", well)
    items = [
        element(
            "li",
            element("span", each.severity.value, class_=f"chip {each.severity.value}"),
            element("strong", f"{each.where}: {each.what}"),
            element("p", each.why),
            element("p", "Do: ", element("code", each.do)),
        )
        for each in report.findings
    ]
    return _section("Health", element("ul", *items, class_="findings"))


# The map and the growth
def _map(report: TableReport) -> Markup:
    shapes, sorts = report.shapes, bool(report.facts["policy"]["clustering"])
    first = "sorted" if sorts else "generation"
    inputs = [
        element(
            "input",
            type="radio",
            name="colour",
            id=f"by-{name}",
            class_="mode",
            aria_label=f"colour by {label}",
            checked=name == first,
        )
        for name, label, _, _ in MODES
    ]
    labels = [element("label", label, for_=f"by-{name}") for name, label, _, _ in MODES]
    figure = element(
        "div", element("div", drawn_map(shapes), class_="scroll"), _legend(), class_="map"
    )
    of = "area is by bytes"
    note = f"{counted(shapes.total, 'segment')}: time across, newer versions on top; {of}"
    return _section(
        "Segment map",
        *inputs,
        element("p", "Colour by", *labels, class_="modes"),
        figure,
        note=note,
    )


def _legend() -> Markup:
    scales = [
        element("span", low, element("span", class_="ramp"), high, class_=f"scale of-{name}")
        for name, _, low, high in MODES
    ]
    states = [
        element("span", element("i", class_="pale"), "hidden by newer segments"),
        element("span", element("i", class_="hatched"), "waits for others"),
    ]
    return element("p", *scales, *states, class_="legend")


def _charts(points: Sequence[GrowthPoint]) -> Iterator[Markup]:
    charts: tuple[tuple[str, Callable[[GrowthPoint], int], Callable[[float], str]], ...] = (
        ("bytes", lambda point: point.bytes, describe_size),
        ("rows", lambda point: point.rows, lambda value: f"{value:,.0f}"),
        ("files", lambda point: point.files, lambda value: f"{value:,.0f}"),
    )
    for name, value, words in charts:
        yield _chart(name, points, value, words)


def _chart(
    name: str,
    points: Sequence[GrowthPoint],
    value: Callable[[GrowthPoint], int],
    words: Callable[[float], str],
) -> Markup:
    width, height = 340.0, 90.0
    most = max(1, *map(value, points))
    begin, end = points[0].at, max(points[-1].at, points[0].at + 1)
    places = [
        (width * (each.at - begin) / (end - begin), height - (height - 4) * value(each) / most)
        for each in points
    ]
    steps = [f"M{places[0][0]:.1f} {places[0][1]:.1f}"]
    steps += [f"H{x:.1f}V{y:.1f}" for x, y in places[1:]]
    curve = "".join(steps)
    now = words(value(points[-1]))
    return element(
        "figure",
        element(
            "figcaption", element("span", name), element("b", f"now {now}, most {words(most)}")
        ),
        element(
            "svg",
            element("path", d=f"{curve}V{height:.0f}H0Z", class_="area"),
            element("path", d=curve, class_="curve"),
            viewBox=f"0 0 {width:.0f} {height:.0f}",
            role="img",
            aria_label=f"{name} over time, from {words(value(points[0]))} to {now}",
        ),
        element(
            "figcaption",
            element("span", short_time(iso(begin))[:16]),
            element("span", short_time(iso(points[-1].at))[:16]),
        ),
    )


# Plans and reasons
def _plans(report: TableReport) -> Iterator[Markup]:
    planned = report.planned
    if report.pending:
        rows = [_pending(each) for each in report.pending[:PLANS]]
        yield _section("Pending and running", _table(("", "plan", "", "#segments", "#bytes"), rows))
    chosen = [
        (
            element("span", plan.kind, class_="chip"),
            short_interval(str(plan.interval)),
            _wide(plan.reason),
            f"{len(plan.inputs):,}",
            describe_size(plan.size),
        )
        for plan in planned.chosen[:PLANS]
    ]
    note = f"{counted(len(planned.chosen), 'plan')}, best first"
    if chosen:
        table = _table(("", "time", "because", "#segments", "#bytes"), chosen)
        yield _section("Would begin now", table, note=note)
    left = [*_reasons(planned.skipped)]
    if left:
        table = _table(("", "reason", "#places", "first place"), left)
        yield _section("Left alone", table, note="the reasons with most places")
    if report.done:
        table = _table(ENDED, map(_done, report.done))
        yield _section("Ended", table, note="the newest first")


def _wide(text: str, more: str = "") -> Markup:
    below = [element("div", more, class_="more")] if more else []
    return element("td", text, *below, class_="wide")


def _count(before: int, after: int) -> str:
    return f"{before:,} → {after:,}" if before else NONE


def _pending(known: PlanState) -> tuple[str, ...]:
    plan = known.plan
    about = f"requested {short_time(iso(known.requested_at))} by {known.author}"
    return (
        element("span", known.status.value, class_=f"chip {known.status.value}"),
        short_interval(str(plan.interval)),
        _wide(f"{plan.kind}: {plan.reason}", about),
        _count(len(known.inputs), plan.outputs),
        describe_size(plan.size),
    )


def _reasons(skipped: Iterable[Skipped]) -> Iterator[tuple[str, ...]]:
    """Yield reasons by their number of places; those that differ in numbers alone are one."""
    places: dict[tuple[str, str], Counter[str]] = {}
    first: dict[tuple[str, str], Skipped] = {}
    for each in skipped:
        key = (each.kind, each.code.value)
        places.setdefault(key, Counter())[str(each.chunk.interval)] += 1
        first.setdefault(key, each)
    ranked = sorted(places, key=lambda key: -len(places[key]))
    for key in ranked[:REASONS]:
        one = first[key]
        yield (
            element("span", one.kind, class_="chip"),
            _wide(one.reason, one.code.value),
            f"{len(places[key]):,}",
            short_interval(str(one.chunk.interval)),
        )


def _done(known: PlanState) -> tuple[str, ...]:
    plan, work, share = known.plan, known.work, gained(known)
    gain = element("span", NONE)
    if share is not None:
        width = f"width:{100 * min(1.0, max(0.0, share)):.0f}%"
        bar = element("span", element("i", style=width), class_="bar")
        gain = element("td", bar, f"{100 * share:.0f} %", class_="tight")
    files_now = _count(work.files_read, work.files_written) if work else NONE
    return (
        element("span", known.status.value, class_=f"chip {known.status.value}"),
        _wide(f"{plan.kind} {short_interval(str(plan.interval))}", known.note or plan.reason),
        gain,
        files_now,
        describe_size(work.bytes_read) if work else NONE,
        describe_duration(known.worked) if known.worked else NONE,
    )


# Events, services and properties
def _events(events: Sequence[Facts]) -> Markup:
    rows = [
        (
            f"{each['n']:,}",
            element("td", short_time(each["time"]), class_="tight"),
            _wide(each["summary"], each["author"]),
        )
        for each in events
    ]
    return _table(("#event", "time", ""), rows)


def _more(facts: Facts) -> Iterator[Markup]:
    lines = [("index", f"{each['name']}: {index_line(each)}") for each in facts["indexes"]]
    if facts["log_store"]:
        lines.append(("log store", log_store_line(facts["log_store"])))
    lines += [
        (f"as {each['format']}", f"event {each['event']}, {each['lag_events']} behind")
        for each in facts["published"]
    ]
    if lines:
        yield _section("Indexes, log store and publications", _table(("", ""), lines))
    own = [
        (element("td", each["key"], class_="tight"), each["value"], each["source"])
        for each in facts["settings"]
        if each["source"] != DEFAULT
    ]
    if own:
        yield _section("Properties", _table(("name", "value", "set by"), own))
    columns = [
        (each["name"], each["type"], "yes" if each["nullable"] else "no")
        for each in facts["schema"]
    ]
    yield _section("Columns", _table(("name", "type", "null"), columns))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a table; a column whose name begins with ``#`` holds numbers."""
    numbers = [name.startswith("#") for name in head]
    titles = [
        element("th", name.lstrip("#"), class_="number" if number else None)
        for name, number in zip(head, numbers, strict=True)
    ]
    body = [
        element("tr", *(_cell(cell, number) for cell, number in zip(row, numbers, strict=True)))
        for row in rows
    ]
    table = element("table", element("thead", element("tr", *titles)), element("tbody", *body))
    return element("div", table, class_="scroll")


def _cell(content: str, number: bool) -> Markup:  # noqa: FBT001 - of the column
    if isinstance(content, Markup) and content.startswith("<td"):
        return content
    return element("td", content, class_="number" if number else None)
