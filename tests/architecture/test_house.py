"""Makefile, pins, exports and the wheel are what the documents say."""

import ast
import os
import re
import runpy
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import chain
from pathlib import Path

import pytest

import airflow_provider_segtable
from tests.architecture.test_tidy import body_lines
from tests.architecture.tree import PACKAGE, ROOT, listed

MAKEFILE = (ROOT / "Makefile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = [
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
]


def test_every_target_is_explained() -> None:
    """Each phony target of the Makefile has a line in `make help`, and the other way round."""
    phony = set(re.findall(r"^\.PHONY: (\S+)$", MAKEFILE, re.MULTILINE))
    told = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(re.findall(r"^  make (\S+) +\S", told.stdout, re.MULTILINE)) == phony


def test_nothing_that_is_ignored_is_tracked() -> None:
    """A link called .venv, once committed, takes the place of the folder in every checkout."""
    assert listed("--cached", "--ignored", "--exclude-standard") == ()


def test_help_is_the_default() -> None:
    """A bare `make` explains itself, and does nothing."""
    assert ".DEFAULT_GOAL := help" in MAKEFILE


def test_the_mutation_tester_names_what_exists() -> None:
    """Every module and every test that .ci/mutants.py names is there."""
    for module, tests in runpy.run_path(str(ROOT / ".ci/mutants.py"))["TESTS"].items():
        assert (PACKAGE / module).is_dir() or (PACKAGE / f"{module}.py").is_file(), module
        for path, _, test in (each.partition("::") for each in tests):
            assert (ROOT / path).exists(), path
            assert not test or f"def {test}(" in (ROOT / path).read_text(), test


@pytest.mark.parametrize("borrowed", [False, True])
def test_a_borrowed_environment_stays_as_it_is(tmp_path: Path, *, borrowed: bool) -> None:
    """A second work tree whose .venv is a link to the first one's installs nothing there."""
    other, tree = tmp_path / "other", tmp_path / "tree"
    for folder in (other, tree if borrowed else tree / ".venv"):
        folder.mkdir(parents=True)
    (other / ".installed").touch()
    if borrowed:
        (tree / ".venv").symlink_to(other)
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "excludes.txt", "hatch_build.py"):
        (tree / name).write_bytes((ROOT / name).read_bytes())
    steps = subprocess.run(
        ["make", "--dry-run", "venv"], cwd=tree, capture_output=True, text=True, check=True
    ).stdout
    assert ("pip install" in steps) != borrowed


def prerequisites(python: str, java_home: Path) -> subprocess.CompletedProcess[str]:
    """Ask what is missing with this Python and this Java."""
    return subprocess.run(
        [ROOT / ".ci" / "prerequisites", python],
        env={**os.environ, "JAVA_HOME": str(java_home)},
        capture_output=True,
        text=True,
        check=False,
    )


def with_java(root: Path, told: str) -> Path:
    """Make a Java that only tells its version; return its home."""
    java = root / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    java.chmod(0o755)
    return root


@pytest.mark.parametrize("told", ['openjdk version "17.0.15" 2025-04-15', 'java version "25"'])
def test_a_machine_with_both_lacks_nothing(tmp_path: Path, told: str) -> None:
    """This Python and a Java of 17 or newer are enough."""
    assert prerequisites(sys.executable, with_java(tmp_path, told)).returncode == 0


def test_everything_missing_is_said_at_once(tmp_path: Path) -> None:
    """An absent Python and an old Java are both named, with the way to get them."""
    told = prerequisites("python-nowhere", with_java(tmp_path, 'java version "1.8.0_392"'))
    assert told.returncode == 1
    assert "there is no python-nowhere" in told.stderr
    assert "is Java 8" in told.stderr
    assert told.stderr.count("apt install") == 2


def test_pins_are_names_and_versions_only() -> None:
    """constraints.txt has one `name==version` a line, sorted, and no client of Spark."""
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._+!-]+", line) for line in PINS)
    names = [line.partition("==")[0] for line in PINS]
    assert names == sorted(names, key=str.lower)
    assert "pyspark-client" not in names


def test_every_dependency_is_pinned() -> None:
    """Whatever pyproject.toml asks for by name has a version in constraints.txt."""
    project = PROJECT["project"]
    asked = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {re.split(r"[\[<>=;~! ]", requirement)[0].lower() for requirement in asked}
    pinned = {line.partition("==")[0].lower() for line in PINS}
    assert names - pinned == {"airflow-provider-segtable"}


def test_both_lists_of_exclusions_agree() -> None:
    """The projects of uv and `uv pip` exclude the same packages."""
    excluded = (ROOT / "excludes.txt").read_text().split()
    assert PROJECT["tool"]["uv"]["exclude-dependencies"] == excluded


def test_the_base_needs_neither_airflow_nor_spark() -> None:
    """A plain install brings no Airflow and no Spark, so executors stay light."""
    base = " ".join(PROJECT["project"]["dependencies"])
    assert "airflow" not in base
    assert "spark" not in base


def test_the_installed_metadata_is_this_project() -> None:
    """The version that installers see is the package's own."""
    try:
        installed = version("airflow-provider-segtable")
    except PackageNotFoundError:
        pytest.skip("not installed here")
    assert installed == airflow_provider_segtable.__version__
    assert requires("airflow-provider-segtable")


@pytest.mark.parametrize("name", airflow_provider_segtable.__all__)
def test_every_exported_name_is_there(name: str) -> None:
    """Each lazy name of the package can be had, and dir() tells of it."""
    assert getattr(airflow_provider_segtable, name) is not None
    assert name in dir(airflow_provider_segtable)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that is not exported fails as Python's own do."""
    with pytest.raises(AttributeError, match="no attribute 'Tabel'"):
        getattr(airflow_provider_segtable, "Tabel")  # noqa: B009  # the name is the point


def test_a_wheel_carries_the_spark_applications(tmp_path: Path) -> None:
    """The wheel, unpacked anywhere, finds its applications inside itself; it has no tests."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "site")

    ask = "from airflow_provider_segtable import spark_app_path as p; print(p('compact'))"
    program = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); {ask}"
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )

    assert told.stdout.strip() == str(
        tmp_path / "site/airflow_provider_segtable/_spark_apps/compact.py"
    ), told.stderr
    assert Path(told.stdout.strip()).read_text() == (ROOT / "spark_apps/compact.py").read_text()
    assert (tmp_path / "site/airflow_provider_segtable/py.typed").exists()
    assert (tmp_path / "site/airflow_provider_segtable/page/built/page.js").exists()
    assert not (tmp_path / "site/airflow_provider_segtable/page/source").exists()
    top = {path.name for path in (tmp_path / "site").iterdir() if path.suffix != ".dist-info"}
    assert top == {"airflow_provider_segtable"}
    packed_folders = {path.name for path in (tmp_path / "site").rglob("*") if path.is_dir()}
    assert not packed_folders & {"testing", "tests", "support", "examples"}


MOST_EXECUTE_LINES = 15


def test_the_way_of_an_operator_is_short() -> None:
    """Each operator's and sensor's ``execute`` says its way in at most 15 lines."""
    long = {
        f"{path.parent.name}/{path.name}: {node.name}": lines
        for room in ("operators", "sensors")
        for path in (PACKAGE / room).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("execute")
        and (lines := body_lines(node)) > MOST_EXECUTE_LINES
    }
    assert not long
