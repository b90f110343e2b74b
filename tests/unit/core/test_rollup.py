"""What a rollup table is: metrics, granularities, schemas, and what is refused by name."""

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, InvalidName, SchemaMismatch
from airflow_provider_segtable.core.log.families.table_events import decode_table, encode_table
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.core.tables.rollup_kind import (
    EVENTS,
    Metric,
    MetricKind,
    QueryGranularity,
    Rollup,
    bound,
    decode_rollup,
    encode_rollup,
    input_schema,
    stored_schema,
)
from airflow_provider_segtable.core.time import Granularity, parse_instant


def schema(**types: str) -> Schema:
    """Return a schema with a time column and these."""
    given = {"at": "timestamp[us]", **types}
    return Schema(tuple(Column(name=name, type=kind) for name, kind in given.items()))


def metrics(*texts: str) -> tuple[Metric, ...]:
    """Return metrics as people write them."""
    return tuple(map(Metric.parse, texts))


def checked(rollup: Rollup, given: Schema, granularity: Granularity = Granularity.DAY) -> Rollup:
    """Return the rollup bound to an input schema."""
    return bound(rollup, given, time_column="at", granularity=granularity)


@pytest.mark.parametrize(
    "text", ["n=count", "delay=sum(arr_delay)", "u=hll(tail,12)", "k=kll(a,b,200)", "f=first(a=b)"]
)
def test_a_metric_is_what_is_written(text: str) -> None:
    """Text and metric are the same; columns may hold commas and equals signs."""
    assert str(Metric.parse(text)) == text
    assert Metric.parse(text.replace("=", " = ", 1)) == Metric.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delay", "'delay' is not a metric"),
        ("n=median(x)", "'median' is not a kind of metric"),
        ("n=sum", "sum of which column"),
        ("n=count(x)", "count counts rows, so it takes no column, but was given 'x'"),
        ("u=hll(x,3)", "lgConfigK = 3 is outside 4 to 21"),
        ("u=theta(x,27)", "lgNomEntries = 27 is outside 4 to 26"),
        ("u=kll(x,7)", "k = 7 is outside 8 to 65535"),
    ],
)
def test_a_metric_that_means_nothing_is_refused(text: str, message: str) -> None:
    """The error names the value and what is possible."""
    with pytest.raises(InvalidInput, match=message):
        Metric.parse(text)


def test_only_sketches_take_an_argument() -> None:
    """A minimum of size 9 is refused."""
    with pytest.raises(InvalidInput, match="min takes no argument, but was given 9"):
        Metric(name="m", kind=MetricKind.MIN, source="x", argument=9)


@pytest.mark.parametrize(
    ("metric", "source", "stored"),
    [
        ("m=sum(x)", "uint32", "int64"),
        ("m=sum(x)", "float", "double"),
        ("m=sum(x)", "decimal128(9, 2)", "decimal128(38, 2)"),
        ("m=sum(x)", "uint64", None),
        ("m=sum(x)", "decimal128(9, -2)", None),
        ("m=sum(x)", "string", None),
        ("m=min(x)", "timestamp[ns, tz=UTC]", "timestamp[ns, tz=UTC]"),
        ("m=last(x)", "bool", "bool"),
        ("m=max(x)", "list<item: int64>", None),
        ("m=first(x)", "time64[us]", None),
        ("m=hll(x)", "int8", "binary"),
        ("m=hll(x)", "double", None),
        ("m=theta(x)", "double", "binary"),
        ("m=kll(x)", "string", None),
    ],
)
def test_a_metric_is_stored_as_the_table_says(metric: str, source: str, stored: str | None) -> None:
    """Types follow from kind and source; what cannot be is refused with both."""
    given, how = schema(x=source), Rollup(metrics=metrics(metric))
    if stored is None:
        with pytest.raises(SchemaMismatch) as error:
            checked(how, given)
        assert f"metric {metric}: column 'x' has type {source}, of which there is no" in str(
            error.value
        )
        return
    made = stored_schema(checked(how, given), given, time_column="at")
    assert made.columns[-1] == Column(name="m", type=stored)


def test_a_table_has_two_schemas() -> None:
    """Input: time, dimensions, sources. Stored: time, dimensions, metrics. Files have more."""
    given = schema(tail="string", delay="int32", carrier="string")
    how = checked(
        Rollup(
            dimensions=("carrier",),
            metrics=metrics("n=count", "delay=sum(delay)", "f=first(tail)", "c=hll(carrier)"),
        ),
        given,
    )
    stored = stored_schema(how, given, time_column="at")
    assert stored.names == ("at", "carrier", "n", "delay", "f", "c")
    assert not stored.columns[2].nullable
    brought = input_schema(how, stored, time_column="at")
    assert {str(column) for column in brought.columns} == {str(c) for c in given.columns}
    assert brought.names == ("at", "carrier", "delay", "tail")
    assert [column.name for column in how.hidden] == [EVENTS, "__segtable_at_f"]
    assert [metric.name for metric in how.sketches] == ["c"]


def test_a_rollup_survives_its_encoding() -> None:
    """Names that text could not carry, sources and all; a table without one is as ever."""
    odd = Metric(name="a=b (c)", kind=MetricKind.KLL, source="x, 5", argument=8)
    given = schema(**{"x, 5": "float", "d": "string"})
    how = checked(Rollup(dimensions=("d",), metrics=(odd, *metrics("n=count"))), given)
    assert decode_rollup(encode_rollup(how)) == how
    table = TableDefinition(
        table_id="i", name="n", schema=given, time_column="at", granularity=Granularity.DAY
    )
    assert "rollup" not in encode_table(table)
    rolled = TableDefinition(
        table_id="i",
        name="n",
        schema=given,
        time_column="at",
        granularity=Granularity.DAY,
        kind=how,
    )
    assert decode_table(encode_table(rolled)) == rolled
    assert decode_table(encode_table(table)).kind == Append()


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        (Rollup(dimensions=("z",)), SchemaMismatch, "no column 'z' for the dimension"),
        (
            Rollup(metrics=metrics("m=max(z)")),
            SchemaMismatch,
            "no column 'z' for the metric source",
        ),
        (Rollup(dimensions=("l",)), SchemaMismatch, "dimension 'l' has type list<item: int8>"),
        (Rollup(dimensions=("at", "x")), InvalidName, "'at' is the time column"),
        (Rollup(dimensions=("x",)), SchemaMismatch, "nothing would be kept of 'l'"),
    ],
)
def test_a_rollup_that_does_not_fit_is_refused(
    how: Rollup, error: type[Exception], message: str
) -> None:
    """Missing, unfit and unused columns are named."""
    with pytest.raises(error, match=message):
        checked(how, schema(x="int8", l="list<item: int8>"))


@pytest.mark.parametrize("name", ["a", "", "__segtable_events"])
def test_names_that_clash_are_refused(name: str) -> None:
    """A metric named as a dimension, empty, or hidden."""
    with pytest.raises(InvalidName, match=r"names two columns|empty or reserved"):
        Rollup(dimensions=("a",), metrics=(Metric(name=name, kind=MetricKind.COUNT),))


@pytest.mark.parametrize(
    ("granularity", "start"),
    [
        ("none", "2024-02-29T13:47:31.5"),
        ("second", "2024-02-29T13:47:31"),
        ("minute", "2024-02-29T13:47"),
        ("five_minute", "2024-02-29T13:45"),
        ("ten_minute", "2024-02-29T13:40"),
        ("fifteen_minute", "2024-02-29T13:45"),
        ("thirty_minute", "2024-02-29T13:30"),
        ("hour", "2024-02-29T13:00"),
        ("day", "2024-02-29"),
        ("week", "2024-02-26"),
        ("month", "2024-02-01"),
        ("year", "2024-01-01"),
    ],
)
def test_times_are_cut_to_the_start_of_their_step(granularity: str, start: str) -> None:
    """Every granularity, and again: a start stays itself."""
    cut = QueryGranularity.parse(granularity).truncate(parse_instant("2024-02-29T13:47:31.5"))
    assert cut == parse_instant(start)
    assert QueryGranularity(granularity).truncate(cut) == cut
    early = parse_instant("1910-05-05T05:05:05")
    assert QueryGranularity(granularity).truncate(early) <= early


def test_a_query_granularity_is_no_coarser_than_the_chunks() -> None:
    """Both values are in the error; equal ones and the chunk of all time are fine."""
    how = Rollup(query_granularity=QueryGranularity.DAY)
    with pytest.raises(InvalidInput, match="'day' is coarser than the table's granularity 'hour'"):
        checked(how, schema(), Granularity.HOUR)
    assert checked(how, schema(), Granularity.DAY) == how
    assert QueryGranularity.YEAR.fits(Granularity.ALL)
    with pytest.raises(
        InvalidName, match="'decade' is not a query granularity: choose one of none"
    ):
        QueryGranularity.parse("decade")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (AddColumn(name="x", type="int64"), "'x' cannot be added: .* is unknown"),
        (DropColumn(name="who"), "dimension 'who' cannot be dropped: .* several rows of one group"),
        (DropColumn(name="n"), "'n' cannot be dropped: .* name it"),
        (RenameColumn(name="n", new="m"), "'n' cannot be renamed: .* a query can rename it"),
        (WidenColumn(name="who", type="int64"), "dimension 'who' cannot become int64: .* grouped"),
        (WidenColumn(name="n", type="double"), "'n' cannot become double: .* it aggregates"),
        (MakeNullable(name="who"), "'who' cannot be made nullable"),
        (Reorder(names=("who",)), "in the order time, dimensions, metrics"),
    ],
)
def test_every_change_of_columns_is_refused_for_its_own_reason(
    change: ColumnChange, reason: str
) -> None:
    """The error names the column, says why, and what to do instead."""
    rollup = Rollup(dimensions=("who",), metrics=(Metric.parse("n=count"),))
    with pytest.raises(InvalidInput, match=f"t is a rollup table, .*{reason}.*: create another"):
        rollup.check_columns([change], "t")
    rollup.check_columns([], "t")
