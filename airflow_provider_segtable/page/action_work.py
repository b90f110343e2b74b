"""Actions that are work: plan, compact, clean, build an index, publish.

1. The settings are the table's own with those of its fleet's file, as for the planner and upkeep.
2. A compaction is planned as of the version that was shown. Its plans are functions of their
   inputs, so they are the plans that were shown, or the log refuses them.
3. A cleaning keeps what the retention keeps as of the preview, however long the user thinks.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any, ClassVar, assert_never

from pydantic import AfterValidator, Field

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.errors import InvalidInput, VersionExpired
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.index_plan import pending_plan
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.plan_kinds import kind_named, kinds, named
from airflow_provider_segtable.core.time import Interval, iso
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.page.action_kind import (
    Action,
    Changed,
    Done,
    Foreseen,
    Pin,
    Runs,
    Text,
)
from airflow_provider_segtable.page.lake import Seen
from airflow_provider_segtable.planning.finders.index import index_plan
from airflow_provider_segtable.planning.fleet.fleet import properties_of
from airflow_provider_segtable.planning.properties import Policy, PublishSettings, Retention
from airflow_provider_segtable.services.cleaning import CleaningRun, clean
from airflow_provider_segtable.services.indexing import requested_plan
from airflow_provider_segtable.services.planner import (
    Launch,
    PlannerRun,
    carry_out,
    look_at,
    plan_inner_tables,
)
from airflow_provider_segtable.services.request import Asked, asked_plans, commit_asked
from airflow_provider_segtable.table.index_lifecycle import index_named
from airflow_provider_segtable.table.publishing.publisher import (
    AlreadyPublished,
    Overtaken,
    PublishedNow,
    PublishOutcome,
    Refused,
)
from airflow_provider_segtable.table.publishing.status import PublishedStatus, status_of_formats

PLANS_SHOWN = 5
REASONS_SHOWN = 3
Hours = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


def settings_of(seen: Seen) -> dict[str, str]:
    """Return the properties by which a table is planned and looked after (rule 1)."""
    return properties_of(seen.fleet, seen.own_name, seen.state.table.properties)


# Plan
class PlanTable(Action):
    """Run the planner once over the table, and over the tables of its indexes."""

    name: ClassVar[str] = "plan"
    runs: ClassVar[Runs] = Runs.PLANNER

    def foresee(self, seen: Seen, pin: Pin) -> Foreseen:
        """Return the plans that a dry run of the planner chooses."""
        del pin
        runs = _planned(seen, dry_run=True)
        plans = sum(len(run.launches) for run in runs.values())
        return Foreseen(
            sentence=f"The planner finds {counted(plans, 'plan')} worthwhile now.",
            effects=tuple(line for name, run in runs.items() for line in _lines_of(name, run)),
            command=("plan", seen.ports.uri, "--request"),
            confirm=f"Request {counted(plans, 'plan')}?" if plans else "Plan it all the same?",
        )

    def do(self, seen: Seen, pin: Pin, key: str) -> Done:
        """Request the plans."""
        del pin, key
        runs = _planned(seen, dry_run=False)
        plans = sum(len(run.launches) for run in runs.values())
        return Done(sentence=f"{counted(plans, 'plan')} pending: a worker carries them out.")


def _planned(seen: Seen, *, dry_run: bool) -> Mapping[str, PlannerRun]:
    """Run the planner; the table's own run is named by an empty text."""
    ports, properties = seen.ports, settings_of(seen)
    state = ports.log.refresh(seen.state)
    look = look_at(ports, state, Policy.read(properties), properties, dry_run=dry_run)
    own = carry_out(ports, look, look.planned.chosen)
    return {"": own, **dict(plan_inner_tables(ports, dry_run=dry_run))}


def _lines_of(name: str, run: PlannerRun) -> Iterator[str]:
    begin = f"{name}: " if name else ""
    by_kind: dict[str, list[Launch]] = {}
    for launch in run.launches:
        by_kind.setdefault(launch.kind, []).append(launch)
    for kind, some in by_kind.items():
        segments = counted(sum(each.segments for each in some), "segment")
        size = describe_size(sum(each.size for each in some))
        yield f"{begin}{counted(len(some), f'{kind} plan')}: {segments}, {size}"
    for index, reason in run.indexes.items():
        yield f"{begin}index {index!r} is requested: {reason}"
    if run.voided:
        yield f"{begin}{counted(len(run.voided), 'segment id')} without a live writer are given up"
    if not (run.launches or name):
        reasons = Counter(each.reason for each in run.skipped)
        yield from (f"left alone: {why}" for why, _ in reasons.most_common(REASONS_SHOWN))


# Compact
def _compaction(kind: str) -> str:
    if kind_named(kind) is None:
        raise ValueError(f"it is not a kind of compaction: write {named(kinds())}")
    return kind


class CompactSegments(Action):
    """Compact chosen segments, or an interval, by one kind, whatever the policy."""

    name: ClassVar[str] = "compact"
    runs: ClassVar[Runs] = Runs.PLANS
    kind: Annotated[str, AfterValidator(_compaction)]
    segments: Annotated[list[Text], Field(min_length=1, max_length=1000)] | None = None
    interval: Text | None = None

    def foresee(self, seen: Seen, pin: Pin) -> Foreseen:
        """Return the plans of the request."""
        asked = self._asked(seen, pin)
        plans, known = asked.plans, {each.plan.id for each in asked.known}
        segments = counted(sum(len(each.inputs) for each in plans), "segment")
        size = describe_size(sum(each.size for each in plans))
        return Foreseen(
            sentence=f"{counted(len(plans), f'{self.kind} plan')}: {segments}, {size}.",
            effects=tuple(_described(plans, known)),
            command=("compact", seen.ports.uri, "--kind", self.kind, *self._options()),
            confirm=f"Compact {segments} now?",
            essence={"plans": [each.id for each in plans]},
        )

    def do(self, seen: Seen, pin: Pin, key: str) -> Done:
        """Request the plans."""
        del key
        known = commit_asked(seen.ports, self._asked(seen, pin))
        left = tuple(each.plan.id for each in known if each.status.pending)
        if not left:
            return Done(sentence=f"{counted(len(known), 'plan')} had been completed already.")
        return Done(sentence=f"{counted(len(left), 'plan')} requested.", plans=left)

    def _asked(self, seen: Seen, pin: Pin) -> Asked:
        if (self.segments is None) == (self.interval is None):
            raise InvalidInput("compact: give segments or an interval, and one of them alone")
        try:
            state = seen.version(pin.n)
        except VersionExpired as error:
            raise Changed(f"look at the preview again: {error}") from error
        return asked_plans(
            seen.ports,
            self.kind,
            segments=self.segments,
            interval=None if self.interval is None else Interval.parse(self.interval),
            policy=Policy.read(settings_of(seen)),
            state=state,
        )

    def _options(self) -> Iterator[str]:
        if self.interval is not None:
            yield from ("--interval", self.interval)
        for each in self.segments or ():
            yield from ("--segment", each)


def _described(plans: Iterable[Plan], known: Iterable[str]) -> Iterator[str]:
    pending = set(known)
    for at, plan in enumerate(plans):
        if at == PLANS_SHOWN:
            yield "and more, likewise"
            return
        of = f"{plan.interval}: {counted(len(plan.inputs), 'segment')}, {describe_size(plan.size)}"
        rows, outputs = counted(plan.rows, "row"), counted(plan.outputs, "segment")
        again = "; requested before" if plan.id in pending else ""
        into = f" into about {outputs}" if plan.outputs else ""
        yield f"{of}, {rows}{into}{again}"


# Clean
class CleanTable(Action):
    """Delete what the retention lets go."""

    name: ClassVar[str] = "clean"
    runs: ClassVar[Runs] = Runs.UPKEEP
    hours: Hours | None = None
    versions: Annotated[int, Field(ge=1, lt=2**62)] | None = None
    orphan_hours: Hours | None = None

    def foresee(self, seen: Seen, pin: Pin) -> Foreseen:
        """Return the deletions of a dry run."""
        run = clean(seen.ports, retention=self._retention(seen, pin), dry_run=True)
        size = describe_size(run.bytes_freed)
        return Foreseen(
            sentence=f"Versions are kept from {run.retained_from} on; {size} are freed.",
            effects=tuple(_deletions(run)) or ("There is nothing to delete.",),
            command=("clean", seen.ports.uri, *self._options(seen)),
            confirm="Delete these files? They cannot come back.",
            essence=_gone(run),
        )

    def do(self, seen: Seen, pin: Pin, key: str) -> Done:
        """Clean the table."""
        del key
        run = clean(seen.ports, retention=self._retention(seen, pin))
        failed = "; ".join(f"index {name}: {error}" for name, error in run.failed.items())
        files = counted(sum(map(len, _files(run))), "file")
        return Done(
            sentence=f"Cleaned: {files}, {describe_size(run.bytes_freed)}."
            + (f" Not cleaned: {failed}" if failed else "")
        )

    def conf(self, seen: Seen, pin: Pin) -> Facts:
        """Return the retention, and the version and time that it is of."""
        return {
            "steps": ["clean"],
            "retention": asdict(self._wanted(seen)),
            "as_of": {"version": pin.n, "time": pin.at},
        }

    def _wanted(self, seen: Seen) -> Retention:
        given = {"hours": self.hours, "versions": self.versions, "orphan_hours": self.orphan_hours}
        changed: dict[str, Any] = {
            name: value for name, value in given.items() if value is not None
        }
        return replace(Retention.read(settings_of(seen)), **changed)

    def _retention(self, seen: Seen, pin: Pin) -> Retention:
        age, events = seen.ports.clock.now() - pin.at, seen.ports.log.load().n - pin.n
        return self._wanted(seen).of_before(age, events)

    def _options(self, seen: Seen) -> Iterator[str]:
        own, wanted = Retention.read(seen.state.table.properties), self._wanted(seen)
        options = {
            "hours": "--retention-hours",
            "versions": "--retention-versions",
            "orphan_hours": "--orphan-hours",
            "consumer_hours": "--consumer-hours",
        }
        for name, option in options.items():
            if getattr(own, name) != getattr(wanted, name):
                yield from (option, f"{getattr(wanted, name):g}")


def _files(run: CleaningRun) -> tuple[tuple[Any, ...], ...]:
    return (run.files, run.vectors, run.orphans, run.log_files)


def _deletions(run: CleaningRun, of: str = "") -> Iterator[str]:
    nouns = ("data file", "deletion vector", "unreferenced file", "log file")
    for noun, some in zip(nouns, _files(run), strict=True):
        if some:
            yield f"{of}{counted(len(some), noun)} deleted"
    if run.segments:
        rows = counted(sum(each.rows for each in run.segments), "row")
        yield f"{of}{counted(len(run.segments), 'hidden segment')} with {rows} no longer in the log"
    for name, paths in run.targets.items():
        if paths:
            yield f"{of}{counted(len(paths), 'file')} of replaced {name} versions deleted"
    for name, inner in run.indexes.items():
        yield from _deletions(inner, f"index {name}: ")
    for name, error in run.failed.items():
        yield f"index {name} cannot be cleaned: {error}"


def _gone(run: CleaningRun) -> Facts:
    """Return what a cleaning deletes, without files that any later cleaning might delete."""
    return {
        "retained_from": run.retained_from,
        "segments": sorted(str(each.id) for each in run.segments),
        "files": sorted(run.files),
        "vectors": sorted(each.path for each in run.vectors),
        "orphans": sorted(each.path for each in run.orphans),
        "log_from": run.log_from,
        "indexes": {name: _gone(inner) for name, inner in run.indexes.items()},
    }


# Build an index
class BuildMissing(Action):
    """Build what an index lacks."""

    name: ClassVar[str] = "build_index"
    runs: ClassVar[Runs] = Runs.PLANS
    index: Text = Field(alias="name")

    def foresee(self, seen: Seen, pin: Pin) -> Foreseen:
        """Return the plan, which may be pending already."""
        del pin
        known = index_named(seen.state, self.index, seen.ports.uri)
        pending = pending_plan(known.definition.id, seen.state.pending_plans())
        plan = pending.plan if pending else index_plan(seen.state, known, "asked for on the page")
        if plan is None:
            raise InvalidInput(f"index {self.index!r} lacks nothing: there is nothing to build")
        return Foreseen(
            sentence=f"A plan builds what the index {self.index!r} lacks.",
            effects=(plan.reason, *(("The plan is pending already.",) if pending else ())),
            command=("index", "run", seen.ports.uri, self.index),
            confirm=f"Build the index {self.index!r} now?",
            essence={"index": known.definition.id},
        )

    def do(self, seen: Seen, pin: Pin, key: str) -> Done:
        """Request the plan."""
        del pin, key
        known = requested_plan(seen.ports, self.index)
        if known is None:
            return Done(sentence=f"The index {self.index!r} lacks nothing any more.")
        return Done(sentence=f"Plan {known.plan.id} requested.", plans=(known.plan.id,))


# Publish
class PublishTable(Action):
    """Publish the newest version in other formats."""

    name: ClassVar[str] = "publish"
    runs: ClassVar[Runs] = Runs.UPKEEP
    formats: Annotated[list[Text], Field(min_length=1, max_length=10)] | None = None
    full: bool = False

    def foresee(self, seen: Seen, pin: Pin) -> Foreseen:
        """Return how far each format is behind."""
        del pin
        names, state = self._formats(seen), seen.state
        found = status_of_formats(seen.ports, state, names)
        options = [part for name in self.formats or () for part in ("--format", name)]
        return Foreseen(
            sentence=f"Version {state.n} is published as {' and '.join(names)}.",
            effects=tuple(_behind(name, found.get(name), full=self.full) for name in names),
            command=("publish", seen.ports.uri, *options, *(("--full",) if self.full else ())),
            confirm=f"Publish version {state.n}?",
            essence={"formats": list(names)},
        )

    def do(self, seen: Seen, pin: Pin, key: str) -> Done:
        """Publish the table."""
        del pin, key
        outcomes = Table(seen.ports).publish(formats=self._formats(seen), full=self.full)
        return Done(sentence="; ".join(map(_published, outcomes)))

    def conf(self, seen: Seen, pin: Pin) -> Facts:
        """Return the formats."""
        del pin
        return {"steps": ["publish"], "formats": list(self._formats(seen)), "full": self.full}

    def _formats(self, seen: Seen) -> tuple[str, ...]:
        wanted = self.formats or PublishSettings.read(settings_of(seen)).formats
        known = seen.ports.formats
        for name in wanted:
            if name not in known:
                raise InvalidInput(
                    f"publish: format {name!r} is unknown: one of {', '.join(known)}"
                )
        if not wanted:
            raise InvalidInput(
                f"{seen.name} is published in no format: name one of {', '.join(known)}, or switch "
                "one on by a property, such as publish.delta"
            )
        return tuple(dict.fromkeys(wanted))


def _published(outcome: PublishOutcome) -> str:
    match outcome:
        case PublishedNow():
            files = f"{counted(outcome.shown, 'file')} changed, {outcome.gone:,} gone"
            return f"{outcome.format}: event {outcome.event} was published, {files}"
        case AlreadyPublished():
            return f"{outcome.format}: event {outcome.event} was published already"
        case Refused():
            return f"{outcome.format} was refused: {outcome.reason}"
        case Overtaken():
            return f"{outcome.format}: others published event {outcome.event}: try again"
        case _:
            assert_never(outcome)


def _behind(name: str, status: PublishedStatus | None, *, full: bool) -> str:
    if status is None or (status.event is None and not status.error):
        return f"{name}: nothing is published yet, so all files are named"
    if status.refusal or status.error:
        return f"{name} is refused: {status.refusal or status.error}"
    if full:
        return f"{name}: all files are published anew, over event {status.event}"
    if status.lag_events is None:
        since = f" since {iso(status.late_since)}" if status.late_since else ""
        return f"{name}: event {status.event} is published, behind by unknown events{since}"
    return (
        f"{name}: event {status.event} is published, {counted(status.lag_events, 'event')} behind"
    )
