"""The benchmark of the peers notices rows that a system lost, doubled, kept or did not update."""

import ast
import re
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.peer_systems.workload import Size, Workload

SYSTEMS = [
    path
    for path in (Path(__file__).parents[2] / "benchmarks" / "peer_systems").glob("*.py")
    if "CONFLICTS = " in path.read_text() and path.stem != "spark_system"
]
SIZE = Size(fill_commits=2, fill_rows=300, keys=1_000, rows=100, alone=3)


def rows(ids: list[int], numbers: list[int]) -> pa.Table:
    return pa.table({"id": ids, "number": numbers})


@pytest.fixture(params=["append", "keyed"])
def workload(request: pytest.FixtureRequest) -> Workload:
    """A workload after its first commands, of which two are deletes."""
    made = Workload(request.param, SIZE)
    for command in made.fill():
        made.acknowledge(command)
    for _ in range(6):
        made.acknowledge(made.next())
    return made


def expected(workload: Workload) -> tuple[list[int], list[int]]:
    alive = [(n, number) for n, number in enumerate(workload.numbers.tolist()) if number >= 0]
    assert len(alive) < len(workload.numbers)
    return [n for n, _ in alive], [number for _, number in alive]


def test_right_rows_have_no_differences(workload: Workload) -> None:
    """The order of rows does not matter."""
    ids, numbers = expected(workload)
    assert workload.differences(rows(ids[::-1], numbers[::-1])) == {}


def test_wrong_rows_are_counted(workload: Workload) -> None:
    """Each kind of error has its own count."""
    ids, numbers = expected(workload)
    deleted = next(n for n, number in enumerate(workload.numbers) if number < 0)
    assert workload.differences(rows(ids[3:], numbers[3:])) == {"lost": 3}
    assert workload.differences(rows([*ids, ids[0]], [*numbers, numbers[0]])) == {"doubled": 1}
    assert workload.differences(rows([*ids, deleted], [*numbers, 1])) == {"not deleted": 1}
    assert workload.differences(rows(ids, [numbers[0] + 1, *numbers[1:]])) == {"stale": 1}


def test_a_write_that_was_given_up_is_not_expected(workload: Workload) -> None:
    """Only acknowledged commands count."""
    ids, numbers = expected(workload)
    workload.next()
    assert workload.differences(rows(ids, numbers)) == {}


@pytest.mark.parametrize("path", [*SYSTEMS], ids=lambda path: path.stem)
def test_patterns_of_lost_races_compile(path: Path) -> None:
    """They are only used once a race is lost, which a quick run may never see."""
    patterns = [
        ast.literal_eval(node.value)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CONFLICTS"
    ]
    assert [re.compile(pattern).search("no such column") for pattern in patterns] == [None]
