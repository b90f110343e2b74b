"""``segtable clean``, ``tag`` and ``consumers``: remove old versions, and say which are kept.

A tag keeps one version until it is deleted. A consumer is a named reader; its position in the log
keeps the versions that it has yet to read.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from airflow_provider_segtable.cli.display.drawing import grid
from airflow_provider_segtable.cli.display.output import note
from airflow_provider_segtable.cli.input.options import CommonOptions, option_groups
from airflow_provider_segtable.core.consumer import Consumer
from airflow_provider_segtable.core.counted import describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.families.consumer_events import needed_from
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.reading import LogEnd
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.planning.properties import Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOptions:
    """Retention as options, which override the table's properties."""

    retention_hours: Annotated[
        float | None,
        typer.Option(help="Keep all versions of the last N hours.", metavar="N", min=0),
    ] = None
    retention_versions: Annotated[
        int | None, typer.Option(help="Also keep the last N versions.", metavar="N", min=1)
    ] = None
    orphan_hours: Annotated[
        float | None,
        typer.Option(help="Keep unreferenced files younger than N hours.", metavar="N", min=0),
    ] = None
    consumer_hours: Annotated[
        float | None,
        typer.Option(
            help="Keep versions that consumers have yet to read for at most N hours.",
            metavar="N",
            min=0,
        ),
    ] = None

    def over(self, own: Retention) -> Retention:
        """Return the table's own retention, overridden by the given options."""
        given: dict[str, Any] = {
            "hours": self.retention_hours,
            "versions": self.retention_versions,
            "orphan_hours": self.orphan_hours,
            "consumer_hours": self.consumer_hours,
        }
        return replace(own, **{name: value for name, value in given.items() if value is not None})


@option_groups
def clean(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted; delete nothing.")
    ] = False,
    retention: RetentionOptions,
    common: CommonOptions,
) -> None:
    """Delete expired segments, unreferenced files and old events.

    [green]segtable clean ./flights --dry-run[/]
    [green]segtable clean ./flights --retention-hours 48 --retention-versions 20[/]

    By default versions are kept as the table's properties say (retention.hours,
    retention.versions, retention.orphan_hours), which is 24 hours and 10
    versions, and 72 hours for files that the log does not name. A tagged
    version is kept at any age. Versions that a consumer has yet to read are kept for
    retention.consumer_hours (168). Indexes are cleaned, too. Needs no ZooKeeper, and may run beside
    anything. With --orphan-hours 0 an append that is just being written loses
    its files.
    """
    from airflow_provider_segtable.services import cleaning

    opened = common.open()
    kept = retention.over(Retention.read(opened.state().table.properties))
    run = cleaning.clean(opened.ports, retention=kept, dry_run=dry_run)
    common.report(run, _draw)
    if dry_run:
        note("[dim]dry run: nothing was deleted[/]")


def _draw(facts: Facts) -> RenderableType:
    taken = grid("To delete" if facts["dry_run"] else "Deleted", "files", "count", right=("count",))
    for noun, key in (
        ("hidden segments", "segments"),
        ("data files", "files"),
        ("fully applied deletion vectors", "vectors"),
        ("unreferenced files", "orphans"),
        ("log files", "log_files"),
    ):
        taken.add_row(noun, f"{len(facts[key]):,}")
    for name, paths in facts["targets"].items():
        taken.add_row(f"files of replaced {name} versions", f"{len(paths):,}")
    lines = [f"{describe_size(facts['bytes'])}; versions are kept from {facts['retained_from']} on"]
    reasons = Counter(each["reason"] for each in facts["kept"])
    lines += [f"{count:,} hidden segments kept: {why}" for why, count in reasons.items()]
    if facts["vectors_kept"]:
        lines.append(f"{facts['vectors_kept']:,} deletion vectors kept: segments still need them")
    if facts["young"]:
        lines.append(f"{facts['young']:,} unreferenced files kept: too young to delete")
    if facts["published"]:
        files = f"{len(facts['published']):,} files kept"
        lines.append(f"{files}: versions published in other formats show them")
    lines += _of_indexes(facts)
    return Group(taken, *(Text(line) for line in lines))


def _of_indexes(facts: Facts) -> Iterator[str]:
    for name, inner in facts["indexes"].items():
        going = sum(len(inner[key]) for key in ("files", "orphans", "log_files"))
        size = describe_size(inner["bytes"])
        entries = facts["entries"].get(name, 0)
        done = "to delete" if facts["dry_run"] else "deleted"
        yield f"index {name}: {entries:,} entries and {going:,} files ({size}) {done}"
    for name, error in facts["failed"].items():
        yield f"index {name} was not cleaned: {error}"


@option_groups
def tag(
    name: Annotated[
        str | None, typer.Argument(help="The tag.", metavar="NAME", show_default=False)
    ] = None,
    *,
    version: Annotated[
        int | None, typer.Option(help="Event number; the newest by default.", metavar="N")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the tag.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the tags.")] = False,
    common: CommonOptions,
) -> None:
    """Tag a version, which keeps it until the tag is deleted.

    [green]segtable tag ./flights before-migration[/]
    [green]segtable tag ./flights audit-2026 --version 42[/]
    [green]segtable tag ./flights audit-2026 --delete[/]
    [green]segtable tag ./flights --list[/]
    """
    if (name is None) != listing or (delete and version is not None):
        raise InvalidInput(
            "give NAME to set a tag, NAME with --delete to delete one, or --list alone"
        )
    opened = common.open()
    if name is not None and delete:
        opened.untag(name)
    elif name is not None:
        opened.tag(name, version=version)
    tags = [{"name": each, "version": n} for each, n in sorted(opened.state().tags.items())]
    common.answer({"tags": tags}, _draw_tags)


def _draw_tags(facts: Facts) -> RenderableType:
    if not facts["tags"]:
        return Text("There are no tags.")
    table = grid("Tags", "tag", "version", right=("version",))
    for each in facts["tags"]:
        table.add_row(Text(each["name"]), str(each["version"]))
    return table


consumers = typer.Typer(
    no_args_is_help=True,
    help="List, advance and drop consumers: readers whose positions keep versions.",
)

Name = Annotated[str, typer.Argument(help="The consumer.", metavar="NAME", show_default=False)]


@consumers.command("list")
@option_groups
def list_consumers(*, common: CommonOptions) -> None:
    """List the consumers of a table: readers of windows, and groups that read its log store.

    [green]segtable consumers list ./flights[/]
    """
    _show_consumers(common.open(), common)


@consumers.command()
@option_groups
def advance(
    name: Name,
    *,
    version: Annotated[
        int | None,
        typer.Option(help="The last version it has read; the newest by default.", metavar="N"),
    ] = None,
    before: Annotated[
        int | None,
        typer.Option(help="The position it went on from; refused if it has another.", metavar="N"),
    ] = None,
    common: CommonOptions,
) -> None:
    """Record how far a consumer has read; the first time makes the consumer.

    [green]segtable consumers advance ./flights billing[/]
    [green]segtable table scan ./flights --consumer billing --changes --format json[/]
    [green]segtable consumers advance ./flights billing --version 42[/]

    Versions that the consumer has yet to read are kept, for retention.consumer_hours
    at most. Needs no ZooKeeper.
    """
    opened = common.open()
    opened.advance_consumer(name, version, before=before)
    _show_consumers(opened, common)


@consumers.command()
@option_groups
def drop(name: Name, *, common: CommonOptions) -> None:
    """Drop a consumer; versions that only it kept may be cleaned.

    [green]segtable consumers drop ./flights billing[/]
    """
    opened = common.open()
    opened.drop_consumer(name)
    _show_consumers(opened, common)


def _show_consumers(table: Any, common: CommonOptions) -> None:
    state = table.state()
    answer = {
        "version": state.n,
        "consumers": [
            {
                "name": name,
                "version": each.version,
                "behind": state.n - each.version,
                "advanced_at": iso(each.advanced_at),
                "readable": needed_from(state, each) >= state.retained_from,
                "log": _log_facts(state, each),
            }
            for name, each in sorted(state.consumers.items())
        ],
    }
    common.answer(answer, _draw_consumers)


def _log_facts(state: State, consumer: Consumer) -> list[Facts]:
    """Return the progress of a consumer group in the committed records of each bucket."""
    ends = {bucket: LogEnd(known=bucket_of(state, bucket)) for bucket in consumer.log}
    return [
        {
            "bucket": bucket,
            "epoch": mark.position.epoch,
            "offset": mark.position.offset,
            "behind": max(0, ends[bucket].offset - ends[bucket].first_unread(mark.position)),
        }
        for bucket, mark in sorted(consumer.log.items())
    ]


def _draw_consumers(facts: Facts) -> RenderableType:
    if not facts["consumers"]:
        return Text("There are no consumers.")
    numbers = ("version", "behind")
    table = grid("Consumers", "consumer", *numbers, "advanced at", "log store", "", right=numbers)
    for each in facts["consumers"]:
        lost = "" if each["readable"] else "cleaned: read the table anew"
        numbers_of = (str(each["version"]), str(each["behind"]))
        read = ", ".join(_read(bucket) for bucket in each["log"])
        cells = map(Text, (each["name"], *numbers_of, each["advanced_at"], read, lost))
        table.add_row(*cells)
    return table


def _read(bucket: Facts) -> str:
    """Return e.g. ``bucket 0 at 1,200, 30 behind``."""
    behind = f", {bucket['behind']:,} behind" if bucket["behind"] else ""
    return f"bucket {bucket['bucket']} at {bucket['offset']:,}{behind}"
