"""``segtable plan`` and ``segtable compact``: show and request compactions, and carry out plans."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_segtable.cli.display import drawing
from airflow_provider_segtable.cli.display.output import Exit, in_shell, note, progress, show
from airflow_provider_segtable.cli.input.options import (
    EngineOption,
    MasterOption,
    Properties,
    ZooKeeperOptions,
    option_groups,
    pairs,
)
from airflow_provider_segtable.cli.running import engines
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.plan_kinds import kinds, named, with_option
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.planning.engine import Engine
from airflow_provider_segtable.planning.properties import COMPACTION_PROPERTIES, Policy, Retention
from airflow_provider_segtable.planning.properties import RETENTION_PROPERTIES as RETENTION

if TYPE_CHECKING:
    from airflow_provider_segtable.services.compact_table import CarryOut
    from airflow_provider_segtable.services.compaction import PlanResult
    from airflow_provider_segtable.table.context import TableContext


@option_groups
def plan(
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
    common: ZooKeeperOptions,
) -> None:
    r"""Show worthwhile compactions, best first, and why other chunks are skipped.

    [green]segtable plan ./flights[/]
    [green]segtable plan ./flights --property compaction.min_segments=4[/]
    [green]segtable plan ./flights --property compaction.clustering=carrier,origin[/]
    [green]segtable plan ./flights --request --json | jq -r '.chosen\[].plan'[/]

    Minor compaction joins small neighbours, semi-major sorts a chunk while appends
    go on, major replaces chunks that have gone cold by a new version. An index plan
    builds missing entries of an index; indexes of the policy (index.NAME) are requested.

    The policy is the table's (see `segtable table describe`); --property
    overrides it for this run.
    """
    from airflow_provider_segtable.services.planner import plan_inner_tables, plan_table

    with common.open() as opened:
        policy = policy_of(opened.state().table.properties, properties)
        found = plan_table(opened.ports, policy=policy, dry_run=not request)
        inner = dict(plan_inner_tables(opened.ports, dry_run=not request))
    indexes = [
        {"table": f"{common.table}/{folder}", **each.facts()} for folder, each in inner.items()
    ]
    common.report(found, drawing.plan, indexes=indexes)
    for each in () if common.as_json else indexes:
        note(f"[dim]the index in {each['table']}[/]")
        show(drawing.plan(each))
    if found.launches:
        common.note(_next_step(common.table, request=request))


def policy_of(of_table: object, overrides: list[str] | None) -> Policy:
    """Return the table's policy with this run's overrides."""
    given = pairs(overrides, "--property")
    Retention.read(given)  # unused by plans, but a typo is reported
    for key in given:
        if key not in (*COMPACTION_PROPERTIES, *RETENTION):
            Policy.read({f"compaction.{key.removeprefix('compaction.')}": given[key]})
    return Policy.read({**dict(of_table), **given})  # type: ignore[call-overload]


def _next_step(table: str, *, request: bool) -> str:
    if request:
        return f"requested. Next: [green]segtable compact {in_shell(table)}[/]"
    return f"Nothing was written. Next: [green]segtable compact {in_shell(table)} --all[/]"


def _patience() -> str:
    """Return which kinds wait, and how long."""
    patient = (kind for kind in kinds() if kind.wait_s)
    return ", ".join(f"{kind.wait_s:g} for {kind.kind} compactions" for kind in patient)


PlanIds = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PLAN", help="Plan ids; all pending ones if left out.", show_default=False
    ),
]
Wait = Annotated[
    float | None,
    typer.Option(
        help=f"Seconds to wait for locks; {_patience()} by default, else 0.",
        min=0,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """One kind of compaction, now, and its settings."""

    kind: Annotated[
        str | None,
        typer.Option(
            help=f"Compact now by this kind, whatever the policy: {named(kinds())}.",
            show_default=False,
        ),
    ] = None
    interval: Annotated[
        str | None,
        typer.Option(
            help="With --kind: only chunks that overlap this event time.", metavar="START/END"
        ),
    ] = None
    segments: Annotated[
        list[str] | None,
        typer.Option(
            "--segment",
            help="With --kind: only this segment, as `table segments` prints its id; repeat. Minor "
            "joins exactly these, other kinds take the chunks that they lie in.",
            metavar="ID",
            show_default=False,
        ),
    ] = None
    granularity: Annotated[
        str | None,
        typer.Option(
            help=f"With --kind {with_option('granularity')}: repartition time by hour, day, week, "
            "month, year or all.",
            show_default=False,
        ),
    ] = None
    clustering: Annotated[
        str | None,
        typer.Option(
            help=f"With --kind {with_option('clustering')}: sort rows by these columns, e.g. "
            '"carrier,origin" or "zorder(carrier,origin)"; "" is by event time. The '
            "table's own (compaction.clustering) if left out.",
            metavar="COLUMNS",
            show_default=False,
        ),
    ] = None
    buckets: Annotated[
        int | None,
        typer.Option(
            help=f"With --kind {with_option('buckets')}, for tables with a primary key: the new "
            "number of buckets of these chunks.",
            show_default=False,
        ),
    ] = None
    rollup: Annotated[
        str | None,
        typer.Option(
            help="With --kind, for rollup tables: perfect "
            f"({named(k for k in kinds() if k.starts_version)} only) or best-effort.",
            show_default=False,
        ),
    ] = None

    def check(self, plans: Sequence[str] | None, *, all_: bool) -> None:
        """Refuse a kind beside plans, and settings without a kind."""
        if plans and all_:
            raise InvalidInput("give plan ids or --all, not both")
        if self.kind is not None and (plans or all_):
            other = "--all" if all_ else "plan ids"
            raise InvalidInput(
                f"--kind {self.kind} and {other} exclude each other: leave out one of them"
            )
        given = {**self._settings(), "interval": self.interval, "segment": self.segments}
        for name, value in given.items():
            if self.kind is None and value is not None:
                raise InvalidInput(
                    f"--{name} {value!r} was given without --kind: choose a kind ({named(kinds())})"
                )

    def request(self, table: Any, kind: str, policy: Policy) -> list[str]:
        """Request the compactions; return the ids of their plans."""
        from airflow_provider_segtable.services.request import request

        asked = request(
            table.ports,
            kind,
            interval=Interval.parse(self.interval) if self.interval else None,
            segments=self.segments,
            policy=policy,
            **self._settings(),
        )
        return [known.plan.id for known in asked]

    def _settings(self) -> dict[str, Any]:
        return {
            "granularity": self.granularity,
            "clustering": self.clustering,
            "buckets": self.buckets,
            "rollup": self.rollup,
        }


@option_groups
def compact(
    plans: PlanIds = None,
    *,
    all_: Annotated[
        bool,
        typer.Option("--all", help="Plan and run plans until all present rows are compacted."),
    ] = False,
    one: RequestOptions,
    engine: EngineOption = Engine.AUTO,
    master: MasterOption = None,
    wait: Wait = None,
    properties: Properties = None,
    common: ZooKeeperOptions,
) -> None:
    r"""Carry out compaction plans; appends and reads go on meanwhile.

    [green]segtable compact ./flights --all[/]
    [green]segtable compact ./flights minor-20130101-1a2b3c4d5e6f[/]
    [green]segtable compact ./flights --all --engine spark --master 'local\[2]'[/]

    Or ask for one kind, whatever the policy says:

    [green]segtable compact ./flights --kind minor[/]
        joins small neighbours
    [green]segtable compact ./flights --kind semi-major --clustering carrier,origin[/]
        sorts each chunk as it is now
    [green]segtable compact ./flights --kind major --interval 2013-01-01/2013-02-01[/]
        whole chunks, into a new version
    [green]segtable compact ./flights --kind major --granularity day[/]
        the same, and time is cut by days from now on
    [green]segtable compact ./orders --kind major --buckets 16[/]
        rows of a primary-key table are in 16 buckets of each chunk from now on
    [green]segtable compact ./flights --kind minor --segment ID --segment ID[/]
        joins these two, as `table segments` prints their ids

    --all goes on while compactions pay, also those that the first ones make
    possible or that more plans than compaction.max_plans left for later. It
    compacts the rows that were there when it began: plans over rows that are appended
    meanwhile are left for the next run, and counted, as are plans that cannot
    end now (another process has their locks). The tables of indexes are
    compacted, too.

    Safe to run twice, also at once: a plan is finished once, and the other
    command reports that. Ends with 1 if a plan failed; "done already", "running
    elsewhere", "overtaken" and "yielded" are no failures. Ends with 7 if the
    only failure is an unreadable index: reads go on without it.
    """
    from airflow_provider_segtable.services.compact_table import (
        Rounds,
        compact_all,
        failed_of,
        pending,
    )

    one.check(plans, all_=all_)
    with (
        common.open() as opened,
        _carry_out(opened, engine, master, wait) as carry_out,
    ):
        _ = opened.ports.coordinator  # fails first if there is no ZooKeeper
        policy = partial(policy_of, opened.state().table.properties, properties)
        if all_:
            rounds = compact_all(opened.ports, carry_out, policy())
        else:
            asked = plans or pending(opened.state())
            if one.kind is not None:
                asked = one.request(opened, one.kind, policy())
            results = carry_out(opened.ports, asked)
            rounds = Rounds(results=results, failed=failed_of(results))
        state = opened.state()
    common.report(rounds, drawing.compaction, version=state.n, left=list(pending(state)))
    if rounds.failed:
        raise typer.Exit(Exit.FAILED)
    if rounds.unreadable:
        raise typer.Exit(Exit.WARNED)


@contextmanager
def _carry_out(
    table: Any, engine: Engine, master: str | None, wait_s: float | None
) -> Iterator["CarryOut"]:
    """Yield the function that carries out plans on the engine that fits them."""
    from airflow_provider_segtable.services.compact_table import carry_out

    with engines(table, engine, master, "compact") as engine_for, progress() as bar:
        task = bar.add_task("compacting", total=0)

        def report(_: "PlanResult") -> None:
            bar.advance(task)

        def run(ports: "TableContext", plans: Sequence[str]) -> tuple["PlanResult", ...]:
            if not plans:
                return ()
            bar.update(task, total=(bar.tasks[0].total or 0) + len(plans))
            chosen = engine_for(ports, plans)
            return carry_out(
                ports,
                plans,
                chosen.execute,
                wait_s=wait_s,
                parallelism=chosen.parallelism,
                report=report,
            )

        yield run
