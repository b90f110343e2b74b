"""The containers' scripts, run as processes without a container."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509

from tests.docker import faults, safety

DOCKER = Path(__file__).parents[2] / "docker"
BIN = DOCKER / "bin"
SHELL = [*(path for path in BIN.iterdir() if path.name.startswith("run-")), BIN / "uv-with-ca"]
SHELL += [DOCKER / name for name in ("up", "down", "engine", "test", "base", "sbom")]


def run(*command: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    environment = {"PATH": "/usr/bin:/bin", **settings}
    words = [str(word) for word in command]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def healthy(*check: str | int) -> subprocess.CompletedProcess[str]:
    """Ask whether something is healthy."""
    return run(sys.executable, "-IS", BIN / "healthy", *map(str, check))


@contextmanager
def answering(body: bytes) -> Iterator[int]:
    """Serve a page at every path, and yield the port."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("script", SHELL, ids=lambda path: path.name)
def test_a_script_is_read_by_its_shell(script: Path) -> None:
    """Nothing is misspelled that bash would notice."""
    assert run("/bin/bash", "-n", script).stderr == ""


def test_a_port_is_healthy_if_something_listens() -> None:
    """If nothing does, the reason is one line."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert healthy("port", port).returncode == 0
    closed = healthy("port", port)
    assert closed.returncode == 1
    assert closed.stdout.count("\n") == 1
    assert "ConnectionRefusedError" in closed.stdout


def test_a_page_is_healthy_if_it_answers() -> None:
    """Whatever it says."""
    with answering(b"{}") as port:
        assert healthy("http", port, "/").returncode == 0
    assert healthy("http", port, "/").returncode == 1


def test_an_unknown_check_is_not_healthy() -> None:
    """A misspelled check must not pass."""
    assert healthy("zookeper").returncode == 1


def test_a_zookeeper_outside_of_its_ensemble_is_refused() -> None:
    """Its number would be none of theirs."""
    refused = run("/bin/bash", BIN / "run-zookeeper", "zk1", "zk2")
    assert refused.returncode == 2
    assert "is none of: zk1 zk2" in refused.stderr


def test_an_unknown_profile_is_refused() -> None:
    """Before anything is built."""
    refused = run(DOCKER / "up", "maximal")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no profile 'maximal': full or minimal" in refused.stderr


def test_without_an_engine_it_says_so(tmp_path: Path) -> None:
    """Exit code 3, as of everything that is missing."""
    for name, code in (("docker", 1), ("dirname", 0)):
        command = tmp_path / name
        command.write_text(f"#!/bin/bash\n[ {name} = docker ] || echo {DOCKER}\nexit {code}\n")
        command.chmod(0o755)
    missing = run("/bin/bash", DOCKER / "up", "minimal", PATH=str(tmp_path), DOCKER="docker")
    assert missing.returncode == 3
    assert "no Docker engine answers" in missing.stderr


def test_the_demo_makes_its_tables_and_their_index_once(tmp_path: Path) -> None:
    """The index is there before anything waits for it; a second run finds all as it is."""
    program = (
        f"import sys; sys.path[:0] = [{str(DOCKER.parent)!r}, {str(DOCKER / 'demo')!r}]; "
        "import tables; tables.make(); tables.make(); "
        "print(*tables.opened(tables.EVENTS).snapshot().state.indexes)"
    )
    made = run(sys.executable, "-c", program, DEMO_ROOT=str(tmp_path))
    assert made.stderr == ""
    assert made.stdout.count("made ") == made.stdout.count("is there") == 3
    assert made.stdout.splitlines()[-1] == "by_user"


def test_keys_come_from_the_file_that_is_named(tmp_path: Path) -> None:
    """The demo's tables are opened with them; without a file there are none."""
    keys = tmp_path / "storage_options"
    keys.write_text('{"region": "eu"}')
    program = (
        f"import sys; sys.path[:0] = [{str(DOCKER.parent)!r}, {str(DOCKER / 'demo')!r}]; "
        "import tables; print(tables.storage_options())"
    )
    given = run(sys.executable, "-c", program, SEGTABLE_STORAGE_OPTIONS_FILE=str(keys))
    assert given.stdout == "{'region': 'eu'}\n"
    assert run(sys.executable, "-c", program).stdout == "{}\n"


def test_a_test_without_an_engine_says_so(tmp_path: Path) -> None:
    """It starts one of its own only where dockerd is, as root."""
    for name, words in (("docker", "exit 1"), ("dirname", f"echo {DOCKER}"), ("id", "echo 1000")):
        command = tmp_path / name
        command.write_text(f"#!/bin/bash\n{words}\n")
        command.chmod(0o755)
    missing = run("/bin/bash", DOCKER / "test", PATH=str(tmp_path), DOCKER="docker")
    assert missing.returncode == 3
    assert "none can be started here: that takes dockerd, and root" in missing.stderr


def test_an_unknown_store_is_refused() -> None:
    """Before anything is built."""
    refused = run(DOCKER / "up", "minimal", STORE="floppy")
    assert refused.returncode == 2
    assert "no store 'floppy': volume or s3" in refused.stderr


def test_an_image_names_its_parts(tmp_path: Path) -> None:
    """Packages of Debian and of Python, jars and Go modules, each once, in an order of its own."""
    packages = tmp_path / "opt/venv/lib/python3.11/site-packages"
    status = tmp_path / "var/lib/dpkg/status"
    files = {
        status: "Package: tini\nStatus: install ok installed\n"
        "Architecture: amd64\nVersion: 0.19-1\n",
        packages / "A_b-1.dist-info/METADATA": "Name: A_b\nVersion: 1\nLicense: MIT\n",
        packages / "pyspark/jars/zookeeper-3.9.5.jar": "",
        tmp_path / "usr/local/share/segtable/go.mod": "require (\n\tgolang.org/x/net v0.58.0\n)\n",
    }
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    made = run(sys.executable, "-IS", BIN / "list-parts", "image", tmp_path)
    listed = json.loads(made.stdout)
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.5")
    assert [part["purl"] for part in listed["components"]] == [
        "pkg:deb/debian/tini@0.19-1?arch=amd64",
        "pkg:generic/zookeeper@3.9.5",
        "pkg:golang/golang.org/x/net@v0.58.0",
        "pkg:pypi/a-b@1",
    ]


def test_leaks_and_rights_are_noticed() -> None:
    """The play's own checks see a secret that is shown, and a right that is left."""
    assert list(safety.leaks({"hush": "a_key"}, {"the log": "x hush y"})) == ["the log shows a_key"]
    known = {
        "HostConfig": {
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "CapAdd": None,
            "Privileged": False,
            "SecurityOpt": ["no-new-privileges:true"],
            "Memory": 1,
            "PortBindings": {"8080/tcp": [{"HostIp": "127.0.0.1"}]},
        },
        "Config": {"User": "segtable"},
    }
    assert not list(safety.rights(known))
    known["HostConfig"] |= {"PortBindings": {"1/tcp": [{"HostIp": ""}]}, "ReadonlyRootfs": False}
    assert len(list(safety.rights(known))) == 2


def test_the_newer_version_is_newer() -> None:
    """Of the minor number."""
    assert faults.newer('__version__ = "0.1.0"') == "0.2.0"


def test_secrets_are_made_once(tmp_path: Path) -> None:
    """Others depend on them; what is there stays; the folder is its owner's alone."""
    first = secrets_in(tmp_path)
    found = secrets_in(tmp_path)
    assert found == first
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert found["postgres_password"] in found["sql_alchemy_conn"]
    assert found["redis_password"] in found["broker_url"]
    assert json.loads(found["storage_options"])["aws_secret_access_key"] == found["s3_secret_key"]
    assert json.loads(found["airflow_passwords"]).keys() == {"admin"}
    authority = x509.load_pem_x509_certificate(found["ca.pem"].encode())
    certificate = x509.load_pem_x509_certificate(found["log_store.pem"].encode())
    certificate.verify_directly_issued_by(authority)


def secrets_in(folder: Path) -> dict[str, str]:
    """Make what is missing in a folder; return all."""
    made = run(sys.executable, BIN / "make-secrets", folder)
    assert (made.returncode, made.stderr) == (0, "")
    return {path.name: path.read_text() for path in folder.iterdir()}
