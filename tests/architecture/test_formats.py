"""Code asks a format in which versions are published, and never which format it is."""

import ast
from collections.abc import Set as AbstractSet
from functools import cache

from tests.architecture.tree import PACKAGE, modules, named

FORMATS = "airflow_provider_segtable.formats."
REGISTRY = "formats/formats.py"


@cache
def folders() -> frozenset[str]:
    """Return the formats' folders, each named as its format is."""
    return frozenset(path.parent.name for path in (PACKAGE / "formats").glob("*/__init__.py"))


def test_only_the_registry_names_a_formats_code() -> None:
    """Outside its folder nothing imports from it, another format's folder included."""
    assert folders() >= {"delta", "iceberg"}
    reached = {
        f"{name}: {module}"
        for name, nodes in sources()
        for node in nodes
        for module in imported(node)
        if (owner := module.removeprefix(FORMATS).split(".")[0]) in folders()
        if module.startswith(FORMATS)
        if name != REGISTRY and not name.startswith(f"formats/{owner}/")
    }
    assert not reached


def test_nothing_asks_which_format_it_is() -> None:
    """A format's name is looked up, in the registry or a mapping, and compared with no literal."""
    asked = {
        f"{name}: {ast.unparse(node)}"
        for name, nodes in sources()
        for node in nodes
        if asks(node, folders())
    }
    assert not asked


def test_a_question_for_a_format_is_found() -> None:
    """The check sees comparisons, cases, look-ups by a literal, and tests of classes."""
    questions = (
        "format.name == 'delta'",
        "'iceberg' in wanted",
        "name in ('delta', 'x')",
        "FORMATS['delta']",
        "FORMATS.get('iceberg')",
        "isinstance(target, DeltaTarget)",
        "match name:\n case 'delta': pass",
    )
    for question in questions:
        assert any(asks(node, {"delta", "iceberg"}) for node in ast.walk(ast.parse(question)))


@cache
def sources() -> tuple[tuple[str, tuple[ast.AST, ...]], ...]:
    """Return the nodes of each module that mentions formats."""
    words = (FORMATS.rstrip("."), *folders())
    texts = {named(path): path.read_text() for path in modules()}
    return tuple(
        (name.removeprefix("airflow_provider_segtable/"), tuple(ast.walk(ast.parse(text))))
        for name, text in texts.items()
        if any(word in text.lower() for word in words)
    )


def imported(node: ast.AST) -> tuple[str, ...]:
    """Return the modules that a statement imports; those it imports from."""
    match node:
        case ast.ImportFrom(module=str(module)):
            return (*(f"{module}.{each.name}" for each in node.names),)
        case ast.Import():
            return (*(each.name for each in node.names),)
        case _:
            return ()


def asks(node: ast.AST, names: AbstractSet[str]) -> bool:
    """Return whether a node distinguishes formats."""
    match node:
        case ast.Compare():
            return any(literal(each, names) for each in (node.left, *node.comparators))
        case ast.MatchValue(value=value):
            return literal(value, names)
        case ast.Subscript(value=ast.Name(id="FORMATS"), slice=value):
            return literal(value, names)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="FORMATS")), args=[value, *_]):
            return literal(value, names)
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, what]):
            found = (each.id for each in ast.walk(what) if isinstance(each, ast.Name))
            starts = tuple(name.capitalize() for name in names)
            return any(each.startswith(starts) for each in found)
        case _:
            return False


def literal(node: ast.expr, names: AbstractSet[str]) -> bool:
    """Return whether an expression is the name of a format, or a collection that has one."""
    match node:
        case ast.Constant(value=value):
            return value in names
        case ast.Tuple(elts=some) | ast.List(elts=some) | ast.Set(elts=some):
            return any(literal(each, names) for each in some)
        case _:
            return False
