"""``segtable logstore``: what is listed of buckets and services, and checkpoints on request."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_segtable.cli.commands.log_store_commands import lines_of, text_of
from airflow_provider_segtable.coordination.address import connect
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Position
from airflow_provider_segtable.core.secret import Secret
from airflow_provider_segtable.library.log_reader import BucketReset
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.log_store.flight_store import FlightLogStore, FlightLogStoreProvider
from airflow_provider_segtable.log_store.flight_streams import FlightSecurity
from airflow_provider_segtable.ports.log_store import DeployMode, LogContext
from airflow_provider_segtable.services.log_directory import ClaimedBuckets
from tests.unit.cli.conftest import Facts, Run, trips

ROWS = pa.record_batch([pa.array([1, 2], pa.int64())], names=["n"])


@pytest.fixture
def store(facts: Facts, table: str) -> Iterator[FlightLogStore]:
    """A store with a token and two records in bucket 0, whose address is published."""
    provider = FlightLogStoreProvider(security=FlightSecurity(token=Secret("open sesame")))
    made = provider.create(LogContext(table=table, schema=ROWS.schema, buckets=(0,)))
    made.start()
    writer = made.client().writer(0, epoch=1, committed=CommittedEnd())
    writer.append(ROWS, wait_s=1)
    coordinator = connect(os.environ["SEGTABLE_ZOOKEEPER"])
    table_id = facts("table", "describe", table)["id"]
    ClaimedBuckets(
        coordinator, table_id, service="the-service", deploy_mode=DeployMode.EXTERNAL
    ).take([0], made.address)
    yield made
    coordinator.close()
    made.shutdown()


def test_a_bucket_without_a_service_is_listed(facts: Facts, run: Run, table: str) -> None:
    """With what the table's log knows; a checkpoint has no service to ask."""
    assert run("table", "set", table, "log_store.buckets=2").exit_code == 0
    found = facts("logstore", "list", table)["buckets"]
    assert [(each["bucket"], each["committed"], each["service"]) for each in found] == [
        (0, 0, None),
        (1, 0, None),
    ]
    assert "no service" in run("logstore", "list", table).stdout
    refused = run("logstore", "checkpoint", table)
    assert refused.exit_code == 1
    assert "segtable logstore serve" in refused.stderr


def test_services_are_asked_with_the_options_of_the_environment(
    facts: Facts, run: Run, table: str, store: FlightLogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the token the listing says why nothing is known; with it, what waits there."""
    (bucket,) = facts("logstore", "list", table)["buckets"]
    assert (bucket["address"], bucket["deploy_mode"]) == (store.address, "external")
    assert bucket["uncommitted_records"] is None
    assert "refuses this token" in bucket["trouble"]
    assert "refuses this token" in run("logstore", "list", table).stdout
    monkeypatch.setenv("SEGTABLE_LOG_STORE_OPTIONS", json.dumps({"token": "open sesame"}))
    (bucket,) = facts("logstore", "list", table)["buckets"]
    assert (bucket["uncommitted_records"], bucket["end"], bucket["committed"]) == (2, 2, 0)
    assert bucket["uncommitted_s"] >= 0
    asked: list[float] = []

    def serve(wait_s: float) -> int:
        asked.append(wait_s)
        return 7

    store.serve_checkpoints(serve)
    made = facts("logstore", "checkpoint", table, "--wait", "2m")
    assert (made["version"], made["services"], asked) == (7, [store.address], [120])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("{", "$SEGTABLE_LOG_STORE_OPTIONS is not a JSON object"),
        ('{"tokn": "x"}', "log store option 'tokn' is unknown: choose one of token"),
        ('{"token_file": "nowhere"}', "token_file nowhere cannot be read"),
    ],
)
def test_wrong_options_are_named(
    run: Run,
    table: str,
    store: FlightLogStore,
    monkeypatch: pytest.MonkeyPatch,
    options: str,
    said: str,
) -> None:
    """With the way out, and as a usage error."""
    assert store
    monkeypatch.setenv("SEGTABLE_LOG_STORE_OPTIONS", options)
    refused = run("logstore", "checkpoint", table)
    assert refused.exit_code == 2
    assert said in refused.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--host", "192.0.2.1"), "192.0.2.1 can be reached from other hosts, and has no token"),
        (("--host", "192.0.2.1", "--token-file", "token"), "would travel unencrypted"),
        (("--token-file", "nowhere"), "--token-file nowhere cannot be read"),
        (("--tls-cert", "token"), "has a certificate without its key: give both"),
    ],
)
def test_a_service_is_not_started_with_open_doors(
    run: Run, table: str, options: tuple[str, ...], said: str
) -> None:
    """Each is a usage error, which names the value and the way out."""
    Path("token").write_text("open sesame")
    refused = run("logstore", "serve", table, *options)
    assert refused.exit_code == 2
    assert said in refused.stderr


def test_rows_are_followed_from_files_to_a_service(run: Run, facts: Facts, table: str) -> None:
    """Committed ones by offset, then those that no commit has; it ends after the limit, or idle."""
    opened, tail = Table.open(table), ("logstore", "tail", table)
    with opened.log_writer() as log:
        log.append(trips(3))
        log.checkpoint()
        log.append(trips(2, first_hour=9))
        said = run(*tail, "--from", "earliest", "--limit", "5", "--format", "json")
        assert said.exit_code == 0, said.stderr
        text = run(*tail, "--from", "1", "--idle", "0.2s").stdout
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    assert [(each["bucket"], each["offset"]) for each in lines] == [(0, n) for n in range(5)]
    assert lines[0]["row"] == {"at": "2013-01-01T00:00:00Z", "who": "user 0", "amount": 0.0}
    assert [line.split("\t")[:2] for line in text.splitlines()] == [["0", f"{n}"] for n in range(5)]
    assert text.splitlines()[4].endswith("user 1\t0.25")
    assert "5 of bucket 0" in run(*tail, "--idle", "0.1s").stderr
    assert facts("logstore", "list", table)["buckets"][0]["committed"] == 5


def test_discarded_rows_are_said_to_be(run: Run, table: str) -> None:
    """A reset names the offset from which on a writer's rows are to be forgotten."""
    reset = BucketReset(bucket=3, position=Position(epoch=2, offset=7))
    assert [*lines_of(reset)] == [{"bucket": 3, "reset": 7}]
    assert text_of({"bucket": 3, "reset": 7}) == "3\t7\t(reset)"
    said = run("logstore", "tail", table, "--from", "yesterday-ish")
    assert said.exit_code == 2
    assert "yesterday-ish" in said.stderr


def test_a_scan_with_the_log_store_has_what_is_not_committed(facts: Facts, table: str) -> None:
    """The plan says of each bucket what was found."""
    opened = Table.open(table)
    opened.append(trips(3))
    with opened.log_writer() as log:
        log.append(trips(2))
        assert facts("table", "scan", table, "--include-log", "--count")["rows"] == 5
        assert facts("table", "scan", table, "--count")["rows"] == 3
        plan = facts("table", "scan", table, "--include-log", "--explain")
        assert plan["log_notes"] == ["bucket 0: 2 records"]
    opened.ports.coordinator.close()


def test_the_status_of_a_fleet_says_how_far_a_table_is_behind_its_log_store(
    facts: Facts, run: Run, table: str, tmp_path: Path
) -> None:
    """As its services say, which ZooKeeper knows."""
    (tmp_path / "fleet.toml").write_text('[groups.all]\ntables = ["trips"]\n')
    asked = ("fleet", "status", str(tmp_path / "fleet.toml"))
    opened = Table.open(table, zookeeper=os.environ["SEGTABLE_ZOOKEEPER"])
    with opened.log_writer(automatic=False) as log:
        log.append(trips(1))
        log.checkpoint()
        (each,) = facts(*asked)["tables"]
        assert each["lag_seconds"]["log_store"] == 0
        log.append(trips(1))
        (each,) = facts(*asked)["tables"]
        assert each["lag_seconds"]["log_store"] > 0
        assert "log store 0 s" in " ".join(run(*asked).stdout.split())
