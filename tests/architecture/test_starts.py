"""What a start imports: sets and numbers of modules, which are the same on every machine."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.table import Table

HEAVY = {
    *("airflow", "boto3", "duckdb", "fastapi", "fastavro", "kazoo", "numpy", "obstore", "pandas"),
    *("polars", "pyarrow", "pydantic", "pyroaring", "pyspark", "rich", "sqlglot", "typer"),
}
PROGRAM = """
import json, sys
before = {*sys.modules}
from airflow_provider_segtable.cli import main
sys.argv = ["segtable", *sys.argv[1:]]
try:
    main()
except SystemExit as ended:
    print(json.dumps([ended.code, sorted({*sys.modules} - before)]), file=sys.stderr)
"""


def started(*words: str, **variables: str) -> tuple[int, set[str]]:
    """Run a command in a process of its own; return its exit code and the modules it imported."""
    alone = {"SEGTABLE_HOME": f"{os.environ['AIRFLOW_HOME']}/segtable"}  # no server of the user's
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env={**os.environ, **alone, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    code, imported = json.loads(done.stderr.splitlines()[-1])
    return code or 0, set(imported)


def roots(imported: set[str]) -> set[str]:
    """Return the packages of modules."""
    return {name.partition(".")[0] for name in imported}


@pytest.mark.parametrize("words", ["--help", "table scan --help", "--version", ""])
def test_help_is_answered_by_the_table_of_commands(words: str) -> None:
    """Neither a command's module nor a library is imported, and few modules of Python's own."""
    code, imported = started(*words.split())
    assert code == (0 if words else 2)
    assert not roots(imported) & HEAVY
    ours = {name for name in imported if name.startswith("airflow_provider_segtable.")}
    assert all(name.startswith("airflow_provider_segtable.cli") for name in ours), ours
    assert len(imported) < 60, sorted(imported)


def test_completion_is_answered_by_the_table_of_commands(tmp_path: Path) -> None:
    """The same holds at each TAB, also where tables are looked for."""
    (tmp_path / "trips" / "_segtable").mkdir(parents=True)
    line = f"segtable table scan {tmp_path}/"
    code, imported = started(_SEGTABLE_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line)
    assert code == 0
    assert not roots(imported) & HEAVY
    assert len(imported) < 75, sorted(imported)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give a table of three rows, twice."""
    place = str(tmp_path_factory.mktemp("starts") / "trips")
    rows = pa.table({"at": pa.array([1, 2, 3], pa.timestamp("us", "UTC")), "n": [1, 2, 3]})
    Table.create(place, schema=rows.schema, time_column="at")
    ports = open_context(place)
    coordinator = MemoryCoordinator(ports.clock, MemoryService())
    made = Table(replace(ports, optional_coordinator=coordinator))
    made.append(rows)
    made.append(rows)
    return place


@pytest.mark.parametrize(
    ("words", "besides", "most"),
    [
        ("table scan --limit 2", {"numpy", "pyarrow"}, 560),
        ("table describe", set(), 370),
        ("table timeline", set(), 370),
        ("plan", set(), 370),
    ],
)
def test_small_commands_import_what_they_need(
    table: str, words: str, besides: set[str], most: int
) -> None:
    """Arrow reads rows and checkpoints, no log; SQL, ZooKeeper and other stores are not needed."""
    first, *options = words.split(" --")
    given = [each for option in options for each in f"--{option}".split()]
    code, imported = started(*first.split(), table, *given)
    assert code == 0
    needed = {"pyroaring", "rich", "typer", *besides}
    assert roots(imported) & HEAVY <= needed
    assert len(imported) < most, len(imported)


def test_a_checkpoint_is_read_without_kernels(table: str, tmp_path: Path) -> None:
    """Arrow's reader is enough: ``pyarrow.compute`` makes a function of each of its kernels."""
    place = tmp_path / "trips"
    copytree(table, place)
    log = open_context(str(place)).log
    log.checkpoint(log.load())
    code, imported = started("plan", str(place))
    assert code == 0
    assert "pyarrow.parquet" in imported
    assert not {"pyarrow.compute", "pandas"} & imported


OPERATORS = """
import importlib, json, pkgutil, sys
import airflow.sdk
import airflow.providers.standard.operators.trigger_dagrun
import airflow_provider_segtable as ours

before = {*sys.modules}
for room in ("assets", "hooks", "operators", "sensors", "triggers"):
    package = importlib.import_module(f"{ours.__name__}.{room}")
    for each in pkgutil.iter_modules(package.__path__):
        if each.name != "aws":  # needs Amazon's provider
            importlib.import_module(f"{package.__name__}.{each.name}")
print(json.dumps(sorted({*sys.modules} - before)))
"""


def test_operators_import_what_reading_a_dag_needs() -> None:
    """All operators, sensors and triggers together reach neither the log's fold nor Arrow."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OPERATORS],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = set(json.loads(done.stdout.splitlines()[-1]))
    assert not roots(imported) & (HEAVY - {"airflow", "pydantic", "fastapi", "rich"})
    ours = {name for name in imported if name.startswith("airflow_provider_segtable.")}
    assert "airflow_provider_segtable.core.log.fold" not in ours
    assert not {name for name in ours if name.split(".")[1] in {"data", "services", "health"}}
    assert len(ours) < 110, len(ours)


WORK = """
import json, sys
from dataclasses import replace
from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.services.planner import plan_inner_tables, plan_table
from airflow_provider_segtable.services.publishing import publish_all
from airflow_provider_segtable.table.context import open_context

ports = open_context(sys.argv[1])
coordinator = MemoryCoordinator(ports.clock, MemoryService())
ports = replace(ports, optional_coordinator=coordinator)
run = plan_table(ports, policy=Policy.read({"compaction.min_segments": "2"}))
list(plan_inner_tables(ports)), publish_all(ports)
planned = sorted(sys.modules)

from airflow_provider_segtable.data.pandas_later import import_pandas_later
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compact_table import carry_out

import_pandas_later()
done = carry_out(ports, [each.plan_id for each in run.launches], in_process(ports.files))
print(json.dumps([[each.rows for each in done], planned, sorted(sys.modules)]))
"""


def test_a_planner_needs_no_arrow_and_a_compaction_no_pandas(table: str) -> None:
    """Tasks of Airflow begin a process for each commit and each plan."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WORK, table],
        capture_output=True,
        text=True,
        check=True,
    )
    rows, planned, carried_out = json.loads(done.stdout.splitlines()[-1])
    assert rows == [6]
    assert roots(planned) & HEAVY == {"pyroaring"}
    assert "pandas" not in roots(carried_out)
