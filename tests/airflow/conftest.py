"""Tables that Airflow's operators can work on, without Airflow's database or Spark.

``flights`` is a real table on local disk with sixteen small segments, coordinated in this
process; ``InThisProcess`` carries plans out as ``spark_apps/compact.py`` does, but without Spark.
"""

import itertools
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from inspect import signature
from pathlib import Path

import pyarrow as pa
import pytest
from airflow.sdk import DAG

from airflow_provider_segtable.core.errors import ExecutionFailed
from airflow_provider_segtable.core.log.families.index_events import IndexBuilt
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.hooks.submission import Submission
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.table import Table
from airflow_provider_segtable.triggers import watch

try:
    from airflow.sdk.exceptions import AirflowRescheduleException as Rescheduled
except ImportError:  # Airflow 3.1
    from airflow.exceptions import AirflowRescheduleException as Rescheduled

__all__ = ["Rescheduled"]
SCHEMA = pa.schema([("time_hour", pa.timestamp("us", tz="UTC")), ("row", pa.int64())])
JANUARY = datetime(2013, 1, 1, tzinfo=UTC)
CONNECTION = "AIRFLOW_CONN_SEGTABLE_DEFAULT"


@dataclass(frozen=True)
class Flights:
    """A table with rows numbered from 0."""

    root: Path
    zookeeper: str
    name: str = "flights"

    @property
    def table(self) -> Table:
        """Open it."""
        return Table.open(str(self.root / self.name), zookeeper=self.zookeeper)

    @property
    def connection(self) -> str:
        """Return the connection, as JSON for the environment."""
        place = {"conn_type": "segtable", "host": str(self.root)}
        return json.dumps({**place, "extra": {"zookeeper": self.zookeeper}})

    def append(self, segments: int, rows: int = 50) -> None:
        """Append small segments, one an event, all in one chunk."""
        table = self.table
        for _ in range(segments):
            start = table.snapshot().count()
            times = [JANUARY + timedelta(minutes=start + i) for i in range(rows)]
            table.append(pa.table([times, range(start, start + rows)], schema=SCHEMA))

    def rows(self) -> list[int]:
        """Return the numbers of the rows that a scan finds."""
        return sorted(self.table.snapshot().to_arrow(columns=["row"]).column("row").to_pylist())

    def segments(self) -> int:
        """Count the visible segments."""
        return len(self.table.snapshot().segments())


def make_flights(
    root: Path, zookeeper: str, segments: int = 16, granularity: str = "year", **properties: str
) -> Flights:
    made = Flights(root, zookeeper)
    Table.create(
        str(root / made.name),
        schema=SCHEMA,
        time_column="time_hour",
        granularity=granularity,
        properties={f"compaction.{name}": value for name, value in properties.items()},
        zookeeper=zookeeper,
    )
    made.append(segments)
    return made


def build_index(table: Table, name: str = "files") -> int:
    """Say that an index has what there is, by an event; its entries play no part here."""
    state = table.ports.log.load()
    index = state.indexes[name].definition.id
    year = Interval.parse("2013-01-01/2014-01-01")
    action = IndexBuilt(index=index, interval=year, through=state.n)
    change = Change(action=action, commit_id=f"built-{state.n}")
    return commit_or_raise(table.ports, state, change).n


@pytest.fixture
def flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flights:
    """Give a table of sixteen small segments, and the connection to it."""
    made = make_flights(tmp_path, f"memory://{uuid.uuid4().hex}")
    monkeypatch.setenv(CONNECTION, made.connection)
    return made


@dataclass
class InThisProcess:
    """A launcher that runs the application's work here, and may break at the end."""

    fault: str | None = None
    report: bool = True
    attached: bool = True
    launched: list[list[str]] = field(default_factory=list)
    killed: bool = False

    def launch(self, submission: Submission, say: Callable[[str], None]) -> None:
        """Carry out the plans of the submission."""
        arguments = submission.arguments
        given = dict(part.split("=", 1) for part in arguments if "=" in part)
        given |= dict(itertools.pairwise(arguments))
        plans = [part.removeprefix("--plan=") for part in arguments if part.startswith("--plan=")]
        self.launched.append(plans)
        author = f"driver:1 {given['--task']}".strip()
        ports = open_context(given["--table"], zookeeper=given["--zookeeper"], author=author)
        limit = float(given["--timeout-s"]) if "--timeout-s" in given else None
        told = compact(ports, plans, in_process(), timeout_s=limit, report=lambda r: say(r.message))
        ports.coordinator.close()
        if self.report:
            facts = {"plans": [asdict(result) for result in told]}
            Path(given["--result-file"]).write_text(json.dumps(facts))
        failed = any(result.ended is Ended.FAILED for result in told)
        if self.fault or failed:
            raise ExecutionFailed(self.fault or "exit code 1")

    def kill(self) -> None:
        """Note that we were asked to."""
        self.killed = True


@pytest.fixture(autouse=True)
def heard_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have triggers of this process fire at once: no scheduler is there."""
    monkeypatch.setattr(watch, "HEARD_S", 0.0)


@pytest.fixture(scope="session")
def airflow_db() -> None:
    """Make the tables of Airflow's own database, in the home that the root conftest chose."""
    from airflow.utils.db import initdb

    initdb()


def known_dags(folder: Path, text: str) -> Mapping[str, DAG]:
    """Return the DAGs of a file, known to the database."""
    try:
        from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    except ImportError:  # Airflow 3.1
        from airflow.models.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    folder.mkdir(exist_ok=True)
    (folder / "file.py").write_text(text)
    with create_session() as session:
        session.merge(DagBundleModel(name="testing"))
    named = "bundle_name" in signature(DagBag).parameters  # not in Airflow 3.1
    bag = DagBag(str(folder), **({"bundle_name": "testing"} if named else {}))
    assert bag.import_errors == {}
    sync_bag_to_db(bag, "testing", None)
    return bag.dags
