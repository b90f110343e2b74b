"""A kind of plan is added by one file in the core, one in planning, and one line of the registry.

The toy kinds of ``toys/`` are known to tests alone; here they are listed beside the shipped ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import airflow_provider_segtable
from airflow_provider_segtable.cli.display import drawing
from airflow_provider_segtable.core.errors import InvalidInput, RowsOutOfBalance, UnsupportedFormat
from airflow_provider_segtable.core.log import plan_kinds
from airflow_provider_segtable.core.log.events import decode, encode
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted, PlanRequested
from airflow_provider_segtable.core.log.fold import Conflict, admit
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.plan import Plan, PlanStatus
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.library.lock_facts import lock_facts
from airflow_provider_segtable.library.table_facts import describe_facts, event_facts
from airflow_provider_segtable.planning.finders.finder import finder_of
from airflow_provider_segtable.services.attempt import Done, Job, in_process
from airflow_provider_segtable.services.compact_table import execution_order
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.planner import Launch, plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.checkpoint import decode_head, encode_head
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import contents, rows
from tests.unit.services.toys.polish_plan import PolishPlan
from tests.unit.services.toys.roll_call_plan import RollCallPlan

SHIPPED = plan_kinds.KINDS


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch, ports: TableContext) -> Iterator[None]:
    """List the toys, and check the table at the end."""
    monkeypatch.setattr(plan_kinds, "KINDS", (*SHIPPED, PolishPlan, RollCallPlan))
    yield
    assert list(violations(Table(ports).state())) == []


def run(ports: TableContext, launches: Sequence[Launch]) -> set[Ended]:
    ids = [launch.plan_id for launch in launches]
    return {result.ended for result in compact(ports, ids, in_process(ports.files))}


def joined(ports: TableContext) -> None:
    """Join the small segments of each hour."""
    assert run(ports, plan_table(ports).launches) == {Ended.COMPLETED}


def test_no_file_of_the_package_mentions_the_toys() -> None:
    """What follows works without a word about them."""
    package = Path(airflow_provider_segtable.__file__).parent
    texts = "".join(path.read_text() for path in package.rglob("*.py")).lower()
    assert not [word for word in ("polish", "roll-call", "roll_call", "shine") if word in texts]


@pytest.mark.parametrize("kind", [*SHIPPED, PolishPlan, RollCallPlan])
def test_every_kind_has_its_finder(kind: type[Plan]) -> None:
    """The module that a kind names finds plans of that kind."""
    assert finder_of(kind).plan is kind


def test_the_planner_finds_locks_runs_and_completes_it(
    ports: TableContext, other: TableContext
) -> None:
    """From the dry run to the new segments, under the lock and the priority that the kind asks."""
    joined(ports)
    before = contents(ports)
    assert {x.kind for x in plan_table(ports, dry_run=True).launches} == {"polish"}
    launches = plan_table(ports).launches
    seen = []

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        seen.extend(other.coordinator.locks("t"))
        assert plan_table(other).launches == ()
        yield from in_process(ports.files)(jobs)

    results = compact(ports, [x.plan_id for x in launches], execute)
    assert {result.ended for result in results} == {Ended.COMPLETED}
    state = Table(ports).state()
    shown = {lock.purpose: lock_facts(lock, 0) for lock in seen}
    assert {x.plan_id: "segment" for x in launches} == {
        plan_id: facts["granularity"] for plan_id, facts in shown.items()
    }
    assert {facts["priority"] for facts in shown.values()} == {PolishPlan.priority}
    assert {state.plans[x.plan_id].status for x in launches} == {PlanStatus.COMPLETED}
    assert {s.clustering for s in state.timeline.visible_segments()} == {"row"}
    assert contents(ports) == before
    assert plan_table(ports).launches == ()


def test_it_is_told_like_every_other_kind(ports: TableContext) -> None:
    """The plan command, the table's description, its log and the doctor show what the kind says."""
    joined(ports)
    found = plan_table(ports)
    facts = found.facts()
    assert {chosen["kind"] for chosen in facts["chosen"]} == {"polish"}
    drawing.plan(facts)
    state = Table(ports).state()
    described = describe_facts("t", state)
    assert [plan["kind"] for plan in described["pending_plans"]] == ["polish", "polish"]
    asked = [e for e in ports.log.events(state.n - 1) if isinstance(e.action, PlanRequested)]
    lines = [event_facts(event)["summary"] for event in asked]
    assert [line.partition(": ")[2] for line in lines] == ["row will shine"] * 2
    ports.clock.advance(3600)  # type: ignore[attr-defined]
    codes = {finding.code for finding in examine(ports).findings}
    assert "abandoned-plan" in codes


def test_it_survives_the_log_and_the_checkpoint(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event and a checkpoint hold all its fields; without its line the kind is refused."""
    joined(ports)
    plan_table(ports)
    state = Table(ports).state()
    event = ports.log.event(state.n)
    assert event is not None
    assert isinstance(event.action, PlanRequested)
    assert isinstance(event.action.plan, PolishPlan)
    data = encode(event)
    assert decode(data, "event") == event
    head = decode_head(encode_head(state), state.timeline, state.ids)
    assert head.pending_plans() == state.pending_plans()
    unknown = r"event: plan polish-.* is of kind 'polish'"
    with monkeypatch.context() as without:
        without.setattr(plan_kinds, "KINDS", SHIPPED)
        with pytest.raises(UnsupportedFormat, match=unknown):
            decode(data, "event")


def test_its_own_conditions_count_beside_the_common_ones(ports: TableContext) -> None:
    """A claimed input, a second polish and a dull output are refused, each by its reason."""
    joined(ports)
    plan_table(ports)
    state = Table(ports).state()
    known = state.pending_plans()[0]
    rival = replace(known.plan, id="polish-rival")
    assert admit(PlanRequested(plan=rival), state) == Conflict(
        reason=f"inputs of polish-rival are claimed by pending plan {known.plan.id}",
        winner=known.last_n,
    )

    assert run(ports, plan_table(ports).launches) == {Ended.COMPLETED}
    done = Table(ports).state()
    shining = done.timeline.visible_segments()[0]
    again = replace(known.plan, id="polish-again", inputs=(shining.id,))
    refused = admit(PlanRequested(plan=again), done)
    assert refused == Conflict(reason="polish-again is polished already")
    attempt = state.plans[known.plan.id]
    with pytest.raises(RowsOutOfBalance, match="does not shine"):
        known.plan.check_balance(attempt, [replace(shining, clustering="")], state)


def test_smaller_kinds_run_first_and_each_has_its_patience(ports: TableContext) -> None:
    """The order and the waiting time of a process are the kinds' own."""
    joined(ports)
    polish = [known.plan.id for known in request(ports, "polish")]
    calls = [known.plan.id for known in request(ports, "roll-call")]
    order = [
        (turn.plan_ids, turn.wait_s)
        for turn in execution_order(Table(ports).state(), polish + calls)
    ]
    assert order == [(tuple(calls), 0.0), (tuple(polish), 7.0)]


def test_a_request_may_set_only_what_the_kind_offers(ports: TableContext) -> None:
    """Users ask for a toy by its name, and are told which kinds can sort."""
    with pytest.raises(InvalidInput, match=r"a polish compaction keeps .*use semi-major or major"):
        request(ports, "polish", clustering="row")
    with pytest.raises(InvalidInput, match="roll-call, minor, semi-major, polish, major"):
        request(ports, "dust")
    with pytest.raises(InvalidInput, match="nothing to compact"):
        request(ports, "polish")  # nothing is joined yet


def test_a_plan_that_writes_nothing_completes(ports: TableContext) -> None:
    """It locks time, claims no segment, and its completion publishes none."""
    before = Table(ports).state()
    pending = request(ports, "roll-call")
    minors = plan_table(ports)
    assert {x.kind for x in minors.launches} == {"roll-call", "minor"}
    results = compact(ports, [known.plan.id for known in pending], in_process(ports.files))
    assert {result.ended for result in results} == {Ended.COMPLETED}
    after = Table(ports).state()
    assert after.timeline.visible_segments() == before.timeline.visible_segments()
    events = [*ports.log.events(before.n + 1)]
    assert sum(isinstance(event.action, PlanCompleted) for event in events) == len(pending)
    assert all(event_facts(event)["summary"] for event in events)
    Table(ports).append(rows(9))
