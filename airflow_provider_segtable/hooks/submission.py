"""Start Spark applications: checked settings, the ``Launcher`` protocol and its implementations.

Launchers:

1. ``LocalSparkSubmit`` runs ``spark-submit`` of the installed PySpark as a child of the task.
2. ``SparkSubmit`` delegates to ``SparkSubmitHook`` of apache-airflow-providers-apache-spark, with
   a connection that names the cluster and optionally the deploy mode. It uses public names only.
3. The kernel signals a driver on this machine when its task dies, however it dies. That is a
   courtesy: the table's log makes an orphan harmless, not its death.
4. A driver on the cluster runs without this process: ``Submission.wait`` decides whether to wait.
5. Credentials travel in the driver's environment, or in a file that only this user can read
   (rule 8), because others read command lines and logs. The environment of a driver on a cluster is
   a Spark setting, so it goes into that file, too.
6. A submission is checked before anything is started. Spark has no cluster deploy mode for Python
   where the master is standalone or local, so that is refused here, too.

Spark settings:

7. A setting is ``spark.<name>`` with a text, number or boolean value. Spark would ignore or
   misread any other form, so it is refused.
8. All users of a machine see a command line, and it is logged. So a setting with a credential's
   name goes into a file that only this user can read (``--properties-file``), and the command
   names the file. It is removed when ``spark-submit`` has ended.
9. ``spark-submit`` reads that file instead of ``spark-defaults.conf``, so the file begins with
   the defaults.
"""

import ctypes
import importlib.util
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from airflow_provider_segtable.coordination.zookeeper.access import (
    OPTIONS_VARIABLE as ZOOKEEPER_VARIABLE,
)
from airflow_provider_segtable.core.arguments import plain, shown
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    DependencyMissing,
    EnvironmentIncomplete,
    ExecutionFailed,
    InvalidInput,
)
from airflow_provider_segtable.core.secret import SecretOptions, is_secret_name, redacted

DEPLOY_MODES = ("client", "cluster")
_KEY = re.compile(r"spark(?:\.[A-Za-z0-9_/$-]+)+")
_MASTER = re.compile(
    r"local(?:\[(?:\*|\d+)(?:, ?\d+)?\])?|local-cluster\[\d+, ?\d+, ?\d+\]|yarn"
    r"|spark://[\w.:,\[\]-]+|k8s://(?:https?://)?[\w.:\[\]/-]+"
)


# Spark settings, checked and kept off the command line
def checked_settings(given: Mapping[str, Any]) -> SecretOptions:
    """Return Spark settings as texts.

    Raises:
        InvalidInput: a name is not a Spark setting, or a value is not a text, number or boolean.
    """
    return SecretOptions({_key(key): _value(key, value) for key, value in given.items()})


def checked_master(given: object) -> str:
    """Return the URL of a Spark master.

    Raises:
        InvalidInput: it has another form.
    """
    if not isinstance(given, str) or not _MASTER.fullmatch(given):
        raise InvalidInput(
            f"Spark master {shown(given)} is invalid: write local[*], local[4], "
            "spark://host:7077, yarn or k8s://https://host:443"
        )
    return given


def checked_deploy_mode(given: object) -> str:
    """Return where a driver runs.

    Raises:
        InvalidInput: it is not in ``DEPLOY_MODES``.
    """
    if not isinstance(given, str) or given not in DEPLOY_MODES:
        raise InvalidInput(
            f"deploy mode {shown(given)} is invalid: write one of {', '.join(DEPLOY_MODES)}"
        )
    return given


def checked_reach(deploy_mode: str, master: str) -> str:
    """Return a deploy mode, if Spark has it for Python applications on this master.

    Raises:
        InvalidInput: it is ``cluster``, and the master is a standalone or a local one.
    """
    if deploy_mode == "cluster" and master.startswith(("spark://", "local")):
        raise InvalidInput(
            f"deploy mode cluster with master {shown(master)}: Spark has none for Python there; "
            "use client, from a worker near the cluster, or a cluster of YARN or Kubernetes"
        )
    return deploy_mode


def public_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a command line may show."""
    return {key: value for key, value in given.items() if not is_secret_name(key)}


def secret_settings(given: Mapping[str, str]) -> SecretOptions:
    """Return the settings that are credentials."""
    return SecretOptions({key: value for key, value in given.items() if is_secret_name(key)})


@contextmanager
def properties_file(given: Mapping[str, str], defaults: Path | None) -> Iterator[Path | None]:
    """Write a file of settings that exists while the block runs; yield None without settings.

    Args:
        given: the credentials.
        defaults: the file that Spark would otherwise read.
    """
    if not given:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="segtable-") as folder:  # of mode 0700
        file = Path(folder, "spark.properties")
        before = defaults.read_text("utf-8") if defaults is not None and defaults.is_file() else ""
        lines = (f"{key} {_escaped(value)}\n" for key, value in given.items())
        file.touch(0o600)
        file.write_text(f"{before.rstrip()}\n{''.join(lines)}", "utf-8")
        yield file


def spark_defaults(home: Path | None = None) -> Path | None:
    """Return the ``spark-defaults.conf`` of ``home``; by default of the Spark on the PATH."""
    if folder := os.environ.get("SPARK_CONF_DIR"):
        return Path(folder, "spark-defaults.conf")
    if home is None and (named := os.environ.get("SPARK_HOME")):
        home = Path(named)
    if home is None and (found := shutil.which("spark-submit")):
        home = Path(found).resolve().parents[1]
    return home and home / "conf" / "spark-defaults.conf"


def _key(key: object) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidInput(
            f"{shown(key)} is not a Spark setting: names begin with 'spark.' and have letters, "
            "digits, '.', '_', '-' and '/'"
        )
    return key


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    try:
        return plain(f"setting {key}", value)
    except InvalidInput as error:
        if is_secret_name(key):
            raise InvalidInput(
                f"setting {key} is invalid: write text without line breaks"
            ) from None
        raise error from None


def _escaped(value: str) -> str:
    """Return a value, escaped for Java's properties files."""
    text = value.replace("\\", "\\\\")
    return f"\\{text}" if text[:1] in {" ", "="} or text[:1] == ":" else text


PATIENCE_S = 10.0
TAIL = 20
_PR_SET_PDEATHSIG = 1
_ON_YARN = "spark.yarn.submit.waitAppCompletion"
_ON_KUBERNETES = "spark.kubernetes.submission.waitAppCompletion"
_TRACKED = "track_driver_via_k8s_api"
_DEPLOY_MODE = "spark.submit.deployMode"
_ENVIRONMENT_ON_YARN = "spark.yarn.appMasterEnv."
_ENVIRONMENT_ON_KUBERNETES = "spark.kubernetes.driverEnv."
_FROM_A_SECRET = "spark.kubernetes.driver.secretKeyRef."  # noqa: S105  # a setting's name

Say = Callable[[str], None]


# Submissions and launchers
@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One application to run; checked when made.

    Attributes:
        application: file of the application.
        arguments: its arguments; ``--name=value`` if the value comes from a user.
        name: name that the cluster shows.
        conf: Spark settings; credentials among them stay off the command line.
        storage_options: options of the object store; passed in the environment.
        reader_options: credentials of Spark's readers; likewise.
        zookeeper_options: user, password and TLS files of ZooKeeper; likewise.
        wait: whether to wait for the end of a driver on a cluster.

    Raises:
        InvalidInput: an argument holds control characters, or a setting is not Spark's.
    """

    application: Path
    arguments: tuple[str, ...]
    name: str
    conf: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict)
    reader_options: Mapping[str, str] = field(default_factory=dict)
    zookeeper_options: Mapping[str, str] = field(default_factory=dict)
    wait: bool = True

    def __post_init__(self) -> None:
        for argument in self.arguments:
            plain("argument", argument, sql=argument.startswith(("--where=", "--set=")))
        plain("application name", self.name)
        object.__setattr__(self, "conf", checked_settings(self.conf))
        for name in ("storage_options", "reader_options", "zookeeper_options"):
            object.__setattr__(self, name, SecretOptions(getattr(self, name)))

    @property
    def credentials(self) -> tuple[Mapping[str, str], ...]:
        """Return the options that travel in the environment."""
        return (self.storage_options, self.reader_options, self.zookeeper_options)

    def secrets(self) -> SecretOptions:
        """Return the environment variables that carry options."""
        from airflow_provider_segtable.storage.table_paths import OPTIONS_VARIABLE, READER_VARIABLE

        carried = {
            OPTIONS_VARIABLE: self.storage_options,
            READER_VARIABLE: self.reader_options,
            ZOOKEEPER_VARIABLE: self.zookeeper_options,
        }
        return SecretOptions({name: json.dumps(dict(of)) for name, of in carried.items() if of})

    def hidden_in(self, text: str) -> str:
        """Return output of the application, or its command, with credentials masked."""
        for options in (*self.credentials, self.conf):
            text = SecretOptions(options).hidden_in(text)
        return redacted(text)


class Launcher(Protocol):
    """Run an application to its end, or only submit it if the cluster allows that."""

    @property
    def attached(self) -> bool:
        """Return whether the driver runs below this process."""
        ...

    def launch(self, submission: Submission, say: Say) -> None:
        """Run the application; call ``say`` with each line of its output.

        Raises:
            ExecutionFailed: if it ended with an error; the message has its last lines.
        """
        ...

    def kill(self) -> None:
        """End the application, from a signal handler of this process."""
        ...


class LocalSparkSubmit:
    """Run ``spark-submit`` of the installed PySpark.

    Args:
        master: where executors run; by default the application's own choice, all local cores.
    """

    attached = True

    def __init__(self, master: str | None = None) -> None:
        self.master = master  # may come from a template, so ``launch`` checks it
        self._process: subprocess.Popen[str] | None = None

    def launch(self, submission: Submission, say: Say) -> None:
        """Run the application; see ``Launcher``."""
        hidden, home = secret_settings(submission.conf), spark_home()
        with properties_file(hidden, spark_defaults(home)) as file:
            self._run(submission, self._command(submission, home, file), say)

    def _run(self, submission: Submission, command: Sequence[str], say: Say) -> None:
        say(submission.hidden_in(" ".join(command)))
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=_local_environment(submission),
            start_new_session=True,  # so that ``kill`` reaches the JVM and Python below it
            preexec_fn=_die_with_parent,  # noqa: PLW1509  # one prctl, loaded before the fork
        )
        tail: deque[str] = deque(maxlen=TAIL)
        assert self._process.stdout  # noqa: S101  # it is a pipe
        with self._process.stdout as output:
            for line in output:
                tail.append(submission.hidden_in(line.rstrip()))
                say(tail[-1])
        code = self._process.wait()
        if code:
            last = "\n".join(tail)
            raise ExecutionFailed(f"{submission.name} ended with exit code {code}:\n{last}")

    def kill(self) -> None:
        """End the whole process group: first by SIGTERM, then by SIGKILL."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        for how in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, how)
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
                return

    def _command(self, submission: Submission, home: Path, file: Path | None) -> list[str]:
        from airflow_provider_segtable.spark.driver.session import SHORT_LIVED_DRIVER

        where = ["--master", checked_master(self.master)] if self.master else []
        if submission.conf.get(_DEPLOY_MODE, "client") != "client":
            raise InvalidInput(
                f"{_DEPLOY_MODE}={shown(submission.conf[_DEPLOY_MODE])}: the driver runs here "
                "without a Spark connection; name one by spark_conn_id, with deploy-mode in its "
                "extra, or leave the setting out"
            )
        conf = {**SHORT_LIVED_DRIVER, **public_settings(submission.conf)}
        settings = (f"{key}={value}" for key, value in conf.items())
        options = [part for setting in settings for part in ("--conf", setting)]
        return [
            str(home / "bin" / "spark-submit"),
            *where,
            *options,
            *(("--properties-file", str(file)) if file else ()),
            *("--name", submission.name),
            str(submission.application),
            *submission.arguments,
        ]


class SparkSubmit:
    """Run ``SparkSubmitHook`` with a Spark connection.

    Args:
        conn_id: a connection of type ``spark``.
        deploy_mode: ``client`` or ``cluster``; by default ``deploy-mode`` in the connection's
            extra, else ``client``.
        options: more arguments of ``SparkSubmitHook``, e.g. ``driver_memory``.
    """

    def __init__(
        self,
        conn_id: str,
        *,
        deploy_mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.conn_id = conn_id
        self._given_mode = deploy_mode
        self.options = dict(options or {})
        self._hook: Any = None

    @cached_property
    def deploy_mode(self) -> str:
        """Return where the driver runs; looks up the connection."""
        from airflow_provider_segtable.hooks.segtable import defined_connection

        example = {"conn_type": "spark", "host": "spark://head", "port": 7077}
        found = defined_connection(self.conn_id, example)
        mode = self._given_mode or found.extra_dejson.get("deploy-mode") or "client"
        return checked_reach(checked_deploy_mode(mode), _master_of(found))

    @property
    def attached(self) -> bool:
        """Return whether the driver runs below this process."""
        return self.deploy_mode != "cluster"

    def launch(self, submission: Submission, say: Say) -> None:
        """Run the application; the hook itself writes its output to the task's log."""
        from airflow.providers.common.compat.sdk import AirflowException

        from airflow_provider_segtable.hooks.segtable import mask_credentials

        mode = self.deploy_mode  # looked up first: the hook would go to YARN without a connection
        say(f"spark-submit by connection {self.conn_id}, deploy mode {mode}")
        environment = {**_environment(submission), **self.options.get("env_vars", {})}
        here = {"env": environment, "preexec_fn": _die_with_parent}
        defaults = self.options.get("properties_file")
        hidden = self._hidden(submission)
        for options in (hidden, *submission.credentials):
            mask_credentials(options)  # the hook itself logs the driver's output
        with properties_file(hidden, Path(defaults) if defaults else spark_defaults()) as file:
            settings = {"properties_file": str(file)} if file else {}
            self._hook = _spark_submit_hook()(**(self._arguments(submission) | settings))
            try:
                self._hook.submit(str(submission.application), **(here if self.attached else {}))
            except AirflowException as error:
                raise ExecutionFailed(submission.hidden_in(f"{submission.name}: {error}")) from None

    def kill(self) -> None:
        """Let the hook end its application, on the cluster too."""
        if self._hook is not None:
            self._hook.on_kill()

    def _arguments(self, submission: Submission) -> dict[str, Any]:
        driver = {"spark.pyspark.driver.python": sys.executable} if self.attached else {}
        arguments: dict[str, Any] = {
            "conn_id": self.conn_id,
            "deploy_mode": self.deploy_mode,
            "conf": {**driver, **public_settings(self._conf(submission))},
            "name": submission.name,
            "application_args": list(submission.arguments),
        }
        if not self.attached:
            from airflow_provider_segtable.spark.driver.session import package_archive

            arguments |= {"py_files": str(package_archive())}
            if not submission.wait:
                arguments |= _not_waiting(arguments["conf"])
        own = {k: v for k, v in self.options.items() if k not in {"conf", "env_vars"}}
        return arguments | own

    def _conf(self, submission: Submission) -> SecretOptions:
        return SecretOptions({**submission.conf, **checked_settings(self.options.get("conf", {}))})

    def _hidden(self, submission: Submission) -> SecretOptions:
        """Return credential settings, with the environment of a driver on a cluster."""
        hidden = dict(secret_settings(self._conf(submission)))
        if not self.attached:
            from airflow.providers.common.compat.sdk import BaseHook

            where = BaseHook.get_connection(self.conn_id)
            on_kubernetes = "k8s" in f"{where.conn_type}://{where.host}"
            prefix = _ENVIRONMENT_ON_KUBERNETES if on_kubernetes else _ENVIRONMENT_ON_YARN
            environment = {**submission.secrets(), **self.options.get("env_vars", {})}
            for name, value in environment.items():
                if f"{_FROM_A_SECRET}{name}" not in hidden:  # else the cluster provides it
                    hidden[f"{prefix}{name}"] = value
        return SecretOptions(hidden)


def _master_of(connection: Any) -> str:
    """Return the master that a connection names, as the Spark hook reads it."""
    kind, host = connection.conn_type, connection.host or ""
    whole = kind == "spark" and host and ("://" in host or not connection.port)
    return str(host if whole else f"{kind}://{host}")


def _not_waiting(conf: Mapping[str, str]) -> dict[str, Any]:
    """Return hook arguments that make it return once submitted; ``conf`` takes precedence.

    On Kubernetes the hook treats a driver without a seen exit code as failed, unless
    ``track_driver_via_k8s_api`` is set. A hook without that parameter waits for the driver.
    """
    known = _TRACKED in inspect.signature(_spark_submit_hook().__init__).parameters
    settings = {_ON_YARN: "false", **({_ON_KUBERNETES: "false"} if known else {}), **conf}
    alone = known and str(settings[_ON_KUBERNETES]).lower() == "false"
    return {"conf": settings, **({_TRACKED: True} if alone else {})}


def spark_home() -> Path:
    """Return the home of the Spark to submit with: ``SPARK_HOME``, or the installed PySpark.

    Raises:
        DependencyMissing: if neither has ``spark-submit``.
    """
    spec = importlib.util.find_spec("pyspark")
    places = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    if home := os.environ.get("SPARK_HOME"):
        places.insert(0, Path(home))
    for place in places:
        if (place / "bin" / "spark-submit").exists():
            return place
    looked = ", ".join(map(str, places)) or "no pyspark package found"
    raise DependencyMissing(
        f"spark-submit was not found ({looked}): pip install pyspark (pyspark-client has "
        "none), set SPARK_HOME, or name a Spark connection by spark_conn_id"
    )


def local_spark_here() -> bool:
    """Return whether ``LocalSparkSubmit`` finds a Spark and a Java on this machine."""
    from airflow_provider_segtable.coordination.embedded_zookeeper import find_java

    try:
        spark_home()
        find_java()
    except EnvironmentIncomplete:
        return False
    return True


def _spark_submit_hook() -> Any:
    try:
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    except ModuleNotFoundError as error:
        raise DependencyMissing(
            "apache-airflow-providers-apache-spark, which a Spark connection needs, is not "
            "installed: pip install it, or leave out spark_conn_id to run Spark on this worker"
        ) from error
    return SparkSubmitHook


def _local_environment(submission: Submission) -> dict[str, str]:
    from airflow_provider_segtable.coordination.embedded_zookeeper import find_java

    java = find_java().resolve()
    return {
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "JAVA_HOME": str(java.parent.parent),
        **_environment(submission),
        "SPARK_HOME": str(spark_home()),
    }


def _environment(submission: Submission) -> dict[str, str]:
    return {**os.environ, **submission.secrets()}


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
