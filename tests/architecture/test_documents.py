"""What the documents name exists: links, make targets, paths, error types."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from airflow_provider_segtable import __version__
from airflow_provider_segtable.core import errors
from docs.hooks import place_of
from tests.architecture.tree import PACKAGE, ROOT, named, tracked

DOCUMENTS = [path for path in tracked() if path.suffix == ".md"]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]+)?\)")
FENCED = re.compile(r"^```\w*$(.*?)^```$", re.MULTILINE | re.DOTALL)
NAVIGATION = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
COMMAND = re.compile(r"^make ([a-z][a-z-]*)", re.MULTILINE)
INLINE = re.compile(r"`make ([a-z][a-z-]*)")
PATH = re.compile(r"`((?:airflow_provider_segtable|spark_apps|tests|docs|benchmarks)/[\w./-]*)`")
PICTURE = re.compile(r"!\[[^\]]*\]\((\S+\.svg)\)")
CODE_PAGES = "docs/code_pages.py"
GENERATED = re.compile(r'^    "([\w-]+\.md)": ', re.MULTILINE)
RUNNABLE = re.compile(r"^```(python|console|bash)$", re.MULTILINE)
RUN_BY = {  # documents with runnable blocks: the tests that run these, by language
    "README.md": {
        "bash": "integration/test_first_hour.py",
        "python": "integration/test_first_hour.py",
    },
    "docs/cli.md": {"console": "integration/test_cli.py"},
    "docs/guides/airflow.md": {"python": "airflow/test_guide_snippets.py"},
    "docs/guides/change-feeds.md": {
        "console": "integration/guides/test_command_guides.py",
        "python": "integration/guides/test_python_guides.py",
    },
    "docs/guides/changing.md": {
        "console": "integration/guides/test_command_guides.py",
        "python": "integration/guides/test_command_guides.py",
    },
    "docs/guides/cleaning.md": {
        "console": "integration/guides/test_command_guides.py",
        "python": "airflow/test_guide_snippets.py",
    },
    "docs/guides/clusters.md": {"python": "airflow/test_guide_snippets.py"},
    "docs/guides/compaction.md": {
        "console": "integration/guides/test_command_guides.py",
        "python": "airflow/test_guide_snippets.py",
    },
    "docs/guides/deletes.md": {
        "console": "integration/guides/test_change_guide.py",
        "python": "unit/library/test_guide_snippets.py",
    },
    "docs/guides/fleet.md": {
        "console": "integration/guides/test_command_guides.py",
        "python": "airflow/test_fleet.py",
    },
    "docs/guides/indexes.md": {
        "console": "integration/guides/test_command_guides.py",
        "python": "integration/guides/test_python_guides.py",
    },
    "docs/guides/loading-again.md": {
        "console": "unit/cli/test_overwrite.py",
        "python": "unit/library/test_guide_snippets.py",
    },
    "docs/guides/log-store.md": {"python": "integration/guides/test_python_guides.py"},
    "docs/guides/migration.md": {
        "console": "integration/guides/test_command_guides.py",
        "python": "integration/guides/test_python_guides.py",
    },
    "docs/guides/operating.md": {"console": "integration/guides/test_command_guides.py"},
    "docs/guides/publishing.md": {
        "console": "integration/guides/test_command_guides.py",
        "python": "integration/guides/test_python_guides.py",
    },
    "docs/guides/python.md": {"python": "integration/guides/test_python_guides.py"},
    "docs/guides/reading.md": {
        "console": "integration/guides/test_command_guides.py",
        "python": "integration/guides/test_command_guides.py",
    },
    "docs/guides/reads.md": {"console": "integration/guides/test_command_guides.py"},
    "docs/guides/rollup.md": {
        "console": "integration/guides/test_command_guides.py",
        "python": "unit/data/test_rollup_guide.py",
    },
    "docs/guides/runbook.md": {"console": "integration/guides/test_command_guides.py"},
    "docs/guides/spark.md": {"python": "spark/test_spark_guide.py"},
    "docs/guides/tutorial.md": {
        "console": "integration/guides/test_command_guides.py",
        "python": "integration/guides/test_command_guides.py",
    },
    "docs/guides/upserts.md": {
        "console": "integration/guides/test_command_guides.py",
        "python": "integration/guides/test_python_guides.py",
    },
    "docs/guides/zookeeper.md": {"console": "integration/test_zookeeper_access.py"},
}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_a_test_runs_the_blocks(document: Path) -> None:
    """Blocks of Python and of shell sessions are run; others (no language) need what is not here.

    These are commands with a cluster, a bucket or Airflow's database in them.
    """
    languages = set(RUNNABLE.findall(document.read_text()))
    run_by = RUN_BY.get(str(document.relative_to(ROOT)), {})
    assert languages == set(run_by)
    for test in run_by.values():
        text = (ROOT / "tests" / test).read_text()
        assert document.name in text or "GUIDES.glob" in text


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link of a document leads to a file, and every anchor to a heading."""
    broken = []
    for target, anchor in LINK.findall(document.read_text()):
        path = document.parent / target if target else document
        if not path.exists() or (anchor and anchor[1:] not in anchors(path)):
            broken.append(target + anchor)
    assert not broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_page_is_in_the_navigation(document: Path) -> None:
    """The site's navigation leads to every document, by itself or by its folder."""
    place = place_of(PurePosixPath(named(document)))
    assert {str(place), f"{place.parent}/"} & set(entries(NAVIGATION))


def test_the_navigation_leads_to_pages() -> None:
    """Every page that the navigation names is a document, or is made from the code."""
    places = {str(place_of(PurePosixPath(named(document)))) for document in DOCUMENTS}
    made = {f"reference/{name}" for name in GENERATED.findall((ROOT / CODE_PAGES).read_text())}
    pages = {entry for entry in entries(NAVIGATION) if not entry.endswith("/")}
    assert pages <= places | made


def entries(navigation: list[Any]) -> Iterator[str]:
    """Yield the pages and folders of a navigation."""
    for entry in navigation:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from entries(value) if isinstance(value, list) else [value]


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_pictures_are_small_and_load_nothing(document: Path) -> None:
    """Each picture of a document is in the tree, below 100 kB, and names no other host."""
    for name in PICTURE.findall(document.read_text()):
        text = (document.parent / name).read_text()
        assert len(text) < 100_000
        assert not re.search(r"(?:href|src|url)\W+https?:", text)


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as renderers make them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_targets_exist(document: Path) -> None:
    """Every `make` command of a document is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = document.read_text()
    named_there = {*INLINE.findall(text), *COMMAND.findall("".join(FENCED.findall(text)))}
    assert not named_there - targets


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_paths_exist(document: Path) -> None:
    """Every path of this tree that a document names in code marks is there."""
    missing = {path for path in PATH.findall(document.read_text()) if not (ROOT / path).exists()}
    assert not missing


def test_every_layer_is_in_the_architecture() -> None:
    """docs/ARCHITECTURE.md names every folder of the package."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    layers = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert not {layer for layer in layers if not re.search(rf"\b{layer}/", text)}


def test_every_error_is_drawn_in_its_tree() -> None:
    """The tree at the head of core/errors.py shows each error type, and no other."""
    drawn = set(re.findall(r"(?:├──|└──) (\w+)", errors.__doc__ or "")) | {"SegtableError"}
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.SegtableError)
    }
    assert drawn == defined


def test_the_compatibility_table_is_that_of_the_project() -> None:
    """The newest row of docs/upgrading.md has this version, with the ranges of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "docs" / "upgrading.md").read_text()
    newest = re.findall(
        r"^\| (\d+\.\d+) \| (\S+) .*? \| (\S+) .*? \| (\d+)\.x ", text, re.MULTILINE
    )[0]
    extras = project["optional-dependencies"]
    assert newest[0] == ".".join(__version__.split(".")[:2])
    assert f"apache-airflow>={newest[1]},<4" in extras["airflow"]
    assert project["requires-python"] == f">={newest[2]}"
    assert f"pyspark[sql]>={newest[3]}.0,<{int(newest[3]) + 1}" in extras["spark"]
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    tested = re.findall(r"(Airflow|PySpark) (\d+\.\d+\.\d+)", text)
    names = {"Airflow": "apache-airflow", "PySpark": "pyspark"}
    assert {f"{names[name]}=={number}" for name, number in tested} <= set(pins)
    assert len(tested) == len(names)


def test_help_and_messages_name_no_guide() -> None:
    """A user of the installed package has no docs/ folder: texts say what to do themselves."""
    named_in = [str(path) for path in PACKAGE.rglob("*.py") if "docs/guides" in path.read_text()]
    assert not named_in


def test_the_changelog_keeps_its_form() -> None:
    """CHANGELOG.md has an Unreleased section and only the headings of Keep a Changelog."""
    text = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in text
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= kinds
