"""Compaction of a table in rounds: what was there when it began, and no more."""

from collections.abc import Sequence

from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compact_table import compact_by_policy, pending
from airflow_provider_segtable.services.compaction import Ended, PlanResult, compact
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import contents, rows

MOST_ROUNDS = 6


class Rounds:
    """Carries out plans, and does something after each round."""

    def __init__(self, ports: TableContext, appends: int = 0) -> None:
        """Append so many small segments to each hour after each round."""
        self.ports, self.appends = ports, appends
        self.plans: list[int] = []

    def __call__(self, ports: TableContext, plans: Sequence[str]) -> tuple[PlanResult, ...]:
        """Carry out plans."""
        assert ports is self.ports
        self.plans.append(len(plans))
        assert len(self.plans) < MOST_ROUNDS
        results = tuple(compact(self.ports, plans, in_process(self.ports.files)))
        for turn in range(self.appends):
            Table(self.ports).append(rows(10 * len(self.plans) + turn))
        return results


def test_appends_that_go_on_do_not_make_it_endless(ports: TableContext) -> None:
    """What came meanwhile is planned and left, and the next run begins with it."""
    run = Rounds(ports, appends=3)
    assert {result.ended for result in compact_by_policy(ports, run)} == {Ended.COMPLETED}
    assert run.plans == [2]
    left = pending(ports.log.load())
    assert len(left) == 2
    again = Rounds(ports)
    assert {result.plan_id for result in compact_by_policy(ports, again)} >= {*left}
    assert pending(ports.log.load()) == ()
    assert len(contents(ports)) == 2 * 4 + 2 * 3


def test_rounds_go_on_over_what_they_made(ports: TableContext) -> None:
    """One plan a round, and outputs that are inputs again: all that was there is compacted."""
    Table(ports).alter(set={"compaction.max_plans": "1"})
    run = Rounds(ports)
    compact_by_policy(ports, run)
    assert run.plans == [1, 1]
    Table(ports).alter(set={"compaction.clustering": "row"})
    for turn in range(4):
        Table(ports).append(rows(20 + turn))
    before = len(contents(ports))
    run = Rounds(ports)
    compact_by_policy(ports, run)
    assert len(run.plans) > 1
    assert pending(ports.log.load()) == ()
    assert len(contents(ports)) == before
