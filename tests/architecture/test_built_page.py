"""What is served of the page is what its sources give."""

import gzip
import hashlib
import json
import shutil
import subprocess
import sys

import pytest

from tests.architecture.tree import PACKAGE, ROOT, tracked

SOURCE = PACKAGE / "page/source"
BUILT = PACKAGE / "page/built"
MOST_BYTES = 200_000


def digest_of_sources() -> str:
    """Return the digest that ``source/build.mjs`` writes: names, lengths and bytes, in order."""
    digest = hashlib.sha256()
    files = {
        path.relative_to(SOURCE).as_posix(): path.read_bytes()
        for path in tracked()
        if path.is_relative_to(SOURCE)
    }
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode())
        digest.update(files[name])
    return digest.hexdigest()


def test_the_built_page_is_of_these_sources() -> None:
    """The digest beside the built files is that of the tracked sources; else run `make page`."""
    assert (BUILT / "sources.sha256").read_text().strip() == digest_of_sources()


@pytest.mark.skipif(
    shutil.which("node") is None or not (SOURCE / "node_modules/esbuild").exists(),
    reason="node, or what `make page` installs, is not here",
)
def test_a_fresh_build_gives_the_same_bytes() -> None:
    """Building again writes nothing new."""
    command = ["node", "build.mjs", "--check"]
    found = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_the_page_is_small() -> None:
    """Script, style and document are below 200 kB together, as they travel."""
    served = (BUILT / name for name in ("index.html", "page.js", "page.css"))
    assert sum(len(gzip.compress(each.read_bytes())) for each in served) < MOST_BYTES


def test_the_page_has_no_inline_code() -> None:
    """The document has no script, style or handler of its own, as the content policy refuses it."""
    document = (BUILT / "index.html").read_text()
    assert "<style" not in document
    assert "style=" not in document
    assert document.count("<script") == document.count("<script src=")
    assert " on" + "load" not in document


def test_text_is_never_markup() -> None:
    """No source makes markup of text."""
    ways = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(")
    found = [
        f"{path.relative_to(ROOT)}: {way}"
        for path in tracked()
        if path.is_relative_to(SOURCE) and path.suffix in (".ts", ".tsx")
        for way in ways
        if way in path.read_text()
    ]
    assert not found


def test_the_lockfile_pins_all_and_names_no_host() -> None:
    """Each package has a version and a checksum, and none has an address."""
    packages = json.loads((SOURCE / "package-lock.json").read_text())["packages"]
    outside = {name: each for name, each in packages.items() if name}
    assert outside
    assert all(each["version"] and each["integrity"] for each in outside.values())
    assert not [name for name, each in outside.items() if "resolved" in each]


def test_the_types_of_the_page_are_those_of_its_models() -> None:
    """``source/api.ts`` is what the server's models give; else run `make page`."""
    command = [sys.executable, str(ROOT / ".ci/page_types.py"), "--check"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
