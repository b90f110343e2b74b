"""What must import without the world does so in an interpreter that has nothing installed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import PACKAGE, ROOT, modules, named

PROGRAM = """
import importlib, sys

allowed = {allowed!r}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root in sys.stdlib_module_names or root in allowed or root.startswith("_sysconfigdata"):
            return None
        raise ModuleNotFoundError(f"refused here: {{name}}", name=name)

before = set(sys.modules)
sys.path[:] = [{root!r}, *({site!r} if len(allowed) > 1 else []), *sys.path]
sys.meta_path.insert(0, Refuse())
for name in {names!r}:
    importlib.import_module(name)
print(" ".join(sorted(set(sys.modules) - before)))
"""
APPEND = """
import sys
from dataclasses import replace

import pyarrow as pa

from airflow_provider_segtable.coordination.memory import MemoryCoordinator
from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.table import Table

times = pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(bytes(16))])
rows = pa.table([times.view(pa.timestamp("us", "UTC"))], names=["at"])
Table.create("memory://lean", schema=rows.schema, time_column="at", granularity="year")
ports = open_context("memory://lean")
ports = replace(ports, optional_coordinator=MemoryCoordinator(ports.clock, MemoryService()))
state = Table(ports).append(rows).state
assert read_checkpoint(write_checkpoint(state)) == state
assert "pandas" not in sys.modules, "a second of processor time for every short append"
"""
OURS = "airflow_provider_segtable"
BELOW_HOOKS = (
    "core",
    "planning",
    "ports",
    "storage",
    "coordination",
    "data",
    "table",
    "services",
    "log_store",
    "health",
    "recovery",
    "library",
)


def imported(names: list[str], *libraries: str) -> set[str]:
    """Import modules in an isolated interpreter that has only these libraries; return what came."""
    site = [path for path in sys.path if path.endswith("site-packages")]
    program = PROGRAM.format(allowed={OURS, *libraries}, root=str(ROOT), site=site, names=names)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def modules_of(*folders: str) -> list[str]:
    """Return the dotted names of all modules in these layers."""
    paths = [path for path in modules() if path.parts[len(PACKAGE.parts)] in folders]
    dotted = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
    return sorted(name.removesuffix(".__init__") for name in dotted)


def test_the_core_needs_the_standard_library_only() -> None:
    """All of core, planning and ports import where no package is installed."""
    names = modules_of("core", "planning", "ports")
    assert f"{OURS}.core.log.state" in names
    imported(names)


@pytest.mark.parametrize(
    "name", [OURS, f"{OURS}.provider_info", f"{OURS}.spark.driver.install_check"]
)
def test_what_everybody_imports_is_light(name: str) -> None:
    """The package, the provider info and the PySpark check import where no package is installed."""
    imported([name])


def test_the_package_alone_imports_nothing_of_its_own() -> None:
    """Importing the package imports no module below it."""
    assert not {name for name in imported([OURS]) if name.startswith(f"{OURS}.")}


def test_kernels_need_only_pyarrow() -> None:
    """The kernels that run in Spark's executors import where only pyarrow is installed."""
    kernels = (
        *("jobs.minor_job", "jobs.segment_writer", "jobs.passthrough", "parquet.segment_scan"),
        *("rollup.rollup_rows", "sort.sort_jobs", "row_filter"),
    )
    imported([f"{OURS}.data.{name}" for name in kernels], "pyarrow", "numpy")


def test_executors_need_only_pyarrow_and_numpy() -> None:
    """All that Spark's tasks import by name, with jobs and kinds of table, needs only these."""
    tasks = [name for name in modules_of("spark") if ".spark.tasks" in name]
    jobs = [name for name in modules_of("data") if defines_a_job(name)]
    assert f"{OURS}.spark.tasks.writing" in tasks
    assert f"{OURS}.data.jobs.minor_job" in jobs
    kinds = [f"{OURS}.data.table_kinds"]
    came = imported([*tasks, *jobs, *kinds], "pyarrow", "numpy")
    layers = {name.split(".")[1] for name in came if name.startswith(f"{OURS}.")}
    assert layers <= {"core", "data", "disk", "ports", "spark"}
    assert {name for name in came if name.startswith(f"{OURS}.spark.")} == {*tasks}


def defines_a_job(name: str) -> bool:
    """Return whether a class of a module has ``run(self, files)``, as ``ports.job.Job`` asks."""
    path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    found = ast.walk(ast.parse(path.read_text())) if path.exists() else ()
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name == "run"
        and [one.arg for one in node.args.args] == ["self", "files"]
        for node in found
    )


TO_TASKS = {"mapInArrow", "mapInPandas", "mapPartitions", "flatMap", "foreachPartition", "udf"}


def test_no_function_of_the_driver_is_sent_to_a_task() -> None:
    """A function handed to Spark for its tasks is never defined beside the call."""
    sent = [
        f"{named(path)}:{call.lineno}: {ast.unparse(call)}"
        for path in modules()
        if "/spark/tasks/" not in path.as_posix()
        for call in own_functions_to_tasks(ast.parse(path.read_text()))
    ]
    assert not sent, "\n".join(sent)


def own_functions_to_tasks(tree: ast.Module) -> list[ast.Call]:
    """Return the calls that hand a function of this very module to Spark for its tasks."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in TO_TASKS
        and node.args
        and (
            isinstance(node.args[0], ast.Lambda)
            or (isinstance(node.args[0], ast.Name) and node.args[0].id in own)
        )
    ]


def test_nothing_below_hooks_needs_airflow_or_spark() -> None:
    """Every module below spark imports where neither Airflow nor Spark is installed."""
    arrow = ("pyarrow", "numpy", "pyroaring", "sqlglot", "fastavro")
    libraries = (*arrow, "obstore", "arro3", "kazoo", "typing_extensions", "_cffi")
    came = imported(modules_of(*BELOW_HOOKS), *libraries)
    assert not {name for name in came if name.partition(".")[0] in {"airflow", "pyspark"}}


@pytest.mark.parametrize(
    "path", [path for path in modules() if named(path).startswith("spark_apps/")], ids=named
)
def test_spark_applications_do_not_import_airflow(path: Path) -> None:
    """A Spark application imports neither Airflow nor a layer that speaks it."""
    speak_airflow = ("hooks", "operators", "sensors", "triggers", "assets", "ui", "dag_factory")
    forbidden = {"airflow", *(f"{OURS}.{layer}" for layer in speak_airflow)}
    found = {
        name
        for name in imports_of(path)
        if any(name == bad or name.startswith(f"{bad}.") for bad in forbidden)
    }
    assert not found


def imports_of(path: Path) -> set[str]:
    """Return every module that a file imports, at any depth of its code."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_dataclasses_of_the_package_compile_nothing_at_import() -> None:
    """Every dataclass is ours: the standard one takes a millisecond of each start."""
    standard = [
        named(path)
        for path in modules()
        if path.is_relative_to(PACKAGE)
        and path != PACKAGE / "core" / "dataclass.py"
        and "dataclasses.dataclass" in imports_of(path)
    ]
    assert not standard, "take dataclass from airflow_provider_segtable.core.dataclass"


def test_help_is_cheap() -> None:
    """Asking for help loads neither Arrow, Spark, Airflow nor ZooKeeper's client."""
    heavy = "pyarrow numpy pyspark airflow kazoo obstore pandas psutil"
    code = (
        "import sys, airflow_provider_segtable.cli;"
        f"print([name for name in '{heavy}'.split() if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_an_append_and_a_checkpoint_need_no_pandas() -> None:
    """Arrow imports pandas at its first conversion of a Python value, so there is none."""
    subprocess.run([sys.executable, "-c", APPEND], check=True, timeout=240)
