"""Dataclasses whose methods are compiled at first use are those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest

from airflow_provider_segtable.core import dataclass as lazy

SOURCE = """
from dataclasses import field
from typing import ClassVar

@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    a: int
    b: str = "x"
    c: list = field(default_factory=list)
    d: bytes = field(default=b"", repr=False, compare=False)
    names: ClassVar = ("a", "b")

@dataclass(frozen=True, slots=True, order=True)
class Ordered:
    a: int
    b: int = 2

@dataclass(slots=True)
class Open:
    a: int
    b: int = field(kw_only=True, default=4)
    c: list = field(init=False, default_factory=list)
    d: int = field(init=False, default=7)
    e: int = field(init=False)

    def __post_init__(self):
        self.e = self.a + 1

@dataclass(frozen=True)
class Wide:
    a: int = 1
    b: "Wide | None" = None

@dataclass(frozen=True, slots=True, eq=False)
class Same:
    a: int

@dataclass(frozen=True, slots=True)
class Equal:
    a: str
    def __eq__(self, other):
        return isinstance(other, Equal) and self.a.lower() == other.a.lower()

@dataclass(frozen=True, slots=True)
class Hashed:
    a: str
    def __hash__(self):
        return 5
    def __repr__(self):
        return "mine"

@dataclass(slots=True)
class Empty:
    pass

@dataclass(frozen=True, slots=True, kw_only=True)
class Extended(Frozen):
    z: int = 9

class Plain(Wide):
    pass
"""
MADE = [
    ("Frozen", (), {"a": 1}),
    ("Frozen", (), {"a": 1, "b": "y", "c": [2], "d": b"d"}),
    ("Ordered", (3,), {}),
    ("Ordered", (3, 1), {}),
    ("Open", (1,), {"b": 8}),
    ("Wide", (), {}),
    ("Wide", (2,), {"b": None}),
    ("Same", (1,), {}),
    ("Equal", ("A",), {}),
    ("Equal", ("a",), {}),
    ("Hashed", ("a",), {}),
    ("Empty", (), {}),
    ("Extended", (), {"a": 1, "z": 3}),
    ("Plain", (3,), {}),
]
KINDS = sorted({name for name, _, _ in MADE})


def module(name: str, decorator: Any) -> ModuleType:
    """Return the classes of ``SOURCE``, made by a decorator, as a module that pickle finds."""
    made = ModuleType(name)
    made.__dict__["dataclass"] = decorator
    sys.modules[name] = made
    exec(SOURCE, made.__dict__)  # noqa: S102 - the text above
    return made


@pytest.fixture
def both() -> Any:
    """Give the classes as the standard library makes them, and as ours does."""
    modules = (module("standard", dataclasses.dataclass), module("lazily", lazy.dataclass))
    yield modules
    for each in modules:
        del sys.modules[each.__name__]


def outcome(act: Any) -> Any:
    """Return what a call returns, or its error's type and text."""
    try:
        return act()
    except Exception as error:  # noqa: BLE001 - which one is the question
        return type(error), str(error)


def seen(here: ModuleType) -> dict[str, Any]:
    """Return all that can be observed of the classes and of values of them."""
    values = [getattr(here, name)(*args, **named) for name, args, named in MADE]
    kinds = [getattr(here, name) for name in KINDS]
    shown = [each for each in values if type(each).__name__ != "Same"]
    return {
        "signatures": [str(inspect.signature(kind)) for kind in kinds],
        "fields": [[(f.name, f.type, f.init) for f in dataclasses.fields(kind)] for kind in kinds],
        "matching": [kind.__match_args__ for kind in kinds],
        "slots": [vars(kind).get("__slots__") for kind in kinds],
        "settings": [repr(kind.__dataclass_params__) for kind in kinds],
        "names": [kind.__init__.__qualname__ for kind in kinds],
        "annotations": [kind.__init__.__annotations__ for kind in kinds],
        "hashable": [kind.__hash__ is None for kind in kinds],
        "reprs": [repr(each) for each in values],
        "equal": [[a == b for b in shown] for a in shown],
        "hashes": [outcome(lambda each=each: hash(each)) for each in shown],
        "less": [outcome(lambda a=a, b=b: (a < b, a <= b)) for a in values[2:5] for b in values],
        "more": [outcome(lambda a=a, b=b: (a > b, a >= b)) for a in values[2:5] for b in values],
        "copies": [repr(copy.deepcopy(each)) for each in values],
        "pickled": [repr(pickle.loads(pickle.dumps(each))) for each in values],  # noqa: S301
        "dicts": [outcome(lambda each=each: dataclasses.asdict(each)) for each in values],
        "replaced": [outcome(lambda v=v: repr(dataclasses.replace(v, a=6))) for v in values],
        "assigned": [outcome(lambda each=each: setattr(each, "a", 5)) for each in values],
        # The standard library's slotted classes refuse with another error in Python 3.11.
        "added": [outcome(lambda each=each: setattr(each, "more", 5)) is None for each in values],
        "deleted": [outcome(lambda each=each: delattr(each, "a")) for each in values],
        "missing": [outcome(lambda kind=kind: repr(kind())) for kind in kinds],
        "unknown": [outcome(lambda kind=kind: kind(q=1)) for kind in kinds],
    }


def test_all_that_can_be_seen_is_as_the_standard_library_has_it(both: Any) -> None:
    """Signatures, values, comparisons, hashes, copies, pickles and refusals are the same."""
    standard, ours = (seen(each) for each in both)
    for question, answer in standard.items():
        assert ours[question] == answer, question


def test_no_method_is_compiled_before_it_is_used(both: Any) -> None:
    """A class begins with descriptors, and has plain functions of what was used afterwards."""
    kind = both[1].Frozen
    wanted = {"__init__", "__repr__", "__eq__", "__hash__"}
    waiting = {name for name, each in vars(kind).items() if isinstance(each, lazy._Method)}
    assert waiting == wanted
    assert kind(a=1) == kind(a=1)
    waiting = {name for name, each in vars(kind).items() if isinstance(each, lazy._Method)}
    assert waiting == {"__repr__", "__hash__"}


def test_threads_may_use_a_class_first_at_once(both: Any) -> None:
    """Each of many threads that make the first values gets a whole one."""
    kind = both[1].Frozen
    with ThreadPoolExecutor(8) as pool:
        made = [*pool.map(lambda n: kind(a=n), range(64))]
    assert [each.a for each in made] == [*range(64)]


def test_a_value_that_holds_itself_has_a_repr(both: Any) -> None:
    """A value inside itself is shown by dots, as the standard library does."""
    for here in both:
        value = here.Open(1)
        value.c.append(value)
        assert "..." in repr(value)


CHANGES: list[dict[str, Any]] = [
    {},
    {"a": 5},
    {"a": 5, "b": None},
    {"c": [1], "d": b"x"},
    {"z": 8},
    {"nothing": 1},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_copies_are_those_of_the_standard_library(both: Any, changes: dict[str, Any]) -> None:
    """Of classes with and without slots, checks and parents; unknown fields are refused."""
    here = both[1]
    for name, args, named in MADE:
        value = getattr(here, name)(*args, **named)
        before = values_of(value)
        wanted = outcome(lambda value=value: dataclasses.replace(value, **changes))
        found = outcome(lambda value=value: lazy.replace(value, **changes))
        if isinstance(wanted, tuple):
            assert found[0] is wanted[0]
        else:
            assert (type(found), values_of(found)) == (type(wanted), values_of(wanted))
            assert values_of(value) == before


def values_of(instance: Any) -> list[object]:
    """Return the values of a dataclass's fields."""
    return [getattr(instance, each.name) for each in dataclasses.fields(instance)]
