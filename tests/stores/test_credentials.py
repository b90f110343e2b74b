"""Credentials of S3 by the usual ways, in each kind of process, and nowhere to be read.

1. versitygw verifies each signature, behind a gate that refuses session tokens which have ended.
2. A fake metadata service gives credentials that end after some seconds, and others after them.
3. Whatever a process shows is searched for the secret: its output (which has results, plans of
   Spark, Spark's pages, what Airflow stores, errors), the command lines of all processes while
   it runs, Spark's event log, and all objects of the table.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.errors import CredentialsExpired
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.spark.driver.session import spark_app_path
from airflow_provider_segtable.storage import open_storage
from tests.cluster.standalone import SETTINGS
from tests.stores import credentials_program
from tests.stores.conftest import REQUIRED
from tests.stores.credentials_program import PART
from tests.stores.metadata_server import Keys, MetadataServer, TokenGate
from tests.stores.servers import PLACE, ROOT, Server, ServerMissing, versitygw
from tests.stores.test_table_cycle import rows
from tests.support.s3 import BUCKET

KEYS = Keys(
    access_key_id="AKIALAKE",
    secret_access_key="canary-key-7f3a91c2",  # of this test alone
    session="canary-session-5d20b8",
)
CANARIES = (KEYS.secret_access_key, KEYS.session)
SHORT_S, LONG_S = 12.0, 3600.0
RENEWED_EARLY_S = 300.0
"""obstore renews credentials of an instance that end within five minutes."""
AMAZON = PLACE / "amazon"
WAYS = ("environment", "profile", "container", "instance")
PATIENCE_S = 540


@dataclass
class World:
    """A store behind the gate, and services that give credentials for it."""

    server: Server
    gate: TokenGate
    short: MetadataServer
    instance: MetadataServer
    zookeeper: str
    folder: Path
    places: Iterator[int] = field(default_factory=lambda: iter(range(1 << 20)))

    @property
    def options(self) -> dict[str, str]:
        """Return storage options without credentials."""
        return {
            name: value
            for name, value in self.server.at(self.gate.port).items()
            if name not in {"access_key_id", "secret_access_key"}
        }

    @property
    def keys(self) -> dict[str, str]:
        """Return storage options that are the credentials."""
        return {
            "access_key_id": KEYS.access_key_id,
            "secret_access_key": KEYS.secret_access_key,
            "session_token": KEYS.token(time.time() + LONG_S),
        }

    def uri(self) -> str:
        """Return a fresh place."""
        return f"s3://{BUCKET}/credentials-{next(self.places)}/table"

    def way(self, name: str) -> dict[str, str]:
        """Return the environment of a process that finds its credentials in one way."""
        keys = {f"AWS_{option.upper()}": value for option, value in self.keys.items()}
        profile = self.folder / "credentials"
        lines = [f"{option.lower()}={value}" for option, value in keys.items()]
        profile.write_text("\n".join(["[default]", "[lake]", *lines]))
        return {
            "environment": keys,
            "profile": {"AWS_PROFILE": "lake", "AWS_SHARED_CREDENTIALS_FILE": str(profile)},
            "container": {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.short.endpoint}/container"},
            "instance": {
                "AWS_METADATA_ENDPOINT": self.instance.endpoint,
                "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.instance.endpoint,
            },
            "nothing": {},
        }[name]

    def environment(self, way: str, **more: str) -> dict[str, str]:
        """Return a whole environment, without the developer's own credentials."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        mine = {"HOME": str(home), "PYTHONPATH": str(ROOT), "SEGTABLE_ZOOKEEPER": self.zookeeper}
        return {**kept, **mine, **self.way(way), **more}

    def spark(self, name: str, **settings: str) -> dict[str, str]:
        """Return the environment of a driver with executors and an event log."""
        conf = self.folder / f"conf-{name}"
        (conf / "events").mkdir(parents=True)
        given = {
            **SETTINGS,
            "spark.master": "local-cluster[1,1,600]",
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{conf / 'events'}",
            "spark.log.level": "INFO",
            **settings,
        }
        lines = (f"{key} {value}" for key, value in given.items())
        (conf / "spark-defaults.conf").write_text("\n".join(lines))
        return {"SPARK_CONF_DIR": str(conf)}

    def run(self, command: list[str], environment: Mapping[str, str], code: int = 0) -> str:
        """Run a process; return its output, in which no secret is, nor in any command line."""
        log = self.folder / "output"
        with log.open("w") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, env=dict(environment), cwd=self.folder
            )
            try:
                self._watched(process)
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()
        text = log.read_text()
        refuse(text, "output")
        assert process.returncode == code, text[-4000:]
        return text

    def _watched(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None:
            assert time.monotonic() < deadline, "it does not end"
            refuse(command_lines(), "a command line")
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue

    def program(
        self, work: str, uri: str, options: Mapping[str, str], seconds: float = 0.0
    ) -> list[str]:
        """Return the command of ``credentials_program``; its options are in a private file."""
        file = self.folder / "options.json"
        file.write_text(json.dumps(dict(options)))
        module = credentials_program.__name__
        given = [work, uri, self.zookeeper, str(file), str(seconds)]
        return [sys.executable, "-m", module, *given]

    def check_objects(self, uri: str) -> None:
        """Look into each object of a table."""
        storage = open_storage(uri, self.server.options)
        paths = [entry.path for folder in ("data", "_segtable") for entry in storage.list(folder)]
        assert len(paths) > 4
        for path in paths:
            refuse(storage.read(path).decode("latin-1"), path)


def refuse(text: str, where: str) -> None:
    """Fail if a secret is in a text, without showing it."""
    found = [canary[:8] for canary in CANARIES if canary in text]
    assert not found, f"{found} in {where}"


def command_lines() -> str:
    """Return the command lines of all processes."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(process.read_bytes().decode("latin-1"))
        except OSError:
            continue
    return "\n".join(found)


def rows_of(output: str) -> list[int]:
    """Return the numbers of the rows that a program printed at its end."""
    numbers: list[int] = json.loads(f"\n{output}".rpartition("\nrows ")[2].splitlines()[0])
    return numbers


def whole(output: str) -> None:
    """Check that each row is there once."""
    found = rows_of(output)
    assert found
    assert found == list(range(len(found)))


@pytest.fixture(scope="module")
def world(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Run the store, the gate and the services."""
    options = {
        "access_key_id": KEYS.access_key_id,
        "secret_access_key": KEYS.secret_access_key,
    }
    short = MetadataServer(KEYS, lasts_s=SHORT_S, announced_s=SHORT_S + 3)
    early = RENEWED_EARLY_S + SHORT_S - 1
    instance = MetadataServer(KEYS, lasts_s=LONG_S, announced_s=early)
    with ExitStack() as stack:
        try:
            server = stack.enter_context(versitygw(options))
        except ServerMissing as missing:
            if os.environ.get(REQUIRED) == "required":
                raise
            pytest.skip(str(missing))
        gate = stack.enter_context(TokenGate(server.port, KEYS))
        for each in (short, instance):
            stack.enter_context(each)
        folder = tmp_path_factory.mktemp("credentials")
        yield World(server, gate, short, instance, zookeeper.address, folder)


@pytest.mark.parametrize("way", WAYS)
def test_a_program_finds_its_credentials(world: World, way: str) -> None:
    """A table is created, filled, compacted and verified; ended credentials are renewed."""
    uri = world.uri()
    before = world.short.given
    seconds = 1.5 * SHORT_S if way in {"container", "instance"} else 0.0
    command = world.program("library", uri, world.options, seconds)
    whole(world.run(command, world.environment(way)))
    world.check_objects(uri)
    if way == "container":
        assert world.short.given - before >= 2


def test_the_environment_alone_is_enough(world: World) -> None:
    """Endpoint and region may be in the environment, too, for the log and the data files."""
    more = {
        "AWS_ENDPOINT_URL": world.options["endpoint"],
        "AWS_REGION": world.options["region"],
        "AWS_ALLOW_HTTP": "true",
    }
    uri = world.uri()
    whole(world.run(world.program("library", uri, {}), world.environment("environment", **more)))


@pytest.mark.parametrize("way", ["environment", "container", "options"])
def test_executors_of_spark_find_their_credentials(world: World, way: str) -> None:
    """Driver and executors write, sort and read; Spark's pages and event log have no secret."""
    uri = world.uri()
    options = world.options | (world.keys if way == "options" else {})
    conf = world.spark(way)
    found = "nothing" if way == "options" else way
    whole(world.run(world.program("spark", uri, options), world.environment(found, **conf)))
    world.check_objects(uri)
    check_event_logs(conf)


def check_event_logs(conf: Mapping[str, str]) -> None:
    """Look into what Spark wrote down of the application."""
    logs = [path for path in Path(conf["SPARK_CONF_DIR"], "events").rglob("*") if path.is_file()]
    assert logs
    for log in logs:
        refuse(log.read_text(errors="replace"), "the event log")


def hadoop(world: World) -> dict[str, str]:
    """Return the settings of Hadoop that have the keys."""
    keys, prefix = world.keys, "spark.hadoop.fs.s3a"
    return {
        f"{prefix}.access.key": keys["access_key_id"],
        f"{prefix}.secret.key": keys["secret_access_key"],
        f"{prefix}.bucket.{BUCKET}.session.token": keys["session_token"],
        f"{prefix}.endpoint": world.options["endpoint"],
        f"{prefix}.endpoint.region": world.options["region"],
        f"{prefix}.path.style.access": "true",
    }


def made(world: World, uri: str, **kind: str) -> Table:
    """Make an empty table."""
    options = world.options | world.keys
    return Table.create(
        uri,
        schema=rows(0).schema,
        time_column="at",
        zookeeper=world.zookeeper,
        storage_options=options,
        **kind,
    )


def test_the_data_source_takes_hadoops_keys(world: World) -> None:
    """A table is written and read by name alone; no plan and no page shows a key."""
    uri = world.uri()
    made(world, uri, primary_key="x", granularity="all").ports.coordinator.close()
    conf = world.spark("source", **hadoop(world))
    command = world.program("source", uri, {})
    whole(world.run(command, world.environment("nothing", **conf)))
    world.check_objects(uri)
    check_event_logs(conf)


def test_a_spark_application_takes_hadoops_keys(world: World) -> None:
    """``spark_apps/ingest.py`` loads a file with the keys of ``spark-defaults.conf``."""
    uri = world.uri()
    table = made(world, uri)
    file = world.folder / "given.parquet"
    pq.write_table(rows(0, PART), file)
    conf = world.spark("application", **hadoop(world))
    where = [f"--table={uri}", f"--zookeeper={world.zookeeper}", f"--source=file://{file}"]
    command = [sys.executable, str(spark_app_path("ingest")), *where]
    world.run(command, world.environment("nothing", **conf))
    assert credentials_program.numbers(table) == list(range(PART))
    table.ports.coordinator.close()
    check_event_logs(conf)


def connection(uri: str, world: World, **extra: object) -> dict[str, str]:
    """Return the segtable connection of a task, in its environment."""
    given = {"zookeeper": world.zookeeper, **extra}
    place = {"conn_type": "segtable", "host": uri.rpartition("/")[0], "extra": given}
    return {
        "AIRFLOW_CONN_SEGTABLE_DEFAULT": json.dumps(place),
        "AIRFLOW_HOME": str(world.folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
    }


@pytest.mark.parametrize("way", ["environment", "container"])
def test_an_airflow_task_finds_its_credentials(world: World, way: str) -> None:
    """A compaction by an operator; its log, its XCom and its rendered fields have no secret."""
    uri = world.uri()
    mine = connection(uri, world, storage_options=world.options)
    whole(world.run(world.program("task", uri, {}), world.environment(way, **mine)))
    world.check_objects(uri)


@pytest.mark.parametrize("kind", ["keys", "role"])
def test_an_airflow_task_takes_an_aws_connection(world: World, kind: str) -> None:
    """Amazon's own hook resolves the connection: keys with a token, or a role to assume."""
    if not AMAZON.exists():
        pytest.skip(f"{AMAZON.relative_to(ROOT)} is not there: run make test-stores")
    uri, keys = world.uri(), world.keys
    services = {"s3": {"endpoint_url": world.options["endpoint"]}}
    extra: dict[str, object] = {"region_name": "us-east-1", "service_config": services}
    if kind == "keys":
        extra |= {"aws_session_token": keys["session_token"]}
    else:
        services["sts"] = {"endpoint_url": world.instance.endpoint}
        extra |= {"role_arn": "arn:aws:iam::123456789012:role/lake"}
    aws = {
        "conn_type": "aws",
        "login": keys["access_key_id"],
        "password": keys["secret_access_key"],
        "extra": extra,
    }
    mine = connection(uri, world, aws_conn_id="lake") | {"AIRFLOW_CONN_LAKE": json.dumps(aws)}
    path = os.pathsep.join([str(ROOT), str(AMAZON)])
    environment = world.environment("nothing", **mine, PYTHONPATH=path)
    whole(world.run(world.program("task", uri, {}), environment))
    world.check_objects(uri)


@pytest.mark.parametrize("way", ["environment", "container"])
def test_the_log_service_finds_its_credentials(world: World, way: str) -> None:
    """A service takes records and commits them, also after its first credentials have ended."""
    uri = world.uri()
    table = made(world, uri)
    environment = world.environment(way)
    stores = ["--storage-option=" + f"{name}={value}" for name, value in world.options.items()]
    segtable = [sys.executable, "-c", "from airflow_provider_segtable.cli import main; main()"]
    log = world.folder / f"service-{way}"
    with log.open("w") as output:
        service = subprocess.Popen(
            [*segtable, "logstore", "serve", uri, *stores],
            stdout=output,
            stderr=output,
            env=environment,
        )
    try:
        until, turn = time.monotonic() + 1.5 * SHORT_S, 0
        with table.log_writer() as writer:
            while turn < 2 or time.monotonic() < until:
                writer.append(rows(turn * PART, PART))
                world.run([*segtable, "logstore", "checkpoint", uri, *stores], environment)
                turn += 1
                refuse(command_lines(), "a command line")
    finally:
        service.terminate()
        service.wait(60)
    refuse(log.read_text(), "the service's output")
    assert credentials_program.numbers(table) == list(range(turn * PART)), log.read_text()
    table.ports.coordinator.close()
    world.check_objects(uri)


def test_a_token_that_nobody_renews_is_named_without_being_shown(world: World) -> None:
    """Keys in storage options end with their token: an error says so, at the log and the data."""
    ended = world.keys | {"session_token": KEYS.token(time.time() - 1)}
    with pytest.raises(CredentialsExpired) as caught:
        Table.open(world.uri(), storage_options=world.options | ended)
    refuse(f"{caught.value!r} {caught.value.__cause__!r}", "the error")


def test_a_wrong_key_is_refused_without_being_shown(world: World) -> None:
    """The store verifies signatures: the refusal has neither the key nor the token."""
    wrong = {**world.environment("environment"), "AWS_SECRET_ACCESS_KEY": "canary-key-7f3a91c2-no"}
    world.run(world.program("library", world.uri(), world.options), wrong, code=1)
