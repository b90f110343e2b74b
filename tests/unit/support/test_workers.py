"""What the processes of a parallel run take, and when."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests import workers
from tests.workers import UnitScheduling, import_share, next_unit, turn_of, unit_of

TESTS = (
    "tests/unit/test_a.py::test_one",
    "tests/unit/test_a.py::test_two",
    "tests/simulation/pairs/test_pairs.py::test_pair[1]",
    "tests/simulation/pairs/test_pairs.py::test_pair[2]",
    "tests/spark/test_s.py::test_one",
    "tests/integration/test_i.py::test_one",
    "tests/cluster/test_c.py::test_one",
    "tests/cluster/test_d.py::test_one",
)
UNITS = [*dict.fromkeys(map(unit_of, TESTS))]


class Node(SimpleNamespace):
    """A process that is only given work."""

    shutting_down = False
    __hash__ = object.__hash__  # type: ignore[assignment]

    def send_runtest_some(self, tests: list[int]) -> None:
        """Take tests."""
        self.given += tests

    def shutdown(self) -> None:
        """Take no more."""
        self.shutting_down = True


def scheduling(nodes: list[Node]) -> UnitScheduling:
    """Return a scheduling of the tests, which has given each process its first units."""
    option = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(option=option, getvalue=lambda _: ["popen"] * len(nodes))
    made = UnitScheduling(config)
    for node in nodes:
        made.add_node(node)  # type: ignore[arg-type]
        made.add_node_collection(node, TESTS)  # type: ignore[arg-type]
    made.schedule()
    return made


def test_a_module_is_a_unit_where_its_tests_share_something() -> None:
    """The pairs share tables, others servers; a test of another suite is a unit of its own."""
    pairs = "tests/simulation/pairs/test_pairs.py"
    modules = ["tests/spark/test_s.py", "tests/integration/test_i.py"]
    assert [*map(unit_of, TESTS[:2])] == [*TESTS[:2]]
    assert [*map(unit_of, TESTS[2:])] == [pairs, pairs, *modules, "cluster", "cluster"]
    assert [*map(turn_of, TESTS)] == sorted(map(turn_of, TESTS))


@pytest.mark.parametrize(
    ("process", "first", "then"),
    [(0, UNITS[0], UNITS[0]), (1, "cluster", UNITS[1]), (2, UNITS[2], UNITS[1])],
)
def test_a_process_has_its_end_of_the_line(process: int, first: str, then: str) -> None:
    """The second takes from the back; so does the third once no whole module waits."""
    assert next_unit(process, dict.fromkeys(UNITS)) == first
    assert next_unit(process, dict.fromkeys(UNITS[:2])) == then


def test_units_that_are_over_are_forgotten() -> None:
    """Each test is given once, and what is over is not counted again."""
    nodes = [Node(given=[], gateway=SimpleNamespace(id=f"gw{n}")) for n in range(2)]
    made, done = scheduling(nodes), 0
    while work := [(node, node.given.pop(0)) for node in nodes if node.given]:
        for node, number in work:
            made.mark_test_complete(node, number)  # type: ignore[arg-type]
            done += 1
    assert done == len(TESTS)
    assert not any(made.assigned_work.values())
    assert all(node.shutting_down for node in nodes)


def test_shares_are_all_modules_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is left to the collection, which says why."""
    found: list[str] = []

    def failing(name: str) -> None:
        found.append(name)
        raise ImportError(name)

    monkeypatch.setattr(workers.importlib, "import_module", failing)
    here = workers.Path(__file__).parent
    for number in range(3):
        import_share([here], number, 3)
    names = [f"tests.unit.support.{each.stem}" for each in here.glob("test_*.py")]
    assert sorted(found) == sorted(names)
