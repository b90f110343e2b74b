"""The site is complete, is built without a network, and loads nothing from other hosts."""

import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from airflow_provider_segtable.operators.metrics import METRICS
from docs.code_pages import PAGES, finding_codes
from docs.hooks import LINK, REFERENCE, ROOT, rewritten, stage
from docs.reference import public_api
from tests.architecture.test_documents import anchors

pytestmark = [pytest.mark.airflow, pytest.mark.slow]
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(https?:[^\"\s>]+)")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all pages, as MkDocs gets them."""
    folder = tmp_path_factory.mktemp("pages")
    stage(folder)
    return folder


def test_links_between_pages_lead_somewhere(pages: Path) -> None:
    """Each link of a page, also of one made from the code, leads to a page and a heading."""
    broken = []
    for page in pages.rglob("*.md"):
        if page.is_relative_to(pages / "source"):
            continue
        for _, _, target, anchor in LINK.findall(page.read_text()):
            found = page.parent / target
            text = found.read_text() if found.suffix == ".md" and found.exists() else ""
            known = anchors(found) if text else set()
            if not found.exists() or (
                anchor and anchor[1:] not in known and f'id="{anchor[1:]}"' not in text
            ):
                broken.append(f"{page.relative_to(pages)}: {target}{anchor}")
    assert not broken


def test_every_command_property_and_error_has_a_place(pages: Path) -> None:
    """The pages that are read off the code have an entry for each name of a kind."""
    assert {page.name for page in (pages / "reference").glob("*.md")} == set(PAGES)
    text = {name: (pages / "reference" / name).read_text() for name in PAGES}
    assert "## segtable table create" in text["commands.md"]
    assert "| `compaction.min_segments` | `12` | " in text["properties.md"]
    errors = {*public_api()["airflow_provider_segtable.core.errors"]} - {"Exit"}  # no error
    assert [name for name in errors if f"\n## {name}\n" not in text["error-types.md"]] == []
    assert "[`SegtableCompactOperator`](api/" in text["airflow-classes.md"]
    assert [name for name in METRICS if f"| `segtable.{name}` | " not in text["metrics.md"]] == []
    assert [code for code in finding_codes() if f"| `{code}` | " not in text["numbers.md"]] == []


def test_the_runbook_knows_the_findings(pages: Path) -> None:
    """Each code of a finding is explained in the runbook or in the guide to publishing."""
    known = "".join(
        (pages / "guides" / name).read_text() for name in ("runbook.md", "publishing.md")
    )
    assert [code for code in finding_codes() if f"`{code}`" not in known] == []


def test_documents_link_to_the_reference_by_its_titles(pages: Path) -> None:
    """Each page that is read off the code is known by its title, and named in italics is a link."""
    found = {name: (pages / "reference" / name).read_text() for name in (*PAGES, "api/index.md")}
    titles = {text.partition("\n")[0].removeprefix("# "): name for name, text in found.items()}
    assert titles == REFERENCE
    assert "[Metrics](../reference/metrics.md)" in (pages / "guides" / "operating.md").read_text()


def test_links_that_leave_the_site_become_text() -> None:
    """A link to a folder of the repository is text on the site, in a block of code it is kept."""
    here = PurePosixPath("docs/testing.md")
    text = "see [pairs](../tests/simulation/pairs)\n"
    assert rewritten(text, here, {here: PurePosixPath("testing.md")}, {}) == "see pairs\n"


def test_the_site_is_built_and_loads_nothing_else(tmp_path: Path) -> None:
    """A strict build ends well, and no page loads a script, style or image from elsewhere."""
    pytest.importorskip(
        "material", reason="the extra docs is not installed: make venv, with Python 3.11.5 or newer"
    )
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "AIRFLOW_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = {url for page in tmp_path.rglob("*.html") for url in LOADED.findall(page.read_text())}
    assert found == set()
