"""Triggers store their questions by themselves, and triggers of earlier versions still run."""

import asyncio
import json
from dataclasses import dataclass
from importlib import import_module
from pkgutil import resolve_name
from typing import Any, ClassVar

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.provider_info import get_provider_info
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.status import PublishedStatus
from airflow_provider_segtable.triggers.detached import Ending
from airflow_provider_segtable.triggers.index import CaughtUp
from airflow_provider_segtable.triggers.log_store import LogLagWithin
from airflow_provider_segtable.triggers.published import PublishedThrough
from airflow_provider_segtable.triggers.table import SmallSegments
from airflow_provider_segtable.triggers.watch import (
    OF_NO_USE,
    Answer,
    FormerTrigger,
    Question,
    TableTrigger,
)

PACKAGE = "airflow_provider_segtable.triggers"
OWN = {"segtable_conn_id": "segtable_default", "poll_interval": 7.0}
# As Airflow's database has them: the class below triggers/, and its arguments; and the question.
STORED: dict[str, tuple[dict[str, Any], Question]] = {
    "detached.DetachedTrigger": (
        {
            "table": "trips",
            "result": "compact-0123",
            "commit_id": None,
            "plans": ["minor-1", "minor-2"],
            "deadline": 1_800_000_000_000_000,
        },
        Ending(table="trips", result="compact-0123", plans=("minor-1", "minor-2")),
    ),
    "index.IndexTrigger": (
        {"table": "trips", "index": "people", "upto": 0, "by": None},
        CaughtUp(table="trips", index="people", upto=0),
    ),
    "log_store.LogLagTrigger": (
        {
            "table": "trips",
            "group": "dashboard",
            "at_most_records": 5,
            "at_most_seconds": None,
            "by": None,
        },
        LogLagWithin(table="trips", group="dashboard", at_most_records=5),
    ),
    "published.PublishedTrigger": (
        {"table": "trips", "formats": ["delta"], "at_most_seconds": 60.0, "by": None},
        PublishedThrough(table="trips", formats=("delta",), at_most_seconds=60.0),
    ),
    "table.SmallSegmentsTrigger": (
        {"table": "trips", "interval": "2013-01-01/2014-01-01", "at_most": None},
        SmallSegments(table="trips", interval="2013-01-01/2014-01-01"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient(Question):
    """The question of a user's own sensor: has the table so many versions?"""

    least_poll_s: ClassVar[float] = 3.0
    versions: int
    tags: tuple[str, ...] = ()

    def answer(self, ports: TableContext, state: State) -> Answer:
        """Return the number of versions."""
        del ports
        found = f"version {state.n} of {self.versions}"
        return Answer(message=found, event={"n": state.n} if state.n >= self.versions else None)


@pytest.mark.parametrize("name", STORED)
def test_a_trigger_that_an_earlier_version_stored_asks_the_same(name: str) -> None:
    """Its class is imported by its old path, and takes its old arguments."""
    arguments, question = STORED[name]
    former = resolve_name(f"{PACKAGE}.{name}")(**json.loads(json.dumps({**arguments, **OWN})))
    assert isinstance(former, TableTrigger)
    assert former.question == question
    wanted = TableTrigger(question, **OWN, deadline=arguments.get("deadline"))
    assert former.serialize() == wanted.serialize()


def test_every_former_trigger_has_a_stored_example() -> None:
    """No class of an earlier version is missing above."""
    modules = get_provider_info()["triggers"][0]["python-modules"]
    found = {
        f"{name.removeprefix(PACKAGE)[1:]}.{each.__name__}"
        for name in modules
        for each in vars(import_module(name)).values()
        if isinstance(each, type) and issubclass(each, FormerTrigger) and each is not FormerTrigger
    }
    assert found == {*STORED}


@pytest.mark.usefixtures("flights")
def test_a_former_trigger_fires_as_before() -> None:
    """The event is that of its question."""
    arguments = {"table": "flights", "interval": None, "at_most": 16, **OWN}
    former = resolve_name(f"{PACKAGE}.table.SmallSegmentsTrigger")(**arguments)

    async def first() -> Any:
        return (await anext(aiter(former.run()))).payload

    assert asyncio.run(first())["status"] == "success"


@pytest.mark.parametrize("question", [each for _, each in STORED.values()])
def test_a_question_stores_itself(question: Question) -> None:
    """The stored form is plain JSON, and the trigger made of it equals the first one."""
    path, arguments = TableTrigger(question, **OWN).serialize()
    again = resolve_name(path)(**json.loads(json.dumps(arguments)))
    assert (again.question, again.serialize()) == (question, (path, arguments))


@pytest.mark.usefixtures("flights")
def test_a_new_question_needs_no_trigger_of_its_own() -> None:
    """A dataclass outside the package is carried, stored and asked."""
    asked = Patient(table="flights", versions=1, tags=("a", "b"))
    path, arguments = TableTrigger(asked, **OWN).serialize()
    again = resolve_name(path)(**json.loads(json.dumps(arguments)))
    assert again.question == asked

    async def first() -> Any:
        return (await anext(aiter(again.run()))).payload

    event = asyncio.run(first())
    assert (event["status"], event["n"] >= 1) == ("success", True)


@pytest.mark.parametrize(
    "path", ["json.JSONDecoder", "nowhere.Question", "Question", f"{PACKAGE}.index.Nothing", ""]
)
def test_a_stored_path_that_is_no_question_is_refused(path: str) -> None:
    """The error has the path, and the way out."""
    with pytest.raises(InvalidInput, match="same version"):
        TableTrigger(path, {"table": "trips"}, segtable_conn_id="c")


def test_a_verdict_is_pure() -> None:
    """The published versions and the time decide alone, without a table."""
    asked = PublishedThrough(table="trips", at_most_seconds=60.0)
    late = PublishedStatus(format="delta", enabled=True, event=3, late_since=1_000_000)
    soon, later = 31_000_000, 62_000_000
    assert asked.verdict({"delta": late}, soon).event == {"events": {"delta": 3}}
    assert asked.verdict({"delta": late}, later).event is None
    assert (asked.verdict({}, soon).event or {})["status"] == OF_NO_USE
