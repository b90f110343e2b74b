"""Text files: a field is null, or a value of its column, or it is refused by row and column."""

import re
from pathlib import Path
from shlex import quote

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.requests.csv_format import CsvFormat
from airflow_provider_segtable.data.files.input_files import InputFile, read_rows, schema_of

SCHEMA = pa.schema([("code", pa.string()), ("n", pa.int64()), ("x", pa.float64())])


def _file(folder: Path, text: str | bytes, name: str = "given.csv", **csv: object) -> InputFile:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return InputFile(str(path), csv=CsvFormat(**csv))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["NA", "N/A", "null", "NULL", "nan", "NaN", "#N/A", "-nan"])
def test_a_text_is_a_text(tmp_path: Path, text: str) -> None:
    """Namibia's code stays, as does each other text that some tools take for null."""
    rows = read_rows(_file(tmp_path, f"code,n,x\n{text},1,2\n"), SCHEMA)
    assert rows.column("code").to_pylist() == [text]


def test_only_an_empty_field_without_quotes_is_null(tmp_path: Path) -> None:
    """Empty is null, in quotes it is the empty text."""
    rows = read_rows(_file(tmp_path, 'code,n,x\n,1,2\n"",,\n'), SCHEMA)
    assert rows.to_pylist() == [
        {"code": None, "n": 1, "x": 2.0},
        {"code": "", "n": None, "x": None},
    ]


def test_named_texts_are_null(tmp_path: Path) -> None:
    """Texts that are named are null in each column, quoted or not; an empty field still is."""
    file = _file(tmp_path, 'code,n,x\nNA,NA,-\n"NA","-",1\n,1,2\n', nulls=("NA", "-"))
    assert read_rows(file, SCHEMA).to_pylist() == [
        {"code": None, "n": None, "x": None},
        {"code": None, "n": None, "x": 1.0},
        {"code": None, "n": 1, "x": 2.0},
    ]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.float64(), "1e400"),
        (pa.float64(), "-1e400"),
        (pa.float32(), "1e39"),
        (pa.float16(), "1e6"),
        (pa.int8(), "128"),
        (pa.decimal128(5, 2), "1.255"),
        (pa.bool_(), "yes"),
        (pa.date32(), "2013-02-30"),
        (pa.time64("us"), "25:00"),
        (pa.float64(), "NA"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, kind: pa.DataType, text: str) -> None:
    """A value that is too large, too exact or none is refused with file, row, column and text."""
    file = _file(tmp_path, f"code,v\na,\nb,{text}\n")
    with pytest.raises(SchemaMismatch) as refused:
        read_rows(file, pa.schema([("code", pa.string()), ("v", kind)]))
    for word in ("given.csv", "row 1", "column 'v'", repr(text)):
        assert word in str(refused.value)


def test_infinity_is_written_as_such(tmp_path: Path) -> None:
    """A text that says infinity is infinite: nothing overflowed."""
    rows = read_rows(_file(tmp_path, "x\ninf\n-Infinity\n"), SCHEMA)
    assert rows.column("x").to_pylist() == [float("inf"), float("-inf")]


@pytest.mark.parametrize(
    ("kind", "text"),
    [(pa.float64(), "1e400"), (pa.float32(), "1e39"), (pa.int8(), "300"), (pa.int64(), "1.5")],
)
def test_numbers_of_json_that_do_not_fit(tmp_path: Path, kind: pa.DataType, text: str) -> None:
    """A number of JSON that does not fit is refused with file, row, column and number."""
    lines = '{"a": 1, "v": 1}\n\n{"a": 1, "v": ' + text + "}\n"
    with pytest.raises(SchemaMismatch) as refused:
        read_rows(_file(tmp_path, lines, "given.jsonl"), pa.schema([("a", pa.int8()), ("v", kind)]))
    for word in ("given.jsonl", "row 1", "column 'v'"):
        assert word in str(refused.value)


def test_another_delimiter_is_named(tmp_path: Path) -> None:
    """The message for a wrong delimiter names the one that the file seems to have."""
    file = _file(tmp_path, "code;n;x\na;1;2\n")
    for read in (lambda: read_rows(file, SCHEMA), lambda: schema_of(file)):
        with pytest.raises(InvalidInput, match=r"seems to be ';': give it \(--delimiter ';'"):
            read()


def test_delimiter_encoding_and_no_header(tmp_path: Path) -> None:
    """A file in another encoding, without a header, separated by other characters is read."""
    file = _file(
        *(tmp_path, "Škoda\t1\t2\n".encode("cp1250")),
        delimiter="tab",
        encoding="cp1250",
        header=False,
    )
    assert read_rows(file, SCHEMA).to_pylist() == [{"code": "Škoda", "n": 1, "x": 2.0}]
    with pytest.raises(InvalidInput, match="no header"):
        schema_of(file)


def test_a_tsv_has_tabs(tmp_path: Path) -> None:
    """The suffix says which delimiter a file has by default."""
    rows = read_rows(_file(tmp_path, "code\tn\nNA\t1\n", "given.tsv"), SCHEMA)
    assert rows.to_pylist() == [{"code": "NA", "n": 1}]


def test_another_encoding_is_named(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are refused with the option that says the encoding."""
    with pytest.raises(InvalidInput, match="--encoding"):
        read_rows(_file(tmp_path, "code\né\n".encode("latin-1")), SCHEMA)


@pytest.mark.parametrize("given", [{"delimiter": ";;"}, {"delimiter": '"'}, {"encoding": "utf-99"}])
def test_impossible_forms(given: dict[str, str]) -> None:
    """A delimiter of two characters and an unknown encoding are refused with the value."""
    with pytest.raises(InvalidInput) as refused:
        CsvFormat(**given)
    assert next(iter(given.values())) in str(refused.value)


def test_a_field_may_have_newlines(tmp_path: Path) -> None:
    """A newline in quotes is a part of the text, wherever blocks of the file end."""
    long = "a\nb" * 40
    rows = read_rows(_file(tmp_path, "code,n\n" + f'"{long}",1\n' * 80_000), SCHEMA)
    assert rows.column("code").unique().to_pylist() == [long]
    assert rows.num_rows == 80_000


@pytest.mark.parametrize(
    ("text", "column", "way_out"),
    [
        ("NA", "n", "add --null-text NA (null_text='NA')"),
        ('""', "x", "add --null-text '' (null_text='')"),
        ("12,5", "x", "write 12.5, with a decimal point"),
        ("2010/01/01 00:00:00", "t", "write dates and times as ISO 8601"),
        ("x", "x", "the file has a header (leave out --no-header)"),
        ("much", "n", "correct it"),
    ],
)
def test_a_refused_field_has_its_way_out(
    tmp_path: Path, text: str, column: str, way_out: str
) -> None:
    """What users of other tools write is recognized, and the message says what to do."""
    schema = pa.schema([*SCHEMA, ("t", pa.timestamp("us", "UTC"))])
    file = _file(tmp_path, f"{column}\n{text}\n", delimiter=";")
    with pytest.raises(SchemaMismatch, match=re.escape(way_out)):
        read_rows(file, schema)


def test_a_json_array_is_no_json_lines(tmp_path: Path) -> None:
    """The message names the form that is read, and a command that a shell takes as it stands."""
    folder = tmp_path / "it's"
    folder.mkdir()
    file = _file(folder, '\n [{"code": "a"}]', "given of may.json")
    command = f"jq -c '.[]' {quote(file.place)} > {quote(f'{folder}/given of may.jsonl')}"
    for read in (schema_of, lambda each: read_rows(each, SCHEMA)):
        with pytest.raises(InvalidInput, match=f"one JSON array.*{re.escape(command)}"):
            read(file)


@pytest.mark.parametrize(
    ("given", "words"),
    [(None, r"folder is given by its files \(.*/day/\*\.parquet\)"), ("avro", "'avro' is not a")],
)
def test_an_unknown_format_is_named(tmp_path: Path, given: str | None, words: str) -> None:
    """A folder gets the pattern of its files, a format its name back."""
    with pytest.raises(InvalidInput, match=words):
        _ = InputFile(str(tmp_path / "day/"), given).format
