"""How a table grew: points of the past, from checkpoints and events that the log still has."""

import pytest

from airflow_provider_segtable.library.growth import growth, point_of
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table.table import Table
from tests.support.shown_lake import ShownLake


@pytest.fixture
def made() -> ShownLake:
    """A table of seventy appends; it has checkpoints after events 32 and 64."""
    lake = ShownLake("events")
    lake.append("events", 70)
    return lake


def test_a_short_log_gives_a_point_an_event(made: ShownLake) -> None:
    """From the creation on; the last point is the newest state."""
    log = made.tables["events"].log
    points = growth(log, log.load())
    assert [each.version for each in points] == list(range(71))
    assert [each.files for each in points] == list(range(71))
    assert points[-1] == point_of(log.load())
    assert points[-1].rows == 70


def test_a_long_log_gives_those_of_checkpoints_and_of_its_end(made: ShownLake) -> None:
    """As many as are wanted, at most; no event before the last checkpoint is read."""
    log = made.tables["events"].log
    points = growth(log, log.load(), 8)
    assert [each.version for each in points] == [32, 64, 65, 67, 69, 70]
    assert [each.files for each in points] == [32, 64, 65, 67, 69, 70]


def test_what_expired_gives_no_point(made: ShownLake) -> None:
    """The first one is then of the oldest checkpoint that is kept."""
    ports = made.tables["events"]
    made.clock.advance(10 * 86_400)
    clean(ports, retention=Retention(hours=1.0, versions=1))
    log = ports.log
    points = growth(log, log.load())
    assert points[0].version == 64
    assert points[-1].version == Table(ports).state().n
    assert points[-1].files == 70
