"""Common parts of the Spark applications: arguments, signals, the result line, the exit code.

1. Exit 0: done, or nothing to do. 1: failed, run it again. 2: the arguments are wrong. Another
   error ends with its own ``exit_code`` (``core.errors``). 143: stopped by SIGTERM, 130:
   interrupted; both leave the table consistent.
2. The last line of standard output is ``SEGTABLE_RESULT`` and one JSON object;
   ``--result-file`` gets the object alone, whole or not at all.
3. ``--leave-result`` is for remote waiters, which share no file with the driver: an outcome that
   the log lacks (a failure, nothing to do) is left in the table (``table.remote_results``).
4. An expected error is one line on standard error, never a stack, and without credentials.
   Credentials come from the environment, because all users of a machine see arguments.
5. Spark starts when it is first needed, so an application with nothing to do is quick.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.arguments import pair, seconds
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import Exit, InvalidInput, SegtableError
from airflow_provider_segtable.core.schemes import hadoop_options, usual
from airflow_provider_segtable.core.secret import is_secret_name, redacted
from airflow_provider_segtable.spark.driver.file_locations import local_root_warning
from airflow_provider_segtable.spark.driver.session import (
    RESULT_PREFIX,
    session,
    submitted_settings,
)
from airflow_provider_segtable.spark.driver.spark_errors import stopped
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.storage.local import SystemClock
from airflow_provider_segtable.storage.table_paths import (
    OPTIONS_VARIABLE,
    READER_VARIABLE,
    options_from_environment,
)
from airflow_provider_segtable.table.context import TableContext, open_context, this_process
from airflow_provider_segtable.table.remote_results import leave

DONE, FAILED, INTERRUPTED = Exit.DONE, Exit.FAILED, Exit.INTERRUPTED
TERMINATED = 143
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of an application: its exit code, and facts for its caller.

    ``logged``: the table's log records the outcome too.
    """

    code: int
    facts: Mapping[str, Any] = field(default_factory=dict)
    logged: bool = False


class App:
    """One run of an application."""

    def __init__(self, name: str, arguments: argparse.Namespace) -> None:
        self.name = name
        self.arguments = arguments
        self._own_session = False

    @cached_property
    def ports(self) -> TableContext:
        """Open the table."""
        given = self.arguments
        return open_context(
            given.table,
            zookeeper=given.zookeeper,
            storage_options=self.options(),
            author=f"{this_process()} {given.task}".strip(),
        )

    def options(self) -> dict[str, str]:
        """Return the storage options, from the environment, the arguments and Spark's settings.

        Raises:
            InvalidInput: the environment variable is not a JSON object.
        """
        given = {
            **options_from_environment(OPTIONS_VARIABLE),
            **dict(self.arguments.storage_option),
        }
        settings = {**submitted_settings(), **dict(self.arguments.conf)}
        return hadoop_options(
            self.arguments.table, given, lambda name: settings.get(f"spark.hadoop.{name}")
        )

    def reader_options(self) -> dict[str, str]:
        """Return the options of Spark's reader, from the environment and the arguments.

        Raises:
            InvalidInput: the environment variable is not a JSON object.
        """
        return {**options_from_environment(READER_VARIABLE), **dict(self.arguments.option)}

    @cached_property
    def spark(self) -> SparkSession:
        """Start Spark, or use the session that runs in this process."""
        self._own_session = SparkSession.getActiveSession() is None
        spark = session(self.name, self.arguments.master, dict(self.arguments.conf))
        warning = local_root_warning(self.arguments.table, spark.sparkContext.master)
        if warning:
            print(f"segtable: {warning}", file=sys.stderr)  # noqa: T201  # its own voice
        return spark

    def close(self) -> None:
        """Publish what waits, close the coordinator and stop the Spark session of this run."""
        if "ports" in self.__dict__:
            self.ports.finish()
            if self.ports.optional_coordinator is not None:
                self.ports.optional_coordinator.close()
        if not self._own_session:
            return
        with suppress(
            Py4JError, OSError
        ):  # stopped while Spark was starting: its JVM may have ended
            active = SparkSession.getActiveSession()
            if active is not None:
                stopped(active)


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """Return a parser with the common arguments of all applications."""
    made = argparse.ArgumentParser(prog=name, description=description, allow_abbrev=False)
    made.add_argument("--table", required=True, metavar="URI", help=f"path, {usual()}")
    made.add_argument("--zookeeper", required=True, metavar="ADDRESS", help="zk://host:2181/chroot")
    made.add_argument(
        "--storage-option",
        type=pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"option of the object store; give secrets as JSON in ${OPTIONS_VARIABLE}",
    )
    made.add_argument("--task", default="", metavar="NAME", help="the author's task, in events")
    made.add_argument(
        "--master", help="Spark master; by default spark-submit's, else all local cores"
    )
    made.add_argument(
        "--conf",
        type=pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a Spark setting",
    )
    made.add_argument("--wait-s", type=patience, default=0.0, help="seconds to wait for locks (0)")
    made.add_argument("--result-file", type=Path, help="file to write the result to, as JSON")
    made.add_argument(
        "--leave-result",
        metavar="NAME",
        help="write the outcome below the table for a remote waiter",
    )
    made.add_argument(
        "--die-with-parent", action="store_true", help="stop when the starting process dies"
    )
    return made


def run(
    made: argparse.ArgumentParser, argv: Sequence[str] | None, work: Callable[[App], Outcome]
) -> int:
    """Parse arguments, do the work, report; return the exit code."""
    try:
        arguments = made.parse_args(argv)
        if arguments.result_file and not arguments.result_file.parent.is_dir():
            made.error(f"--result-file needs the folder {arguments.result_file.parent}: create it")
    except SystemExit as end:
        return int(end.code or 0)
    _warn_of_credentials(arguments)
    before = _arrange_signals(die_with_parent=arguments.die_with_parent)
    app = App(made.prog, arguments)
    outcome = Outcome(code=FAILED, facts={"error": "the application ended unexpectedly"})
    try:
        outcome = work(app)
    except SegtableError as error:
        outcome = _refused(error, error.exit_code)
    except KeyboardInterrupt:
        outcome = Outcome(code=INTERRUPTED, facts={"error": "interrupted"})
    except SystemExit as end:
        outcome = Outcome(code=int(end.code or 0), facts={"error": "stopped by a signal"})
    finally:
        _leave(app, outcome)
        app.close()
        signal.signal(signal.SIGTERM, before)
        _report(app, outcome)
    return outcome.code


def _refused(error: SegtableError, code: int) -> Outcome:
    text = redacted(f"{type(error).__name__}: {error}")
    print(f"segtable: {text}", file=sys.stderr)  # noqa: T201  # an application's own voice
    return Outcome(code=code, facts={"error": text})


def _leave(app: App, outcome: Outcome) -> None:
    """Write the outcome to the table for a remote waiter; a failure to do so is only logged."""
    name = app.arguments.leave_result
    if name is None or outcome.logged:
        return
    try:
        storage = open_storage(app.arguments.table, app.options())  # ZooKeeper may be what failed
        leave(storage, name, _facts(app, outcome), now=SystemClock().now())
    except SegtableError as error:
        print(f"segtable: the result could not be written: {redacted(str(error))}", file=sys.stderr)  # noqa: T201


def _facts(app: App, outcome: Outcome) -> dict[str, Any]:
    told = {"app": app.name, "table": redacted(app.arguments.table), "code": outcome.code}
    return {**told, **outcome.facts}


def _report(app: App, outcome: Outcome) -> None:
    text = json.dumps(_facts(app, outcome))
    if app.arguments.result_file:
        target: Path = app.arguments.result_file
        new = target.with_name(f"{target.name}.{os.getpid()}.new")
        new.write_text(text)
        new.replace(target)
    print(f"{RESULT_PREFIX}{text}", flush=True)  # noqa: T201  # an application's own voice


def _arrange_signals(*, die_with_parent: bool) -> Any:
    before = signal.signal(signal.SIGTERM, _terminated)
    if die_with_parent and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return before


def _terminated(number: int, _: types.FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
    raise SystemExit(TERMINATED)


def patience(text: str) -> float:
    """Parse a number of seconds to wait."""
    try:
        return seconds("it", float(text))
    except (ValueError, InvalidInput):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds: give 0 or more"
        ) from None


def _warn_of_credentials(arguments: argparse.Namespace) -> None:
    """Warn of credentials on the command line, by name only."""
    given = (
        ("--storage-option", arguments.storage_option, OPTIONS_VARIABLE),
        ("--option", getattr(arguments, "option", ()), READER_VARIABLE),
    )
    for name, pairs, variable in given:
        for key in (key for key, _ in pairs if is_secret_name(key)):
            text = f"{name} {key} is seen by all users of this machine: set it in ${variable}"
            print(f"segtable: {text}", file=sys.stderr)  # noqa: T201  # an application's own voice
