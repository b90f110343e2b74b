"""The matrix of checks and servers, as it was measured.

A row is a check, named by its test; a column is a server. A check with several cases has passed if
all of them have.
"""

import re
from collections import defaultdict

import pytest

from tests.stores.servers import SERVERS

_NODE = re.compile(r"tests/stores/(?P<module>\w+)\.py::(?P<test>\w+)\[(?P<case>.*)\]$")
_WORDS = {"passed": "yes", "skipped": "-", "xfailed": "no", "failed": "FAILED"}


class Matrix:
    """A plugin of pytest that prints the matrix when all checks have run."""

    def __init__(self) -> None:
        """Begin without outcomes."""
        self.outcomes: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(
            lambda: defaultdict(set)
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a check, or the failure of its fixtures."""
        found = _NODE.match(report.nodeid)
        if not found or (report.when != "call" and report.passed):
            return
        server = next((name for name in SERVERS if name in found["case"]), None)
        if server is not None:
            outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
            self.outcomes[found["module"], found["test"]][server].add(outcome)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the matrix as a table of Markdown."""
        if self.outcomes:
            terminalreporter.section("checks and servers")
            terminalreporter.write_line(self.text())

    def text(self) -> str:
        """Return the matrix as a table of Markdown."""
        shown = list(SERVERS)
        lines = [f"| check | {' | '.join(shown)} |", "|---" * (len(shown) + 1) + "|"]
        for (_, test), row in self.outcomes.items():
            cells = (_cell(row.get(server, set())) for server in shown)
            claim = test.removeprefix("test_").replace("_", " ")
            lines.append(f"| {claim} | {' | '.join(cells)} |")
        return "\n".join(lines)


def _cell(outcomes: set[str]) -> str:
    """Return the worst outcome of a check's cases."""
    for outcome in ("failed", "xfailed", "passed", "skipped"):
        if outcome in outcomes:
            return _WORDS[outcome]
    return ""
