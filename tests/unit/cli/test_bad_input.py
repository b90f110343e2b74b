"""What goes wrong is one line, a code and a type; and nothing is written."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from airflow_provider_segtable.coordination.address import connect
from tests.unit.cli.conftest import Run, trips


@contextmanager
def nothing_written(root: Path) -> Iterator[None]:
    """Check that the files below ``root`` are the same before and after."""
    before = _files(root)
    yield
    assert _files(root) == before


def _files(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def refused(result: Result, code: int, error: str, *words: str) -> None:
    """Check one ``error:`` line, the words in it, the exit code, and the JSON answer."""
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0]
    told = json.loads(result.stdout)
    assert (told["error"], result.exit_code) == (error, code)
    assert " ".join(told["message"].split()) == lines[0].removeprefix("error: ")


def _lands(folder: Path, name: str, rows: pa.Table) -> str:
    pq.write_table(rows, folder / name)
    return name


def test_a_missing_column(run: Run, table: str, tmp_path: Path) -> None:
    """A file without one of the table's columns names it and its type."""
    name = _lands(tmp_path, "bad.parquet", trips().drop_columns(["who"]))
    with nothing_written(tmp_path):
        refused(run("ingest", table, name, "--json"), 2, "SchemaMismatch", "'who'", "string")


def test_a_wrong_type(run: Run, table: str, tmp_path: Path) -> None:
    """A column of another type names both types."""
    bad = trips().set_column(2, "amount", pa.array(["a", "b", "c"]))
    name = _lands(tmp_path, "bad.parquet", bad)
    with nothing_written(tmp_path):
        result = run("ingest", table, name, "--json")
    refused(result, 2, "SchemaMismatch", "'amount'", "double", "string")


def test_a_csv_value_that_does_not_fit(run: Run, table: str, tmp_path: Path) -> None:
    """A value in a text file that is none of the column's type is shown."""
    (tmp_path / "bad.csv").write_text("at,who,amount\n2013-01-01T00:00:00Z,me,much\n")
    with nothing_written(tmp_path):
        result = run("ingest", table, "bad.csv", "--json")
    refused(result, 2, "SchemaMismatch", "bad.csv", "much")


def test_a_null_event_time(run: Run, table: str, tmp_path: Path) -> None:
    """A row without event time is named by its number."""
    at = pa.array([0, None, 2], pa.timestamp("us", "UTC"))
    name = _lands(tmp_path, "bad.parquet", trips().set_column(0, "at", at))
    with nothing_written(tmp_path):
        result = run("ingest", table, name, "--json")
    refused(result, 2, "TimeOutOfRange", "row 1", "null")


def test_an_event_time_out_of_range(run: Run, table: str, tmp_path: Path) -> None:
    """Seconds that were taken for microseconds' millions are shown with the range."""
    at = pa.array([0, 2**62, 2], pa.timestamp("us", "UTC"))
    name = _lands(tmp_path, "bad.parquet", trips().set_column(0, "at", at))
    with nothing_written(tmp_path):
        result = run("ingest", table, name, "--json")
    refused(result, 2, "TimeOutOfRange", "row 1", str(2**62))


@pytest.mark.parametrize(
    "command",
    [
        ("table", "describe"),
        ("table", "scan"),
        ("table", "segments"),
        ("table", "timeline"),
        ("plan",),
        ("compact", "--all"),
    ],
)
def test_a_place_that_holds_no_table(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    """Every command says so, names the place and how to make a table."""
    with nothing_written(tmp_path):
        result = run(*command, "nowhere", "--json")
    refused(result, 1, "NotATable", "nowhere", "segtable table create")


def test_a_table_is_made_once(run: Run, table: str, tmp_path: Path) -> None:
    """A second table at the same place is refused."""
    with nothing_written(tmp_path):
        result = run("table", "create", table, "--schema", "at timestamp", "--time", "at", "--json")
    refused(result, 1, "TableExists", table)


def test_a_newer_format(run: Run, table: str, tmp_path: Path) -> None:
    """An event of a later segtable is refused by its number, never guessed."""
    event = tmp_path / table / "_segtable" / "timeline" / f"{0:020d}.json"
    body = json.loads(event.read_bytes()) | {"format": 99}
    event.write_text(json.dumps(body))
    with nothing_written(tmp_path):
        result = run("ingest", table, "trips.parquet", "--json")
    refused(result, 1, "UnsupportedFormat", "99", "upgrade segtable")


def test_a_read_only_store(run: Run, table: str, tmp_path: Path) -> None:
    """Where nothing may be written the path and the way out are named."""
    run("table", "describe", table)  # whatever is loaded lazily is loaded by a user who may
    with nothing_written(tmp_path), _may_only_read(tmp_path / table):
        result = run("ingest", table, "trips.parquet", "--json")
    refused(result, 1, "ReadOnlyStorage", "permissions")


@contextmanager
def _may_only_read(root: Path) -> Iterator[None]:
    """Take away the right to write, also from root."""
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    opened = [parent for parent in root.parents if parent.stat().st_uid == os.getuid()]
    modes = {parent: parent.stat().st_mode for parent in opened}
    was_root = os.geteuid() == 0
    if was_root:
        for parent in opened:
            parent.chmod(modes[parent] | 0o555)
        os.seteuid(65534)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)
        for path, mode in modes.items():
            path.chmod(mode)
        for folder in folders:
            folder.chmod(0o755)


def test_no_zookeeper_at_the_address(
    run: Run, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that does not answer is named, and how to start one."""
    monkeypatch.setitem(connect.__kwdefaults__, "connect_timeout_s", 0.5)  # for a quick test
    with nothing_written(tmp_path):
        result = run("ingest", table, "trips.parquet", "--zookeeper", "127.0.0.1:1", "--json")
    refused(result, 3, "CoordinatorUnavailable", "127.0.0.1:1")


@pytest.mark.parametrize("command", [("ingest", "trips", "trips.parquet"), ("compact", "trips")])
def test_no_zookeeper_at_all(
    run: Run,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    """Writing without any coordinator says how to start one; reading needs none."""
    monkeypatch.delenv("SEGTABLE_ZOOKEEPER")
    with nothing_written(tmp_path):
        refused(run(*command, "--json"), 3, "CoordinatorUnavailable", "segtable zookeeper start")
    assert run("table", "describe", table).exit_code == 0
    assert run("plan", table).exit_code == 0


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    "command",
    [
        ("zookeeper", "start", "--background"),
        ("ingest", "trips", "trips.parquet", "--engine", "spark"),
    ],
)
def test_no_java(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    """What needs Java says which, and how to get it."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with nothing_written(tmp_path):
        refused(run(*command, "--json"), 3, "JavaMissing", "Java 17")


def test_two_files_of_one_name_under_a_commit_id(run: Run, table: str, tmp_path: Path) -> None:
    """The second would be taken for a repetition of the first, and its rows would be missing."""
    files = ("trips.parquet", "./more/trips.parquet")
    with nothing_written(tmp_path):
        told = run("ingest", table, *files, "--commit-id", "monday", "--json")
        refused(told, 2, "InvalidInput", "2 files are called trips.parquet", "different ids")


def test_a_file_that_is_not_there(run: Run, table: str, tmp_path: Path) -> None:
    """A wrong path is the caller's mistake."""
    with nothing_written(tmp_path):
        refused(run("ingest", table, "no.parquet", "--json"), 2, "InvalidInput", "no.parquet")


def test_a_file_of_no_known_format(run: Run, table: str, tmp_path: Path) -> None:
    """The formats there are, and the option to say which, are named."""
    (tmp_path / "rows.xls").write_bytes(b"")
    refused(run("ingest", table, "rows.xls", "--json"), 2, "InvalidInput", "--format")


def test_a_broken_file(run: Run, table: str, tmp_path: Path) -> None:
    """A file that is none of its format is named."""
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    with nothing_written(tmp_path):
        refused(run("ingest", table, "torn.parquet", "--json"), 2, "InvalidInput", "torn.parquet")


def test_a_misspelt_property(run: Run, tmp_path: Path) -> None:
    """A typo would silently mean a default, so it is refused before anything is made."""
    create = ("table", "create", "t", "--schema", "at timestamp", "--time", "at")
    with nothing_written(tmp_path):
        result = run(*create, "--property", "compaction.min_segment=3", "--json")
    refused(result, 2, "InvalidInput", "compaction.min_segment'", "compaction.min_segments")


def test_an_unknown_column(run: Run, table: str) -> None:
    """The table's columns are named."""
    result = run("table", "scan", table, "--columns", "whom", "--json")
    refused(result, 2, "SchemaMismatch", "'whom'", "who")


def test_a_version_that_is_not_there(run: Run, table: str) -> None:
    """The number and the end of the log are shown."""
    result = run("table", "scan", table, "--version", "7", "--json")
    refused(result, 1, "NotATable", "7", "event 0")


def test_wrong_usage_is_told_apart(run: Run) -> None:
    """An option that does not exist ends with 2, like every wrong command line."""
    result = run("table", "describe", "--nonsense")
    assert result.exit_code == 2
    assert "--nonsense" in result.stderr


def test_a_place_with_credentials(run: Run) -> None:
    """A URI is shown everywhere: one with credentials is refused, and these are not repeated."""
    for uri in ("s3://me:hush-hush@lake/t", "s3://lake/t?sig=hush-hush"):
        result = run("table", "describe", uri, "--json")
        refused(result, 2, "InvalidName", "is not a table location")
        assert "hush" not in result.output


def test_credentials_on_the_command_line(
    run: Run, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are taken, with a warning that names the way out; the environment needs none."""
    monkeypatch.setenv("SEGTABLE_STORAGE_OPTIONS", '{"aws_secret_access_key": "hush-hush"}')
    assert run("table", "describe", table).stderr == ""
    result = run("table", "describe", table, "--storage-option", "account_key=hush-hush")
    assert "account_key is seen by all users" in result.stderr
    assert "$SEGTABLE_STORAGE_OPTIONS" in result.stderr
    assert "hush" not in result.output
    monkeypatch.setenv("SEGTABLE_STORAGE_OPTIONS", "hush-hush")
    refused(run("table", "describe", table, "--json"), 2, "InvalidInput", "is not a JSON object")


def test_credentials_in_a_file(
    run: Run, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable names the file, as of a container's secret; messages name it, not its content."""
    file = tmp_path / "options.json"
    monkeypatch.setenv("SEGTABLE_STORAGE_OPTIONS_FILE", str(file))
    missing = run("table", "describe", table, "--json")
    refused(missing, 2, "InvalidInput", "cannot be read (No such file")
    file.write_text('{"aws_secret_access_key": "hush-hush"}')
    assert run("table", "describe", table).stderr == ""
    file.write_text("hush-hush")
    result = run("table", "describe", table, "--json")
    refused(result, 2, "InvalidInput", "is not a JSON object")
    assert "hush" not in result.output
    monkeypatch.setenv("SEGTABLE_STORAGE_OPTIONS", "{}")  # the variable itself goes first
    assert run("table", "describe", table).exit_code == 0
