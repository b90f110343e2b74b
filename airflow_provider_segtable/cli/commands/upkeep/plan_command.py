"""``segtable plan``: show which compactions pay, and why others do not."""

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_segtable.cli.commands.tables.table_commands import writable_table
from airflow_provider_segtable.cli.display import drawing
from airflow_provider_segtable.cli.display.facts import skipped_facts
from airflow_provider_segtable.cli.display.output import Facts, in_shell, note, print_json, show
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    Properties,
    StorageOptions,
    TableUri,
    ZooKeeper,
    pairs,
)
from airflow_provider_segtable.planning.properties import COMPACTION_PROPERTIES, Policy, Retention
from airflow_provider_segtable.planning.properties import RETENTION_PROPERTIES as RETENTION

if TYPE_CHECKING:
    from airflow_provider_segtable.services.planner import PlannerRun


def plan(
    table: TableUri,
    *,
    request: Annotated[
        bool,
        typer.Option(
            "--request/--dry-run",
            help="--request writes the chosen plans into the log, for `segtable compact` or "
            "Airflow to run. --dry-run writes nothing.",
        ),
    ] = False,
    properties: Properties = None,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    r"""Show worthwhile compactions, best first, and why other chunks are skipped.

    [green]segtable plan ./flights[/]
    [green]segtable plan ./flights --property compaction.min_segments=4[/]
    [green]segtable plan ./flights --property compaction.clustering=carrier,origin[/]
    [green]segtable plan ./flights --request --json | jq -r '.chosen\[].plan'[/]

    Minor compaction joins small neighbours, semi-major sorts a chunk while appends
    go on, major replaces chunks that have gone cold by a new version. An index plan
    builds what an index lacks; indexes of the policy (index.NAME) are requested.

    The policy is the table's (see `segtable table describe`); --property
    overrides it for this run.
    """
    from airflow_provider_segtable.services.planner import plan_inner_tables, plan_table

    with writable_table(table, storage_options, zookeeper) as opened:
        policy = policy_of(opened.state().table.properties, properties)
        found = plan_table(opened.ports, policy=policy, dry_run=not request)
        inner = dict(plan_inner_tables(opened.ports, dry_run=not request))
    indexes = [
        planner_facts(f"{table}/{folder}", each, dry_run=not request)
        for folder, each in inner.items()
    ]
    answer = {**planner_facts(table, found, dry_run=not request), "indexes": indexes}
    if as_json:
        print_json(answer)
        return
    show(drawing.plan(answer))
    for each in indexes:
        note(f"[dim]the index in {each['table']}[/]")
        show(drawing.plan(each))
    if answer["chosen"]:
        note(_next_step(table, request=request))


def policy_of(of_table: object, overrides: list[str] | None) -> Policy:
    """Return the table's policy with this run's overrides."""
    given = pairs(overrides, "--property")
    Retention.read(given)  # unused by plans, but a typo is reported
    for key in given:
        if key not in (*COMPACTION_PROPERTIES, *RETENTION):
            Policy.read({f"compaction.{key.removeprefix('compaction.')}": given[key]})
    return Policy.read({**dict(of_table), **given})  # type: ignore[call-overload]


def planner_facts(uri: str, found: "PlannerRun", *, dry_run: bool) -> Facts:
    """Return a planner run as facts."""
    return {
        "table": uri,
        "version": found.version,
        "dry_run": dry_run,
        "chosen": [
            {
                "plan": launch.plan_id,
                "kind": str(launch.kind),
                "interval": str(launch.interval) if launch.interval else None,
                "run_id": launch.run_id,
                "segments": launch.segments,
                "bytes": launch.size,
                "reason": launch.reason,
                "yields": launch.yields,
            }
            for launch in found.launches
        ],
        "skipped": [skipped_facts(entry) for entry in found.skipped],
        "running": dict(found.running),
        "yielded": dict(found.yielded),
        "aborted": list(found.aborted),
        "abort_reasons": dict(found.aborted),
        "voided": [str(segment_id) for segment_id in found.voided],
        "requested_indexes": dict(found.indexes),
    }


def _next_step(table: str, *, request: bool) -> str:
    if request:
        return f"requested. Next: [green]segtable compact {in_shell(table)}[/]"
    return f"Nothing was written. Next: [green]segtable compact {in_shell(table)} --all[/]"
