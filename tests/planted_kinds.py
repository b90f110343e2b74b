"""Let a kind of event answer otherwise, for tests that plant an error in it."""

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.log import events


def answer_otherwise(monkeypatch: pytest.MonkeyPatch, action: type, **answers: Any) -> None:
    """Replace answers of a kind, such as `admit`, until the test ends."""
    monkeypatch.setitem(events.KIND_OF, action, replace(events.KIND_OF[action], **answers))


def admission(action: type) -> Any:
    """Return the admission of a kind."""
    return events.KIND_OF[action].admit
