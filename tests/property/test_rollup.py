"""Rolled up at once, in parts, or in parts of parts: always what plain Python says."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.tables.rollup_kind import EVENTS, QueryGranularity
from airflow_provider_segtable.data.arrow_schema import physical_schema
from airflow_provider_segtable.data.rollup.rollup_rows import from_input, rolled_up
from tests.examples import examples
from tests.property import rollup_model as model

HOW = model.rollup()
granularities = st.sampled_from(list(QueryGranularity))


def physical(rows: pa.Table) -> pa.Table:
    """Return the rows rolled up by the hour."""
    return from_input(rows, HOW, time_column="at")


def again(rows: pa.Table) -> pa.Table:
    """Return rolled-up rows rolled up once more."""
    return rolled_up(rows, HOW, time_column="at")


@examples(50)
@given(rows=model.rows(), granularity=granularities)
def test_given_rows_become_what_plain_python_says(
    rows: pa.Table, granularity: QueryGranularity
) -> None:
    """Every kind of metric, every granularity, nulls, NaN and minus zero: as the model has it."""
    how = model.rollup(granularity)
    made = from_input(rows, how, time_column="at")
    assert model.found(made, how) == model.expected(rows, how)
    assert sum(made.column(EVENTS).to_pylist()) == rows.num_rows


@examples(50)
@given(rows=model.rows(), data=st.data())
def test_any_split_and_merge_order_gives_the_same(rows: pa.Table, data: st.DataObject) -> None:
    """Rows dealt to any parts, the parts merged in any order and grouping: one answer."""
    dealt = data.draw(
        st.lists(st.integers(0, 4), min_size=rows.num_rows, max_size=rows.num_rows), label="parts"
    )
    parts = [
        physical(rows.filter(pa.array([part == number for part in dealt], pa.bool_())))
        for number in range(5)
    ]
    while len(parts) > 1:
        order = data.draw(st.permutations(range(len(parts))), label="order")
        some = data.draw(st.integers(2, len(parts)), label="merged")
        joined = pa.concat_tables([parts[at] for at in order[:some]])
        merged = again(joined) if data.draw(st.booleans(), label="rolled up") else joined
        parts = [merged, *(parts[at] for at in order[some:])]
    assert model.found(again(parts[0]), HOW) == model.expected(rows, HOW)


@examples(50)
@given(rows=model.rows())
def test_rolling_up_twice_changes_nothing(rows: pa.Table) -> None:
    """Perfectly rolled-up rows are a fixed point, in order and types, too."""
    once = physical(rows)
    assert model.found(again(once), HOW) == model.found(once, HOW)
    assert again(once).schema == once.schema
    assert again(again(once)).num_rows == once.num_rows


@examples(50)
@given(rows=model.rows(), chunk=st.integers(1, 7))
def test_dictionaries_and_chunks_make_no_difference(rows: pa.Table, chunk: int) -> None:
    """Text as dictionaries, of other words in each chunk: the same rows, dictionaries still."""
    pieces = [
        model.dictionaries(rows.slice(start, chunk)) for start in range(0, rows.num_rows, chunk)
    ]
    words = pa.concat_tables([model.dictionaries(rows.slice(0, 0)), *pieces])
    made = from_input(words, HOW, time_column="at")
    assert pa.types.is_dictionary(made.schema.field("carrier").type)
    assert model.found(made, HOW) == model.expected(rows, HOW)
    assert model.found(again(made), HOW) == model.expected(rows, HOW)


@examples(50)
@given(rows=model.rows())
def test_rows_come_sorted_by_dimensions_then_time(rows: pa.Table) -> None:
    """The order that compaction promises comes with rolling up, nulls first."""
    made = physical(rows).select([*HOW.dimensions, "at"])
    keys = [
        tuple((True, *model.order(v)) if v is not None else (False,) for v in row.values())
        for row in made.to_pylist()
    ]
    assert keys == sorted(keys)


@examples(50)
@given(rows=model.rows())
def test_the_schema_is_the_physical_one(rows: pa.Table) -> None:
    """What is made has the stored schema's columns and types, then the hidden ones."""
    from airflow_provider_segtable.core.tables.rollup_kind import stored_schema
    from airflow_provider_segtable.data.arrow_schema import from_arrow, to_arrow

    stored = to_arrow(stored_schema(HOW, from_arrow(model.INPUT), time_column="at"))
    assert physical(rows).schema == physical_schema(stored, HOW)
