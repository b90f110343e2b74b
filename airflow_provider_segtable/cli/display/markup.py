"""Markup that cannot be broken by a text: elements are built, and every text in them is escaped.

1. A ``Markup`` is made by ``element`` alone. Any other text is escaped when it is put into one, in
   content and in attributes; so a name such as ``<script>`` is only ever seen.
2. Names of elements and attributes are written in the code, never taken from data.
"""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

Child: TypeAlias = "str | Iterable[str]"
"""A text, an element, or several of them."""
EMPTY = frozenset({"meta", "rect", "line", "path", "circle", "input", "br", "stop", "use"})


class Markup(str):
    """Markup that is well formed."""

    __slots__ = ()


def element(name: str, /, *children: Child, **attributes: object) -> Markup:
    """Return an element; ``class_`` and ``font_size`` become ``class`` and ``font-size``.

    An attribute that is None or False is left out; True stands without a value.
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in EMPTY and not children:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{together(*children)}</{name}>")


def together(*children: Child) -> Markup:
    """Return texts and elements one after the other."""
    return Markup("".join(_escaped(each) for child in children for each in _flat(child)))


def _flat(child: Child) -> Iterable[str]:
    return (child,) if isinstance(child, str) else child


def _escaped(child: str) -> str:
    return child if isinstance(child, Markup) else escape(str(child), quote=True)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(_number(value), quote=True)}"'


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
