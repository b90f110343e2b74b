"""Messages are plain: what errors, logs, findings and help texts say needs no riddle to be solved.

1. A message is every string of the package with a space in it that is no docstring: arguments of
   errors, log lines, help of options, findings, reasons.
2. ``RIDDLES`` has the patterns that were rewritten, each with what to write instead. None may come
   back; a new pattern is added with the messages that it bans already rewritten.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.tree import modules, named

RIDDLES = {
    r"\b(?:nobody|somebody|whoever|anybody)\b": "name the reader, writer, plan or worker",
    r"\bfor who\b|\bthose that\b|\bwhat becomes\b": "use a noun instead of a relative clause",
    r"(?<!there )\bis no (?!longer\b)": "write 'is not a ...'",
    r"\bis none of\b": "write 'is unknown: choose one of ...'",
    r"\b(?:tells?|told|vouch\w*)\b": "name what is recorded, reported or written",
    r"\bwould pay\b|\blooked after\b": "write 'worthwhile', 'healthy'",
    r"\b(?:gives?|gave) way\b": "write 'yields', 'yielded'",
    r"\bthe same again\b|\bonce more\b": "write 'run the command again'",
    r"\bcut (?:time )?anew\b|\btime was cut\b": "write 'repartitioned'",
    r"\b(?:said|say|says) (?:it )?(?:with|by)\b": "write 'give'",
    r"\btake(?:s|n)? (?:\w+ )?away\b": "write 'delete', 'revoke'",
}


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string that is shown; values stand as ``{}``."""
    shown: list[ast.AST] = [tree]
    while shown:
        node = shown.pop()
        match node:
            case ast.Expr(value=ast.Constant()):
                continue  # a docstring
            case ast.Constant(value=str(text)):
                yield node.lineno, text
            case ast.JoinedStr(values=values):
                parts = [v.value if isinstance(v, ast.Constant) else "{}" for v in values]
                yield node.lineno, "".join(map(str, parts))
                shown += [v for v in values if not isinstance(v, ast.Constant)]
            case _:
                shown += ast.iter_child_nodes(node)


def riddles(text: str) -> list[str]:
    """Return what to write instead of the riddles in a text."""
    if " " not in text.strip():
        return []
    return [better for riddle, better in RIDDLES.items() if re.search(riddle, text, re.IGNORECASE)]


def test_messages_are_plain() -> None:
    """No message has a pattern that was rewritten before."""
    found = [
        f"{named(path)}:{line}: {text!r}: {'; '.join(instead)}"
        for path in modules()
        for line, text in messages(ast.parse(path.read_text()))
        if (instead := riddles(text))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("somebody else was first: run the same again", 2),
        ("'x' is no column type", 1),
        ("there is no column 'x', and it is no longer kept", 0),
    ],
)
def test_riddles_are_found(text: str, instead: int) -> None:
    """The patterns find the worst of before, and leave plain messages alone."""
    assert len(riddles(text)) == instead
