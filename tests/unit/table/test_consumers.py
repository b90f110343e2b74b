"""Consumers: positions of readers in the log, which cleaning honours for a bounded time."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import (
    CommitConflict,
    InvalidInput,
    InvalidName,
    VersionExpired,
    WindowExpired,
)
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.log.log_paths import CHECKPOINTS
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import rows
from tests.unit.table.test_windows import added, compacted

DAY = 86_400


def kept(table: Table, **given: float) -> int:
    """Clean, and return the oldest version that is kept."""
    keep = Retention(hours=0, versions=1, orphan_hours=0, **{"consumer_hours": 48, **given})
    return clean(table.ports, retention=keep).retained_from


def codes(table: Table) -> dict[str, str]:
    """Return what the doctor finds about consumers."""
    found = examine(table.ports).findings
    return {f.code: f.what for f in found if f.code.endswith("-consumer")}


def test_a_consumer_reads_on_from_its_position(table: Table) -> None:
    """Positions are in the log, and in its checkpoints."""
    assert table.advance_consumer("billing", 2) == 2
    scan = table.scan(consumer="billing")
    assert added(scan) == [*range(20, 40)]
    assert table.advance_consumer("billing", scan.version, before=2) == scan.version
    assert added(table.scan(consumer="billing")) == []
    state = table.state()
    known = table.consumers()["billing"]
    assert (known.version, known.advanced_at) == (5, state.time)
    assert table.advance_consumer("billing") == 5
    assert table.state().n == state.n
    assert read_checkpoint(write_checkpoint(state)) == state


def test_cleaning_keeps_what_a_consumer_has_yet_to_read(table: Table) -> None:
    """Until the position is too old; then the consumer is told the oldest start."""
    table.advance_consumer("billing", 3)
    table.delete("row = 35")
    compacted(table, "major")
    table.ports.clock.sleep(DAY)
    assert kept(table) == 3
    changes = table.scan(consumer="billing", changes=True)
    assert sorted(changes.to_arrow().column("_segtable_change").to_pylist()) == [
        *["delete"],
        *["insert"] * 10,
    ]
    table.ports.clock.sleep(2 * DAY)
    assert kept(table) > 3
    with pytest.raises(WindowExpired, match="the position of consumer 'billing' was cleaned"):
        table.scan(consumer="billing")


def test_a_consumer_that_has_read_everything_keeps_its_position(table: Table) -> None:
    """However long nothing is committed: what comes next is still to be read."""
    table.advance_consumer("billing")
    position = table.state().consumers["billing"].version
    table.ports.clock.sleep(30 * DAY)
    table.append(rows(range(40, 50)))
    table.append(rows(range(50, 60)))
    assert kept(table) == position
    assert added(table.scan(consumer="billing")) == [*range(40, 60)]


def test_the_oldest_position_counts_and_a_dropped_consumer_keeps_nothing(table: Table) -> None:
    """Each consumer for itself."""
    table.advance_consumer("slow", 1)
    table.advance_consumer("fast", 4)
    table.ports.clock.sleep(DAY)
    assert kept(table) == 1
    table.drop_consumer("slow")
    assert kept(table) == 4
    with pytest.raises(InvalidInput, match="there is no consumer 'slow': the table has fast"):
        table.drop_consumer("slow")


def test_two_processes_of_one_name_notice_each_other(table: Table, other: Table) -> None:
    """The second one went on from a position that is no more."""
    table.advance_consumer("billing", 1)
    other.advance_consumer("billing", 3, before=1)
    with pytest.raises(CommitConflict, match="is at version 3, not at version 1"):
        table.advance_consumer("billing", 2, before=1)
    with pytest.raises(CommitConflict, match="'new' does not exist, not at version 1"):
        table.advance_consumer("new", 2, before=1)
    assert table.advance_consumer("billing", 2) == 2


def test_positions_that_cannot_be_are_refused(table: Table) -> None:
    """Versions to come, versions that are gone, and names that are no names."""
    with pytest.raises(InvalidInput, match="no version 9: the newest is 4"):
        table.advance_consumer("billing", 9)
    with pytest.raises(InvalidName, match="'a/b' is not a consumer's name"):
        table.advance_consumer("a/b")
    compacted(table, "major")
    table.ports.clock.sleep(DAY)
    kept(table)
    with pytest.raises(VersionExpired, match="version 1 was cleaned"):
        table.advance_consumer("billing", 1)
    assert table.consumers() == {}


def test_a_cleaning_that_missed_a_consumer_looks_again(table: Table) -> None:
    """It is refused unless it names the position that it takes away."""
    action = Cleaned(retained_from=4, ids=())
    assert admit(action, table.state()) == action
    table.advance_consumer("billing", 2)
    refused = admit(action, table.state())
    assert isinstance(refused, Conflict)
    assert "consumer 'billing' came to version 2 meanwhile" in refused.reason
    known = Cleaned(retained_from=4, ids=(), consumers={"billing": 2})
    assert admit(known, table.state()) == known
    below = Cleaned(retained_from=2, ids=())
    assert admit(below, table.state()) == below


def test_the_doctor_finds_consumers_that_lag(table: Table) -> None:
    """First those that lag, then those that lost their position."""
    table.advance_consumer("billing", 2)
    assert codes(table) == {}
    table.ports.clock.sleep(5 * DAY)
    assert codes(table) == {
        "lagging-consumer": "it has not read on from version 2 for 120 hours",
    }
    table.ports.clock.sleep(5 * DAY)
    compacted(table, "major")
    table.ports.clock.sleep(DAY)
    kept(table)
    assert "its position, version 2, was cleaned" in codes(table)["lost-consumer"]


class DuringLook:
    """A storage that lets another process act while a cleaner reads the log, after its head."""

    def __init__(self, inner: object, act: Callable[[], object]) -> None:
        self.inner, self.acts = inner, [act]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def list(self, prefix: str, **given: Any) -> Any:
        """Let the other act first, once."""
        if prefix == CHECKPOINTS and self.acts:
            self.acts.pop()()
        return self.inner.list(prefix, **given)  # type: ignore[attr-defined]


def test_a_consumer_that_comes_while_a_cleaner_reads_keeps_its_position(table: Table) -> None:
    """The cleaner has seen its event, but did not weigh it: it looks again."""
    compacted(table, "major")
    table.ports.clock.sleep(DAY)
    racing = DuringLook(table.ports.storage, lambda: table.advance_consumer("billing", 2))
    run = clean(
        replace(table.ports, storage=racing),  # type: ignore[arg-type]
        retention=Retention(hours=0, versions=1, orphan_hours=0),
    )
    assert not racing.acts
    assert run.retained_from == 2
    assert added(table.scan(consumer="billing")) == [*range(20, 40)]
