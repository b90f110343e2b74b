"""Code asks a kind of table, and never which kind a table is of."""

import ast

from tests.architecture.tree import modules, named

KINDS = {"Append", "Rollup", "AppendArrow", "RollupArrow", "AppendSpark", "RollupSpark"}
OWN = (
    "core/tables/",
    "data/rollup/",
    "data/table_kinds/",
    "spark/table_kinds/",
    "spark/table_kinds.py",
    "spark/writes/distribution.py",
)
"""The files that define kinds, and those that compute a rollup, which no other kind calls."""


def test_nothing_asks_which_kind_a_table_is_of() -> None:
    """Outside its own files a kind may be made, as a default or from options, but not tested for.

    Neither by ``isinstance`` or ``case``, nor by comparing names, nor by a settings attribute.
    """
    asked = {
        f"{name}: {ast.unparse(node)}"
        for path in modules()
        if not (name := named(path).removeprefix("airflow_provider_segtable/")).startswith(OWN)
        for node in ast.walk(ast.parse(path.read_text()))
        if asks(node)
    }
    assert not asked


def asks(node: ast.AST) -> bool:
    """Return whether a node distinguishes kinds of table."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, what]):
            return bool(KINDS & {n.id for n in ast.walk(what) if isinstance(n, ast.Name)})
        case ast.MatchClass(cls=ast.Name(id=name)):
            return name in KINDS
        case ast.Compare():
            return any(names_a_kind(side) for side in (node.left, *node.comparators))
        case ast.Attribute(attr="rollup", value=ast.Attribute(attr="table")):
            return True
        case _:
            return False


def names_a_kind(node: ast.expr) -> bool:
    """Return whether an expression is a kind's name: ``Rollup.name``, ``table.kind.name``."""
    match node:
        case ast.Attribute(attr="name", value=ast.Name(id=owner)):
            return owner in KINDS
        case ast.Attribute(attr="name", value=ast.Attribute(attr="kind")):
            return True
        case _:
            return False
