"""A log store in Airflow: checkpoints on request, and waiting until the table has everything."""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_segtable import Table
from airflow_provider_segtable.core.errors import LogStoreUnavailable
from airflow_provider_segtable.core.secret import Secret
from airflow_provider_segtable.library.log_writer import TableLogWriter
from airflow_provider_segtable.log_store.buckets import Buckets
from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
from airflow_provider_segtable.log_store.flight_streams import FlightSecurity
from airflow_provider_segtable.operators.checkpoint import SegtableCheckpointOperator
from airflow_provider_segtable.planning.log_lag import LagLimits, NotArrived, judge_log_lag
from airflow_provider_segtable.ports.log_store import Cut
from airflow_provider_segtable.sensors.log_store_lag import LogStoreLagSensor
from airflow_provider_segtable.triggers.log_store import LogLagWithin
from airflow_provider_segtable.triggers.watch import TableTrigger

from .conftest import CONNECTION, JANUARY, SCHEMA, Flights, Rescheduled

TABLE: dict[str, Any] = {"task_id": "t", "table": "flights"}
S = 1_000_000


@pytest.fixture
def log(flights: Flights) -> Iterator[TableLogWriter]:
    """A writer whose store commits on request alone, with three records."""
    table = Table.open(str(flights.root / flights.name), zookeeper=flights.zookeeper)
    with table.log_writer(automatic=False) as writer:
        writer.append(pa.table([[JANUARY] * 3, range(2000, 2003)], schema=SCHEMA))
        yield writer


def checkpoint(**overrides: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run the operator; return its result, and the ``extra`` of its asset events."""
    task = SegtableCheckpointOperator(**{**TABLE, **overrides})
    outlets = OutletEventAccessors()
    told = task.execute({"outlet_events": outlets})  # type: ignore[typeddict-item]
    return told, [event.extra for event in outlets[task.alias].asset_alias_events]


def sensor(**overrides: Any) -> LogStoreLagSensor:
    return LogStoreLagSensor(**{**TABLE, **overrides})


def deferred(waiting: LogStoreLagSensor) -> TableTrigger:
    """Return the trigger of a wait as the triggerer has it: made anew from plain values."""
    with pytest.raises(TaskDeferred) as raised:
        waiting.execute({})
    path, arguments = raised.value.trigger.serialize()
    assert path == "airflow_provider_segtable.triggers.watch.TableTrigger"
    trigger = TableTrigger(**json.loads(json.dumps(arguments)))
    assert isinstance(trigger.question, LogLagWithin)
    return trigger


def test_a_checkpoint_commits_what_was_appended_before(
    flights: Flights, log: TableLogWriter
) -> None:
    """Its version has the rows, its asset event tells of them; another one finds nothing to do."""
    told, (extra,) = checkpoint()
    state = flights.table.state()
    assert (told["version"], told["records"], len(told["services"])) == (state.n, 3, 1)
    assert {2000, 2001, 2002} <= {*flights.rows()}
    named = {name: extra[name] for name in ("kind", "event", "rows", "records")}
    assert named == {"kind": "checkpoint", "event": state.n, "rows": 3, "records": 3}
    assert log.checkpoint() == state.n
    assert checkpoint() == ({**told, "records": 0}, [])


def test_tasks_show_services_the_token_of_their_connection(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator and the sensor do; without it the store refuses them."""
    security = FlightSecurity(token=Secret("open-sesame-42"))
    table = Table.open(str(flights.root / flights.name), zookeeper=flights.zookeeper)
    with table.log_writer(
        automatic=False, provider=FlightLogStoreProvider(security=security)
    ) as writer:
        writer.append(pa.table([[JANUARY], [2000]], schema=SCHEMA))
        with pytest.raises(LogStoreUnavailable):
            checkpoint()
        place = json.loads(os.environ[CONNECTION])
        place["extra"]["log_store_options"] = {"token": "open-sesame-42"}
        monkeypatch.setenv(CONNECTION, json.dumps(place))
        assert sensor().poke({}) is False
        assert checkpoint()[0]["records"] == 1
        assert sensor().poke({}) is True


def test_a_table_without_a_service_fails_with_the_way_out_or_is_skipped(flights: Flights) -> None:
    """A retry may find a service; a wrong argument fails at once."""
    with pytest.raises(LogStoreUnavailable, match="segtable logstore serve"):
        checkpoint()
    with pytest.raises(AirflowSkipException, match="no service serves"):
        checkpoint(if_not_served="skip")
    with pytest.raises(AirflowFailException, match="if_not_served = 'sk' is neither"):
        checkpoint(if_not_served="sk")
    assert flights.segments() == 16


def test_every_mode_waits_until_everything_is_committed(log: TableLogWriter) -> None:
    """A deferred wait is woken by the checkpoint, long before its next look."""
    poking = sensor()
    assert poking.poke({}) is False
    rescheduled = SimpleNamespace(get_first_reschedule_date=lambda _: None)
    with pytest.raises(Rescheduled):
        sensor(mode="reschedule").execute({"ti": rescheduled})

    async def wait() -> Any:
        trigger = deferred(sensor(deferrable=True, poke_interval=600))
        waiting = asyncio.ensure_future(anext(aiter(trigger.run())))
        await asyncio.to_thread(log.checkpoint)
        return (await asyncio.wait_for(waiting, 60)).payload

    told = asyncio.run(wait())
    assert (told["status"], told["version"], told["records"]) == ("success", log.checkpoint(), 0)
    sensor().execute_complete({}, told)
    assert poking.poke({}) is True
    assert sensor(deferrable=True).execute({}) is None


def test_a_wait_misses_no_commit_that_its_service_has_not_heard_of(
    log: TableLogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers of the table's log hear of a commit before the service does: the log counts."""
    heard, hear = threading.Event(), Buckets.committed

    def late(self: Buckets, cut: Cut) -> None:
        assert heard.wait(60)
        hear(self, cut)

    async def wait() -> Any:
        trigger = deferred(sensor(deferrable=True, poke_interval=600))
        waiting = asyncio.ensure_future(anext(aiter(trigger.run())))
        committing = asyncio.ensure_future(asyncio.to_thread(log.checkpoint))
        try:
            return (await asyncio.wait_for(waiting, 30)).payload
        finally:
            heard.set()
            await committing

    monkeypatch.setattr(Buckets, "committed", late)
    told = asyncio.run(wait())
    assert (told["status"], told["version"], told["records"]) == ("success", log.checkpoint(), 0)


def test_goals_are_records_seconds_and_times(
    log: TableLogWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts are as good as numbers, because templates make texts."""
    assert log.end
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    for reached in (
        {"at_most_records": 3},
        {"at_most_records": "3", "at_most_seconds": "600"},
        {"upto": (now - hour).isoformat()},
    ):
        assert sensor(**reached).poke({}) is True, reached
    for missed in ({"at_most_records": 2}, {"at_most_records": 0}, {"upto": now + hour}):
        assert sensor(**missed).poke({}) is False, missed
    assert sensor(at_most_records=9, at_most_seconds=0).poke({}) is False
    said = capsys.readouterr().out
    assert "3 records behind, the oldest for " in said
    assert "(wanted: at most 9 records, at most 0 s)" in said


def test_a_consumer_group_is_waited_for(flights: Flights, log: TableLogWriter) -> None:
    """What it has not read counts, committed or not; a group that stored nothing fails at once."""
    with pytest.raises(AirflowFailException, match="has stored no position"):
        sensor(group="dashboard", at_most_records=0).poke({})
    log.checkpoint()
    log.append(pa.table([[JANUARY], [2003]], schema=SCHEMA))
    table = Table.open(str(flights.root / flights.name), zookeeper=flights.zookeeper)
    assert sensor(at_most_records=1).poke({}) is True
    with table.log_reader("earliest", group="dashboard") as reader:
        assert reader.read(60) is not None
        reader.store()
        waiting = deferred(sensor(group="dashboard", at_most_records=0, deferrable=True))
        assert waiting.question.answer(table.ports, table.state()).message.startswith(
            "1 record behind, the oldest for "
        )
        assert reader.read(60) is not None
        reader.store()
        assert sensor(group="dashboard", at_most_records=0).poke({}) is True
        assert asyncio.run(event_of(waiting))["records"] == 0
    table.ports.coordinator.close()


async def event_of(trigger: TableTrigger) -> Any:
    """Return what a trigger fires."""
    return (await asyncio.wait_for(anext(aiter(trigger.run())), 60)).payload


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize(
    "wrong", [{"at_most_records": "x"}, {"at_most_seconds": "x"}, {"upto": "x"}]
)
def test_a_malformed_goal_fails_at_once(wrong: dict[str, str]) -> None:
    """The message names the argument's value."""
    with pytest.raises(AirflowFailException, match="'x'"):
        sensor(**wrong).poke({})


def test_a_connection_without_zookeeper_is_refused(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could say which services there are."""
    place = {"conn_type": "segtable", "host": str(flights.root)}
    monkeypatch.setenv(CONNECTION, json.dumps(place))
    with pytest.raises(AirflowFailException, match="names no ZooKeeper"):
        sensor().poke({})


def test_the_lag_of_all_buckets_is_judged_together() -> None:
    """Records add up, the oldest counts, and a bucket of which nothing is known is waited for."""
    two = [
        NotArrived(bucket=0, records=2, since=7 * S),
        NotArrived(bucket=1, records=3, since=4 * S),
        NotArrived(bucket=2),
    ]
    for limits, wanted in (
        (LagLimits(records=5), True),
        (LagLimits(records=4), False),
        (LagLimits(seconds=6), True),
        (LagLimits(seconds=5.9), False),
        (LagLimits(by=4 * S - 1), True),
        (LagLimits(by=4 * S), False),
        (LagLimits(records=5, seconds=6, by=4 * S), False),
    ):
        verdict = judge_log_lag(two, limits, 10 * S)
        assert (verdict.satisfied, verdict.records, verdict.seconds) == (wanted, 5, 6.0), limits
    silent = [*two, NotArrived(bucket=3, trouble="no answer")]
    verdict = judge_log_lag(silent, LagLimits(records=99), 10 * S)
    assert (verdict.satisfied, verdict.message) == (
        False,
        "5 records behind, the oldest for 6.0 s; bucket 3: no answer (wanted: at most 99 records)",
    )
