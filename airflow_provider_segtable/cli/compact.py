"""``segtable compact``: carry out plans."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_segtable.cli import drawing
from airflow_provider_segtable.cli.exits import Exit
from airflow_provider_segtable.cli.ingest import Engine, EngineOption, MasterOption
from airflow_provider_segtable.cli.options import (
    AsJson,
    Properties,
    StorageOptions,
    TableUri,
    ZooKeeper,
)
from airflow_provider_segtable.cli.output import Facts, print_json, progress, show
from airflow_provider_segtable.cli.plan import policy_of
from airflow_provider_segtable.cli.tables import writable_table
from airflow_provider_segtable.core.errors import InvalidInput

if TYPE_CHECKING:
    from airflow_provider_segtable.services.compaction import PlanResult


def compact(  # noqa: PLR0913 - each is an option
    table: TableUri,
    plans: Annotated[
        list[str] | None,
        typer.Argument(
            metavar=r"\[PLAN...]",
            help="Plan ids; all pending ones if left out.",
            show_default=False,
        ),
    ] = None,
    *,
    all_: Annotated[
        bool, typer.Option("--all", help="Plan first, then carry out everything pending.")
    ] = False,
    engine: EngineOption = Engine.LOCAL,
    master: MasterOption = None,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for segments that others hold.", min=0)
    ] = 0.0,
    properties: Properties = None,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    r"""Carry out compaction plans; appends and reads go on meanwhile.

    [green]segtable compact ./flights --all[/]
    [green]segtable compact ./flights minor-20130101-1a2b3c4d5e6f[/]
    [green]segtable compact ./flights --all --engine spark --master 'local\[2]'[/]

    Safe to run twice, and at once: a plan is finished once, and whoever comes
    second says so. Ends with 1 if a plan failed; "done already", "running
    elsewhere" and "overtaken" are no failures.
    """
    if plans and all_:
        raise InvalidInput("give plan ids or --all, not both")
    with writable_table(table, storage_options, zookeeper) as opened:
        _ = opened.ports.coordinator  # no ZooKeeper: say so before anything else
        if all_:
            _request(opened, properties)
        ids = plans or [known.plan.id for known in opened.state().pending_plans()]
        results = _carry_out(opened, ids, engine, master, wait) if ids else ()
        answer = _facts(table, opened, results)
    print_json(answer) if as_json else show(drawing.compaction(answer))
    if any(result["ended"] == "failed" for result in answer["plans"]):
        raise typer.Exit(Exit.FAILED)


def _request(table: Any, properties: list[str] | None) -> None:
    from airflow_provider_segtable.services.planner import plan_table

    plan_table(table.ports, policy=policy_of(table.state().table.properties, properties))


def _carry_out(
    table: Any, plans: Sequence[str], engine: Engine, master: str | None, wait_s: float
) -> Sequence["PlanResult"]:
    from airflow_provider_segtable.services.compaction import compact as run
    from airflow_provider_segtable.services.execution import in_process

    with progress() as bar:
        task = bar.add_task("compacting", total=len(plans))

        def tell(_: "PlanResult") -> None:
            bar.advance(task)

        if engine is Engine.LOCAL:
            return run(table.ports, plans, in_process(), wait_s=wait_s, report=tell)
        from airflow_provider_segtable.cli.on_spark import session
        from airflow_provider_segtable.spark.distribution import spark_execute

        with session(master, f"segtable compact {table.state().table.name}") as spark:
            return run(table.ports, plans, spark_execute(spark), wait_s=wait_s, report=tell)


def _facts(uri: str, table: Any, results: Sequence["PlanResult"]) -> Facts:
    return {
        "table": uri,
        "version": table.state().n,
        "plans": [
            {
                "plan": result.plan_id,
                "ended": result.ended.value,
                "message": result.message,
                "segments_in": result.segments_in,
                "segments_out": result.segments_out,
                "rows": result.rows,
                "bytes": result.size,
            }
            for result in results
        ],
    }
