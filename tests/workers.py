"""Which tests of a parallel run stay in one process, and in which order they start.

1. Tests that share servers or files of their module stay together: a module of the suites with
   real servers is one unit. All of ``cluster`` is one unit, because there is one cluster.
2. Every other test is a unit of its own.
3. The suites wait in one line. At its front are cheap ones, so that cheap failures show first; at
   its back are those that wait for servers and processes; between them are short units.
4. The second process takes units from the back, the others take them from the front. What waits
   runs beside what computes, so that two cores have work. They meet among short units, and end at
   about the same time. A third process (``JOBS=3``) took 7 % off the whole run on two cores, and
   made each test half as long again.

pytest-xdist has groups by mark (``--dist loadgroup``), but sets them through a private attribute of
pytest that version 9.2 no longer reads. This scheduler needs the path alone.
"""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_LINE = (
    ("architecture", "docker", "unit", "property"),
    ("spark",),
    ("contract", "simulation"),
    ("integration",),
    ("airflow",),
    ("cluster",),
)
_REAL = ("spark", "integration", "airflow", "cluster")


class UnitScheduling(LoadScopeScheduling):
    """Send units from both ends of the line to the process that has the least left to do."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node in self.nodes[1:2]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


def unit_of(nodeid: str) -> str:
    """Return the unit of a test: all tests of a unit run in one process."""
    suite = _suite(nodeid)
    if suite == "cluster":
        return suite
    return nodeid.partition("::")[0] if suite in _REAL else nodeid


def turn_of(nodeid: str) -> int:
    """Return the place of a test's suite in the line; the tests of one place keep their order."""
    suite = _suite(nodeid)
    return next((n for n, suites in enumerate(_LINE) if suite in suites), len(_LINE))


def _suite(nodeid: str) -> str:
    return nodeid.removeprefix("tests/").partition("/")[0]
