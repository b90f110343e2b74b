"""Sources: formats by suffix, text in the table's types."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.errors import InvalidInput, NotFound, SchemaMismatch
from airflow_provider_segtable.core.requests.csv_format import CsvFormat
from airflow_provider_segtable.data.files.input_files import InputFile, read_fitting, read_rows
from airflow_provider_segtable.data.files.text_values import BadRows, Needed
from airflow_provider_segtable.data.row_checks import check_rows, conformed
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.input_source import complete, format_of, read_source
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from tests.spark.conftest import MakeTable

pytestmark = pytest.mark.spark

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("who", pa.string())])


def test_csv_columns_are_found_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    """A compressed CSV in another column order is read in the table's types."""
    path = tmp_path / "flights.csv.gz"
    path.write_bytes(gzip.compress(b"n,who,at\n1,NA,2013-01-01T05:00:00Z\n"))
    rows = read_source(spark, str(path), options={"nullValue": "NA"}, schema=EVENTS)
    assert rows.dtypes == [("n", "bigint"), ("who", "string"), ("at", "timestamp")]
    assert rows.select("n", "who").collect() == [(1, None)]


def test_a_value_that_does_not_parse_is_refused(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path
) -> None:
    """Text that is no number fails the ingest; it never becomes null."""
    path = tmp_path / "bad.csv"
    path.write_text("at,n,who\n2013-01-01T05:00:00Z,one,x\n")
    table = make_table(EVENTS)
    rows = read_source(spark, str(path), schema=EVENTS)
    with pytest.raises(SchemaMismatch, match=r"column .n.: .one. is not a value of type int64"):
        ingest(table.ports, rows)
    assert table.state().n == 0


def test_nothing_at_the_path(spark: SparkSession, tmp_path: Path) -> None:
    """A missing source is named."""
    with pytest.raises(NotFound, match=r"nothing\.parquet"):
        read_source(spark, str(tmp_path / "nothing.parquet"))


@pytest.mark.parametrize(
    ("path", "kind"),
    [("a/b.CSV.gz", "csv"), ("x.parquet/", "parquet"), ("s3://b/c.ndjson.zst", "json")],
)
def test_the_suffix_tells_the_format(path: str, kind: str) -> None:
    """Compression and case do not matter."""
    assert format_of(path)[0] == kind


def test_no_suffix_tells_none() -> None:
    """The way out is in the message."""
    with pytest.raises(InvalidInput, match="--format"):
        format_of("data/2013")


NASTY = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("who.name", pa.string()),
        ("i", pa.int32()),
        ("u", pa.uint64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(9, 3)),
        ("ok", pa.bool_()),
        ("raw", pa.binary()),
    ]
)
NASTY_ROWS = (
    "2013-01-01T05:00:00Z;2013-01-01 05:00;2013-01-01;NA;1;18446744073709551615;nan;1;1.5;true;x",
    '2013-01-01T05:00:00+02:00;;;"a;""b""\nc";-2;;inf;-inf;1e2;FALSE;""',
    '2013-01-01;2013-01-01T05:00:00.123456;1969-12-31;;;0;1e-400;0.1;-.5;1;"é"',
    '2013-01-01T05:00:00.000001Z;;;"";"-";-;-;-;-;-;-',
    "0001-01-01T00:00:00Z;;0001-01-01;null;007;007;-0.0;1e-46;0;0; y ",
    "2013-12-31T23:59:59Z;9999-12-31;;\"-\";0x10;1;Infinity;3;1;True;'q'",
    "",
    "2013-12-31T23:59:59Z;;;\\N;1;1;1d;1;1;1;1",
)
"""The last row does not fit a column: Java's ``1d`` is no number."""


def test_both_engines_read_a_nasty_file_alike(spark: SparkSession, tmp_path: Path) -> None:
    """Quotes, newlines, nulls, zones and extremes of each type are the same rows on Spark."""
    form = CsvFormat(delimiter=";", nulls=("-",))
    path = tmp_path / "nasty.csv"
    header = ";".join(NASTY.names)
    path.write_text("\n".join([header, *NASTY_ROWS[:-1]]) + "\n")
    here = check_rows(read_rows(InputFile(str(path), csv=form), NASTY), NASTY, "at")
    there = read_source(spark, str(path), schema=NASTY, csv=form).toArrow()
    assert here.num_rows == len(NASTY_ROWS) - 2
    assert str(conformed(there, NASTY).to_pylist()) == str(here.to_pylist())


@pytest.mark.parametrize("text", ["1d", "1e400", " 1", "NA", "0x1p3", '""'])
def test_both_engines_refuse_alike(spark: SparkSession, tmp_path: Path, text: str) -> None:
    """What is no number is refused on Spark, too, with the file, the column and the text."""
    path = tmp_path / "bad.csv"
    path.write_text(f"n,x\n1,{text}\n")
    schema = pa.schema([("n", pa.int64()), ("x", pa.float64())])
    for read in (
        lambda: read_rows(InputFile(str(path)), schema),
        lambda: translated_rows(read_source(spark, str(path), schema=schema)),
    ):
        with pytest.raises(SchemaMismatch) as refused:
            read()
        for word in ("bad.csv", "column 'x'", repr(text.strip('"'))):
            assert word in str(refused.value)


def translated_rows(rows: DataFrame) -> None:
    """Collect rows, with segtable's errors."""
    with translated("reading"):
        rows.collect()


def test_a_number_of_json_that_overflows_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A number that Spark would make infinite is refused with its column."""
    path = tmp_path / "bad.json"
    path.write_text('{"n": 1, "x": 1e400}\n')
    schema = pa.schema([("n", pa.int64()), ("x", pa.float64())])
    with pytest.raises(SchemaMismatch, match=r"column 'x'.*too large"):
        translated_rows(read_source(spark, str(path), schema=schema))


def test_another_delimiter_is_named_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The message for a wrong delimiter names the file's."""
    path = tmp_path / "bad.csv"
    path.write_text("at|n|who\n2013-01-01T05:00:00Z|1|x\n")
    with pytest.raises(InvalidInput, match="seems to be"):
        read_source(spark, str(path), schema=EVENTS)


NOT_FITTING = """at,n,who
2013-01-01T00:00:00Z,1,a
,2,b
2013-01-01T00:00:00Z,much,"c
d"
2013-02-30T00:00:00Z,3,d
0000-01-01T00:00:00Z,4,e
2013-01-01T00:00:00Z,5,f
"""


def test_both_engines_set_the_same_rows_aside(spark: SparkSession, tmp_path: Path) -> None:
    """Spark sets the rows aside that the local engine does, for the same reasons, and no others."""
    csv, parquet = tmp_path / "bad.csv", tmp_path / "bad.parquet"
    csv.write_text(NOT_FITTING)
    at = pa.array([0, None, 2], EVENTS.field("at").type)
    pq.write_table(pa.table([at, [1, 2, 3], ["a", None, None]], schema=EVENTS), parquet)
    needed = Needed(time="at", columns=("n", "who"))
    for file, expected in ((csv, [1, 2, 3, 4]), (parquet, [1, 2])):
        here, there = (BadRows(str(tmp_path / f"{file.name}.{name}")) for name in "ab")
        found, numbers = read_fitting(InputFile(str(file)), EVENTS, here)
        kept = here.complete(found, numbers, needed, str(file))
        rows = complete(
            read_source(spark, str(file), schema=EVENTS, bad=there), needed, str(file), there
        )
        assert [tuple(row) for row in rows.select("n", "who").collect()] == list(
            zip(*(kept[name].to_pylist() for name in ("n", "who")), strict=True)
        )
        assert _aside(here) == _aside(there)
        assert [row for row, _ in _aside(there)] == expected
        assert there.count == len(expected)
        assert json.loads(Path(there.path).read_text().splitlines()[0])["values"].keys() == {
            *EVENTS.names
        }


def _aside(bad: BadRows) -> list[tuple[int, str]]:
    """Return the rows that were set aside, with the reasons."""
    lines = [json.loads(line) for line in Path(bad.path).read_text().splitlines()]
    return sorted((line["row"], line["reason"]) for line in lines)
