"""Which tests of a parallel run stay in one process, and in which order they start.

1. Tests that share servers or files of their module stay together: a module of the suites with
   real servers is one unit. All of ``cluster`` is one unit, because there is one cluster.
2. Every other test is a unit of its own.
3. Cheap suites start first, so that cheap failures show first; then the long units; then the short
   ones, so that all processes end at about the same time.

pytest-xdist has groups by mark (``--dist loadgroup``), but sets them through a private attribute of
pytest that version 9.2 no longer reads. This scheduler needs the path alone.
"""

from xdist.scheduler import LoadScopeScheduling

_CHEAP = ("architecture", "unit", "property")
_REAL = ("cluster", "airflow", "spark", "integration")


class UnitScheduling(LoadScopeScheduling):
    """Send units to the process that has the least left to do."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(nodeid: str) -> str:
    """Return the unit of a test: all tests of a unit run in one process."""
    suite = _suite(nodeid)
    if suite == "cluster":
        return suite
    return nodeid.partition("::")[0] if suite in _REAL else nodeid


def turn_of(nodeid: str) -> int:
    """Return the turn in which a test starts; the tests of one turn keep their order."""
    suite = _suite(nodeid)
    if suite in _CHEAP:
        return 0
    return 1 + _REAL.index(suite) if suite in _REAL else 1 + len(_REAL)


def _suite(nodeid: str) -> str:
    return nodeid.removeprefix("tests/").partition("/")[0]
