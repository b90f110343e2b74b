"""The options that choose where a command's work is done."""

from typing import Annotated

import typer

from airflow_provider_segtable.planning.engine import Engine

EngineOption = Annotated[
    Engine,
    typer.Option(
        help="local: in this process. spark: spread over Spark tasks. auto: local up to 64 MiB of "
        "input, or without Spark; else spark."
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(help="Spark master, with --engine spark; this machine by default.", metavar="URL"),
]


def check_spark() -> None:
    """Check that Spark can start here, before a module that needs PySpark is imported.

    Raises:
        JavaMissing, DependencyMissing: the message says what is missing and how to get it.
    """
    from airflow_provider_segtable.spark.driver.session import check_machine

    check_machine()
