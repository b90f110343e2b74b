"""A catalog of Iceberg's REST protocol on this host, which keeps its tables in an SQL one."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, Table

Json = dict[str, Any]
_REFUSALS = {
    NoSuchTableError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}
_PATH = re.compile(r"/v1/namespaces(?:/(\w+)(?:/(?:(register)|tables/(\w+)))?)?")


@contextmanager
def served(catalog: Catalog) -> Iterator[str]:
    """Serve a catalog; yield its URI."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer()

        do_POST = do_DELETE = do_GET  # noqa: N815

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, found = 200, answered(catalog, self.command, self.path, body)
            except tuple(_REFUSALS) as error:
                status = _REFUSALS[type(error)]
                said = {"message": f"{error}", "type": type(error).__name__, "code": status}
                found = {"error": said}
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answered(catalog: Catalog, method: str, path: str, body: bytes) -> Json:
    """Return the answer to a request."""
    if path.startswith("/v1/config"):
        return {"defaults": {}, "overrides": {}, "endpoints": ENDPOINTS}
    found = _PATH.fullmatch(path.partition("?")[0])
    assert found, path
    namespace, registers, name = found.groups()
    if namespace is None:
        catalog.create_namespace(tuple(json.loads(body)["namespace"]))
        return json.loads(body) | {"properties": {}}
    if registers:
        asked = json.loads(body)
        return shown(catalog.register_table((namespace, asked["name"]), asked["metadata-location"]))
    if method == "POST":
        request = CommitTableRequest.model_validate_json(body)
        table = catalog.load_table((namespace, name))
        catalog.commit_table(table, request.requirements, request.updates)
    if method == "DELETE":
        catalog.drop_table((namespace, name))
        return {}
    return shown(catalog.load_table((namespace, name)))


def shown(table: Table) -> Json:
    """Return a table as the protocol shows it."""
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


_TABLE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
ENDPOINTS = [
    "POST /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    *(f"{method} {_TABLE}" for method in ("GET", "POST", "DELETE")),
]
