"""Deletes, updates and merges in the standing disaster, and proof that the checkers can see."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow.compute as pc
import pytest

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.families import cleaning_events
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ROW, Segment
from airflow_provider_segtable.data.jobs import concat
from airflow_provider_segtable.data.row_filter import RowFilter
from airflow_provider_segtable.data.sort import blocks
from airflow_provider_segtable.table import committer, scan
from airflow_provider_segtable.table.changes import row_change
from airflow_provider_segtable.table.log.event_log import EventLog
from tests.planted_kinds import admission, answer_otherwise
from tests.simulation.disasters import forgetful, lawless
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.scenario import build, run
from tests.simulation.seeds import beginning_with
from tests.simulation.world import Shape, World

RIVALS = Shape(
    appenders=2,
    appends_each=2,
    compactors=2,
    planners=1,
    chunks=1,
    asks=3,
    changers=3,
    changes_each=3,
)
CLEANED = replace(RIVALS, cleaners=2, readers=1, taggers=1)


def calm(**changes: Any) -> Faults:
    return Faults(random=Random(1), **changes)


@pytest.mark.parametrize("faults", [lawless, forgetful])
def test_seeds_survive_without_locks(faults: Any) -> None:
    """The log alone decides: changes beside compactions and cleaning need no lock to be right."""
    for seed in range(2):
        run(build(seed, CLEANED, faults(seed)))


def test_crash_at_every_boundary() -> None:
    """One crash before and after single effects of a run with changes, every 97th: nothing lost."""
    shape = replace(RIVALS, appends_each=1, changes_each=2)
    world = build(4, shape, calm())
    run(world)
    for boundary in range(1, world.faults.boundaries + 1, 97):
        run(build(4, shape, calm(crash_at=boundary)))


@pytest.mark.long
def test_interesting_states_are_reached() -> None:
    """Changes of every kind land, lose, are purged by compactions, and are forgotten."""
    seen: Counter[str] = Counter()
    for seed in range(6):
        world = build(seed, CLEANED, Faults(random=Random(seed), delay=0.1, lost_reply=0.02))
        run(world)
        seen.update(_kinds(world))
        state = world.ledger.checked
        assert state is not None
        seen["forgotten"] += state.vectors_pruned_through > 0
        seen["purged"] += sum(s.deletes_applied_through > 0 for s in state.timeline.segments())
        seen["hidden columns"] += sum(not s.traced for s in state.timeline.segments())
        seen["lost"] += sum(": ChangeConflict" in line for line in world.simulation.trace)
    expected = {"delete", "update", "merge", "forgotten", "purged", "hidden columns"}
    assert not expected - set(+seen), seen


def _kinds(world: World) -> Iterable[str]:
    return (world.ledger.intended[name].kind for name in world.ledger.acknowledged)


def caught(shape: Shape = RIVALS, first: int = 0) -> bool:
    """Tell whether any seed shows the planted bug; ``first`` is one that did."""
    for seed in beginning_with(first, 40):
        try:
            run(build(seed, shape, Faults(random=Random(seed), delay=0.1)))
        except (AssertionError, SegtableError):
            return True
    return False


def test_ignoring_vectors_after_a_compaction_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Did readers take compacted files as they are, deleted rows would be back."""
    right = scan.row_filters

    def forgetful(files: Any, state: State, segments: Iterable[Segment], *kept: Any) -> Any:
        found = right(files, state, segments, *kept)
        return {i: s if i.partition < 32768 else replace(s, deleted={}) for i, s in found.items()}

    monkeypatch.setattr(scan, "row_filters", forgetful)
    assert caught()


@pytest.mark.parametrize("books", ["checked", "unchecked"])
def test_claiming_more_than_was_applied_is_caught(
    books: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Did a kernel say that it applied what it never read, rows would be back."""
    right = admission(PlanCompleted)

    def boastful(action: PlanCompleted, state: State) -> Any:
        segments = tuple(replace(s, deletes_applied_through=state.n) for s in action.segments)
        return right(replace(action, segments=segments), state)

    answer_otherwise(monkeypatch, PlanCompleted, admit=boastful)
    if books == "unchecked":
        monkeypatch.setattr(Plan, "check_balance", lambda *_: None)
    assert caught()


def test_admitting_overlapping_deletions_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Was no change refused, two updates of a row would both append it."""
    right = admission(RowsChanged)
    answer_otherwise(
        monkeypatch,
        RowsChanged,
        admit=lambda action, state: right(replace(action, seen=state.n), state),
    )
    assert caught()


def test_forgetting_vectors_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Did cleaning forget vectors that some file still needs, its rows would be back."""
    monkeypatch.setattr(cleaning_events, "needed", lambda *_: {})
    assert caught(CLEANED)


def test_an_update_in_two_events_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were rows deleted by one event and appended by the next, some version would lack them."""
    right = committer.commit

    def halves(ports: Any, state: State, asked: Any) -> Any:
        action = asked.action
        if not (isinstance(action, RowsChanged) and action.segments and action.vectors):
            return right(ports, state, asked)
        first = right(ports, state, replace(asked, action=replace(action, segments=())))
        if isinstance(first, committer.Committed):
            rest = replace(asked, action=Appended(segments=action.segments), commit_id="rest")
            right(ports, first.state, rest)
        return first

    monkeypatch.setattr(row_change, "commit", halves)
    assert caught()


@pytest.mark.parametrize("kernel", ["minor", "sorting"])
def test_addresses_off_by_one_are_caught(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Did a compaction write wrong addresses down, later deletes would hit the row beside."""
    if kernel == "minor":
        right = concat.Tally.through

        def through(tally: concat.Tally, row_filter: RowFilter) -> Any:
            change = right(tally, row_filter)
            return lambda rows, first: beside(change(rows, first))

        monkeypatch.setattr(concat.Tally, "through", through)
    else:
        read = blocks.sifted

        def sifted(*given: Any) -> Any:
            rows, kept = read(*given)
            return beside(rows), kept

        monkeypatch.setattr(blocks, "sifted", sifted)
    assert caught(first=3 if kernel == "minor" else 0)


def beside(rows: Any) -> Any:
    """Return rows with the addresses of those after them."""
    at = rows.schema.get_field_index(ROW)
    if at < 0:
        return rows
    return rows.set_column(at, rows.schema.field(at), pc.add(rows.column(ROW), 1))


def test_the_log_tells_what_was_changed_and_why() -> None:
    """Each change that landed is one event, with as many rows as the model moved."""
    world = build(2, RIVALS, calm())
    run(world)
    for event in EventLog(world.storage).events(0):
        if isinstance(event.action, RowsChanged):
            before, after = (world.ledger.models[n].rows for n in (event.n - 1, event.n))
            moved = sum(before.get(row) != after.get(row) for row in before)
            assert event.action.deleted == moved
            assert event.action.reason
