"""A service account of Google in the storage options, for the log and the data files.

fake-gcs-server verifies no credentials. So a gate before it lets a request pass only if the account
has signed its token.
"""

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from airflow_provider_segtable.core.errors import InvalidName, StorageError
from airflow_provider_segtable.data.google_account import VARIABLE
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.library.table import Table
from tests.integration.scripted_http import reply
from tests.stores.faulty_proxy import Asked, FaultyProxy, body_of
from tests.stores.servers import Server
from tests.stores.test_table_cycle import rows

ACCOUNT = "lake@project.iam.gserviceaccount.com"


class AccountGate(FaultyProxy):
    """Forwards requests whose token an account has signed."""

    def __init__(self, to: int, key: RSAPrivateKey) -> None:
        """Stand in front of the store at port ``to``."""
        super().__init__(to)
        self._key = key.public_key()

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        asked = Asked(
            request.command, request.path, dict(request.headers.items()), body_of(request)
        )
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        try:
            claims = jwt.decode(token, self._key, ["RS256"], options={"verify_aud": False})
        except jwt.PyJWTError:
            claims = {}
        if claims.get("iss") == ACCOUNT:
            self.send_on(request, asked)
        else:
            reply(request, 401, {}, b"")


def account_of(key: RSAPrivateKey) -> str:
    """Return the file of an account, as Google gives it."""
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return json.dumps(
        {
            "type": "service_account",
            "project_id": "project",
            "private_key_id": "one",
            "private_key": pem.decode(),
            "client_email": ACCOUNT,
            "client_id": "1",
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
            "token_uri": "https://oauth2.googleapis.com/token",
        }
    )


@pytest.fixture(scope="module")
def key() -> RSAPrivateKey:
    """Return the account's key."""
    return generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def gate(server: Server, key: RSAPrivateKey) -> Iterator[AccountGate]:
    """Put the gate in front of the server."""
    if server.scheme != "gs":
        pytest.skip(f"{server.name} has no accounts of Google")
    with AccountGate(server.port, key) as gate:
        yield gate


def options_at(gate: AccountGate) -> dict[str, str]:
    return {"google_base_url": f"http://127.0.0.1:{gate.port}", "allow_http": "true"}


@pytest.mark.parametrize("how", ["service_account", "google_service_account_key"])
def test_an_account_in_the_options_is_enough(
    how: str, uri: str, gate: AccountGate, key: RSAPrivateKey, tmp_path: Path
) -> None:
    """As a file or as text, it serves the log and the data files, and stays out of the process."""
    file = tmp_path / "account.json"
    file.write_text(account_of(key))
    given = account_of(key) if how.endswith("key") else str(file)
    table = Table.create(
        uri,
        schema=rows(0).schema,
        time_column="at",
        zookeeper=f"memory://{uri}",
        storage_options=options_at(gate) | {how: given},
    )
    table.append(rows(0))
    table.append(rows(500))
    table.compact("major")
    assert table.scan().to_arrow().num_rows == 1000
    assert table.verify(deep=True).findings == ()
    assert VARIABLE not in os.environ


def test_another_account_is_refused(uri: str, gate: AccountGate) -> None:
    """The data files are opened by the account that is given, whatever another table has."""
    other = generate_private_key(public_exponent=65537, key_size=2048)
    files = open_files(uri, options_at(gate) | {"service_account_key": account_of(other)})
    with pytest.raises(StorageError), files.open("data/x"):
        pass


def test_a_wrong_account_is_refused_before_anything_is_written(
    uri: str, gate: AccountGate, tmp_path: Path
) -> None:
    """A file that is not there, or is none, is an error that names the options and shows none."""
    for name, value in (
        ("service_account", str(tmp_path / "none.json")),
        ("service_account_key", '{"private_key": "canary"}'),
    ):
        with pytest.raises(InvalidName, match=name) as caught:
            Table.open(uri, storage_options=options_at(gate) | {name: value})
        assert "canary" not in str(caught.value)
