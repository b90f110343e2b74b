"""A pytest fixture with an S3 server: ``pytest_plugins = ["tests.support.s3"]``.

The server (moto's) starts on first use, once per session, on a free loopback port. Tests are
isolated by their own prefixes.
"""

import logging
from collections.abc import Iterator
from types import TracebackType
from typing import Self
from urllib.request import Request, urlopen

import pytest

BUCKET = "segtable-tests"


class LoopbackS3:
    """An S3 server in this process, with one bucket."""

    def __enter__(self) -> Self:
        """Start the server and make the bucket."""
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.host, self.port = str(host), int(port)
        made = Request(f"http://{self.host}:{self.port}/{BUCKET}", method="PUT")
        urlopen(made, timeout=30).close()  # noqa: S310  # loopback
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the server and drop its objects."""
        self._server.stop()

    def uri(self, prefix: str) -> str:
        """Return the URI of a folder in the bucket."""
        return f"s3://{BUCKET}/{prefix}"

    @property
    def storage_options(self) -> dict[str, str]:
        """Return the storage options for this server, for log and data files."""
        return options_for(f"http://{self.host}:{self.port}")


def options_for(endpoint: str) -> dict[str, str]:
    """Return storage options for an S3 endpoint that accepts any credentials."""
    return {
        "endpoint": endpoint,
        "allow_http": "true",
        "region": "us-east-1",
        "access_key_id": "testing",
        "secret_access_key": "testing",
        "virtual_hosted_style_request": "false",
    }


@pytest.fixture(scope="session")
def s3() -> Iterator[LoopbackS3]:
    """Yield a running server."""
    with LoopbackS3() as server:
        yield server
