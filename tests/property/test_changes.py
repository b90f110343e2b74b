"""Changes commute with compactions: whatever completes when, readers find what a dictionary has.

The same scripts are played by the oracle, by the real core and by a rival that executes predicates
again on what was compacted meanwhile (``changes_model``). The rival is wrong in ways that are told
here one by one; the core never is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log import events
from airflow_provider_segtable.core.log import state as log_state
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families import (
    append_events,
    cleaning_events,
)
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.group_plans import SemiMajorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import Compare, Compares
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.time import HOUR_US, Granularity
from tests.examples import examples
from tests.planted_kinds import answer_otherwise
from tests.property.changes_model import (
    Below,
    First,
    Naive,
    Oracle,
    OverAverage,
    Predicate,
    Row,
    Step,
    script,
)
from tests.property.changes_played import HOURLY, Held, Ours
from tests.support.builders import created

HALF_HOUR_US = HOUR_US // 2


def play(steps: list[Step]) -> Ours:
    """Play a script, comparing after every step, and at every kept version."""
    oracle, ours = Oracle(), Ours()
    then = {0: frozenset(oracle.rows)}
    for step in steps:
        ours.play(step)
        oracle.play(step)
        assert ours.rows == oracle.rows, step
        then |= dict.fromkeys(range(max(then) + 1, ours.state.n + 1), frozenset(oracle.rows))
        for state in ours.past[ours.state.retained_from :][-3:]:
            assert {held.row.number for held in ours.read(state)} == then[state.n]
    for state in ours.past[ours.state.retained_from :]:
        assert {held.row.number for held in ours.read(state)} == then[state.n]
    return ours


@examples(90)
@given(st.integers(0, 2**32))
def test_changes_commute_with_compactions(seed: int) -> None:
    """After every event of any history readers find exactly what appends and changes left."""
    play(script(Random(seed), 60))


def test_the_scripts_reach_what_is_interesting() -> None:
    """Rows are purged, looks taken again, vectors forgotten and files shared in these scripts."""
    deletes_applied_through = conflicts = vectors_pruned_through = shared = swept = 0
    for seed in range(60):
        ours = play(script(Random(seed), 80))
        deletes_applied_through += ours.deletes_applied_through
        conflicts += ours.conflicts
        vectors_pruned_through += ours.state.vectors_pruned_through > 0
        shared += sum(1 for s in ours.state.timeline.segments() if s.origin)
        swept += sum(path.endswith("arrow") for path in ours.deleted)
    assert min(deletes_applied_through, conflicts) > 100
    assert min(vectors_pruned_through, shared, swept) > 5


def test_executing_predicates_again_is_wrong_again_and_again() -> None:
    """The rival loses or resurrects rows in a good part of the scripts that the core plays well."""
    wrong = 0
    for seed in range(60):
        oracle, naive = Oracle(), Naive()
        for step in script(Random(seed), 80):
            oracle.play(step)
            naive.play(step)
        wrong += naive.rows != oracle.rows
    assert wrong > 20


def appended(*values: int) -> list[Step]:
    """Return an append of one file; rows are named by their value and a letter."""
    letters = "abcdefgh"
    given = tuple(Row(f"{v}{letters[i]}", HALF_HOUR_US + i, v) for i, v in enumerate(values))
    return [Step("write", f"{values}", rows=given), Step("append", f"{values}")]


def look(where: Predicate, *, update: bool = False) -> Step:
    """Return the look of the one change of an example."""
    return Step("look", "c", where=where, update=update)


CHANGE = Step("change", "c")
SORT = Step("start", "k", kind=SemiMajorPlan.kind)
REPLACE = Step("start", "k", kind=MajorPlan.kind, cut=Granularity.DAY)
DONE = Step("finish", "k")


class Wrong(NamedTuple):
    """What executing the predicate again does wrong: ``why``, and to which rows."""

    why: str
    steps: list[Step]
    lost: set[str]
    resurrected: set[str]


EXAMPLES = [
    Wrong(
        "The update is committed after a compaction whose input held 2a, which it never saw: "
        "executed on the output it takes 2a away, and nothing was appended for it.",
        [
            *(*appended(1), look(Below(5), update=True), *appended(2)),
            *(SORT, DONE, CHANGE),
        ],
        {"2a"},
        set(),
    ),
    Wrong(
        "The same, but that the compaction (which cuts time anew) is committed after the update.",
        [
            *(*appended(1), look(Below(5), update=True), *appended(2)),
            *(REPLACE, CHANGE, DONE),
        ],
        {"2a"},
        set(),
    ),
    Wrong(
        "The delete chose 5a with LIMIT 1; in the sorted output 5b comes first, so 5b goes and 5a "
        "is back.",
        [*appended(5, 5), SORT, look(First(5)), CHANGE, DONE],
        {"5b"},
        {"5a"},
    ),
    Wrong(
        "The same in the other order: the delete is committed when its row is in the output.",
        [*appended(5, 5), look(First(5)), REPLACE, DONE, CHANGE],
        {"5b"},
        {"5a"},
    ),
    Wrong(
        "The sub-query's average was 4.5 over the table; over the output, which lacks what was "
        "appended since the compaction began, it is 9: row 8a is back.",
        [*appended(9, 9), *appended(8), SORT, *appended(0, 1), look(OverAverage()), CHANGE, DONE],
        set(),
        {"8a"},
    ),
    Wrong(
        "Over the output alone the average is lower, so a row goes that the delete left alone.",
        [*appended(2), *appended(3), SORT, *appended(9), look(OverAverage()), CHANGE, DONE],
        {"3a"},
        set(),
    ),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.why.split(":")[0])
def test_executing_a_predicate_again_loses_or_resurrects_rows(example: Wrong) -> None:
    """In each of these the rival is wrong as told, and the core is right."""
    oracle, naive = Oracle(), Naive()
    for step in example.steps:
        oracle.play(step)
        naive.play(step)
    assert set(oracle.rows) - set(naive.rows) == example.lost
    assert set(naive.rows) - set(oracle.rows) == example.resurrected
    play(example.steps)


@dataclass
class Predicates(Ours):
    """A rollup table: rows have no address, and a delete is ``value < limit`` to all there is."""

    state: State = field(default_factory=lambda: created(replace(HOURLY, kind=Rollup())))

    def kept(self, segment: Segment, state: State) -> list[Held]:
        """Return the rows of a segment without those that predicates take away."""
        limits = [each.predicate.value for each in state.erased(segment)]  # type: ignore[union-attr]
        return [h for h in self.addressed(segment) if all(h.row.value >= n for n in limits)]  # type: ignore[operator]

    def addressed(self, segment: Segment) -> list[Held]:
        """Return all rows of a segment's file; their addresses mean nothing."""
        rows = self.held.get(segment.path, [])
        return [row if isinstance(row, Held) else Held(segment.id, 0, row) for row in rows]

    def file(  # noqa: D102 - as in the base
        self, chunk: ChunkKey, shard: Shard, rows: Sequence[Held | Row], **made_of: Any
    ) -> Segment:
        return replace(super().file(chunk, shard, rows, **made_of), lineage=(), roots=())

    def play(self, step: Step) -> None:
        """Do one step; there are only deletes, without a look before."""
        if step.do == "look" and isinstance(step.where, Below):
            where = Compare("value", Compares.LESS, step.where.limit)
            assert self.commit(RowsChanged(kind="delete", predicate=where))
        elif step.do not in {"look", "change"}:
            super().play(step)


@examples(40)
@given(st.integers(0, 2**32))
def test_a_predicate_hits_what_was_there_and_nothing_later(seed: int) -> None:
    """In a rollup table rows appended before a delete go, later ones stay, however compacted."""
    oracle, ours = Oracle(), Predicates()
    for step in script(Random(seed), 60):
        ours.play(step)
        if step.do == "look" and isinstance(step.where, Below):
            gone = step.where.chosen(list(oracle.rows.values()))
            oracle.rows = {n: row for n, row in oracle.rows.items() if row not in gone}
        elif step.do not in {"look", "change"}:
            oracle.play(step)
        assert ours.rows == oracle.rows, step


def test_predicates_purge_and_are_forgotten() -> None:
    """Erasures are applied by compactions and leave the state in these scripts."""
    deletes_applied_through = vectors_pruned_through = 0
    for seed in range(40):
        ours = Predicates()
        for step in script(Random(seed), 60):
            ours.play(step)
        counts = [len(state.predicate_deletes) for state in (*ours.past, ours.state)]
        deletes_applied_through += ours.deletes_applied_through
        vectors_pruned_through += counts != sorted(counts)
    assert deletes_applied_through > 20
    assert vectors_pruned_through > 5


def _blind(action: RowsChanged, state: State) -> RowsChanged:
    return replace(action, segments=append_events.placed(action.segments, state))  # type: ignore[arg-type]


def _rootless(segments: Sequence[Segment], state: State) -> tuple[Segment, ...]:
    placed = PLACED(segments, state)
    return placed if isinstance(placed, Conflict) else tuple(replace(s, lineage=()) for s in placed)  # type: ignore[return-value]


PLACED = append_events.placed


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        (events, "admit", _blind),
        (append_events, "placed", _rootless),
        (cleaning_events, "needed", lambda vectors, _: dict(list(vectors.items())[1:])),
        (
            log_state,
            "applying",
            lambda segment, vectors: {} if segment.deletes_applied_through else vectors,
        ),
    ],
    ids=["no change is refused", "roots are shared", "vectors go too early", "compacted is pure"],
)
def test_a_planted_bug_is_seen(
    module: object, name: str, wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison is worth something: with any of these rules broken some script fails."""
    if module is events:
        answer_otherwise(monkeypatch, RowsChanged, admit=wrong)
    else:
        monkeypatch.setattr(module, name, wrong)
    with pytest.raises((AssertionError, KeyError, SegtableError)):
        play_many(200)


def play_many(count: int) -> None:
    """Play so many scripts."""
    for seed in range(count):
        play(script(Random(seed), 60))
