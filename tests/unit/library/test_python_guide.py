"""The guide to tables from Python compares calls that exist."""

import re
from collections.abc import Mapping
from inspect import signature

import pytest
from deltalake import DeltaTable
from deltalake.table import TableAlterer, TableOptimizer

from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table.scan import Scan
from tests.guides import GUIDES

CALL = re.compile(r"\b(dt|table|scan|Table|DeltaTable)\.(\w+)(?:\(([^)]*)\))?")
OURS: Mapping[str, type] = {"table": Table, "Table": Table, "scan": Scan}
THEIRS: Mapping[str, type] = {"dt": DeltaTable, "DeltaTable": DeltaTable}


def rows_of_the_table() -> list[list[str]]:
    """Return the cells of the table of tasks: task, deltalake, pyiceberg, here."""
    text = (GUIDES / "python.md").read_text().partition("| task | deltalake |")[2]
    lines = text.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize("cells", rows_of_the_table(), ids=lambda cells: str(cells[0]))
def test_the_calls_of_the_table_of_tasks_exist(cells: list[str]) -> None:
    """Methods, and the names of their arguments, are those of deltalake and ours as installed."""
    _, theirs, _, ours = cells
    for owner, name, given in CALL.findall(ours):
        called = getattr(OURS[owner], name)
        known = set(signature(called).parameters) if callable(called) else set()
        assert {*re.findall(r"\b(\w+)=(?!=)", given)} <= known
    for owner, name, given in CALL.findall(theirs):
        called = getattr(THEIRS[owner], name)
        known = set(signature(called).parameters) if callable(called) else set()
        assert {*re.findall(r"\b(\w+)=(?!=)", given)} <= known
    for name in re.findall(r"\bdt\.(?:alter|optimize)\.(\w+)\(", theirs):
        assert hasattr(TableAlterer, name) or hasattr(TableOptimizer, name)
