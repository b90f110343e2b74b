"""The connection type: what it reads, what it refuses."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_provider_segtable.coordination.zookeeper.access import Access
from airflow_provider_segtable.coordination.zookeeper.zookeeper_coordinator import (
    ZooKeeperCoordinator,
)
from airflow_provider_segtable.core.errors import DependencyMissing, InvalidInput
from airflow_provider_segtable.hooks import segtable
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.library.log_stores import OPTIONS_VARIABLE, log_provider

from .conftest import CONNECTION, JANUARY, Flights


def connect(monkeypatch: pytest.MonkeyPatch, **fields: object) -> SegtableHook:
    monkeypatch.setenv(CONNECTION, json.dumps({"conn_type": "segtable", **fields}))
    return SegtableHook()


def test_a_connection_is_read_into_plain_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root, ZooKeeper, storage options (as an object or its text) and Spark come as given."""
    options = {"endpoint": "http://127.0.0.1:9000", "retries": 3}
    for given in (options, json.dumps(options)):
        extra = {"zookeeper": "zk://h:2181", "storage_options": given, "spark_master": "local[2]"}
        place = connect(monkeypatch, host="s3://lake/tables", extra=extra).place
        assert place == Place(
            conn_id="segtable_default",
            root="s3://lake/tables",
            zookeeper="zk://h:2181",
            storage_options={"endpoint": "http://127.0.0.1:9000", "retries": "3"},
            spark_master="local[2]",
        )


@pytest.mark.parametrize(
    ("table", "uri"),
    [
        ("flights", "s3://lake/tables/flights"),
        ("air/flights", "s3://lake/tables/air/flights"),
        ("/data/flights", "/data/flights"),
        ("gs://other/flights", "gs://other/flights"),
    ],
)
def test_a_table_is_below_the_root_or_a_uri(table: str, uri: str) -> None:
    """A relative name is joined to the root, an absolute one stays."""
    assert Place(conn_id="c", root="s3://lake/tables/").uri(table) == uri


def test_a_relative_table_without_a_root_is_refused_by_name() -> None:
    """The message names the table, the connection and both ways out."""
    with pytest.raises(InvalidInput, match=r"'flights'.*segtable_x.*root of the tables.*URI"):
        Place(conn_id="segtable_x", root="").uri("flights")


def test_storage_options_that_are_no_object_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message shows how to write them, and not what was written: it may be a secret."""
    hook = connect(monkeypatch, host="/t", extra={"storage_options": "key=hush"})
    with pytest.raises(InvalidInput, match="not a JSON object") as refused:
        _ = hook.place
    assert "hush" not in str(refused.value)


def test_zookeeper_options_reach_the_ports_and_show_in_no_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As an object or its text; ZooKeeper's own refusal of a wrong one does not repeat it."""
    options = {"user": "lake", "password": "open-sesame-42"}
    for given in (options, json.dumps(options)):
        extra = {"zookeeper": "zk://h:2181", "zookeeper_options": given}
        place = connect(monkeypatch, host=str(tmp_path), extra=extra).place
        assert dict(place.zookeeper_options) == options
        assert "sesame" not in repr(place)
        with place.table_ports("t") as ports:
            client = ports.coordinator
            assert isinstance(client, ZooKeeperCoordinator)
            assert client._access == Access.read(options)
    hook = connect(monkeypatch, host="/t", extra={"zookeeper_options": "open-sesame-42"})
    with pytest.raises(InvalidInput, match=r"zookeeper_options .* not a JSON") as refused:
        _ = hook.place
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize("password", [None, "open-sesame-42"])
def test_the_token_of_log_stores_comes_from_the_connection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, password: str | None
) -> None:
    """In its extra, or as its password; no text shows it, and logs mask it."""
    masked: list[str] = []
    monkeypatch.setattr(segtable, "mask_secret", masked.append)
    options = {} if password else {"token": "open-sesame-42"}
    fields = {"password": password} if password else {}
    hook = connect(
        monkeypatch, host=str(tmp_path), extra={"log_store_options": json.dumps(options)}, **fields
    )
    assert dict(hook.place.log_store_options) == {"token": "open-sesame-42"}
    assert masked == ["open-sesame-42"]
    assert "sesame" not in repr(hook.place)
    with hook.table_ports("t") as ports:
        assert "sesame" not in repr(ports)
        security = log_provider(ports.log_store_options).security
        assert security.token
        assert security.token.reveal() == "open-sesame-42"
    file = tmp_path / "token"
    file.write_text("of the file")
    monkeypatch.setenv(OPTIONS_VARIABLE, json.dumps({"token_file": str(file)}))
    given = log_provider(hook.place.log_store_options).security.token
    assert given
    assert given.reveal() == "open-sesame-42"  # the connection comes first
    wrong = connect(monkeypatch, host="/t", extra={"log_store_options": "open-sesame-42"})
    with pytest.raises(InvalidInput, match=r"log_store_options .* not a JSON") as refused:
        _ = wrong.place
    assert "sesame" not in str(refused.value)


@pytest.mark.usefixtures("flights")
def test_the_connection_test_asks_storage_and_coordinator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A good connection says so; a ZooKeeper that is not there is named with its address."""
    assert SegtableHook().test_connection()[0]
    bad = connect(monkeypatch, host=str(tmp_path), extra={"zookeeper": "not an address"})
    well, message = bad.test_connection()
    assert not well
    assert "not an address" in message


def test_ports_are_of_the_named_table_and_end_with_the_block(flights: Flights) -> None:
    """The hook opens the table, under the author it is given."""
    with SegtableHook().table_ports("flights", author="me") as ports:
        assert ports.uri == str(flights.root / "flights")
        assert ports.author == "me"
        assert ports.coordinator.locks("x") == ()


def test_the_form_of_airflow_3_1_hides_what_a_connection_has_not() -> None:
    """Port, login, password and schema mean nothing here."""
    hidden = SegtableHook.get_ui_field_behaviour()["hidden_fields"]
    assert hidden == ["port", "login", "password", "schema"]


def test_a_python_task_gets_the_table_that_programs_get(flights: Flights) -> None:
    """It compacts, and takes rows without their nullable columns."""
    with SegtableHook().table(flights.name) as table:
        table.append(pa.table({"time_hour": [JANUARY]}))
        assert table.compact().plans
        assert table.snapshot().count() == 801


def test_an_aws_connection_needs_amazons_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, or without the connection, the error says what to do."""
    extra = {"aws_conn_id": "lake"}
    place = {"conn_type": "segtable", "host": "s3://lake", "extra": extra}
    monkeypatch.setenv(CONNECTION, json.dumps(place))
    with pytest.raises(AirflowNotFoundException, match="AIRFLOW_CONN_LAKE"):
        _ = SegtableHook().place
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "aws", "login": "key"}))
    monkeypatch.setitem(sys.modules, "airflow.providers.amazon", None)
    with pytest.raises(DependencyMissing, match="apache-airflow-providers-amazon"):
        _ = SegtableHook().place


def test_keys_have_one_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage options with credentials beside ``aws_conn_id`` are refused, and not repeated."""
    extra = {"aws_conn_id": "lake", "storage_options": {"secret_access_key": "canary-1"}}
    place = {"conn_type": "segtable", "host": "s3://lake", "extra": extra}
    monkeypatch.setenv(CONNECTION, json.dumps(place))
    with pytest.raises(InvalidInput, match="leave one of them out") as caught:
        _ = SegtableHook().place
    assert "canary-1" not in str(caught.value)
