"""Metrics of tables, by Airflow's own facade: their names and values, and that they do no harm."""

import logging
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from airflow_provider_segtable import Table
from airflow_provider_segtable.core.errors import ExecutionFailed
from airflow_provider_segtable.core.log.plan_kinds import kinds
from airflow_provider_segtable.operators.change import SegtableDeleteOperator
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.operators.fleet_plan import SegtableFleetPlanOperator
from airflow_provider_segtable.operators.metrics import METRICS, MOST_LABEL, send
from airflow_provider_segtable.operators.plan import SegtablePlanOperator
from airflow_provider_segtable.planning.fleet.fleet_plan import Code
from tests.architecture.tree import ROOT

from .conftest import JANUARY, SCHEMA, Flights, InThisProcess

MINOR = {"minor": "minor_dag"}


@dataclass
class Receiver:
    """A UDP socket on loopback that keeps what a StatsD client sends."""

    udp: socket.socket
    got: dict[str, str] = field(default_factory=dict)

    def values(self, count: int) -> dict[str, str]:
        """Return ``count`` more values by name, once they have arrived."""
        for _ in range(count):
            name, _, value = self.udp.recv(4096).decode().partition(":")
            self.got[name.removeprefix("airflow.segtable.")] = value
        return self.got


def set_up() -> Any:
    """Set up the facade by Airflow's settings, as a task's process does; return its client."""
    client = stats_utils.get_stats_factory()()
    stats.initialize(factory=lambda: client, export_legacy_names=True)
    return client


@pytest.fixture
def clients() -> Iterator[list[Any]]:
    """Give a list of clients, which are closed at the end; then nothing is sent any more."""
    made: list[Any] = []
    none = stats_utils.get_stats_factory()
    yield made
    for client in made:
        client.statsd.close()
    stats.initialize(factory=none, export_legacy_names=True)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch, clients: list[Any]) -> Iterator[Receiver]:
    """Give a receiver that Airflow sends to."""
    pytest.importorskip("statsd")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(10)
        given = {"ON": "True", "HOST": "127.0.0.1", "PORT": str(udp.getsockname()[1])}
        for name, value in given.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__STATSD_{name}", value)
        clients.append(set_up())
        yield Receiver(udp)


def context() -> dict[str, Any]:
    """Return the context of a task's first try."""
    names = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1}
    ti = SimpleNamespace(**names, try_number=1)
    return {"ti": ti, "outlet_events": OutletEventAccessors()}


def test_the_planner_sends_the_backlog(flights: Flights, receiver: Receiver) -> None:
    """Plain StatsD has no tags, so table and index are the end of the name."""
    flights.table.create_index("files", kind="files")
    SegtablePlanOperator(task_id="t", table="flights", trigger_dag_ids=MINOR).execute({})
    told = receiver.values(8)
    assert told["table.segments.flights"] == "16|g"
    assert told["backlog.small_segments.flights"] == "16|g"
    assert told["backlog.hidden_segments.flights"] == "0|g"
    assert int(told["plans.pending.flights"].removesuffix("|g")) >= 1
    assert float(told["index.lag_seconds.flights.files"].removesuffix("|g")) >= 0
    assert told["index.lag_commits.flights.files"] == "0|g"


def test_the_planner_sends_the_lag_of_what_is_published(
    flights: Flights, receiver: Receiver
) -> None:
    """A format that is switched on has a lag, as soon as it has a version."""
    flights.table.alter(set={"publish.delta": "on", "publish.lag_seconds": "0"})
    SegtablePlanOperator(task_id="t", table="flights", trigger_dag_ids=MINOR).execute({})
    told = receiver.values(8)
    assert told["publication.lag_events.flights.delta"] == "0|g"
    assert told["publication.lag_seconds.flights.delta"] in {"0|g", "0.0|g"}


def test_planners_send_what_a_log_store_has_and_the_table_lacks(
    flights: Flights, receiver: Receiver
) -> None:
    """The services say it, also of a table that has no record of theirs yet."""
    one = SegtablePlanOperator(task_id="t", table="flights", trigger_dag_ids=MINOR)
    file = flights.root / "fleet.toml"
    file.write_text('[groups.all]\ntables = ["flights"]\n')
    fleet = SegtableFleetPlanOperator(task_id="t", fleet=str(file), trigger_dag_ids=MINOR)
    table = Table.open(str(flights.root / flights.name), zookeeper=flights.zookeeper)
    with table.log_writer(automatic=False) as log:
        log.append(pa.table([[JANUARY] * 3, range(2000, 2003)], schema=SCHEMA))
        for planner, sent in ((one, 9), (fleet, 9)):
            receiver.got.clear()
            planner.execute({})
            told = receiver.values(sent)
            assert told["log_store.lag_records.flights"] == "3|g"
            assert float(told["log_store.lag_seconds.flights"].removesuffix("|g")) > 0
            assert told["log_store.silent_buckets.flights"] == "0|g"


def test_a_compaction_sends_outcomes_durations_and_commits(
    flights: Flights, receiver: Receiver
) -> None:
    """Counters by work and outcome; the timer is in milliseconds."""
    task = SegtableCompactOperator(task_id="t", table="flights", policy={}, engine="local")
    task.execute(context())
    told = receiver.values(6)
    assert told["plans.ended.flights.compact.completed"] == "1|c"
    assert told["plan.duration.flights.minor"].endswith("|ms")
    assert float(told["plan.duration.flights.minor"].removesuffix("|ms")) > 0
    assert told["commits.events.flights.compact"] == "1|c"
    assert told["commits.rows.flights.compact"] == "800|c"
    assert told["commits.segments.flights.compact"] == "1|c"
    size = sum(segment.size for segment in flights.table.snapshot().segments())
    assert told["commits.bytes.flights.compact"] == f"{size}|c"


@pytest.mark.usefixtures("flights")
def test_a_failed_plan_is_counted(receiver: Receiver) -> None:
    """The task fails as before, and its plan is one that failed."""

    class Broken(InThisProcess):
        def launch(self, *_: object) -> None:
            message = "no cluster"
            raise ExecutionFailed(message)

    SegtablePlanOperator(task_id="p", table="flights", trigger_dag_ids=MINOR).execute({})
    receiver.values(6)
    task = SegtableCompactOperator(task_id="t", table="flights", engine="spark", launcher=Broken())
    with pytest.raises(AirflowException, match="no cluster"):
        task.execute(context())
    assert receiver.values(1)["plans.ended.flights.compact.failed"] == "1|c"


@pytest.mark.usefixtures("flights")
def test_a_commit_is_counted_once(receiver: Receiver) -> None:
    """A delete publishes no segment, but it is a commit."""
    work = SegtableDeleteOperator(task_id="t", table="flights", where="row < 2")
    work.execute(context())
    assert receiver.values(4)["commits.events.flights.delete"] == "1|c"
    assert receiver.got["commits.rows.flights.delete"] == "0|c"


def test_a_receiver_with_tags_gets_labels_as_tags(
    receiver: Receiver, clients: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is then the same for all tables."""
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
    clients.append(set_up())
    send("index.lag_seconds", "s3://lake/trips", 7, "by.key")
    assert receiver.udp.recv(4096) == (
        b"airflow.segtable.index.lag_seconds,table=s3_lake_trips,index=by_key:7|g"
    )


def test_names_have_no_characters_that_a_receiver_refuses(receiver: Receiver) -> None:
    """A table in a URI is a name with underscores; a long one keeps its end."""
    send("table.bytes", "s3://lake/été/flights.v2", 5)
    send("table.bytes", "x" * 300 + "/end", 5)
    first, second = receiver.values(2)
    assert first == "table.bytes.s3_lake_t_flights_v2"
    assert second == "table.bytes." + ("x" * MOST_LABEL + "_end")[-MOST_LABEL:]


@pytest.mark.usefixtures("clients")  # resets Airflow's facade at the end
def test_metrics_that_fail_fail_no_task(flights: Flights, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the receiver's client raises is logged, and the work is done."""

    def refuse() -> Any:
        message = "no route to the receiver"
        raise OSError(message)

    stats.initialize(factory=refuse, export_legacy_names=True)
    with caplog.at_level(logging.WARNING):
        task = SegtableCompactOperator(task_id="t", table="flights", policy={}, engine="local")
        assert task.execute(context())["completed"] == 1
    assert "metrics of flights not sent (commits)" in caplog.text
    assert "no route to the receiver" in caplog.text
    assert flights.segments() == 1


def test_each_metric_has_one_type_and_other_labels_than_the_table() -> None:
    """Names have two parts, so that one pattern of a receiver finds the labels behind them."""
    for name, metric in METRICS.items():
        assert metric.name == name
        assert "table" not in metric.labels
        assert name.count(".") == 1


def matches(glob: str, name: str) -> bool:
    """Return whether a pattern of the receiver fits a name: a star stays within a part."""
    parts = zip(glob.split("."), name.split("."), strict=False)
    same = glob.count(".") == name.count(".")
    return same and all(one in ("*", other) for one, other in parts)


def test_the_guides_mapping_and_alerts_know_the_metrics() -> None:
    """Each name on plain StatsD fits one pattern, and each alert is about a metric."""
    guide = (ROOT / "docs" / "guides" / "operating.md").read_text()
    mapping, rules = map(
        yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    )
    known = set()
    for name, metric in METRICS.items():
        full = ".".join(("airflow.segtable", name, "trips", *metric.labels))
        fits = (each for each in mapping["mappings"] if matches(each["match"], full))
        labels = next(fits)["labels"]  # the first one counts
        assert (next(iter(labels)), len(labels)) == (metric.of, 1 + len(metric.labels))
        known.add(f"segtable_{name.replace('.', '_')}")
    alerts = [rule["expr"] for rule in rules["groups"][0]["rules"]]
    assert {found for expr in alerts for found in re.findall(r"segtable_\w+", expr)} <= known


def test_a_fleets_planner_sends_the_numbers_of_its_tables_and_its_own(
    flights: Flights, receiver: Receiver
) -> None:
    """Those of a table are from its look, as the table's own planner sends them."""
    flights.table.create_index("files", kind="files")
    file = flights.root / "fleet.toml"
    file.write_text(
        '[fleet]\nname = "lake"\n[budget]\nbytes_per_hour = "1 GiB"\n'
        '[groups.all]\ntables = ["*"]\nobjective = {files_read = 4, stale_index = "1h"}\n'
    )
    (flights.root / "torn" / "_segtable").mkdir(parents=True)
    ids = {"minor": "minor_dag"}
    SegtableFleetPlanOperator(task_id="t", fleet=str(file), trigger_dag_ids=ids).execute({})
    told = receiver.values(8 + 5 + 3 + len(Code) + len(kinds()) + 3 + 1)
    assert told["table.segments.flights"] == "16|g"
    assert told["index.lag_commits.flights.files"] == "0|g"
    assert told["plans.oldest_seconds.flights"].removesuffix("|g") in {"0", "0.0"}
    found = [told[f"objective.{name}.flights.files_read"] for name in ("found", "aim")]
    assert found == ["16.0|g", "4.0|g"]
    assert told["objective.aim.flights.stale_index"] == "3600.0|g"
    assert told["objective.missed.flights"] == "1|g"
    assert [told[f"fleet.{name}.lake"] for name in ("tables", "unreadable", "missing")] == [
        *("2|g", "1|g", "1|g")
    ]
    assert told["fleet.left.lake.fleet-bytes"] == "0|g"
    assert told["fleet.begun.lake.minor"] == "1|g"
    size = sum(segment.size for segment in flights.table.snapshot().segments())
    assert told["fleet.bytes_begun.lake"] == f"{size}|g"
    assert told["fleet.bytes_budget.lake"] == f"{2**30}|g"
    assert float(told["plan.waited.flights.minor"].removesuffix("|ms")) > 0
