"""Object store servers on loopback, each started from the place where ``make test-stores`` put it.

1. A server is a process of its own with an empty store, on a free port, with one bucket. It ends
   with its context.
2. ``options`` are storage options as a user gives them. ``uri`` is a folder in the bucket.
3. A missing program is ``ServerMissing``, with the way out: tests are skipped for this reason.
4. ``at`` gives the options for a proxy in front of the server.
"""

import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

from pyarrow import fs

from tests.stores.xml_gateway import XmlGateway
from tests.support.s3 import BUCKET, LoopbackS3, options_for

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "stores"
PATIENCE_S = 120.0
ACCOUNT = "devstoreaccount1"
# The key of this account in every Azurite: it is in Azurite's manual, and opens nothing else.
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


class ServerMissing(Exception):
    """The server's program is not here; the message says how to get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server.

    Attributes:
        name: the program.
        scheme: the scheme of its URIs.
        port: where it listens on loopback.
        options: storage options for it.
    """

    name: str
    scheme: str
    port: int
    options: Mapping[str, str] = field(repr=False)

    def uri(self, prefix: str) -> str:
        """Return the URI of a folder in the bucket."""
        return f"{self.scheme}://{BUCKET}/{prefix}"

    def at(self, port: int) -> dict[str, str]:
        """Return the options that reach the server through a proxy on loopback."""
        here, there = (f"127.0.0.1:{each}" for each in (self.port, port))
        return {name: value.replace(here, there) for name, value in self.options.items()}


def _program(*parts: str) -> str:
    found = PLACE.joinpath(*parts)
    if not found.exists():
        raise ServerMissing(f"{found.relative_to(ROOT)} is not there: run make test-stores")
    return str(found)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


@contextmanager
def _running(command: list[str], port: int, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """Run a server until the context ends; yield when it accepts connections."""
    PLACE.mkdir(parents=True, exist_ok=True)
    log = PLACE / f"{Path(command[0]).name}-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **(env or {})}, stdout=output, stderr=output
        )
    try:
        _wait_for(process, port, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.unlink()


def _wait_for(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"{process.args} does not listen on {port}"
        time.sleep(0.05)


@contextmanager
def versitygw(keys: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run versitygw, an S3 gateway to a folder. It verifies signatures.

    ``keys`` are the options with its key pair, if it shall have another one.
    """
    program, port = _program("bin", "versitygw"), _free_port()
    options = options_for(f"http://127.0.0.1:{port}") | dict(keys or {})
    PLACE.mkdir(parents=True, exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="s3-", dir=PLACE))  # file attributes need a real disk
    (data / BUCKET).mkdir()
    command = [program, "--port", f"127.0.0.1:{port}", "--region", options["region"], "--quiet"]
    env = {
        "ROOT_ACCESS_KEY": options["access_key_id"],
        "ROOT_SECRET_KEY": options["secret_access_key"],
    }
    try:
        with _running([*command, "posix", str(data)], port, env):
            yield Server(name="versitygw", scheme="s3", port=port, options=options)
    finally:
        shutil.rmtree(data)


@contextmanager
def moto() -> Iterator[Server]:
    """Run moto's S3 in this process. It verifies no signatures."""
    with LoopbackS3() as server:
        yield Server(name="moto", scheme="s3", port=server.port, options=server.storage_options)


@contextmanager
def fake_gcs_server() -> Iterator[Server]:
    """Run fake-gcs-server, objects in memory, behind Google's XML interface.

    It verifies no credentials.
    """
    program, port = _program("bin", "fake-gcs-server"), _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    where = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    with XmlGateway(port) as gateway:
        there = f"http://127.0.0.1:{gateway.port}"
        names = ["-public-host", f"127.0.0.1:{gateway.port}", "-external-url", there]
        with _running([program, "-backend", "memory", *where, *names], port):
            made = Request(  # noqa: S310  # loopback
                f"{endpoint}/storage/v1/b?project=tests",
                data=f'{{"name": "{BUCKET}"}}'.encode(),
                headers={"content-type": "application/json"},
            )
            urlopen(made, timeout=30).close()  # noqa: S310  # loopback
            yield Server(
                name="fake-gcs-server", scheme="gs", port=gateway.port, options=_google(there)
            )


def _google(endpoint: str) -> dict[str, str]:
    """Return options for a server that accepts anonymous users."""
    no_key = {"private_key": "", "private_key_id": "", "client_email": "", "disable_oauth": True}
    return {
        "google_base_url": endpoint,
        "skip_signature": "true",
        "allow_http": "true",
        "service_account_key": json.dumps({**no_key, "gcs_base_url": endpoint}),
    }


@contextmanager
def azurite() -> Iterator[Server]:
    """Run Azurite's blob service with its objects in memory. It verifies signatures and dates."""
    program = _program("npm", "node_modules", "azurite", "dist", "src", "blob", "main.js")
    node, port = shutil.which("node"), _free_port()
    if node is None:
        raise ServerMissing("Azurite needs node: install Node.js 20 or newer")
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    ways = ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]
    options = {
        "account_name": ACCOUNT,
        "account_key": ACCOUNT_KEY,
        "endpoint": f"http://127.0.0.1:{port}/{ACCOUNT}",
        "allow_http": "true",
    }
    with _running([node, program, *where, *ways], port):
        _azure(port).create_dir(BUCKET)
        yield Server(name="azurite", scheme="az", port=port, options=options)


def _azure(port: int) -> fs.FileSystem:
    there = f"127.0.0.1:{port}"
    return fs.AzureFileSystem(
        account_name=ACCOUNT,
        account_key=ACCOUNT_KEY,
        blob_storage_authority=there,
        blob_storage_scheme="http",
        dfs_storage_authority=there,
        dfs_storage_scheme="http",
    )


def sas_token(*, ends_in: timedelta) -> str:
    """Return a token for Azurite's account that ends before or after now."""
    version, form = "2020-12-06", "%Y-%m-%dT%H:%M:%SZ"
    now = datetime.now(UTC)
    begins, ends = ((now + by).strftime(form) for by in (timedelta(days=-1), ends_in))
    parts = (ACCOUNT, "rwdlac", "b", "sco", begins, ends, "", "https,http", version, "", "")
    key = base64.b64decode(ACCOUNT_KEY)
    signed = hmac.new(key, "\n".join(parts).encode(), hashlib.sha256).digest()
    fields = {"sv": version, "ss": "b", "srt": "sco", "sp": "rwdlac", "st": begins, "se": ends}
    fields |= {"spr": "https,http", "sig": base64.b64encode(signed).decode()}
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in fields.items())


SERVERS = {
    "versitygw": versitygw,
    "moto": moto,
    "fake-gcs-server": fake_gcs_server,
    "azurite": azurite,
}
