"""Options of ZooKeeper: what they say, what is refused, and that no secret shows."""

import json
import logging
from pathlib import Path

import pytest
from kazoo.protocol.serialization import Auth

from airflow_provider_segtable.coordination.address import connect
from airflow_provider_segtable.coordination.zookeeper.access import (
    FILE_VARIABLE,
    OPTIONS_VARIABLE,
    Access,
    access_of,
)
from airflow_provider_segtable.coordination.zookeeper.link import Voice, client_of
from airflow_provider_segtable.core.errors import DependencyMissing, InvalidInput
from airflow_provider_segtable.core.secret import Secret

HUSH = "open-sesame-42"
USER = {"user": "lake", "password": HUSH}


def test_without_options_a_client_is_anybody() -> None:
    """No user, no TLS, and nodes as open as before."""
    assert access_of(None) == Access()
    client, _ = client_of("127.0.0.1:1", Access(), session_timeout_s=4.0)
    assert (client.default_acl, client.use_ssl) == (None, False)


def test_options_come_from_the_caller_else_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's go first, then the variable with the object, then the file that is named."""
    file = tmp_path / "zookeeper.json"
    file.write_text(json.dumps({"user": "of-file", "password": HUSH, "tls": True}))
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    assert access_of(None) == Access(user="of-file", password=Secret(HUSH), tls=True)
    monkeypatch.setenv(OPTIONS_VARIABLE, json.dumps(USER))
    assert access_of({}).user == "lake"
    assert access_of({**USER, "user": "caller"}).user == "caller"


def test_a_password_may_lie_in_a_file_of_its_own(tmp_path: Path) -> None:
    """As secrets are mounted; a line's end does not belong to it."""
    (tmp_path / "secret").write_text(f"{HUSH}\n")
    found = Access.read({"user": "lake", "password_file": str(tmp_path / "secret")})
    assert found.password == Secret(HUSH)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({**USER, "pasword": HUSH}, "'pasword' is unknown: choose one of user"),
        ({"user": "lake"}, "user and password .* together"),
        ({"password": HUSH}, "user and password .* together"),
        ({**USER, "user": "a:b"}, "no colon"),
        ({**USER, "scheme": "plain"}, "'plain': write digest or sasl"),
        ({**USER, "tls": "perhaps"}, "tls is 'perhaps': write true or false"),
        ({**USER, "ca": "/no/where"}, "ca names /no/where, which is not a file"),
        ({"user": "lake", "password_file": "/no/where"}, "password_file /no/where cannot be read"),
        ({**USER, "certificate": __file__}, "one of certificate and key"),
    ],
)
def test_wrong_options_are_refused_without_their_secrets(options: dict[str, str], why: str) -> None:
    """The message names the option and the way out."""
    with pytest.raises(InvalidInput, match=why) as refused:
        Access.read(options)
    assert HUSH not in str(refused.value)


@pytest.mark.parametrize("text", [HUSH, f'["{HUSH}"]', f'{{"user": "{HUSH}'])
def test_an_environment_that_is_no_object_is_named_not_repeated(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a password."""
    monkeypatch.setenv(OPTIONS_VARIABLE, text)
    with pytest.raises(
        InvalidInput, match=rf"\${OPTIONS_VARIABLE} is not a JSON object"
    ) as refused:
        connect("zk://127.0.0.1:1")
    assert HUSH not in str(refused.value)


def test_secrets_show_in_no_text(caplog: pytest.LogCaptureFixture) -> None:
    """Neither in reprs nor in what kazoo logs of its requests, whatever is listened to."""
    access = Access.read({**USER, "key_password": HUSH})
    assert HUSH not in f"{access} {access!r}"
    caplog.set_level(1)
    voice = Voice(logging.getLogger("test"), {})
    voice.debug("Sending request(xid=%s): %s", -4, Auth(0, "digest", f"lake:{HUSH}"))
    voice.warning("Connection dropped: %s", "certificate verify failed")
    assert HUSH not in caplog.text
    assert voice.trouble == "Connection dropped: certificate verify failed"


def test_a_connection_without_a_problem_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    """Tasks' logs show a connection only once something went wrong with it."""
    caplog.set_level(logging.INFO)
    voice = Voice(logging.getLogger("test"), {})
    voice.info("Zookeeper connection established, state: %s", "CONNECTED")
    assert caplog.messages == []
    voice.warning("Connection dropped: %s", "socket connection broken")
    voice.info("Zookeeper connection established, state: %s", "CONNECTED")
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_sasl_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kazoo would fail at the first call, without a word about it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    access = Access.read({**USER, "scheme": "sasl"})
    with pytest.raises(DependencyMissing, match=r"pip install 'airflow-provider-segtable\[sasl\]'"):
        connect("zk://127.0.0.1:1", access=access)
