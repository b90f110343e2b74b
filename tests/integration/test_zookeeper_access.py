"""A ZooKeeper with users and TLS: who may, who may not, and what each is told."""

import json
import re
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from typer.testing import CliRunner

from airflow_provider_segtable.cli.app import app
from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper, free_port
from airflow_provider_segtable.coordination.zookeeper.access import FILE_VARIABLE, Access
from airflow_provider_segtable.coordination.zookeeper.zookeeper_coordinator import (
    ZooKeeperCoordinator,
)
from airflow_provider_segtable.core.errors import (
    AccessRefused,
    CoordinatorUnavailable,
    SegtableError,
)
from tests.contract.worlds import LIFE_S, PATIENCE_S, TABLE, append, eventually, request

pytestmark = pytest.mark.zookeeper

HUSH = "open-sesame-42"
REFUSED_S = 1.5  # how long a client that cannot get in tries
DIGEST = {"user": "lake", "password": HUSH}
SASL = {**DIGEST, "scheme": "sasl"}
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "zookeeper.md"
_chroots = (f"/access-{n}" for n in count())


@dataclass(frozen=True)
class Guarded:
    """A server that knows user ``lake``, and speaks TLS on a second port."""

    server: EmbeddedZooKeeper
    secure: str
    folder: Path

    @property
    def tls(self) -> dict[str, str]:
        """Return the options of a client that the server lets in by TLS."""
        names = {"ca": "cert.pem", "certificate": "cert.pem", "key": "key.pem"}
        return {name: str(self.folder / file) for name, file in names.items()}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Start a ZooKeeper with SASL and TLS, from the jars of PySpark."""
    folder, port = tmp_path_factory.mktemp("guarded"), free_port()
    certify(folder)
    (folder / "jaas.conf").write_text(
        "Server { org.apache.zookeeper.server.auth.DigestLoginModule required "
        f'user_lake="{HUSH}"; }};'
    )
    settings = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(folder / "server.pem"),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(folder / "cert.pem"),
        "ssl.trustStore.type": "PEM",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    users = f"-Djava.security.auth.login.config={folder / 'jaas.conf'}"
    home = folder / "home"
    home.mkdir(mode=0o755)  # as an older segtable made it
    with EmbeddedZooKeeper(home, settings=settings, jvm_options=[users]) as server:
        yield Guarded(server, f"127.0.0.1:{port}", folder)


def certify(folder: Path) -> None:
    """Make a key and a certificate for 127.0.0.1, which vouches for itself."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "segtable")]),
    )
    now, here = datetime.now(UTC), x509.IPAddress(ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([here]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    (folder / "key.pem").write_bytes(secret)
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    (folder / "server.pem").write_bytes(secret + made.public_bytes(pem))


@pytest.fixture
def chroot() -> str:
    """Return a place of its own."""
    return next(_chroots)


def client_of(
    hosts: str, chroot: str, options: dict[str, str], *, connect_s: float = PATIENCE_S
) -> ZooKeeperCoordinator:
    return ZooKeeperCoordinator(
        hosts,
        chroot,
        session_timeout_s=LIFE_S,
        connect_timeout_s=connect_s,
        access=Access.read(options),
    )


def refused(client: ZooKeeperCoordinator, error: type[SegtableError], said: str) -> bool:
    """Return whether a request is refused so; else its server was too slow to say why."""
    with pytest.raises((error, CoordinatorUnavailable)) as found:
        client.acquire(request("thief", 1), wait_s=0)
    return isinstance(found.value, error) and bool(re.search(said, str(found.value)))


def use(client: ZooKeeperCoordinator) -> None:
    """Make a node of every kind."""
    client.acquire(append("writer"), wait_s=0)
    lease = client.acquire(request("g", 1, new=1), wait_s=0)
    lease.report({"rows": "1"})
    lease.make_irrevocable()
    client.announce(TABLE, 1)
    lease.check()


@pytest.mark.parametrize("options", [DIGEST, SASL], ids=["digest", "sasl"])
def test_what_a_user_makes_is_that_users_alone(
    guarded: Guarded, chroot: str, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Every node, also those made in transactions; others are refused by a typed error."""
    caplog.set_level(1)
    hosts = guarded.server.hosts
    owner = client_of(hosts, chroot, options)
    use(owner)
    link = owner._live().client
    kinds = {"head", "lockbox", "progress", "states"}  # a head is announced in the background
    eventually(lambda: kinds <= {path.split("/")[-1] for path in walk(link, chroot)})
    paths = list(walk(link, chroot))
    acls = [link.get_acls(path)[0] for path in paths]
    assert {(acl.id.scheme, acl.perms) for (acl,) in acls} == {
        (options.get("scheme", "digest"), 31)
    }

    stranger = KazooClient(hosts)
    stranger.start()
    for path in paths:
        with pytest.raises(NoAuthError):
            stranger.get(path)
    stranger.stop()
    stranger.close()

    for wrong in ({}, {**options, "password": "guess"}):
        client = client_of(hosts, chroot, wrong, connect_s=REFUSED_S)
        said = rf"{hosts}{chroot}.*(user 'lake'|without a user)"
        eventually(lambda client=client, said=said: refused(client, AccessRefused, said))
        client.close()
    owner.close()
    assert HUSH not in caplog.text


def walk(client: KazooClient, path: str) -> Iterator[str]:
    yield path
    for name in client.get_children(path):
        yield from walk(client, f"{path}/{name}")


def test_a_user_and_its_locks_survive_a_reconnection(guarded: Guarded, chroot: str) -> None:
    """The client proves itself again when it reconnects, and its lease is still its own."""
    client = client_of(guarded.server.hosts, chroot, SASL)
    lease = client.acquire(request("g", 1), wait_s=0)
    link = client._live()
    before = link.generation
    link.client._connection._socket.shutdown(socket.SHUT_RDWR)
    eventually(lambda: link.generation > before and link.connected)
    lease.make_irrevocable()
    lease.release()
    client.close()


@pytest.mark.parametrize("more", [{}, DIGEST, SASL], ids=["nobody", "digest", "sasl"])
def test_tls_with_certificates_of_both_sides(
    guarded: Guarded, chroot: str, more: dict[str, str]
) -> None:
    """An encrypted connection works like any other, with a user and without."""
    client = client_of(guarded.secure, chroot, {**guarded.tls, **more})
    use(client)
    assert client._live().client.use_ssl
    client.close()


def test_who_cannot_prove_itself_by_tls_is_named(guarded: Guarded, chroot: str) -> None:
    """An authority that does not vouch, and a client without a certificate, get no further."""
    without = {"ca": guarded.tls["ca"]}
    for options, trouble in (({"tls": "true"}, "CERTIFICATE_VERIFY_FAILED"), (without, "")):
        client = client_of(guarded.secure, chroot, options, connect_s=REFUSED_S)
        said = f"{trouble}.*certificates of its"
        eventually(lambda client=client, said=said: refused(client, CoordinatorUnavailable, said))
        client.close()


def test_the_embedded_servers_folder_is_private(guarded: Guarded) -> None:
    """Nobody else reads its data, also if an older segtable had made the folder."""
    home = guarded.server.data_dir
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    written = list((home / "data").rglob("*"))
    assert written
    assert [path for path in written if path.stat().st_mode & 0o077] == []


def test_the_example_of_the_guide_works(
    guarded: Guarded, chroot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the file of options the commands go well; without it ZooKeeper is closed to them."""
    page = GUIDE.read_text()
    (options,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    (block,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    assert set(json.loads(options)) == {"user", "password_file"}
    monkeypatch.chdir(tmp_path)
    at = pa.array([0, 1], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": at, "n": [1, 2]}), "trips.parquet")
    Path("password").write_text(f"{HUSH}\n")
    Path("zookeeper.json").write_text(options)
    monkeypatch.setenv("SEGTABLE_ZOOKEEPER", f"{guarded.server.hosts}{chroot}")
    monkeypatch.setenv(FILE_VARIABLE, "zookeeper.json")
    ran = []
    for line in block.splitlines():
        if line.startswith("$ segtable "):
            result = CliRunner().invoke(app, line.split()[2:])
            assert result.exit_code == 0, f"{line}: {result.output}"
            ran.append(line)
    assert len(ran) >= 3
    monkeypatch.delenv(FILE_VARIABLE)
    result = CliRunner().invoke(app, ["locks", "./trips"])
    assert result.exit_code == 3
    assert "without a user" in result.stderr
