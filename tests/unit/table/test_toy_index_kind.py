"""A kind of index with a setting is two files and an entry of ``KINDS``; the rest asks the kind.

The toy kind of ``toys/`` is known to tests alone. ``tests/airflow/test_index_operator.py`` requests
it by the operator.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

import airflow_provider_segtable
from airflow_provider_segtable.cli.commands import index_commands
from airflow_provider_segtable.cli.input.options import option_groups
from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes import index_state
from airflow_provider_segtable.core.indexes.index_kind import settings_of
from airflow_provider_segtable.core.indexes.index_state import (
    IndexDefinition,
    decode_index,
    encode_index,
    in_words,
    known_settings,
)
from airflow_provider_segtable.planning.properties import wished_indexes
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.index_run import run_index
from airflow_provider_segtable.table.property_checks import check_properties
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import new_table, rows
from tests.unit.table.toys.prefix_index import PrefixIndex

NAME = 3
"""The id of the column ``name``."""


def named(turn: int) -> pa.Table:
    """Return ten rows of two hours, named ``n70`` to ``n79`` in turn 7."""
    numbers = range(turn * 10, turn * 10 + 10)
    return rows(numbers).set_column(2, "name", pa.array([f"n{number:02}" for number in numbers]))


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """List the toy: nothing else names it."""
    monkeypatch.setitem(index_state.KINDS, PrefixIndex.name, PrefixIndex)


def test_no_file_of_the_package_mentions_the_toy() -> None:
    """What follows works without a word about it."""
    package = Path(airflow_provider_segtable.__file__).parent
    assert not [path for path in package.rglob("*.py") if "prefixes_" in path.read_text()]


def test_it_is_requested_fed_built_and_looked_into(service: MemoryService) -> None:
    """Files whose texts begin otherwise are not opened, and the plan names the kind."""
    table = new_table(service)
    for turn in range(5):
        table.append(named(turn))
    table.create_index("begins", "prefixes", "name", width=2)
    for turn in range(5, 10):
        table.append(named(turn))
    done = run_index(table.ports, "begins", in_process(table.ports.files), timeout_s=None)
    assert (done.files, done.left) == (10, 0)
    found = table.index_entries("begins")[f"prefixes_{NAME}"].to_pylist()
    assert sorted(found) == [f"n{turn}" for turn in range(10) for _ in range(2)]
    scan = table.scan(where="name = 'n77'")
    (step,) = (each for each in scan.explain().steps if each.index)
    assert (step.index, step.by, step.by.value) == ("begins", "prefixes", "prefixes")
    assert (step.before.files, step.after.files) == (20, 2)
    assert scan.explain().facts["steps"][-4]["by"] == "prefixes"
    assert "prefixes (begins)" in str(scan.explain())
    assert scan.to_arrow()["name"].to_pylist() == ["n77"]


def test_its_setting_is_in_the_log(table: Table) -> None:
    """With its default, if the index is older than the setting."""
    table.create_index("begins", "prefixes", ["name"], width="4")
    table.create_index("briefly", "prefixes", ["name"], width=None)
    assert table.index("begins").definition.kind == PrefixIndex(columns=(NAME,), width=4)
    assert table.index("briefly").definition.kind == PrefixIndex(columns=(NAME,))
    index = IndexDefinition(name="a", id="a-1", kind=PrefixIndex(columns=(NAME,), width=5))
    body = encode_index(index)
    assert body == {"name": "a", "id": "a-1", "kind": "prefixes", "columns": [NAME], "width": 5}
    assert decode_index(body) == index
    del body["width"]
    assert decode_index(body).kind == PrefixIndex(columns=(NAME,), width=2)
    assert in_words(index.kind, table.state().table) == "prefixes(name, width=5)"


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"width": 0}, "a width of 0 is not positive"),
        ({"width": 1.5}, "width 1.5 is not a whole number: write e.g. 2"),
        ({"width": True}, "width True is not a whole number"),
        ({"width": "two"}, "width 'two' is not a whole number"),
        ({"wide": 3}, "prefixes has no wide: leave it out$"),
        ({"rate": 0.1}, r"has no rate: leave it out, or .* \(bloom_filter\)"),
        ({"kind": "bloom_filter", "width": 3}, r"has no width: .* that has \(prefixes\)"),
        ({"columns": ["price"]}, "'price' is double, which prefixes does not cover"),
    ],
)
def test_a_wrong_setting_writes_nothing(table: Table, wish: dict[str, Any], said: str) -> None:
    """The check and the type are those that the kind declares."""
    n = table.state().n
    with pytest.raises(InvalidInput, match=said):
        table.create_index("i", **{"kind": "prefixes", "columns": ["name"], **wish})
    assert table.state().n == n


def test_a_property_names_it_with_its_setting(table: Table) -> None:
    """Text becomes the type that the kind declares; a setting is given once."""
    (wish,) = wished_indexes({"index.x": "prefixes(name; width = 3)"})
    definition = table.state().table
    assert wish.bound(definition) == PrefixIndex(columns=(NAME,), width=3)
    for text, said in (
        ("prefixes(name; width=few)", "'few' is not a whole number"),
        ("prefixes(name; width=0)", "width of 0 is not positive"),
        ("prefixes(name; wide=3)", "has no wide"),
        ("prefixes(name; width=3; width=3)", "repeats a setting: give it once"),
        ("prefixes(name; width)", "is not an index"),
    ):
        with pytest.raises(InvalidInput, match=said):
            check_properties(replace(definition, properties={"index.x": text}), ["index.x"])


@pytest.fixture
def create(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return ``index create`` as it is if the toy is shipped; it returns what it would request."""
    asked: dict[str, Any] = {}

    def request(*, name: str, chosen: Any, **_: Any) -> None:
        asked.update(name=name, kind=chosen.kind, columns=chosen.names, **chosen.settings)

    original = inspect.unwrap(index_commands.create)
    monkeypatch.setattr(request, "__signature__", inspect.signature(original), raising=False)
    app = typer.Typer()
    app.command()(option_groups(request))

    def invoke(*arguments: str) -> Any:
        result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200"})
        return result.output if result.exit_code or "--help" in arguments else asked

    return invoke


def test_the_command_line_has_its_setting(create: Callable[..., Any]) -> None:
    """As an option with the type and the help text of the kind, beside those of other kinds."""
    given = ("t", "begins", "--kind", "prefixes", "--columns", "name", "--width", "3")
    expected = {"name": "begins", "kind": "prefixes", "columns": ("name",), "width": 3}
    assert create(*given) == {**expected, "rate": None}
    assert "Invalid value for '--width'" in create("t", "begins", "--width", "few")
    shown = " ".join(create("--help").split())
    assert "For prefixes: the number of characters of a prefix; 2 by default." in shown


def test_settings_of_one_name_are_of_one_type() -> None:
    """As they are one option; and no setting takes the name of another argument."""
    for kind in index_state.KINDS.values():
        for each in settings_of(kind):
            assert each.type is known_settings()[each.name][0].type
    taken = inspect.signature(Table.create_index).parameters
    assert not known_settings().keys() & {*taken, "id", "now", "table", "settings"}
