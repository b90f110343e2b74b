"""``segtable logstore``: what is listed of buckets and services, and checkpoints on request."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.address import connect
from airflow_provider_segtable.core.log_store.position import CommittedEnd
from airflow_provider_segtable.core.secret import Secret
from airflow_provider_segtable.logstore.flight_security import FlightSecurity
from airflow_provider_segtable.logstore.flight_store import FlightLogStore, FlightLogStoreProvider
from airflow_provider_segtable.ports.log_store import DeployMode, LogContext
from airflow_provider_segtable.services.log_store.claimed_buckets import ClaimedBuckets
from tests.unit.cli.conftest import Run

Facts = Callable[..., Any]
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
