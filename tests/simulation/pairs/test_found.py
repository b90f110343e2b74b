"""What the pairs found, each as small as it gets."""

from collections.abc import Iterator, Sequence

import pytest

from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.services.attempt import Done, Job, in_process
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.table import Table
from tests.every_reader import rows_of
from tests.simulation.pairs.actions import COMPACTED, values_of
from tests.simulation.pairs.matrix import LAST
from tests.simulation.pairs.pair import base, play, stages_of


@pytest.mark.parametrize("earlier", [False, True])
def test_a_restore_ends_a_compaction_that_applied_deletes_which_it_undoes(*, earlier: bool) -> None:
    """Rows that come back are not lost again, also beside an earlier delete that stays."""
    stage = base("rollup", "young").stage.copied()
    table = Table(stage.ports("writer"))
    table.append(values_of(table.ports, {1000: 1, 1002: 2}))
    if earlier:
        table.delete("id = 4")
    table.tag("whole")
    right = rows_of(table.scan(rolled_up=True).to_arrow())
    table.delete("id = 1000")

    ports = stage.ports("compactor")

    def beside_a_restore(jobs: Sequence[Job]) -> Iterator[Done]:
        done = [*in_process(ports.files)(jobs)]
        Table(stage.ports("restorer")).restore(tag="whole")
        return iter(done)

    plans = [known.plan.id for known in request(ports, "major", granularity=Granularity.HOUR)]
    results = compact(ports, plans, beside_a_restore)
    assert Ended.FAILED not in {each.ended for each in results}, results
    assert rows_of(table.scan(rolled_up=True).to_arrow()) == right


def test_a_restored_base_agrees_with_its_footer() -> None:
    """A base of many roots is one of one root where it is restored, and the table is sound."""
    stage = base("latest", "old").stage.copied()
    table = Table(stage.ports("restorer"))
    table.restore(tag=COMPACTED)
    assert verify(table.ports, deep=True).sound


@pytest.mark.parametrize(
    ("kind", "age", "point", "others"),
    [
        ("append", "young", "before read data", "drop an index"),
        ("append", "young", "before list _delta_log", "rebuild an index"),
        ("latest", "old", "before the last list _delta_log", "unpublish"),
        ("append", "old", "before the last read _iceberg", "unpublish"),
        ("append", "old", "before the last read _iceberg", "drop"),
        ("append", "old", "before the last read _delta_log", "major, unpublish, publish anew"),
        ("latest", "old", "before read _delta_log", "update, clean"),
        ("append", "young", "before read data", "drop and create"),
        ("latest", "young", "before list _iceberg", "drop and create"),
    ],
)
def test_what_others_remove_during_a_verification_is_no_damage(
    kind: str, age: str, point: str, others: str
) -> None:
    """An index, a target or the table that is gone by then is not reported as broken."""
    at = stages_of(kind, age, "verify")[point]
    cell = play(base(kind, age), "verify", at, others.split(", "))
    assert cell.outcomes["first"] == ("TableGone" if others in LAST else "done")
