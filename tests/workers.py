"""Which tests of a parallel run stay in one process, and in which order they start.

1. Tests that share servers or files of their module stay together: a module of the suites with
   real servers is one unit. All of ``cluster`` is one unit, because there is one cluster. So are
   the pairs of the simulation, whose tests share tables that each process would make anew.
2. Every other test is a unit of its own.
3. The suites wait in one line. At its front are short units, the cheap ones first, so that cheap
   failures show first; then come the pairs, and those with a Spark session, whose JVM computes; at
   the back are those that wait for servers and processes again and again.
4. The first process takes units from the front, the second one from the back. The third one begins
   with the pairs and Spark, and goes on towards the second one. So a process that computes, one
   whose JVM computes and one that waits run beside each other, and two cores have work.
5. Where two of them have met, both take short units from the back of what is left. So all end at
   about the same time. Further processes help at the front.
6. All processes import all tests, in one order. In a new work tree pytest also has to rewrite their
   asserts, which takes longer than to import them. So each process first imports a share of its
   own, and finds the others' shares rewritten.

pytest-xdist has groups by mark (``--dist loadgroup``), but sets them through a private attribute of
pytest that version 9.2 no longer reads. This scheduler needs the path alone.
"""

import importlib
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_LINE = (
    ("architecture", "docker", "unit", "property", "contract", "simulation"),
    ("pairs",),
    ("spark",),
    ("integration",),
    ("airflow",),
    ("cluster",),
)
_WHOLE = ("pairs", "spark", "integration", "airflow", "cluster")
"""Suites of which a module is a unit."""
_PAIRS = "tests/simulation/pairs/test_pairs.py"


class UnitScheduling(LoadScopeScheduling):
    """Send units from their places in the line to the process that has the least left to do."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(next_unit(self.nodes.index(node), self.workqueue), last=False)
        super()._assign_work_unit(node)

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Forget a unit that is over: after each test, all units of its process are counted."""
        unit = self._split_scope(self.registered_collections[node][item_index])
        super().mark_test_complete(node, item_index, duration)
        if all(self.assigned_work[node][unit].values()):
            del self.assigned_work[node][unit]


def next_unit(process: int, line: Mapping[str, object]) -> str:
    """Return the unit of the waiting ones that a process, counted from 0, takes."""
    back = next(reversed(line))
    if process == 2:  # the first of the whole modules, which are at the back
        whole = takewhile(lambda unit: _suite(unit) in _WHOLE, reversed(line))
        return next(iter(deque(whole, maxlen=1)), back)
    return back if process == 1 else next(iter(line))


def unit_of(nodeid: str) -> str:
    """Return the unit of a test: all tests of a unit run in one process."""
    suite = _suite(nodeid)
    if suite == "cluster":
        return suite
    return nodeid.partition("::")[0] if suite in _WHOLE else nodeid


def turn_of(nodeid: str) -> int:
    """Return the place of a test's suite in the line; the tests of one place keep their order."""
    suite = _suite(nodeid)
    return next((n for n, suites in enumerate(_LINE) if suite in suites), len(_LINE))


def import_share(folders: Sequence[Path], number: int, of: int) -> None:
    """Import one share of the test modules below folders, counted from 0.

    Collection imports a module that fails here once more, and says why it does.
    """
    root = Path(__file__).parents[1]
    modules = sorted(path for folder in folders for path in folder.rglob("test_*.py"))
    for path in modules[number::of]:
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))


def _suite(nodeid: str) -> str:
    """Return the suite of a test or a unit; the pairs count as a suite of their own."""
    if nodeid.startswith(_PAIRS):
        return "pairs"
    return nodeid.removeprefix("tests/").partition("/")[0]
