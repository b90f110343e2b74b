"""A Trino server on loopback, with the catalogs ``delta`` and ``iceberg``.

1. Both catalogs keep the names of tables in files, and may register tables that exist.
2. Settings that allow Trino to write and to clean are on. It changes no rows of a Delta table on
   local files all the same.
3. The server is one process, which ends with its context.
"""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

from tests.neighbours.prepare import TRINO, java_of_trino

PATIENCE_S = 600.0
_SERVER = """
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
"""
_CATALOG = """
hive.metastore.catalog.dir=file://{folder}/{name}-names
fs.hadoop.enabled=true
{name}.register-table-procedure.enabled=true
"""
_CATALOGS = {
    "delta": """
connector.name=delta_lake
hive.metastore=file
delta.enable-non-concurrent-writes=true
delta.vacuum.min-retention=0s
""",
    "iceberg": """
connector.name=iceberg
iceberg.catalog.type=TESTING_FILE_METASTORE
iceberg.expire-snapshots.min-retention=0s
iceberg.remove-orphan-files.min-retention=0s
""",
}
_JVM = (
    "-Xmx1536m",
    "--add-modules=jdk.incubator.vector",
    "--enable-native-access=ALL-UNNAMED",
    "-Djdk.attach.allowAttachSelf=true",
)


@contextmanager
def trino_server(folder: Path) -> Iterator[int]:
    """Run a server whose files are in a folder; yield its port once it takes queries."""
    java, port = java_of_trino(), _free_port()
    assert java
    settings = _settings(folder, port)
    log = folder / "server.log"
    command = [f"{java}/bin/java", *_JVM, *settings, "-cp", f"{TRINO}/lib/*"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "io.trino.server.TrinoServer"], stdout=output, stderr=output, cwd=folder
        )
    try:
        _wait_for(process, port, log)
        yield port
    finally:
        process.terminate()
        process.wait()


def _settings(folder: Path, port: int) -> list[str]:
    """Write the files of settings, and return the properties that name them."""
    catalogs = folder / "catalogs"
    catalogs.mkdir()
    for name, text in _CATALOGS.items():
        common = _CATALOG.format(folder=folder, name=name)
        (catalogs / f"{name}.properties").write_text(text.lstrip() + common.lstrip())
    config = folder / "config.properties"
    config.write_text(_SERVER.format(port=port).lstrip())
    named = {
        "config": config,
        "catalog.config-dir": catalogs,
        "plugin.dir": TRINO / "plugin",
        "node.data-dir": folder,
        "node.environment": "neighbours",
        "node.bind-ip": "127.0.0.1",
        "node.internal-address": "127.0.0.1",
    }
    return [f"-D{name}={value}" for name, value in named.items()]


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def _wait_for(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/v1/info") as answer:
            if b'"starting":false' in answer.read():
                return
        assert process.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < deadline, f"Trino does not answer on {port}"
        time.sleep(0.2)
