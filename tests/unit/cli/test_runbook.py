"""The runbook names every finding there is."""

import re

from tests.architecture.tree import PACKAGE
from tests.guides import GUIDES

PAGE = GUIDES / "runbook.md"
SOURCES = (
    "core/recovery/diagnosis.py",
    "data/inspection.py",
    "planning/findings/health_findings.py",
    "planning/findings/index_findings.py",
    "health/table_checks.py",
    "health/doctor.py",
)
CODE = re.compile(r'(?:code=|Problem\(|_say\()"([a-z-]+)"|else "([a-z]+-[a-z-]+)"')


def test_every_finding_is_in_the_runbook() -> None:
    """No code of verify or doctor is without its line."""
    text = PAGE.read_text()
    codes = {
        code
        for name in SOURCES
        for found in CODE.findall((PACKAGE / name).read_text())
        for code in found
        if code
    }
    assert {"bad-footer", "unsorted", "orphans", "unread", "log-gap", "old-wait"} <= codes
    assert not {code for code in codes if f"`{code}`" not in text}
