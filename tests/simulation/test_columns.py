"""Columns that change beside appenders, changers, compactors and cleaners."""

import pytest

from airflow_provider_segtable.table.table import Table
from tests.simulation.scenario import build, run
from tests.simulation.simulator import Actor
from tests.simulation.world import Shape, World

ALTERED = Shape(
    appenders=2,
    appends_each=3,
    compactors=2,
    chunks=1,
    asks=2,
    cleaners=1,
    changers=2,
    changes_each=2,
    alterers=2,
    alterations_each=4,
)


@pytest.mark.parametrize("seed", range(4))
def test_columns_change_beside_everybody(seed: int) -> None:
    """No row is lost, and a column has its default in old rows, null in those without it."""
    world = build(seed, ALTERED)
    run(world)
    table = _table(world)
    schema = table.state().table.schema
    assert 0 < schema.number <= ALTERED.alterers * ALTERED.alterations_each
    rows = table.snapshot().to_arrow()
    seen = 0
    for column in schema.numbered:
        if column.default is not None:
            values = {*rows.column(column.name).to_pylist()}
            assert values <= {None, int(column.default)}
            seen += int(column.default) in values
    assert seen


def _table(world: World) -> Table:
    outside = Actor(name="outside", run=lambda _: None, simulation=world.simulation)
    return Table(world.raw_ports(outside))
