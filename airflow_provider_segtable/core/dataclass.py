"""``dataclass`` as in the standard library, with methods that are compiled at their first use.

A process imports hundreds of dataclasses and uses a few. The standard decorator compiles
``__init__``, ``__eq__``, ``__hash__``, ``__repr__`` and the refusal of assignments of each class
while its module is imported: about a millisecond a class, half of every start.

1. The class gets its fields, slots and matching arguments at once, from the standard decorator.
2. Each method is a descriptor until it is first looked up, by a call or by ``inspect``. Then it is
   compiled, and takes the descriptor's place. Two threads that look it up at once compile it twice.
3. The methods are those of the standard decorator: ``tests/unit/core/test_dataclass.py`` compares.
4. A dataclass that extends another is made by the standard decorator as a whole: few do.
5. ``replace`` copies the slots of an instance, and sets those that are given. The standard one
   looks up all fields and calls ``__init__``, which takes five times as long for a class of many
   fields. Classes that check or derive something when they are made, or that have no slots of
   their own, are left to the standard one.

Type checkers see the standard decorator. Source of the idea: a non-data descriptor that replaces
itself, as ``functools.cached_property`` is one.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - exported
    from dataclasses import replace as replace  # noqa: PLC0414 - exported
else:

    def replace(instance: Any, /, **changes: Any) -> Any:
        """Return a copy of a dataclass with other values; ``dataclasses.replace``."""
        kind = type(instance)
        copy = _COPIES.get(kind)
        if copy is None:
            copy = _COPIES[kind] = _copier(kind)
        return copy(instance, changes)

    def dataclass(kind: type | None = None, /, **settings: bool) -> Any:
        """Return a class as a dataclass; ``settings`` are those of ``dataclasses.dataclass``."""
        if kind is None:
            return lambda kind: dataclass(kind, **settings)
        if any(dataclasses.is_dataclass(base) for base in kind.__mro__[1:]):
            return dataclasses.dataclass(kind, **settings)
        return _lazily(kind, **settings)


def _lazily(
    kind: type,
    *,
    frozen: bool = False,
    eq: bool = True,
    order: bool = False,
    **shape: bool,
) -> type:
    """Return the dataclass; ``shape`` are settings that make no method: ``slots``, ``kw_only``."""
    own = {*vars(kind)}
    if "__eq__" in own and vars(kind)["__hash__"] is None:
        own.remove("__hash__")  # Python's answer to an __eq__, not the class's wish
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, **shape)(kind)
    parameters = made.__dataclass_params__
    parameters.init, parameters.repr, parameters.eq = True, True, eq
    parameters.order, parameters.frozen = order, frozen
    wanted = {
        "__init__": True,
        "__repr__": True,
        "__eq__": eq,
        "__hash__": eq and frozen,
        **dict.fromkeys(_ORDER, order),
    }
    for name in (name for name, is_wanted in wanted.items() if is_wanted and name not in own):
        setattr(made, name, _Method(made, name))
    if eq and not frozen and "__hash__" not in own:
        made.__hash__ = None
    if frozen:
        _freeze(made, slots="__slots__" in vars(made))
    return made  # type: ignore[no-any-return]


class _Method:
    """A method of a dataclass before it is looked up."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: type, name: str) -> None:
        self.kind, self.name = kind, name

    def __get__(self, instance: object, owner: type) -> Any:
        """Compile the method, put it in this one's place, and return it."""
        made = _MAKERS[self.name](self.kind)
        made.__name__, made.__module__ = self.name, self.kind.__module__
        made.__qualname__ = f"{self.kind.__qualname__}.{self.name}"
        setattr(self.kind, self.name, made)
        return made.__get__(instance, owner)


# What each method is
class _Factory:
    """The default, in the signature, of a field that a function makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init(kind: Any) -> Any:
    frozen = kind.__dataclass_params__.frozen
    values: dict[str, Any] = {"_dataclass_factory": _FACTORY, "_dataclass_set": object.__setattr__}
    named: dict[bool, list[str]] = {False: [], True: []}
    body: list[str] = []
    fields = dataclasses.fields(kind)
    for each in fields:
        name, made = each.name, each.default_factory is not dataclasses.MISSING
        given = each.default is not dataclasses.MISSING
        values[f"_of_{name}"] = each.default_factory if made else each.default
        default = "=_dataclass_factory" if made else f"=_of_{name}" if given else ""
        if each.init:
            named[bool(each.kw_only)].append(f"{name}{default}")
            value = f"_of_{name}() if {name} is _dataclass_factory else {name}" if made else name
        elif made or given:
            value = f"_of_{name}()" if made else f"_of_{name}"
        else:
            continue
        refused = f"_dataclass_set(self, {name!r}, {value})"
        body.append(refused if frozen else f"self.{name} = {value}")
    if hasattr(kind, "__post_init__"):
        body.append("self.__post_init__()")
    after = ["*", *named[True]] if named[True] else []
    made = _function(["self", *named[False], *after], body or ["pass"], values)
    made.__annotations__ = {each.name: each.type for each in fields if each.init}
    made.__annotations__["return"] = None
    return made


def _repr(kind: Any) -> Any:
    shown = (each.name for each in dataclasses.fields(kind) if each.repr)
    text = ", ".join(f"{name}={{self.{name}!r}}" for name in shown)
    body = f"return self.__class__.__qualname__ + f'({text})'"
    return recursive_repr()(_function(["self"], [body], {}))


def _comparison(operator: str) -> Callable[[Any], Any]:
    def compare(kind: Any) -> Any:
        names = [each.name for each in dataclasses.fields(kind) if each.compare]
        values = f"{_tuple('self', names)} {operator} {_tuple('other', names)}"
        body = [f"if other.__class__ is self.__class__: return {values}", "return NotImplemented"]
        return _function(["self", "other"], body, {})

    return compare


def _hash(kind: Any) -> Any:
    names = [
        each.name
        for each in dataclasses.fields(kind)
        if (each.compare if each.hash is None else each.hash)
    ]
    return _function(["self"], [f"return hash({_tuple('self', names)})"], {})


_ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}
_MAKERS: dict[str, Callable[[Any], Any]] = {
    "__init__": _init,
    "__repr__": _repr,
    "__hash__": _hash,
    "__eq__": _comparison("=="),
    **{name: _comparison(operator) for name, operator in _ORDER.items()},
}


def _tuple(owner: str, names: Iterable[str]) -> str:
    return f"({''.join(f'{owner}.{name}, ' for name in names)})"


def _function(parameters: list[str], body: list[str], names: dict[str, Any]) -> Any:
    """Compile a function whose defaults and body may use ``names``."""
    lines = "\n  ".join(body)
    exec(f"def made({', '.join(parameters)}):\n  {lines}", names)  # noqa: S102 - our own text
    return names["made"]


# Copies
_Copy = Callable[[Any, Mapping[str, Any]], Any]
_COPIES: dict[type, _Copy] = {}


def _copier(kind: Any) -> _Copy:
    """Return the function that copies instances of a class, with some other values."""
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    slots = vars(kind).get("__slots__", ())
    plain = all(each.init and each.name in slots for each in fields) and len(slots) == len(fields)
    if not fields or not plain or hasattr(kind, "__post_init__"):
        return lambda instance, changes: dataclasses.replace(instance, **changes)
    setters = {each.name: vars(kind)[each.name].__set__ for each in fields}
    names = {"_new": object.__new__, "_kind": kind, "_setters": setters}
    names |= {f"_set_{name}": setter for name, setter in setters.items()}
    body = [
        "made = _new(_kind)",
        *(f"_set_{name}(made, self.{name})" for name in setters),
        "for name, value in changes.items():",
        "  if name not in _setters:",
        "    raise TypeError(f'{_kind.__name__} has no field {name!r}')",
        "  _setters[name](made, value)",
        "return made",
    ]
    made: _Copy = _function(["self", "changes"], body, names)
    return made


# Frozen classes
def _freeze(kind: Any, *, slots: bool) -> None:
    """Let a class refuse assignments to its fields, and be copied and pickled all the same."""
    names = frozenset(each.name for each in dataclasses.fields(kind))
    for name, verb in (("__setattr__", "assign to"), ("__delattr__", "delete")):
        if name in vars(kind):
            raise TypeError(f"{kind.__name__} is frozen and has {name}: leave out one of both")
        setattr(kind, name, _refusal(kind, names, name, verb))
    if slots and "__getstate__" not in vars(kind):
        kind.__getstate__ = _get_state
        kind.__setstate__ = _set_state


def _refusal(kind: Any, names: frozenset[str], name: str, verb: str) -> Callable[..., None]:
    def refuse(self: object, field: str, *value: object) -> None:
        if type(self) is kind or field in names:
            raise dataclasses.FrozenInstanceError(f"cannot {verb} field {field!r}")
        getattr(super(kind, self), name)(field, *value)

    refuse.__name__ = name
    return refuse


def _get_state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
