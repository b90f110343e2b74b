"""The upkeep of a fleet's tables beside compaction: clean, settle, publish, verify by rota.

1. Each table is cleaned by its retention, and published in the formats that are switched on, by its
   own properties and the fleet file's. A table with a primary key is settled in between.
2. Each table is verified at least once a week, at a moment of its own (``planning.fleet.rota``). Of
   these one in ``DEEP_ONE_OF`` is verified deeply, and as a whole, another one each week. Of other
   large tables it is what was written since the week before, and a part of the rest
   (``health.verified_part``).
3. A step that fails is reported, and stops neither the table's other steps nor other tables.
4. A frozen table, or one outside of its ``upkeep`` window, is left until then.
5. A user may ask for steps of one table, now (``Wished``), with another retention, or in other
   formats. A retention counts as of the version and time that it was asked for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from airflow_provider_segtable.core.arguments import plain, shown
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, SegtableError, StorageError
from airflow_provider_segtable.core.recovery.diagnosis import Finding
from airflow_provider_segtable.core.time import Instant, iso
from airflow_provider_segtable.health.verified_part import Part
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.fleet.fleet import (
    Fleet,
    freeze_of,
    properties_of,
    windows_of,
)
from airflow_provider_segtable.planning.fleet.fleet_file import UPKEEP
from airflow_provider_segtable.planning.fleet.rota import WEEK_US, due, sampled
from airflow_provider_segtable.planning.properties import PublishSettings, Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.fleet_run import PortsOf
from airflow_provider_segtable.services.publishing import publish_all
from airflow_provider_segtable.services.settling import settle
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table

DEEP_ONE_OF = 4
CLEAN, PUBLISH = "clean", "publish"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What was done for a table: a line for each step, and what failed or was found.

    ``left`` says why nothing was done; it is empty otherwise.
    """

    table: str
    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    left: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wished:
    """Steps of one table that a user asks for.

    Attributes:
        table: its name in the fleet.
        steps: ``clean``, ``publish``, or both.
        retention: instead of the table's.
        version: the version that the retention is as of; the newest if it is negative.
        time: likewise, the time; now if it is negative.
        formats: instead of those that are switched on.
        full: whether all files are published anew.
    """

    table: str
    steps: tuple[str, ...] = (CLEAN, PUBLISH)
    retention: Retention | None = None
    version: int = -1
    time: Instant = -1
    formats: tuple[str, ...] = ()
    full: bool = False

    @staticmethod
    def of(conf: Mapping[str, Any]) -> "Wished | None":
        """Return the wish in the conf of a DAG run; None if it names no table.

        Raises:
            InvalidInput: the conf has another form; the message shows the value.
        """
        table, as_of = conf.get("table"), conf.get("as_of") or {}
        if not table:
            return None
        try:
            given = conf.get("retention")
            return Wished(
                table=plain("table", table),
                steps=_known_steps(conf.get("steps") or (CLEAN, PUBLISH)),
                retention=None if given is None else Retention(**given),
                version=int(as_of.get("version", -1)),
                time=int(as_of.get("time", -1)),
                formats=tuple(plain("formats", each) for each in conf.get("formats") or ()),
                full=bool(conf.get("full")),
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidInput(f"the conf {shown(dict(conf))} does not fit: {error}") from error

    def kept(self, own: Retention, ports: TableContext) -> Retention:
        """Return the retention as it counts now."""
        now, newest = ports.clock.now(), ports.log.load().n
        age = now - self.time if self.time >= 0 else 0
        events = newest - self.version if self.version >= 0 else 0
        return (self.retention or own).of_before(age, events)


def _known_steps(steps: Iterable[str]) -> tuple[str, ...]:
    known = tuple(steps)
    for each in known:
        if each not in (CLEAN, PUBLISH):
            raise InvalidInput(f"step {shown(each)} is unknown: write {CLEAN} or {PUBLISH}")
    return known


@dataclass(slots=True)
class _Steps:
    """The steps of one table under way."""

    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def take(self, name: str, step: Callable[[], str]) -> None:
        """Take a step, and note what it did or why it failed."""
        try:
            self.done.append(f"{name}: {step()}")
        except (SegtableError, OSError) as error:
            self.failed.append(f"{name}: {type(error).__name__}: {error}")


def keep_up(
    fleet: Fleet,
    names: Iterable[str],
    ports_of: PortsOf,
    since: Callable[[str], Instant],
    now: Instant,
) -> Iterator[Upkeep]:
    """Look after tables, one after another.

    Args:
        fleet: the fleet file.
        names: the tables.
        ports_of: opens a table.
        since: returns, for a table, since when a moment of its own counts as due.
        now: the wall clock.

    Yields:
        A report for each table.
    """
    for name in names:
        left = _left(fleet, name, now)
        if left:
            yield Upkeep(table=name, left=left)
            continue
        try:
            with ports_of(name) as ports:
                yield _kept_up(fleet, name, ports, since(name), now)
        except (SegtableError, OSError) as error:
            yield Upkeep(table=name, failed=(f"{type(error).__name__}: {error}",))


def keep_up_one(fleet: Fleet, wished: Wished, ports_of: PortsOf) -> Upkeep:
    """Take the steps that a user asks for, whatever the fleet's windows.

    Raises:
        InvalidInput: the fleet does not have the table.
        SegtableError: the table cannot be opened.
    """
    if not fleet.holds(wished.table):
        raise InvalidInput(f"{wished.table!r} is not in the fleet {fleet.name}: see its file")
    steps = _Steps()
    with ports_of(wished.table) as ports:
        properties = properties_of(fleet, wished.table, ports.log.load().table.properties)
        own = Retention.read(properties)
        if CLEAN in wished.steps:
            steps.take("cleaned", lambda: _cleaned(ports, wished.kept(own, ports)))
        if PUBLISH in wished.steps:
            formats = wished.formats or PublishSettings.read(properties).formats
            steps.take("published", lambda: _published_as(ports, formats, full=wished.full))
    return Upkeep(table=wished.table, done=tuple(steps.done), failed=tuple(steps.failed))


def _published_as(ports: TableContext, formats: tuple[str, ...], *, full: bool) -> str:
    return "; ".join(map(str, Table(ports).publish(formats=formats, full=full)))


def _left(fleet: Fleet, name: str, now: Instant) -> str:
    freeze = freeze_of(fleet, name)
    if freeze is not None and freeze.holds(now):
        return str(freeze)
    windows = windows_of(fleet, name, UPKEEP)
    if windows.open_at(now):
        return ""
    opens = windows.next_opening(now)
    return "outside of its window" + (f" until {iso(opens)}" if opens is not None else "")


def _kept_up(fleet: Fleet, name: str, ports: TableContext, since: Instant, now: Instant) -> Upkeep:
    table = ports.log.load().table
    properties = properties_of(fleet, name, table.properties)
    steps, findings = _Steps(), list[Finding]()
    steps.take("cleaned", lambda: _cleaned(ports, Retention.read(properties)))
    if table.kind.rules is not None:
        steps.take("settled", lambda: str(settle(ports)))
    if PublishSettings.read(properties).formats:
        steps.take("published", lambda: _published(ports, properties))
    if due(name, since, now):
        deep = sampled(name, now, DEEP_ONE_OF)
        part = None if deep else Part(since=since - WEEK_US, now=now)
        steps.take("verified", lambda: _verified(ports, findings, part))
    return Upkeep(
        table=name, done=tuple(steps.done), failed=tuple(steps.failed), findings=tuple(findings)
    )


def _cleaned(ports: TableContext, retention: Retention) -> str:
    run = clean(ports, retention=retention, whole=False)
    return str(run)


def _published(ports: TableContext, properties: Mapping[str, str]) -> str:
    run = publish_all(ports, properties)
    if run.failed:
        told = "; ".join(f"as {name}: {error}" for name, error in run.failed.items())
        raise StorageError(told)
    return "; ".join(map(str, run.outcomes))


def _verified(ports: TableContext, findings: list[Finding], part: Part | None) -> str:
    found = verify(ports, deep=part is None, part=part)
    findings += found.findings if not found.sound else ()
    return repr(found)
