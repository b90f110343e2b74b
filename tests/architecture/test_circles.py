"""Imports of the package go one way, between modules and between the rooms inside a folder."""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

import grimp

NAME = "airflow_provider_segtable"
TYPES_ONLY = (f"{NAME}.core.log.plan", f"{NAME}.core.log.state")
"""A plan judges states, and a state has plans; the former imports the latter for types alone."""


def imports() -> dict[str, set[str]]:
    """Return the modules that each module imports, late imports too."""
    graph = grimp.build_graph(NAME)
    found = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    found[TYPES_ONLY[0]].discard(TYPES_ONLY[1])
    return found


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return a circle of a graph; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_a_detour() -> None:
    """Not even by an import inside a function."""
    assert circle(imports()) == []


def test_no_room_has_a_knot() -> None:
    """Parts of a room, its modules and folders, are in an order: each imports those below it."""
    known = imports()
    knots = {}
    for room in {each.split(".")[1] for each in known if each.count(".") > 1}:
        inside = f"{NAME}.{room}."
        parts: dict[str, set[str]] = {}
        for module in (each for each in known if each.startswith(inside)):
            part = module.removeprefix(inside).split(".")[0]
            others = {
                each.removeprefix(inside).split(".")[0]
                for each in known[module]
                if each.startswith(inside)
            }
            parts.setdefault(part, set()).update(others - {part})
        if found := circle(parts):
            knots[room] = found
    assert knots == {}
