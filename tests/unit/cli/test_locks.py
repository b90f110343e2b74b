"""``segtable locks``: what is held, who waits, and how a stuck lock is freed."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_segtable.cli.app import app
from airflow_provider_segtable.coordination.address import connect
from airflow_provider_segtable.core.errors import LockLost
from airflow_provider_segtable.core.locks import LockRequest
from airflow_provider_segtable.ports.coordination import Coordinator
from tests.contract.worlds import Running, append, eventually, request, time_chunk
from tests.support.builders import CHUNK
from tests.unit.cli.conftest import Facts, Run


@pytest.fixture
def worker(table: str) -> Iterator[Coordinator]:
    """Another client of the coordinator that the commands use."""
    assert table
    client = connect(os.environ["SEGTABLE_ZOOKEEPER"])
    yield client
    client.close()


@pytest.fixture
def of_table(facts: Facts, table: str) -> Callable[[LockRequest], LockRequest]:
    """Return what points a request at the table."""
    table_id = facts("table", "describe", table)["id"]
    return lambda asked: replace(asked, table=table_id)


def test_nothing_is_held(facts: Facts, run: Run, table: str) -> None:
    """Without locks it says so."""
    found = facts("locks", table)
    assert (found["locks"], found["waiting"], found["released"]) == ([], [], None)
    assert "No locks are held, and no worker waits" in run("locks", table).stdout


def test_holders_and_waiters_are_shown(
    facts: Facts, run: Run, table: str, worker: Coordinator, of_table: Any
) -> None:
    """Mode, state, what, who, progress; and who waits behind them."""
    minor = worker.acquire(of_table(request("minor", 1, 2, 3, new=1)), wait_s=0)
    minor.report({"rows": "10"})
    minor.make_irrevocable()
    major = Running(lambda: worker.acquire(of_table(time_chunk("major", above=0)), wait_s=60))
    eventually(lambda: facts("locks", table)["waiting"])
    found = facts("locks", table)
    (lock,), (waiting,) = found["locks"], found["waiting"]
    assert (lock["group"], lock["state"], lock["mode"]) == ("minor", "publishing", "exclusive")
    assert lock["segments"][0]["partitions"] == [1, 2, 3]
    assert lock["new_segments"][0]["partitions"] == [32768]
    assert lock["progress"] == {"rows": "10"}
    assert (waiting["group"], waiting["state"]) == ("major", "waiting")
    assert waiting["intervals"] == [str(CHUNK.interval)]
    drawn = run("locks", table).stdout
    for said in ("minor", "publishing", "1-3", "host-a pid 1 for plan-of-major", "rows 10"):
        assert said in drawn
    minor.release()
    major.result().release()


def test_a_revoked_lock_says_by_whom(
    facts: Facts, table: str, worker: Coordinator, of_table: Any
) -> None:
    """The holder has not let go yet; who took it is named."""
    worker.acquire(of_table(time_chunk("low")), wait_s=0)
    worker.acquire(of_table(replace(append("high"), priority=75)), wait_s=0)
    low, high = facts("locks", table)["locks"]
    assert (low["state"], high["state"]) == ("revoked", "held")
    assert "group high, priority 75 over 25" in low["revoked_by"]


def test_a_stuck_lock_is_released(
    facts: Facts, table: str, worker: Coordinator, of_table: Any
) -> None:
    """Its holder's lease is lost, and the others stay."""
    stuck = worker.acquire(of_table(request("stuck", 1)), wait_s=0)
    other = worker.acquire(of_table(request("other", 2)), wait_s=0)
    found = facts("locks", table, "--release", "stuck", "--yes")
    assert (found["released"], [each["group"] for each in found["locks"]]) == ("stuck", ["other"])
    with pytest.raises(LockLost):
        stuck.make_irrevocable()
    other.check()


@pytest.mark.parametrize(("answer", "left"), [("y\n", []), ("n\n", ["stuck"]), ("", ["stuck"])])
def test_releasing_asks_first(
    table: str, worker: Coordinator, of_table: Any, answer: str, left: list[str]
) -> None:
    """It says who loses what, and does nothing unless told to."""
    worker.acquire(of_table(request("stuck", 1)), wait_s=0)
    result = CliRunner().invoke(app, ["locks", table, "--release", "stuck"], input=answer)
    assert "cannot commit" in result.stderr
    assert result.exit_code == len(left)
    held = worker.locks(of_table(append("any")).table)
    assert [lock.group for lock in held] == left


def test_an_unknown_group_is_refused(run: Run, table: str) -> None:
    """The message names the group and how to find the right one."""
    result = run("locks", table, "--release", "nobody", "--yes", "--json")
    assert result.exit_code == 2
    assert "nobody" in json.loads(result.stdout)["message"]


def test_json_asks_no_questions(run: Run, table: str, worker: Coordinator, of_table: Any) -> None:
    """A script says --yes, or gets an error instead of a prompt."""
    worker.acquire(of_table(request("stuck", 1)), wait_s=0)
    result = run("locks", table, "--release", "stuck", "--json")
    assert result.exit_code == 2
    assert "--yes" in json.loads(result.stdout)["message"]
