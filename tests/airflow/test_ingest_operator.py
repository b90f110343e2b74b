"""Appending files as a task: once, however often it is tried, on either engine."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import DAG

from airflow_provider_segtable.core.errors import ExecutionFailed, InvalidInput, NotFound
from airflow_provider_segtable.hooks.submission import Submission
from airflow_provider_segtable.operators.change import SegtableDeleteOperator
from airflow_provider_segtable.operators.ingest import (
    SegtableIngestOperator,
    given_files,
)
from airflow_provider_segtable.operators.overwrite import SegtableOverwriteOperator
from airflow_provider_segtable.table.table import Table

from .conftest import JANUARY, SCHEMA, Flights

RUN = {"ti": SimpleNamespace(dag_id="load", run_id="manual__1", task_id="ingest", map_index=-1)}
NEW = list(range(9000, 9006))
OTHER_TI = SimpleNamespace(**{**vars(RUN["ti"]), "run_id": "manual__3"})


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """Give a folder with six new rows in three formats."""
    folder = tmp_path / "landing"
    folder.mkdir()
    pq.write_table(pa.table([[JANUARY] * 2, NEW[:2]], schema=SCHEMA), folder / "a.parquet")
    (folder / "b.csv").write_text(
        "row,time_hour\n9002,2013-01-05T00:00:00Z\n9003,2013-01-05T01:00:00Z\n"
    )
    line = '{"time_hour": "2013-01-06T00:00:00Z", "row": %d}\n'
    (folder / "c.jsonl").write_text("".join(line % n for n in NEW[4:]))
    return folder


@dataclass
class Recorded:
    """A launcher that notes the submission; it may append the new rows, and may then break."""

    appends: bool = True
    fault: str | None = None
    attached: bool = True
    launched: list[Sequence[str]] = field(default_factory=list)

    def launch(self, submission: Submission, say: Callable[[str], None]) -> None:
        """Append under the commit id that was asked for."""
        self.launched.append(submission.arguments)
        given = dict(a.partition("=")[::2] for a in submission.arguments if "=" in a)
        if self.appends:
            table = Table.open(given["--table"], zookeeper=given["--zookeeper"])
            rows = pa.table([[JANUARY] * len(NEW), NEW], schema=SCHEMA)
            table.append(rows, commit_id=given["--commit-id"])
            table.ports.coordinator.close()
        say("done")
        if self.fault:
            raise ExecutionFailed(self.fault)

    def kill(self) -> None:
        """Do nothing: it ends with this process."""


def ingester(**fields: Any) -> SegtableIngestOperator:
    return SegtableIngestOperator(task_id="ingest", **{"table": "flights", **fields})


def test_a_table_with_a_key_is_upserted(flights: Flights, tmp_path: Path) -> None:
    """Files upsert and delete keys, deletes and updates do, and each retry finds its event."""
    place = f"{flights.table.ports.uri.rpartition('/')[0]}/orders"
    schema = pa.schema(
        [("id", pa.int64()), ("day", pa.timestamp("us", "UTC")), ("text", pa.string())]
    )
    orders = Table.create(
        place, schema=schema, time_column="day", granularity="all", primary_key="id"
    )
    line = '{"id": %d, "day": "2013-01-05T00:00:00Z", "text": "%s"%s}\n'
    (tmp_path / "a.jsonl").write_text("".join(line % (n, "old", "") for n in range(4)))
    gone = [line % (0, "new", ', "gone": false'), line % (1, "", ', "gone": true')]
    (tmp_path / "b.jsonl").write_text("".join(gone))
    ingester(table="orders", files=str(tmp_path / "a.jsonl")).execute(RUN)
    later = {"ti": OTHER_TI}
    load = ingester(table="orders", files=str(tmp_path / "b.jsonl"), deleted="gone")
    told = load.execute(later)
    assert (told["event"], told["rows"]) == (2, 2)
    assert load.execute(later) == {**told, "appended_before": True}
    rows = orders.scan(columns=["id", "text"]).to_arrow().sort_by("id").to_pydict()
    assert rows == {"id": [0, 2, 3], "text": ["new", "old", "old"]}
    delete = SegtableDeleteOperator(task_id="forget", table="orders", where="text = 'old'")
    run = {"ti": SimpleNamespace(**{**vars(OTHER_TI), "task_id": "forget"})}
    first, again = delete.execute(run), delete.execute(run)
    assert (first["matched"], first["deleted"], first["inserted"]) == (2, 2, 0)
    timeless = {"seconds": None, "changed_before": True}
    assert again == {**first, **timeless}
    assert orders.scan().count() == 1


def test_files_of_all_formats_are_one_append_and_a_retry_counts_once(
    flights: Flights, landing: Path
) -> None:
    """A pattern and paths are read in the task itself; a second try finds the event in the log."""
    files = [str(landing / "[ab].*"), str(landing / "c.jsonl")]
    before, version = flights.rows(), flights.table.state().n
    launcher = Recorded()
    told = ingester(files=files, launcher=launcher).execute(RUN)
    assert flights.rows() == [*before, *NEW]
    assert (told["event"], told["rows"], told["appended_before"]) == (version + 1, 6, False)
    again = ingester(files=files, launcher=launcher).execute(RUN)
    assert again == {**told, "appended_before": True}
    assert launcher.launched == []
    other = {"ti": SimpleNamespace(**{**vars(RUN["ti"]), "run_id": "manual__2"})}
    assert ingester(files=files).execute(other)["event"] == version + 2


def test_large_files_go_to_spark_under_the_same_commit_id(flights: Flights, landing: Path) -> None:
    """The other engine's retry finds the append, though the application died after its commit."""
    launcher, before = Recorded(fault="killed"), flights.rows()
    files = str(landing / "*.csv")
    told = ingester(files=files, launcher=launcher, local_bytes=0).execute(RUN)
    assert flights.rows() == [*before, *NEW]
    assert told["rows"] == 6
    (arguments,) = launcher.launched
    assert {f"--source={files}", "--commit-id=load/manual__1/ingest"} <= {*arguments}
    assert ingester(files=files, engine="local").execute(RUN) == {**told, "appended_before": True}


def test_a_failed_application_fails_the_task(flights: Flights, landing: Path) -> None:
    """The error has its last words, and says that nothing was appended."""
    launcher = Recorded(appends=False, fault="no memory")
    with pytest.raises(AirflowException, match=r"appended nothing; a retry .*: no memory"):
        ingester(files=str(landing), engine="spark", launcher=launcher).execute(RUN)
    assert len(flights.rows()) == 800


@pytest.mark.usefixtures("flights")
def test_a_file_may_come_later_but_a_wrong_one_stays_wrong(landing: Path) -> None:
    """A missing file is retried; values and columns that do not fit fail the task at once."""
    with pytest.raises(NotFound, match=r"no file at '.*/x\*\.csv'"):
        ingester(files=str(landing / "x*.csv")).execute(RUN)
    (landing / "d.csv").write_text("row,time_hour\nmany,2013-01-05T00:00:00Z\n")
    with pytest.raises(AirflowFailException, match=r"ingest into flights: .*d\.csv"):
        ingester(files=str(landing / "d.csv")).execute(RUN)
    with pytest.raises(AirflowFailException, match="'flink' is unknown: choose one of auto"):
        ingester(files=str(landing / "b.csv"), engine="flink").execute(RUN)
    with pytest.raises(AirflowFailException, match="options sep are for Spark's reader"):
        ingester(files=str(landing / "b.csv"), engine="local", options={"sep": ";"}).execute(RUN)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("/data/*.csv", ["/data/*.csv"]),
        ('["/a.csv", "/b.csv"]', ["/a.csv", "/b.csv"]),
        ("[ab].csv", ["[ab].csv"]),
        (["/a.csv"], ["/a.csv"]),
    ],
)
def test_files_may_come_as_a_path_a_list_or_json(given: object, wanted: list[str]) -> None:
    """Whatever a template renders to is read."""
    assert given_files(given) == wanted


@pytest.mark.parametrize("given", ["", [], "[]", [""], [3], "/a\0.csv"])
def test_files_that_name_nothing_are_refused(given: object) -> None:
    """An empty template would silently append nothing."""
    with pytest.raises(InvalidInput, match="files = "):
        given_files(given)


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"files": "/a.orc"}, "is not one of parquet, csv, json"),
        ({"files": "/"}, "is a folder"),
        ({"files": "hdfs://lake/a.csv"}, "has a scheme that is read by Spark only"),
        ({"files": "/{a,b}.csv"}, "is a pattern of Spark's"),
        ({"files": "/a.csv", "options": {"nullValue": "NA"}}, "option nullValue"),
    ],
)
def test_what_the_task_cannot_read_goes_to_spark(
    fields: dict[str, Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Folders, other formats, schemes and patterns, and reader options; with the reason."""
    launcher = Recorded(appends=False, fault="not here")
    with pytest.raises(AirflowException, match="not here"):
        ingester(launcher=launcher, **fields).execute(RUN)
    assert f"--source={fields['files']}" in launcher.launched[0]
    assert f"1 path on Spark: {why}" in capsys.readouterr().out.replace(
        f"{fields['files']} {why}", why
    )


def test_an_interval_is_loaded_again(flights: Flights, landing: Path) -> None:
    """A retry overwrites once; a run that is cleared, or deleted and made anew, replaces.

    Spark gets the interval as an argument.
    """

    def loader(**fields: Any) -> SegtableOverwriteOperator:
        given = {"table": "flights", "files": str(landing / "b.csv"), **fields}
        return SegtableOverwriteOperator(task_id="load", **given)

    interval, before = "2013-01-05T00:00:00+00:00/2013-01-06T00:00:00+00:00", flights.rows()
    first = loader(interval=interval).execute(RUN)
    again = loader(interval=interval).execute(RUN)
    started = SimpleNamespace(start_date=JANUARY, clear_number=0)
    anew = {**RUN, "dag_run": started}
    for _ in range(2):
        made = loader(interval=interval).execute(anew)
    assert (made["event"], made["appended_before"]) == (first["event"] + 1, True)
    cleared = {**RUN, "dag_run": SimpleNamespace(start_date=JANUARY, clear_number=1)}
    replaced = loader(interval=interval).execute(cleared)
    assert flights.rows() == [*before, 9002, 9003]
    assert (first["rows"], again) == (2, {**first, "appended_before": True})
    assert (replaced["event"], replaced["rows"]) == (first["event"] + 2, 2)
    with pytest.raises(AirflowFailException, match="2 of 2 rows"):
        loader(interval="2013-01-06/2013-01-07").execute(RUN | {"ti": OTHER_TI})
    launcher = Recorded(appends=False, fault="no memory")
    with pytest.raises(AirflowException, match="failed"):
        loader(interval=interval, engine="spark", launcher=launcher).execute({"ti": OTHER_TI})
    asked = "--overwrite=2013-01-05T00:00:00Z/2013-01-06T00:00:00Z"
    assert asked in launcher.launched[0]


@pytest.mark.usefixtures("flights")
def test_how_a_csv_is_written_is_said_to_both_engines(landing: Path) -> None:
    """Delimiter, encoding, header and texts for null are those of the task, here and on Spark."""
    (landing / "d.csv").write_text("2013-01-05T00:00:00Z|9009\n-|-\n2013-01-05T00:00:00Z|-\n")
    form: dict[str, Any] = {"delimiter": "|", "header": False, "encoding": "latin-1"}
    given = {"task_id": "load", "table": "flights", "files": str(landing / "d.csv"), **form}
    with pytest.raises(AirflowFailException, match="column 'time_hour': '-' is not a value"):
        SegtableIngestOperator(**given).execute(RUN)
    launcher = Recorded(appends=False, fault="no memory")
    onspark = {**given, "engine": "spark", "launcher": launcher, "null_text": ["-", "NA"]}
    with pytest.raises(AirflowException, match="failed"):
        SegtableIngestOperator(**onspark).execute(RUN)
    for option in ("--delimiter=|", "--encoding=latin-1", "--no-header", "--null-text=NA"):
        assert option in launcher.launched[0]


def test_bad_rows_are_set_aside(flights: Flights, landing: Path) -> None:
    """The task appends the other rows, and returns how many it has set aside, and where."""
    (landing / "f.csv").write_text("time_hour,row\n,1\n2013-01-05T00:00:00Z,2\n")
    aside = landing / "aside.jsonl"
    given = {"task_id": "load", "table": "flights", "files": str(landing / "f.csv")}
    before = len(flights.rows())
    done = SegtableIngestOperator(**given, bad_rows=str(aside)).execute(RUN)
    assert (done["rows"], done["set_aside"], len(flights.rows())) == (1, 1, before + 1)
    assert '"row": 0' in aside.read_text()


@dataclass
class Setting(Recorded):
    """A launcher whose application reports that it has set two rows aside."""

    def launch(self, submission: Submission, say: Callable[[str], None]) -> None:
        """Append, and write the result."""
        super().launch(submission, say)
        given = dict(a.partition("=")[::2] for a in submission.arguments if "=" in a)
        result = Path(submission.arguments[submission.arguments.index("--result-file") + 1])
        table = Table.open(given["--table"])
        result.write_text(json.dumps({"code": 0, "event": table.state().n, "set_aside": 2}))


def test_spark_sets_bad_rows_aside_for_a_task(
    flights: Flights, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver writes them below the task; on a cluster nobody would find them."""
    monkeypatch.chdir(landing)
    given: dict[str, Any] = {"engine": "spark", "files": "a.parquet", "bad_rows": "aside.jsonl"}
    launcher = Setting()
    done = ingester(**given, launcher=launcher).execute(RUN)
    assert (done["rows"], done["set_aside"], {*NEW} <= {*flights.rows()}) == (6, 2, True)
    assert f"--bad-rows={landing}/aside.jsonl" in launcher.launched[0]
    refused = (
        (Setting(attached=False), "aside.jsonl", "client mode"),
        (launcher, "s3://x", "path"),
    )
    for other, place, said in refused:
        with pytest.raises(AirflowFailException, match=said):
            ingester(**{**given, "bad_rows": place}, launcher=other).execute({"ti": OTHER_TI})
    assert len(launcher.launched) == 1


def test_files_without_rows_are_no_error(flights: Flights, landing: Path) -> None:
    """An hourly task whose file has no rows commits nothing, and says so."""
    (landing / "e.csv").write_text("time_hour,row\n")
    before = flights.table.state().n
    given = {"task_id": "load", "table": "flights", "files": str(landing / "e.csv")}
    done = SegtableIngestOperator(**given).execute(RUN)
    assert done == {
        "event": None,
        "segments": 0,
        "rows": 0,
        "bytes": 0,
        "appended_before": False,
    }
    assert flights.table.state().n == before


def test_an_overwrite_of_a_condition_is_counted_first(flights: Flights, landing: Path) -> None:
    """A dry run writes nothing; only what this process cannot evaluate goes to Spark."""

    def loader(where: str, **fields: Any) -> SegtableOverwriteOperator:
        given = {"table": "flights", "files": str(landing / "b.csv"), "where": where, **fields}
        return SegtableOverwriteOperator(task_id="load", **given)

    version = flights.table.state().n
    told = loader("row >= 790", dry_run=True).execute(RUN)
    assert told == {
        "event": None,
        "segments": 0,
        "rows": 2,
        "bytes": 0,
        "matched": 10,
        "deleted": 10,
        "dry_run": True,
        "appended_before": False,
    }
    assert flights.table.state().n == version
    assert loader("row >= 790").execute(RUN)["deleted"] == 10
    assert flights.rows() == [*range(790), 9002, 9003]
    with pytest.raises(AirflowFailException, match="where='' is empty"):
        loader("").execute({"ti": OTHER_TI})
    launcher = Recorded(appends=False, fault="no memory")
    with pytest.raises(AirflowException, match="no memory"):
        loader("ln(row) > 1", dry_run=True, launcher=launcher).execute({"ti": OTHER_TI})
    assert {"--overwrite-where=ln(row) > 1", "--dry-run"} <= {*launcher.launched[0]}


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize(
    "days",
    [
        {},
        {"data_interval_start": JANUARY, "data_interval_end": JANUARY},
    ],
)
def test_a_run_without_a_data_interval_is_refused(days: dict[str, object]) -> None:
    """Airflow's ``@daily`` runs have an empty one, others none; the error names the timetable."""
    with DAG("load", schedule=None):
        load = SegtableOverwriteOperator(task_id="load", table="flights", files="/no.csv")
    load.render_template_fields({**RUN, **days})
    with pytest.raises(AirflowFailException, match=r"is empty: .* CronDataIntervalTimetable"):
        load.execute(RUN)
