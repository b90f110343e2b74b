"""Which tests of a parallel run stay in one process, and in which order they start.

1. Tests that share servers or files of their module stay together: a module of the suites with
   real servers is one unit. All of ``cluster`` is one unit, because there is one cluster.
2. Every other test is a unit of its own.
3. The suites wait in one line. At its front are short units, the cheap ones first, so that cheap
   failures show first; then come those with a Spark session, whose JVM computes; at the back are
   those that wait for servers and processes again and again.
4. The first process takes units from the front, the second one from the back. The third one begins
   with Spark, and goes on towards the second one. So a process that computes, one whose JVM
   computes and one that waits run beside each other, and two cores have work.
5. Where two of them have met, both take short units from the back of what is left. So all end at
   about the same time. Further processes help at the front.

pytest-xdist has groups by mark (``--dist loadgroup``), but sets them through a private attribute of
pytest that version 9.2 no longer reads. This scheduler needs the path alone.
"""

from collections.abc import Mapping

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_LINE = (
    ("architecture", "docker", "unit", "property", "contract", "simulation"),
    ("spark",),
    ("integration",),
    ("airflow",),
    ("cluster",),
)
_REAL = ("spark", "integration", "airflow", "cluster")


class UnitScheduling(LoadScopeScheduling):
    """Send units from their places in the line to the process that has the least left to do."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(next_unit(self.nodes.index(node), self.workqueue), last=False)
        super()._assign_work_unit(node)


def next_unit(process: int, line: Mapping[str, object]) -> str:
    """Return the unit of the waiting ones that a process, counted from 0, takes."""
    back = next(reversed(line))
    if process == 2:
        return next((unit for unit in line if _suite(unit) in _REAL), back)
    return back if process == 1 else next(iter(line))


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
