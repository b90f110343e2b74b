"""The site's pages for MkDocs, which ``mkdocs.yml`` names as its hook.

1. Stage: ``docs/`` is copied below ``build/pages``. Documents beside it (README, CHANGELOG, ...)
   come to ``project/``, and pages that are read off the code to ``reference/``.
2. Links lead to staged pages. A link to a source file leads to a page with its text, and a link to
   a folder becomes plain text, because a site has no folders.
3. Navigation: an entry of ``nav`` that ends with ``/`` stands for all pages of that folder.
   Pages that are read off the code are not in the repository, so no document can link to them. A
   document names them by their titles (*Metrics*, in italics), of which the site makes links.
4. Scripts of other hosts are left out: search in files uses ``search-worker.js`` instead.
5. Names in code within tables may break after a separator, or they make a table wider than a page.
6. Headings have the ids that GitHub gives them, so one link works in both places.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STAGE = ROOT / "build" / "pages"
LINK = re.compile(
    r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]+)?\)"
)
FENCE = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
LIST_AFTER_TEXT = re.compile(r"^(?![-*|>#\s]|\d+\. )(.+)\n(?=(?:-|\d+\.) )", re.MULTILINE)
FIRST_PAGES = {
    PurePosixPath("README.md"): PurePosixPath("pages.md"),
    PurePosixPath("adr/README.md"): PurePosixPath("adr/index.md"),
    PurePosixPath("model/README.md"): PurePosixPath("model/index.md"),
}
"""The places of folders' first pages; ``index.md`` is the site's home."""
REFERENCE = {
    "Commands": "commands.md",
    "Properties": "properties.md",
    "Operators, sensors and the connection": "airflow-classes.md",
    "Error types": "error-types.md",
    "Numbers and codes": "numbers.md",
    "Metrics": "metrics.md",
    "API reference": "api/index.md",
}
"""The titles of the pages that are read off the code."""
NAMED_PAGE = re.compile(rf"(?<!\*)\*({'|'.join(REFERENCE)})\*(?!\*)")
IN_CELL = re.compile(r"<td.*?</td>", re.DOTALL)
CODE = re.compile(r"(?<=<code>)([^<]+)(?=</code>)")
SEPARATOR = re.compile(r"(?<=\w)[./,:=_-](?=\w)")
MOST_UNBROKEN = 16
SOURCES = {".py": "python", ".tla": "text", "": "text"}


def on_config(config: Any) -> Any:
    """Stage all pages, and complete the navigation."""
    os.environ.setdefault("AIRFLOW_HOME", str(ROOT / "build" / "airflow"))
    stage(STAGE)
    config.docs_dir = str(STAGE)
    config.extra["polyfills"] = ["search-worker.js"]  # instead of a script of another host
    config.nav = expanded(config.nav, STAGE)
    config.mdx_configs["toc"] = {**config.mdx_configs.get("toc", {}), "slugify": heading_id}
    return config


def on_page_content(html: str, **_: Any) -> str:
    """Let long names in code break after a separator, within tables."""
    return IN_CELL.sub(lambda cell: CODE.sub(_breakable, cell[0]), html)


def _breakable(code: re.Match[str]) -> str:
    """Return long code with places to break."""
    return code[0] if len(code[1]) < MOST_UNBROKEN else SEPARATOR.sub(r"\g<0><wbr>", code[0])


def heading_id(text: str, _separator: str = "-") -> str:
    """Return the id of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def documents() -> dict[PurePosixPath, PurePosixPath]:
    """Return the places of all documents on the site, by their paths in the repository."""
    names = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    paths = [PurePosixPath(name) for name in names if (ROOT / name).exists()]
    return {path: place_of(path) for path in paths}


def place_of(path: PurePosixPath) -> PurePosixPath:
    """Return the place of a document on the site."""
    if path.parts[0] == "docs":
        inner = path.relative_to("docs")
        return FIRST_PAGES.get(inner, inner)
    parts = "-".join(path.with_suffix("").parts).lower()
    return PurePosixPath("project") / f"{parts}.md"


def stage(target: Path) -> None:
    """Write every page of the site below ``target``."""
    shutil.rmtree(target, ignore_errors=True)
    places, linked = documents(), dict[PurePosixPath, PurePosixPath]()
    for path, place in places.items():
        text = rewritten((ROOT / path).read_text(), path, places, linked)
        written(target / place, text)
    for path, place in linked.items():
        written(target / place, source_page(path))
    for file in sorted((ROOT / "docs").rglob("*")):
        if file.suffix in {".svg", ".png", ".css", ".js"}:
            written(target / file.relative_to(ROOT / "docs"), file.read_bytes())
    stage_generated(target / "reference")


def stage_generated(target: Path) -> None:
    """Write the pages that are read off the code."""
    from docs.code_pages import PAGES
    from docs.reference import public_api, write_reference

    write_reference(target / "api", public_api())
    for name, page in PAGES.items():
        written(target / name, page())


def written(path: Path, content: str | bytes) -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def rewritten(
    text: str,
    path: PurePosixPath,
    places: Mapping[PurePosixPath, PurePosixPath],
    linked: dict[PurePosixPath, PurePosixPath],
) -> str:
    """Return a document with links that hold on the site; record source files in ``linked``."""

    def link(found: re.Match[str]) -> str:
        image, shown, target, anchor = found.groups()
        goal = PurePosixPath(os.path.normpath(path.parent / target))
        place = places.get(goal)
        if place is None and goal.parts[0] == "docs" and goal.suffix in {".svg", ".png"}:
            place = goal.relative_to("docs")
        if place is None and (ROOT / goal).is_file():
            place = linked.setdefault(goal, PurePosixPath("source") / f"{goal}.md")
        if place is None:
            return shown
        return f"{image}[{shown}]({relative(place, places[path])}{anchor or ''})"

    def named(found: re.Match[str]) -> str:
        page = PurePosixPath("reference") / REFERENCE[found[1]]
        return f"[{found[1]}]({relative(page, places[path])})"

    def prose(part: str) -> str:
        return NAMED_PAGE.sub(named, LIST_AFTER_TEXT.sub(r"\1\n\n", LINK.sub(link, part)))

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else prose(part) for part in parts)


def relative(place: PurePosixPath, page: PurePosixPath) -> str:
    """Return the link from a page to a place of the site."""
    return Path(os.path.relpath(place, page.parent)).as_posix()


def source_page(path: PurePosixPath) -> str:
    """Return a page with the text of a source file."""
    language = SOURCES.get(path.suffix, "text")
    text = (ROOT / path).read_text()
    return f"# {path.name}\n\n`{path}`\n\n````{language}\n{text}\n````\n"


def expanded(nav: Iterable[Any], stage: Path) -> list[Any]:
    """Return the navigation, with a folder's pages in the place of its name."""
    return [entry for each in nav for entry in _expanded(each, stage)]


def _expanded(entry: Any, stage: Path) -> list[Any]:
    match entry:
        case str() if entry.endswith("/"):
            pages = sorted(
                (stage / entry).glob("*.md"), key=lambda page: (page.stem != "index", page.name)
            )
            return [page.relative_to(stage).as_posix() for page in pages]
        case dict():
            ((title, inner),) = entry.items()
            return [{title: expanded(inner, stage) if isinstance(inner, list) else inner}]
        case _:
            return [entry]
