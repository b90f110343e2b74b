"""Cleaning as a task."""

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_segtable.operators.clean import SegtableCleanOperator
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request

from .conftest import Flights

NOTHING = {"hours": 0, "versions": 1}


def cleaner(**overrides: object) -> SegtableCleanOperator:
    return SegtableCleanOperator(task_id="clean", **{"table": "flights", **overrides})


def compacted(flights: Flights) -> list[int]:
    """Delete a row, join all segments; return the rows."""
    table = flights.table
    table.delete("row = 3")
    plans = [asked.plan.id for asked in request(table.ports, "minor")]
    compact(table.ports, plans, in_process(table.ports.files))
    return flights.rows()


def test_what_nobody_can_read_goes(flights: Flights) -> None:
    """Inputs and their vectors; rows stay, a retry finds nothing, and the summary counts."""
    rows = compacted(flights)
    dry = cleaner(retention=NOTHING, dry_run=True).execute({})
    done = cleaner(retention=NOTHING).execute({})
    assert {**dry, "dry_run": False} == done
    assert (done["segments"], done["files"], done["vectors"]) == (16, 16, 1)
    assert done["bytes"] > 0
    assert flights.rows() == rows
    again = cleaner(retention=NOTHING).execute({})
    assert (again["segments"], again["vectors"]) == (0, 0)


def test_a_young_table_is_kept_whole_and_says_why(
    flights: Flights, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default nothing goes within a day; people who look at the task see why."""
    compacted(flights)
    assert cleaner().execute({})["segments"] == 0
    assert "16 hidden segments kept: a version within retention shows" in capsys.readouterr().out


@pytest.mark.usefixtures("flights")
def test_an_unknown_retention_is_refused() -> None:
    """A typo would silently mean a default."""
    with pytest.raises(AirflowFailException, match=r"retention\.hour'.*known are"):
        cleaner(retention={"hour": 1}).execute({})
