"""What only a log store on the network has: streams that end, a token, TLS."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pyarrow import flight

from airflow_provider_segtable.core.errors import InvalidInput, LogStoreUnavailable
from airflow_provider_segtable.core.log_store.reading import Whence
from airflow_provider_segtable.core.secret import Secret
from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
from airflow_provider_segtable.log_store.flight_streams import FlightSecurity, encoded
from airflow_provider_segtable.ports.log_store import DeployMode, LogContext
from tests.contract.log_worlds import PATIENCE_S, SCHEMA, LogWorld, rows
from tests.contract.worlds import eventually

STREAM_S = 0.4
TOKEN = Secret("open-sesame-42")
CLIENT = """
import sys
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd
from airflow_provider_segtable.core.log_store.reading import Whence
from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
import pyarrow as pa

client = FlightLogStoreProvider().connect(sys.argv[1])
reader = client.reader(0, start=Whence.EARLIEST)
writer = client.writer(0, epoch=1, committed=CommittedEnd())
writer.append(pa.record_batch([pa.array([1])], names=["n"]), wait_s=60)
reader.read(wait_s=60)
print("reading", flush=True)
reader.read(wait_s=60)
"""


@pytest.fixture
def world() -> Iterator[LogWorld]:
    """A store whose streams are short."""
    made = LogWorld(FlightLogStoreProvider(stream_s=STREAM_S))
    made.start()
    yield made
    made.end()


def streams() -> set[str]:
    """Return the streams that threads of servers in this process are busy with."""
    names = {"do_put", "_events"}
    found = set()
    for top in sys._current_frames().values():
        frame = top
        while frame:
            if frame.f_code.co_name in names and "flight_store" in frame.f_code.co_filename:
                found.add(frame.f_code.co_name)
            frame = frame.f_back  # type: ignore[assignment]
    return found


def test_streams_are_renewed_without_a_gap(world: LogWorld) -> None:
    """Writers and readers go on over many streams, each of which ends after its time."""
    writer, reader, idle = world.writer(), world.reader(), world.reader(bucket=1)
    for n in range(25):
        assert idle.step(STREAM_S / 8) is None
        writer.append(rows(n), wait_s=PATIENCE_S)
        if n % 2:
            assert len(reader.until(n + 1)) == n + 1
    assert reader.until(25) == [*range(25)]
    assert reader.events == []


def test_a_killed_client_leaves_nothing() -> None:
    """The streams of a process that was killed end by themselves."""
    world = LogWorld(FlightLogStoreProvider())
    world.start()
    command = [sys.executable, "-c", CLIENT, world.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout
        assert client.stdout.readline() == "reading\n"
        eventually(lambda: streams() == {"do_put", "_events"})
        client.kill()
    eventually(lambda: not streams())
    world.end()


def test_a_client_that_does_not_react_is_left_after_its_time(world: LogWorld) -> None:
    """A stream whose client neither sends nor listens ends in time, and then the store does."""
    client = flight.connect(world.address)
    options = flight.FlightCallOptions(timeout=STREAM_S)
    command = encoded({"bucket": 0, "epoch": 1})
    put, _ = client.do_put(flight.FlightDescriptor.for_command(command), SCHEMA, options)
    eventually(lambda: "do_put" in streams())
    world.store.shutdown()
    assert not streams()
    with suppress(flight.FlightError):
        put.close()


def test_a_store_may_be_a_process_of_its_own() -> None:
    """The deployment is what the provider was told; an address comes with the start."""
    provider = FlightLogStoreProvider(deploy_mode=DeployMode.EXTERNAL)
    store = provider.create(LogContext(table="t", schema=SCHEMA, buckets=(0,)))
    assert store.deploy_mode is DeployMode.EXTERNAL
    with pytest.raises(LogStoreUnavailable, match="no address yet: start it"):
        assert store.address
    store.start()
    taken = FlightLogStoreProvider(port=int(store.address.rpartition(":")[2]))
    second = taken.create(LogContext(table="t", schema=SCHEMA, buckets=(0,)))
    with pytest.raises(LogStoreUnavailable, match="choose another port"):
        second.start()
    store.shutdown()
    store.shutdown()


def test_only_the_token_opens_a_store() -> None:
    """Calls with another one, or none, are refused; beyond loopback it is needed, under TLS."""
    world = LogWorld(FlightLogStoreProvider(security=FlightSecurity(token=TOKEN)))
    world.start()
    world.writer().append(rows(1), wait_s=PATIENCE_S)
    assert world.reader().until(1) == [1]
    for wrong in (None, Secret("another")):
        stranger = FlightLogStoreProvider(security=FlightSecurity(token=wrong))
        with pytest.raises(LogStoreUnavailable, match="refuses this token"):
            stranger.connect(world.address).reader(0, start=Whence.EARLIEST)
    world.end()
    outside = FlightLogStoreProvider(host="0.0.0.0")  # noqa: S104  # what is refused
    plain = replace(outside, security=FlightSecurity(token=TOKEN))
    for provider, why in ((outside, "and has no token"), (plain, "would travel unencrypted")):
        with pytest.raises(InvalidInput, match=rf"0\.0\.0\.0 can be reached .*{why}"):
            provider.create(LogContext(table="t", schema=SCHEMA, buckets=(0,))).start()


def test_tls_is_spoken_with_trusted_clients() -> None:
    """With a certificate, the store's address says so, and clients compare it with their roots."""
    certificate, key = self_signed()
    security = FlightSecurity(certificate=certificate, key=Secret(key), roots=certificate)
    world = LogWorld(FlightLogStoreProvider(security=security))
    world.start()
    assert world.address.startswith("grpc+tls://127.0.0.1:")
    world.writer().append(rows(1), wait_s=PATIENCE_S)
    assert world.reader().until(1) == [1]
    with pytest.raises(LogStoreUnavailable, match="no log store answers"):
        FlightLogStoreProvider().connect(world.address).reader(0, start=Whence.EARLIEST)
    world.end()
    keyless = FlightLogStoreProvider(security=FlightSecurity(certificate=certificate))
    with pytest.raises(InvalidInput, match="without its key"):
        keyless.create(LogContext(table="t", schema=SCHEMA, buckets=(0,))).start()


def self_signed() -> tuple[str, str]:
    """Return a certificate for loopback, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.public_bytes(pem).decode(), secret.decode()
