"""What holds for every suite: a home of its own for Airflow, and seeds that repeat.

1. Airflow reads ``AIRFLOW_HOME`` at its first import, so it is set here, before any test module
   is imported, to a new empty folder per process. It is removed at the end.
2. Nothing of the developer's own Airflow, Spark or segtable settings reaches a test.
3. Fixtures that several suites share are registered here, once: pytest rewrites the asserts of a
   plugin only if nobody has imported it before.
4. ``workers.py`` says which tests share a process in a parallel run, and what starts first.
5. Hypothesis draws the same examples in every run, and ``HYPOTHESIS_PROFILE=whole`` more of them;
   ``explore`` draws others, and twenty times as many of each property (``examples.py``).
6. What was imported for the tests stays to the end: no garbage collection looks through it, neither
   while it is imported nor later. Tests make many short-lived objects and few cycles, so
   collections are rare.
7. Polars limits the rate of its requests to object stores by a timer of a millisecond, which runs
   to the end of a process: 4 % of a core for nothing. No test needs it.
8. Temporary files are kept in memory, if there is enough of it: tests make thousands of files
   durable (fsync), which a disk takes milliseconds for, each time. ``TMPDIR`` says otherwise.
"""

import atexit
import gc
import logging
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.class_archive import with_archive
from tests.examples import DEFAULT, FACTORS, PROFILE
from tests.workers import UnitScheduling, import_share, turn_of

pytest_plugins = ["tests.support.s3", "tests.support.zookeeper"]

_FOREIGN = ("AIRFLOW_", "AIRFLOW__", "SEGTABLE_", "SPARK_")
_KEPT = {
    "SPARK_HOME",
    "SPARK_LOCAL_IP",
    "SEGTABLE_RUN",
    "SEGTABLE_SEED",
    "SEGTABLE_SEEDS",
    "SEGTABLE_KILLS",
    "SEGTABLE_STORES",
    "SEGTABLE_PAGE",
    "SEGTABLE_PICTURES",
    "SEGTABLE_CHROMIUM",
}

# pytest-xdist tells its workers the width of the terminal; what people see would depend on it.
for _name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
    os.environ.pop(_name, None)
for _name in [name for name in os.environ if name.startswith(_FOREIGN) and name not in _KEPT]:
    del os.environ[_name]

_MEMORY = Path("/dev/shm")  # noqa: S108  # below it, pytest makes folders for this user alone
_ROOM = 4 << 30  # far more than a run needs
if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)

_AIRFLOW_HOME = Path(tempfile.mkdtemp(prefix="segtable-airflow-"))
atexit.register(shutil.rmtree, _AIRFLOW_HOME, ignore_errors=True)

os.environ |= {
    "AIRFLOW_HOME": str(_AIRFLOW_HOME),
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_AIRFLOW_HOME}/airflow.db",
    "POLARS_DISABLE_HTTP_RATE_LIMIT": "1",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_SUBMIT_OPTS": with_archive(),
}

for _name in ("repeat", "whole"):
    settings.register_profile(
        _name,
        derandomize=True,
        max_examples=round(DEFAULT * FACTORS[_name]),
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.register_profile(
    "explore", deadline=None, max_examples=round(DEFAULT * FACTORS["explore"])
)
settings.load_profile(PROFILE)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> UnitScheduling:
    """Keep what shares real servers in one process."""
    return UnitScheduling(config, log)


def pytest_collection(session: pytest.Session) -> None:
    """Import without garbage collections; in a parallel run, one share before all the others."""
    worker = getattr(session.config, "workerinput", None)
    if worker:
        gc.disable()
        number = int(worker["workerid"].removeprefix("gw"))
        folders = [session.config.rootpath / each for each in session.config.args]
        import_share(folders, number, worker["workercount"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start cheap suites first, then long ones."""
    items.sort(key=lambda item: turn_of(item.nodeid))


def pytest_collection_finish() -> None:
    """Take all that is there out of garbage collections, which become rare."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A test that lets others leave something open collects it, so that no later test is blamed.

    Where the next test lets them, too, it does.
    """
    lenient = item.get_closest_marker("filterwarnings")
    if lenient and (nextitem is None or nextitem.get_closest_marker("filterwarnings") != lenient):
        gc.collect()


def pytest_unconfigure() -> None:
    """Py4J logs from threads of its own, also after pytest has closed the streams."""
    gc.unfreeze()  # extension modules complain of what is left at the end
    logging.raiseExceptions = False
