"""Commits are published in the background: joined, soon, and whatever happens in between."""

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput, StorageFull
from airflow_provider_segtable.core.tables.evolution import AddColumn
from airflow_provider_segtable.library import table as library
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table.background import ThreadBackground
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.publishing.publisher import PublishedNow
from airflow_provider_segtable.table.table import Table, create_table
from tests.examples import examples
from tests.support.background import ByHand
from tests.support.in_memory import context_in_memory
from tests.unit.publishing.conftest import DEFINITION, again
from tests.unit.publishing.plain_format import FOLDER, PlainTarget
from tests.unit.publishing.published_rows import compacted
from tests.unit.publishing.test_publisher import Beside, is_published, publish, target, versions
from tests.unit.table.conftest import SCHEMA, numbers, rows

LAG_S = 5.0


@pytest.fixture
def hand() -> ByHand:
    """What runs the background of the table's process."""
    return ByHand()


@pytest.fixture
def later(published: Table, hand: ByHand) -> Table:
    """A published table in a process with a background."""
    return Table(replace(published.ports, background=hand))


def append(table: Table, turn: int) -> None:
    table.append(rows(range(turn * 10, turn * 10 + 10)))


def passed(table: Table, seconds: float) -> None:
    table.ports.clock.advance(seconds)  # type: ignore[attr-defined]


def events(table: Table) -> list[int]:
    """Return the events of all published versions."""
    storage = table.ports.storage
    return [PlainTarget(storage).version(n).event for n in range(len(versions(table)))]


def test_commits_are_joined(later: Table, hand: ByHand) -> None:
    """Of many commits the newest version alone is put, by one publication."""
    for turn in range(6):
        append(later, turn)
    assert events(later) == [0]
    assert hand.run() == 1
    assert events(later) == [0, 6]
    assert (hand.run(), hand.queues) == (0, {})


def test_a_publication_leaves_half_of_the_lag_between(later: Table, hand: ByHand) -> None:
    """The first commit is published at once, later ones half of the lag after that."""
    append(later, 0)
    hand.run()
    append(later, 1)
    passed(later, LAG_S / 2 - 0.1)
    assert hand.run() == 0
    append(later, 2)
    passed(later, 0.2)
    assert hand.run() == 1
    assert events(later) == [0, 1, 3]
    passed(later, 100.0)
    append(later, 3)
    assert hand.run() == 1


def test_the_lag_bounds_commits(published: Table) -> None:
    """A commit that finds another one unpublished for longer than the lag waits for it."""
    reached, released = Event(), Event()

    def held() -> None:
        reached.set()
        assert released.wait(60)

    storage = Beside(published.ports.storage, "create", FOLDER, [held])
    ports = replace(published.ports, storage=storage, background=ThreadBackground())  # type: ignore[arg-type]
    slow = Table(ports)
    append(slow, 0)  # returns, although its publication is held up
    assert reached.wait(60)
    append(slow, 1)
    passed(slow, LAG_S)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(append, slow, 2)
        while slow.state().n < 3:
            pass
        assert not late.done()
        released.set()
        late.result(60)
    ports.finish()
    assert is_published(slow)
    assert len(versions(slow)) == 3


def test_without_lag_a_commit_returns_published(later: Table, hand: ByHand) -> None:
    """``publish.lag_seconds=0`` publishes each version, in the call."""
    later.alter(set={"publish.lag_seconds": "0"})
    append(later, 0)
    assert is_published(later)
    assert hand.queues == {}


@pytest.mark.parametrize("text", ["-1", "3601", "nan", "soon"])
def test_a_lag_out_of_bounds_is_refused(later: Table, text: str) -> None:
    """The property names the value and its bounds."""
    with pytest.raises(InvalidInput, match=r"publish\.lag_seconds"):
        later.alter(set={"publish.lag_seconds": text})


def test_at_the_end_of_the_process_commits_publish_themselves(later: Table, hand: ByHand) -> None:
    """What is committed after the background has ended is published in the call."""
    append(later, 0)
    hand.flush()
    hand.ended = True
    append(later, 1)
    assert is_published(later)


def test_a_call_publishes_what_waits(later: Table, hand: ByHand) -> None:
    """``publish`` is a barrier; the background then finds nothing to put."""
    append(later, 0)
    (outcome,) = later.publish()
    assert isinstance(outcome, PublishedNow)
    hand.run()
    assert events(later) == [0, 1]


@pytest.mark.parametrize("caught_up", ["commit", "publish"])
def test_what_a_killed_process_left_is_made_up_for(
    later: Table, hand: ByHand, caught_up: str
) -> None:
    """Its rows are committed; the next commit of anybody, or ``publish``, shows them."""
    append(later, 0)
    hand.queues.clear()  # killed
    other = again(later)
    assert other.published()["delta"].lag_events == 1
    if caught_up == "commit":
        append(other, 1)
        hand.flush()
    else:
        other.publish()
    assert is_published(other)


def test_two_processes_publish_for_each_other(later: Table, hand: ByHand) -> None:
    """Whichever is first publishes all commits, and the other one finds them published."""
    other = Table(replace(later.ports, author="other", background=(second := ByHand())))
    for turn in range(4):
        append((later, other)[turn % 2], turn)
    second.flush()
    hand.flush()
    assert events(later) == [0, 4]
    for turn in range(4, 74):  # more events than a publisher would read one by one
        append(later, turn)
    passed(later, LAG_S)
    hand.flush()
    append(other, 100)
    second.flush()
    assert is_published(later)


def test_a_dropped_table_is_not_published(
    later: Table, hand: ByHand, caplog: pytest.LogCaptureFixture
) -> None:
    """What waited when the table was dropped leaves nothing behind, and is no warning."""
    append(later, 0)
    drop(later.ports)
    hand.flush()
    assert versions(later) == []
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_what_was_switched_off_is_not_published(later: Table, hand: ByHand) -> None:
    """The background goes by the newest properties."""
    append(later, 0)
    later.unpublish("delta")
    hand.flush()
    assert versions(later) == []


def test_columns_altered_meanwhile_are_published(later: Table, hand: ByHand) -> None:
    """The version that is put has the newest columns, and all rows."""
    append(later, 0)
    later.alter(columns=[AddColumn(name="extra", type="int64")])
    append(later, 1)
    hand.flush()
    assert is_published(later)
    found = target(later).load()
    assert found is not None
    assert found.schema == 1


def test_a_restore_meanwhile_is_published(later: Table, hand: ByHand) -> None:
    """Rows that were appended and restored away are never shown."""
    append(later, 0)
    hand.run()
    before = later.state().n
    append(later, 1)
    later.restore(version=before)
    passed(later, LAG_S)
    hand.run()
    assert is_published(later)
    assert numbers(later) == [*range(10)]
    assert len(versions(later)) in {2, 3}  # nothing may differ from the published version


def test_a_failure_is_made_up_for(
    published: Table, hand: ByHand, caplog: pytest.LogCaptureFixture
) -> None:
    """It is one warning; the next commit is published with all that waited."""

    def full() -> None:
        raise StorageFull("no space is left")

    storage = Beside(published.ports.storage, "create", FOLDER, [full])
    broken = Table(replace(published.ports, storage=storage, background=hand))  # type: ignore[arg-type]
    append(broken, 0)
    hand.run()
    assert len(caplog.records) == 1
    append(broken, 1)
    passed(broken, LAG_S)
    hand.run()
    assert is_published(published)


def test_a_compaction_is_published_apart(later: Table, hand: ByHand) -> None:
    """Rows before it, the compaction, and rows after it are versions of their own.

    So a version changes rows, or only moves them, and readers of a stream can leave it out.
    """
    append(later, 0)
    hand.run()
    append(later, 1)
    compacted(later, "semi-major")
    moved = later.state().n
    append(later, 2)
    passed(later, LAG_S)
    hand.run()
    first, second, before, *after = events(later)
    assert (first, second, after) == (0, 1, [moved, moved + 1])
    assert 2 <= before < moved
    assert is_published(later)


def test_a_version_that_is_kept_no_longer_is_not_published_first(published: Table) -> None:
    """A process that publishes on request, more rarely than the retention, gets to the newest."""
    published.alter(set={"publish.on_commit": "off"})
    append(published, 0)
    assert isinstance(publish(published), PublishedNow)
    append(published, 1)
    compacted(published, "semi-major")
    passed(published, 3600.0)
    clean(published.ports, retention=Retention(hours=0.5, versions=1))
    append(published, 2)
    assert isinstance(publish(published), PublishedNow)
    assert is_published(published)


@examples(12)
@given(seed=st.integers(0, 10_000))
def test_publishers_that_take_turns_publish_each_version(seed: int) -> None:
    """Of any history, whichever process commits and publishes, readers see the newest version."""
    random = Random(seed)
    hands = [ByHand(), ByHand()]
    definition = replace(DEFINITION, properties={"publish.delta": "on"})
    table = create_table(context_in_memory(), definition)
    tables = [Table(replace(table.ports, author=f"{n}", background=h)) for n, h in enumerate(hands)]
    for turn in range(12):
        one = random.randrange(2)
        match random.randrange(6):
            case 0 | 1 | 2:
                append(tables[one], turn)
            case 3:
                tables[one].delete(f"row % 7 = {turn % 7}")
            case 4:
                with suppress(InvalidInput):  # nothing is there to compact
                    compacted(tables[one], "semi-major")
            case 5:
                tables[one].restore(version=max(0, tables[one].state().n - random.randrange(3)))
        if random.random() < 0.4:
            passed(table, LAG_S)
            hands[random.randrange(2)].flush()
    hands[0].flush()
    hands[1].flush()
    assert is_published(tables[0])
    found = events(table)
    assert found == sorted(set(found))


def test_a_process_may_change_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that was opened by a relative path is published from wherever the process is."""
    monkeypatch.chdir(tmp_path)
    made = library.Table.create(
        "t", schema=SCHEMA, time_column="at", primary_key="row", properties={"publish.delta": "on"}
    )
    table = Table(replace(made.ports, background=(hand := ByHand())))
    append(table, 0)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    made.ports.finish()
    hand.flush()
    assert is_published(table)
