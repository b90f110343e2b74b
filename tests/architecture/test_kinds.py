"""A kind of plan is known to its own files, and to the registry."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from airflow_provider_segtable.core.log import plan_kinds
from airflow_provider_segtable.core.log.plan import Plan
from tests.architecture.tree import modules, named
from tests.support import builders


@pytest.mark.parametrize("kind", plan_kinds.KINDS, ids=lambda kind: kind.kind)
def test_only_its_own_files_name_a_kind(kind: type[Plan]) -> None:
    """Other code asks the plan: a new kind must not silently take the branch of an old one."""
    own = {
        Path(module.__file__ or "")
        for module in (
            import_module(kind.__module__),
            import_module(kind.planned_in),
            plan_kinds,
            builders,
        )
    }
    word = re.compile(rf"\b{kind.__name__}\b")
    found = (path for path in modules() if word.search(path.read_text()))
    assert [named(path) for path in found if path not in own] == []
