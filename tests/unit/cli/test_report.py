"""The report of a table as one HTML file, and the segment map in a terminal."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from airflow_provider_segtable.cli.display.markup import Markup, element, together
from airflow_provider_segtable.cli.display.report_page import POLICY, report_page
from airflow_provider_segtable.cli.display.terminal_map import MOST_LANES, drawn_map
from airflow_provider_segtable.cli.display.time_axis import TimeAxis
from airflow_provider_segtable.core.errors import StorageError
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.paths import DATA
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import DAY_US, Interval
from airflow_provider_segtable.library.segment_map.shapes import shapes_of
from airflow_provider_segtable.library.table_report import table_report
from tests.examples import examples
from tests.support.builders import BASE, JANUARY, after, created, first, merged
from tests.support.worked_table import WorkedTable
from tests.unit.cli.conftest import Facts, Run

HOSTILE = "<script>alert('x')</script> & \"q\" <img src=x onerror=y>"


class _Seen(HTMLParser):
    """Collects what a browser would see in a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def seen(page: str) -> _Seen:
    """Return what a browser would see."""
    found = _Seen()
    found.feed(page)
    found.close()
    assert found.open == []
    return found


@pytest.fixture(scope="module")
def worked() -> WorkedTable:
    """Return a table with a past."""
    return WorkedTable()


# Markup
@examples(200)
@given(st.text(), st.text())
def test_no_text_becomes_markup(content: str, value: str) -> None:
    """Whatever a text holds, a browser sees that text, in one element with one attribute."""
    text, attribute = _plain(content), _plain(value)
    found = seen(element("p", text, title=attribute))
    assert found.tags == ["p"]
    assert found.attributes == [("title", attribute)]
    assert found.text == text


def _plain(text: str) -> str:
    """Return a text without what HTML cannot hold: control characters and lone surrogates."""
    return "".join(each for each in text if each.isprintable())


def test_markup_inside_markup_is_kept() -> None:
    """An element in an element is one, and a text beside it is none."""
    assert element("p", element("b", "<"), "<") == "<p><b>&lt;</b>&lt;</p>"
    assert together("<", Markup("<br/>")) == "&lt;<br/>"
    assert element("rect", x=1.5, y=2.0, hidden=False, open=True) == '<rect x="1.5" y="2" open/>'


# The report
def test_a_report_is_one_file_without_script_or_fetch(worked: WorkedTable) -> None:
    """Nothing in it loads or runs, and its own policy forbids it."""
    page = report_page(table_report(worked.table.ports, "memory://lake/a/flights"))
    found = seen(page)
    assert not {"script", "iframe", "object", "img", "a", "form", "link"} & set(found.tags)
    assert not any(name.startswith("on") or name in ("src", "href") for name, _ in found.attributes)
    assert ("content", POLICY) in found.attributes
    assert not re.search(r"url\((?!#)|@import|https?:", page)
    assert {"svg", "style", "table"} <= set(found.tags)


def test_a_report_has_the_numbers_plans_and_events(worked: WorkedTable) -> None:
    """They are those of ``describe``, of the planner and of the log."""
    report = table_report(worked.table.ports, "memory://lake/a/flights")
    text = seen(report_page(report)).text
    assert f"version {worked.table.state().n}" in text
    for word in ("17rows", "Would begin now", "Left alone", "Ended", "Last events", "Segment map"):
        assert word in text.replace(",", "")
    assert report.planned.chosen[0].reason in text
    assert report.events[0]["summary"] in text
    assert "word = 'b'" in text


def test_hostile_texts_of_a_table_are_only_seen() -> None:
    """Names, authors and findings are shown as they are, and are no elements."""
    worked = WorkedTable()
    report = table_report(worked.table.ports, "memory://lake/a/flights")
    facts = {**report.facts, "name": HOSTILE, "table": HOSTILE}
    events = tuple({**each, "author": HOSTILE, "summary": HOSTILE} for each in report.events)
    hostile = replace(report, facts=facts, events=events, troubles=(HOSTILE,))
    found = seen(report_page(hostile))
    plain = seen(report_page(report))
    assert found.tags == [*plain.tags]
    assert found.text.count(HOSTILE) >= 4


def test_a_report_names_what_it_could_not_find_out() -> None:
    """A folder that cannot be listed leaves the rest of the report."""
    worked = WorkedTable()
    ports = worked.table.ports

    class Deaf:
        """A storage that lists nothing."""

        def __getattr__(self, name: str) -> object:
            return getattr(ports.storage, name)

        def list(self, prefix: str, **given: object) -> object:
            if prefix == DATA:
                raise StorageError("no listing today")
            return ports.storage.list(prefix, **given)  # type: ignore[arg-type]

    report = table_report(replace(ports, storage=Deaf()), "t")  # type: ignore[arg-type]
    assert report.shapes.total == 18
    assert "no listing today" in seen(report_page(report)).text


def test_an_empty_table_has_a_report() -> None:
    """Without a map or a plot."""
    worked = WorkedTable()
    worked.lake.create("a/empty")
    found = seen(report_page(table_report(worked.lake.tables["a/empty"], "t")))
    assert "Segment map" not in found.text
    assert "0rows" in found.text


def test_describe_writes_a_report(run: Run, facts: Facts, table: str, tmp_path: Path) -> None:
    """And says where, and how many findings it has."""
    run("ingest", table, "trips.parquet")
    answer = facts("table", "describe", table, "--html", "trips.html")
    written = tmp_path / "trips.html"
    assert answer["file"] == "trips.html"
    assert answer["bytes"] == written.stat().st_size
    assert "<!doctype html>" in written.read_text()
    said = run("table", "describe", table, "--html", "trips.html")
    assert "trips.html: version 1" in said.stdout


def test_a_report_into_nowhere_is_refused(run: Run, table: str) -> None:
    """With the way out."""
    refused = run("table", "describe", table, "--html", "nowhere/x.html")
    assert refused.exit_code == 2
    assert "a folder that exists" in refused.stderr


# The terminal
def printed(table_shapes: object, width: int = 100) -> list[str]:
    """Return the lines that a terminal shows."""
    console = Console(width=width, color_system=None, file=StringIO())
    console.print(table_shapes)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def test_a_map_fits_the_terminal_and_shows_what_is_on_top() -> None:
    """The joined segment lies above its inputs."""
    inputs = [first(n) for n in range(6)]
    state = after(created(), Appended(segments=(*inputs, first(6))))
    joined = merged(32768, inputs)
    state = replace(state, timeline=state.timeline.with_changes(add=[joined]))
    for width in (60, 100, 180):
        lines = printed(drawn_map(shapes_of(state)), width)
        assert max(map(len, lines)) <= width
        assert [line.split()[:2] for line in lines[:1]] == [["gen", "1"]]
        assert lines[1].split()[0] == "appended"
    assert "2 visible segments, 6.8 KiB; 6 hidden or waiting" in lines[-1]


def test_many_lanes_are_cut_with_a_remark() -> None:
    """The upper ones stay."""
    chunks = [ChunkKey(JANUARY, BASE + n) for n in range(MOST_LANES + 7)]
    state = after(created(), Appended(segments=tuple(first(0, chunk=each) for each in chunks)))
    lines = printed(drawn_map(shapes_of(state)))
    assert "7 lower lanes left out" in lines[-1]
    assert lines[0].split()[0] == f"v{MOST_LANES + 7}"


def test_the_map_command_draws_and_answers(run: Run, facts: Facts, table: str) -> None:
    """For people as blocks, for scripts as shapes; an interval narrows it."""
    run("ingest", table, "trips.parquet")
    drawn = run("table", "map", table)
    assert "2013-01-01/2013-01-03: 2 visible segments" in drawn.stdout
    answer = facts("table", "map", table, "--interval", "2013-01-01/2013-01-02")
    (shape,) = answer["shapes"]
    assert (answer["level"], shape["state"], shape["rows"]) == ("segments", "visible", 24)
    assert json.dumps(answer)
    assert "no segments here" in run("table", "map", table, "--version", "0").stdout


# The axis
def test_a_lonely_chunk_does_not_squeeze_the_others() -> None:
    """Empty time is drawn as a short break."""
    days = [Interval(n * DAY_US, (n + 1) * DAY_US) for n in (0, 1, 2, 5000)]
    axis = TimeAxis(days)
    assert axis.at(0) == 0.0
    assert axis.at(2 * DAY_US) - axis.at(DAY_US) > 0.2
    assert axis.at(5001 * DAY_US) == pytest.approx(1.0)
    assert len(axis.breaks) == 1
    assert axis.at(3 * DAY_US) <= axis.breaks[0] <= axis.at(5000 * DAY_US)


@examples(100)
@given(st.sets(st.integers(0, 400), min_size=1, max_size=40), st.integers(1, 12))
def test_places_on_an_axis_are_in_the_order_of_time(days: set[int], most: int) -> None:
    """And labels keep their distance."""
    intervals = [Interval(n * DAY_US, (n + 1) * DAY_US) for n in sorted(days)]
    axis = TimeAxis(intervals)
    edges = [axis.at(at) for each in intervals for at in (each.start, each.end)]
    assert edges == sorted(edges)
    assert (edges[0], edges[-1]) == (0.0, pytest.approx(1.0))
    ticks = axis.ticks(intervals, most)
    assert all(b.at - a.at >= 1 / most - 1e-9 for a, b in pairwise(ticks))
