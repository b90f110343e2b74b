"""Imports of the package, wherever they are written: each names a module, and a name in it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.tree import ROOT

NAME = "airflow_provider_segtable"
PLACES = ("airflow_provider_segtable", "spark_apps", "dags", "examples", "benchmarks", "docker")
WRITTEN = re.compile(rf"from ({NAME}[\w.]*) import (\([^)]*\)|[^\n#]+)")


def test_imports_in_code_exist() -> None:
    """Examples, benchmarks and functions import late: nothing else reads these lines before."""
    files = [*(path for place in PLACES for path in (ROOT / place).rglob("*.py"))]
    assert sorted(wrong for path in files for wrong in missing(path, in_code(path))) == []


def test_imports_in_documents_exist() -> None:
    """Guides show imports that a reader copies."""
    files = [
        ROOT / "README.md",
        *(p for p in (ROOT / "docs").rglob("*.md") if "adr" not in p.parts),
    ]
    assert sorted(wrong for path in files for wrong in missing(path, in_text(path))) == []


def missing(path: Path, imported: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Yield the imports of a file that lead nowhere."""
    for module, name in imported:
        if module_file(f"{module}.{name}") is None and name not in names_of(module):
            yield f"{path.relative_to(ROOT)}: from {module} import {name}"


def in_code(path: Path) -> Iterator[tuple[str, str]]:
    """Yield modules and names that Python code imports from the package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == NAME:
            yield from ((node.module or "", each.name) for each in node.names)


def in_text(path: Path) -> Iterator[tuple[str, str]]:
    """Yield modules and names that a document imports from the package."""
    for module, names in WRITTEN.findall(path.read_text()):
        for each in names.strip("()").replace("\n", " ").split(","):
            name = each.split(" as ")[0].strip()
            if name.isidentifier():
                yield module, name


def module_file(module: str) -> Path | None:
    """Return the file of a module of the package; None if there is none."""
    path = ROOT.joinpath(*module.split("."))
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((each for each in found if each.exists()), None)


@cache
def names_of(module: str) -> frozenset[str]:
    """Return the names that a module defines or imports; none if there is no such module."""
    path = module_file(module)
    tree = ast.parse(path.read_text()) if path else ast.Module([], [])
    return frozenset(name for node in ast.walk(tree) for name in bound(node)) | lazy_names(tree)


def bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement binds."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (each.asname or each.name for each in names)
        case ast.Name(id=name, ctx=ast.Store()):
            yield name


def lazy_names(tree: ast.AST) -> frozenset[str]:
    """Return the names in `__all__`, which `__getattr__` may load late."""
    return frozenset(
        each.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(ast.unparse(t) == "__all__" for t in node.targets)
        for each in ast.walk(node.value)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )
