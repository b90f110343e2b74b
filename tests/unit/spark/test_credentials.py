"""What an application and its session show of credentials; no JVM is started."""

import json
from pathlib import Path

import pytest

from airflow_provider_segtable.core.arguments import pair
from airflow_provider_segtable.core.errors import StorageError
from airflow_provider_segtable.spark.driver.application import App, Outcome, parser, run
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.table.remote_results import fetch

CANARY = "canary-7f3a91c2"


def fails(app: App) -> Outcome:
    """Fail as a library does whose error quotes a signed URL."""
    assert app.options() == {"account_key": CANARY, "region": "eu"}
    assert app.reader_options() == {"password": CANARY, "sep": ";"}
    raise StorageError(f"https://me:{CANARY}@h/x?sig={CANARY} is refused; account_key={CANARY}")


def test_an_application_that_fails_shows_no_credential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Output, result and message beside the log have none; arguments that do are named."""
    monkeypatch.setenv("SEGTABLE_STORAGE_OPTIONS", json.dumps({"region": "eu"}))
    monkeypatch.setenv("SEGTABLE_READER_OPTIONS", json.dumps({"password": CANARY}))
    made = parser("app", "A test.")
    made.add_argument("--option", type=pair, action="append", default=[])
    where = [f"--table={tmp_path}", "--zookeeper=memory://x", "--leave-result=told"]
    options = ["--option=sep=;", f"--storage-option=account_key={CANARY}"]
    assert run(made, [*where, *options], fails) == 1
    told = capfd.readouterr()
    left = fetch(open_storage(str(tmp_path)), "told")
    assert CANARY not in f"{told} {left}"
    assert "--storage-option account_key is seen by all users" in told.err
    assert "is refused" in json.dumps(left)
    assert run(made, ["--table=s3://me:" + CANARY + "@lake/t", *where[1:2]], lambda a: a.ports) == 2
    assert CANARY not in str(capfd.readouterr())


@pytest.mark.parametrize("wait", ["nan", "-1", "inf", "x"])
def test_an_application_waits_for_a_number_of_seconds(
    wait: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wait that never ends, or has ended, is a wrong argument."""
    made = parser("app", "A test.")
    assert run(made, ["--table=/t", "--zookeeper=z:1", f"--wait-s={wait}"], fails) == 2
    assert "is not a number of seconds" in capsys.readouterr().err
