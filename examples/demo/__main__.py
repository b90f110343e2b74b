"""``python -m examples.demo``, which is ``make demo``: its options.

The story runs in a process of its own, and starts more: all import this checkout.
"""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from airflow_provider_segtable.cli.display.output import Exit
from airflow_provider_segtable.core.errors import DependencyMissing

ROOT = Path(__file__).resolve().parents[2]


def demo(
    *,
    directory: Annotated[
        Path,
        typer.Option("--dir", help="Where everything is kept; an older demo there is replaced."),
    ] = Path(".segtable-demo"),
    rows: Annotated[
        int | None,
        typer.Option(min=5000, help="Fewer flights than the 336,776 there are, in fewer files."),
    ] = None,
    airflow: Annotated[
        bool,
        typer.Option("--airflow/--no-airflow", help="--no-airflow: compact in this process."),
    ] = True,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave ZooKeeper and Airflow running until Ctrl-C.")
    ] = False,
) -> None:
    """Watch it work: flights appended by Spark, compacted through Airflow at the same time.

    [green]make demo[/]
    [green]make demo ARGS=--keep[/]             and look around in Airflow
    [green]make demo ARGS=--no-airflow[/]       a minute, without Airflow

    Starts a ZooKeeper and an Airflow of its own (loopback, free ports), takes
    under four minutes on two cores, and leaves a table to look at and no
    process behind. Ends with 1 if one row was lost, doubled or changed, or a
    compaction failed.
    """
    try:
        from examples.demo.demo_processes import keep as keep_story
    except ModuleNotFoundError as error:
        raise DependencyMissing(
            f"the demo needs the package {error.name}: "
            "pip install 'airflow-provider-segtable[demo]'"
        ) from error
    asked = {
        "folder": str(directory.absolute()),
        "rows": rows,
        "airflow": airflow,
        "keep": keep,
    }
    module = "examples.demo.story_process"
    paths = (str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")]))
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    code = keep_story(["-m", module, json.dumps(asked)])
    if code > Exit.INTERRUPTED:  # by a signal that left it no time to say why
        raise typer.Exit(Exit.FAILED)
    if code:
        raise typer.Exit(code)


if __name__ == "__main__":
    app = typer.Typer(rich_markup_mode="rich")
    app.command()(demo)
    app()
