"""Loops over the columns of a table look no column up in a list of names, which is built each time.

Arrow makes the list of ``schema.names`` anew for each call, and so do our schemas: a look-up within
a loop over columns took 23 s for an append of three rows to 4,000 columns.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.tree import PACKAGE, ROOT

LISTS = {"names", "column_names"}
LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def test_loops_look_names_up_in_sets() -> None:
    """A set or a dict of the names is made before the loop."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in slow_lines(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "slow"),
    [
        ("[name for name in given if name in schema.names]", True),
        ("for name in given:\n    if name not in rows.column_names: pass", True),
        ("[name for name in schema.names if name in known]", False),
        ("for name in schema.names: pass", False),
        ("if name in schema.names: pass", False),
        ("for file in files:\n    if name in file.schema.names: pass", False),
        ("[schema.names.count(name) for name in given]", True),
        ("known = {*schema.names}\n[name for name in given if name in known]", False),
    ],
)
def test_the_rule_finds_look_ups_within_loops(code: str, *, slow: bool) -> None:
    """Going over a list once is no look-up."""
    assert bool([*slow_lines(ast.parse(code))]) is slow


def slow_lines(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of look-ups in lists of names that are made in each turn of a loop."""
    for loop in ast.walk(tree):
        if isinstance(loop, LOOPS):
            bound = {
                node.id
                for node in ast.walk(loop)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            for part in repeated(loop):
                for node in ast.walk(part):
                    owner = looked_up(node)
                    if owner is not None and owner not in bound:
                        yield node.lineno  # type: ignore[attr-defined]


def repeated(loop: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a loop that each turn runs."""
    match loop:
        case ast.For(body=body):
            yield from body
        case ast.While(test=test, body=body):
            yield from (test, *body)
        case ast.DictComp(key=key, value=value, generators=generators):
            yield from (key, value, *each_turn(generators))
        case (
            ast.ListComp(elt=elt, generators=generators)
            | ast.SetComp(elt=elt, generators=generators)
        ):
            yield from (elt, *each_turn(generators))
        case ast.GeneratorExp(elt=elt, generators=generators):
            yield from (elt, *each_turn(generators))


def each_turn(generators: list[ast.comprehension]) -> Iterator[ast.AST]:
    """Yield the parts of generators but the list of the first one, which is made once."""
    yield from generators[0].ifs
    for later in generators[1:]:
        yield from (later.iter, *later.ifs)


def looked_up(node: ast.AST) -> str | None:
    """Return the name of the object in whose list of names a node looks; None if it does not."""
    match node:
        case ast.Compare(
            ops=[ast.In() | ast.NotIn()], comparators=[ast.Attribute(attr=attr, value=owner)]
        ):
            pass
        case ast.Call(
            func=ast.Attribute(attr="count" | "index", value=ast.Attribute(attr=attr, value=owner))
        ):
            pass
        case _:
            return None
    while isinstance(owner, ast.Attribute | ast.Call):
        owner = owner.func if isinstance(owner, ast.Call) else owner.value
    return (owner.id if isinstance(owner, ast.Name) else "") if attr in LISTS else None
