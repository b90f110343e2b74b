"""A planner run over many tables: one decision within a budget; no table delays others."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import CoordinatorUnavailable, StorageError
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.planning.fleet.fleet_memory import FleetMemory, Why
from airflow_provider_segtable.planning.fleet.fleet_plan import Code
from airflow_provider_segtable.planning.read_summary import MOST_HEAT
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.services.attempt import Done, Job, in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.fleet_run import NOTHING, FleetRun, Looked, run_fleet
from airflow_provider_segtable.services.fleet_tables import find_tables, load_fleet
from airflow_provider_segtable.services.log_directory import BUCKETS
from airflow_provider_segtable.services.publishing import publish_all
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.read_recorder import ReadRecorder
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock
from tests.support.in_memory import context_in_memory, defined_by
from tests.unit.services.conftest import SCHEMA, rows

TABLES = ("a/busy", "a/calm", "b/other")
SERVED = {"address": "a", "service": "s", "deploy_mode": "external", "epoch": "1"}
GROUPS = '[groups.a]\ntables = ["a/*"]\n[groups.b]\ntables = ["b/*"]\n'


class Lake:
    """Three tables of one clock and one coordinator; ``broken`` ones cannot be opened."""

    def __init__(self) -> None:
        self.clock, self.service = FakeClock(), MemoryService()
        self.broken: set[str] = set()
        self.requests: list[str] = []
        self.tables = {name: self._table(name) for name in TABLES}

    def _table(self, name: str) -> TableContext:
        ports = context_in_memory(self.service, clock=self.clock, uri=f"memory://{name}")
        definition = defined_by(SCHEMA, properties={"compaction.min_segments": "4"})
        create_table(ports, replace(definition, table_id=name.replace("/", "-"), name=name))
        return ports

    def append(self, name: str, files: int) -> None:
        """Append small files to one hour."""
        for turn in range(files):
            Table(self.tables[name]).append(rows(turn).slice(0, 1))

    def compact(self, name: str, seconds: float) -> None:
        """Complete the pending plans of a table, each so long after it began."""
        ports = self.tables[name]

        def slowly(jobs: Sequence[Job]) -> Iterator[Done]:
            self.clock.advance(seconds / len(jobs))
            yield from in_process(ports.files)(jobs)

        pending = Table(ports).state().pending_plans()
        assert pending
        for known in pending:
            compact(ports, (known.plan.id,), slowly)

    def ports(self, name: str) -> AbstractContextManager[TableContext]:
        """Open a table."""
        if name in self.broken:
            raise StorageError(f"{name} cannot be reached")
        return nullcontext(replace(self.tables[name], storage=self.counted(name)))

    def counted(self, name: str) -> Storage:
        """Return a table's storage, whose requests are counted."""
        return _Counted(self.tables[name].storage, self.requests)

    def run(
        self,
        text: str = "",
        *,
        dry_run: bool = False,
        only: Sequence[str] = TABLES,
        memory: FleetMemory = NOTHING,
    ) -> FleetRun:
        """Plan all tables, or some."""
        now = self.clock.now()
        return run_fleet(fleet(text), only, self.ports, now, memory=memory, dry_run=dry_run)

    def versions(self) -> dict[str, int]:
        """Return the newest event of each table."""
        return {name: Table(ports).state().n for name, ports in self.tables.items()}


class _Counted:
    """A storage that notes each request."""

    def __init__(self, storage: Storage, requests: list[str]) -> None:
        self._storage, self._requests = storage, requests

    def __getattr__(self, name: str) -> Any:
        if name not in ("uri", "remote"):
            self._requests.append(f"{name} {self._storage.uri}")
        return getattr(self._storage, name)


def fleet(text: str = "") -> Fleet:
    """Read a fleet file."""
    return read_fleet(f"{text}\n{GROUPS}", "fleet.toml")


@pytest.fixture
def lake() -> Lake:
    """Tables of 5, 2 and 6 small files; four are enough for a plan."""
    made = Lake()
    for name, files in zip(TABLES, (5, 2, 6), strict=True):
        made.append(name, files)
    return made


def chosen(run: FleetRun) -> list[str]:
    """Return the tables whose plans begin."""
    return [each.table for each in run.plan.chosen]


def test_what_was_chosen_is_requested_once(lake: Lake) -> None:
    """A second run launches the same runs, and requests nothing."""
    first = lake.run()
    assert sorted(chosen(first)) == ["a/busy", "b/other"]
    launched = {each.name: each.runs[each.name].launches for each in first.tables}
    assert [len(launched[name]) for name in TABLES] == [1, 0, 1]
    versions = lake.versions()
    again = lake.run()
    assert (chosen(again), lake.versions()) == ([], versions)
    repeated = {each.name: each.runs[each.name].launches for each in again.tables}
    assert repeated == launched


def test_unchanged_tables_cost_no_request(lake: Lake) -> None:
    """A commit costs those of its table; a sweep, or a lost announcement, those of a look."""
    first = lake.run(dry_run=True)
    assert lake.requests
    assert set(first.looked.values()) == {Why.UNKNOWN}
    lake.requests.clear()
    again = lake.run(dry_run=True, memory=first.memory)
    assert (lake.requests, again.looked) == ([], {})
    assert again.facts() == first.facts()
    lake.append("a/busy", 1)
    again = lake.run(dry_run=True, memory=again.memory)
    assert again.looked == {"a/busy": Why.NEWER}
    assert {each.version for each in again.tables if each.name == "a/busy"} == {6}
    lake.service.wipe()
    again = lake.run(memory=again.memory)
    assert again.looked == dict.fromkeys(TABLES, Why.UNANNOUNCED)
    assert "a/calm" not in lake.run(memory=again.memory).looked


def test_without_announcements_each_log_is_asked_for_its_next_event(lake: Lake) -> None:
    """One request a table that is unchanged."""
    blind = {name: replace(at, optional_coordinator=None) for name, at in lake.tables.items()}
    writers, lake.tables = lake.tables, blind
    first = lake.run(dry_run=True)
    lake.requests.clear()
    assert lake.run(dry_run=True, memory=first.memory).looked == {}
    assert Counter(lake.requests) == {f"read {at.storage.uri}": 3 for at in blind.values()}
    lake.tables = writers
    lake.append("b/other", 1)
    lake.tables = blind
    again = lake.run(dry_run=True, memory=first.memory)
    assert again.looked == {"b/other": Why.NEWER}


def test_a_coordinator_that_does_not_answer_is_asked_once(lake: Lake) -> None:
    """The logs of the tables are asked instead: the run does not wait for it table by table."""
    memory = lake.run(dry_run=True).memory
    asked = list[str]()

    class Away(MemoryCoordinator):
        def heads(self, tables: Iterable[str]) -> Mapping[str, int]:
            asked.extend(tables)
            raise CoordinatorUnavailable("no ZooKeeper answers")

    away = Away(lake.clock, lake.service)
    silent = {name: replace(at, optional_coordinator=away) for name, at in lake.tables.items()}
    run = run_fleet(
        fleet(),
        TABLES,
        lambda name: nullcontext(silent[name]),
        lake.clock.now(),
        memory=memory,
        dry_run=True,
    )
    assert sorted(asked) == ["a-busy", "a-calm", "b-other"]
    assert run.looked == {}


def test_what_is_asked_of_the_coordinator_does_not_grow_with_quiet_tables(lake: Lake) -> None:
    """Locks are read of a table with pending plans alone; log stores are asked for together."""
    for name in TABLES:
        tuple(lake.run(only=[name]).tables)
    lake.compact("a/busy", 1.0)
    asked = list[str]()

    class Told(MemoryCoordinator):
        def __getattribute__(self, name: str) -> Any:
            if not name.startswith("_"):
                asked.append(name)
            return super().__getattribute__(name)

    told = Told(lake.clock, lake.service)
    lake.tables = {n: replace(at, optional_coordinator=told) for n, at in lake.tables.items()}
    assert len(lake.run().looked) == 3
    assert Counter(asked) == {"locks": 1, "waiters": 1, "tables_with_claims": 1, "claims": 3}
    assert told.claim("a-calm", BUCKETS, "0", SERVED)
    stores = {each.name: each.log_store for each in lake.run(dry_run=True).tables}
    assert stores == {"a/busy": "", "a/calm": "a-calm", "b/other": ""}


def test_a_dry_run_asks_the_log_of_a_table_that_nobody_announced(lake: Lake) -> None:
    """It cannot announce it, so it would look at it again and again."""
    memory = lake.run(dry_run=True).memory
    lake.service = MemoryService()
    for name, ports in lake.tables.items():
        forgotten = MemoryCoordinator(lake.clock, lake.service)
        lake.tables[name] = replace(ports, optional_coordinator=forgotten)
    assert lake.run(dry_run=True, memory=memory).looked == {}
    assert set(lake.run(memory=memory).looked.values()) == {Why.UNANNOUNCED}


def test_what_is_looked_at_can_be_observed(lake: Lake) -> None:
    """While its state is there; of a table that is not looked at there is none."""
    seen = dict[str, int]()

    def observe(name: str, ports: TableContext, looked: Looked) -> None:
        seen[name] = looked.look.state.n
        assert ports.uri == f"memory://{name}"

    now = lake.clock.now()
    run = run_fleet(fleet(), TABLES, lake.ports, now, dry_run=True, observe=observe)
    assert seen == lake.versions()
    seen.clear()
    run_fleet(fleet(), TABLES, lake.ports, now, memory=run.memory, dry_run=True, observe=observe)
    assert seen == {}


def test_a_dry_run_writes_nothing_and_decides_the_same(lake: Lake) -> None:
    """The same object."""
    versions = lake.versions()
    dry = lake.run(dry_run=True)
    assert lake.versions() == versions
    assert dry.plan == lake.run().plan


def test_the_budget_of_an_hour_holds_over_runs(lake: Lake) -> None:
    """What was requested is in the logs of the tables; after an hour there is room again."""
    budget = '[budget]\nbytes_per_hour = "4 KiB"'
    assert len(chosen(lake.run(budget))) == 1
    left = lake.run(budget).plan.left
    assert [each.code for each in left] == [Code.FLEET_BYTES]
    lake.clock.advance(3_601)
    assert chosen(lake.run(budget)) == [left[0].table]


def test_plans_at_once_are_counted_until_they_end(lake: Lake) -> None:
    """A pending plan of one table keeps out those of another, in the whole fleet."""
    one = "[budget]\nplans = 1"
    assert len(chosen(lake.run(one))) == 1
    lake.clock.advance(7_200)
    assert {each.code for each in lake.run(one).plan.left} == {Code.FLEET_PLANS}


@pytest.mark.parametrize("shut", ["freeze = true", '[windows]\nminor = ["00:00-00:01"]'])
def test_what_no_worker_has_begins_neither_in_a_freeze_nor_outside_of_a_window(
    lake: Lake, shut: str
) -> None:
    """Plans that were requested before stay pending, and are launched when they may begin."""
    lake.clock.advance(300)
    requested = {each.name: each.runs[each.name].launches for each in lake.run().tables}
    assert sum(map(len, requested.values())) == 2
    held = lake.run(shut)
    assert [launch for each in held.tables for launch in each.runs[each.name].launches] == []
    assert sum(each.pending for each in held.tables) == 2
    again = {each.name: each.runs[each.name].launches for each in lake.run().tables}
    assert again == requested


def test_minutes_are_those_that_plans_of_the_kind_took(lake: Lake) -> None:
    """They limit an hour of the fleet, also for tables that never had a plan; the error is told."""
    for turn in range(4):
        lake.append("a/calm", 4)
        lake.run(only=("a/calm",))
        lake.compact("a/calm", 120 if turn < 3 else 240)
        lake.clock.advance(3_600)
    cost = lake.run(dry_run=True).costs["minor"]
    assert (cost.runs, cost.error) == (4, pytest.approx(0.5, abs=0.01))
    assert cost.seconds(1_000) == pytest.approx(120, rel=0.01)
    found = lake.run("[budget]\ntask_minutes_per_hour = 3")
    assert [each.offer.minutes for each in found.plan.chosen] == [pytest.approx(2, rel=0.01)]
    (left,) = found.plan.left
    assert left.code is Code.FLEET_MINUTES
    assert "needs 2 task minutes; the fleet has begun 2 of 3 an hour" in left.reason


def test_the_lag_of_a_publication_is_an_aim(lake: Lake) -> None:
    """It is measured for a table that publishes, and for no other."""
    text = '[objective]\npublish_lag = "5m"\n[tables."b/other".properties]\npublish.delta = true'
    publish_all(lake.tables["b/other"], {"publish.delta": "on"})
    lake.append("b/other", 1)
    lake.clock.advance(600)
    misses = {each.name: each.misses for each in lake.run(text, dry_run=True).tables}
    (miss,) = misses.pop("b/other")
    assert (miss.name, round(miss.found / 60_000_000)) == ("publish_lag", 10)
    before = lake.run(text, dry_run=True).memory
    lake.clock.advance(60)
    again = lake.run(text, dry_run=True, memory=before)
    assert again.looked == {"b/other": Why.DUE}
    (grown,) = next(each.misses for each in again.tables if each.name == "b/other")
    assert round((grown.found - miss.found) / 60_000_000) == 1
    assert not any(misses.values())


def test_what_was_never_published_lags_since_the_first_commit(lake: Lake) -> None:
    """Also a format that the fleet file alone switches on; other formats have no lag."""
    text = '[objective]\npublish_lag = "5m"\n[tables."b/other".properties]\npublish.delta = true'
    first = Table(lake.tables["b/other"]).state().base_version
    lake.clock.advance(600)
    misses = {each.name: each.misses for each in lake.run(text, dry_run=True).tables}
    (miss,) = misses.pop("b/other")
    assert (miss.name, miss.found) == ("publish_lag", lake.clock.now() - first)
    assert not any(misses.values())
    lags = {
        (each.name, gauge.name): gauge.at(lake.clock.now())
        for each in lake.run(text, dry_run=True).tables
        for gauge in each.gauges
        if gauge.name.startswith("publication")
    }
    assert lags == {("b/other", "publication.lag_seconds"): miss.found / 1_000_000}


def test_a_table_that_misses_its_objective_says_when_it_meets_it(lake: Lake) -> None:
    """By what its plans take and wait for; while it is frozen the time is unknown."""
    text = '[tables."a/calm"]\nobjective = {files_read = 1}\nfreeze = true'
    when = {each.name: each.expected for each in lake.run(text, dry_run=True).tables}
    held = when.pop("a/calm")
    assert not any(when.values())
    assert held is not None
    assert held.at is None
    assert "waits (frozen): a/calm is frozen until the file says otherwise" in held.why
    facts = lake.run(text.replace("\nfreeze = true", ""), dry_run=True).facts()["tables"][0]
    assert facts["expected"]["why"] == "1 plan to begin now"
    assert facts["expected"]["at"] > iso(lake.clock.now())


def test_a_table_that_cannot_be_read_delays_no_other(lake: Lake) -> None:
    """It is said first, with its error; settings that do not fit a table are its error, too."""
    lake.broken.add("a/busy")
    text = '[tables."a/calm".properties]\ncompaction.clustering = "nothing"'
    run = lake.run(text)
    assert chosen(run) == ["b/other"]
    told = {each.name: each.error for each in run.tables}
    assert told["a/busy"] == "StorageError: a/busy cannot be reached"
    assert "'nothing'" in told["a/calm"]
    assert [each.name for each in run.tables] == ["a/busy", "a/calm", "b/other"]
    facts = run.facts()["tables"][0]
    assert (facts["error"], facts["version"]) == (told["a/busy"], None)


def test_an_objective_makes_plans_that_the_policy_would_leave(lake: Lake) -> None:
    """A table that misses it is planned at lower thresholds, and comes first."""
    assert "a/calm" not in chosen(lake.run(dry_run=True))
    text = '[tables."a/calm"]\nobjective = {files_read = 1}'
    run = lake.run(text)
    assert chosen(run)[0] == "a/calm"
    worst = run.tables[0]
    assert (worst.name, worst.misses[0].found, worst.files) == ("a/calm", 2, 2)


def test_properties_of_the_file_count(lake: Lake) -> None:
    """Of a scope that enforces; otherwise the table's own win."""
    own = "[properties]\ncompaction.min_segments = 6\ncompaction.max_age_minutes = 9999"
    assert sorted(chosen(lake.run(own, dry_run=True))) == ["a/busy", "b/other"]
    assert chosen(lake.run(f"enforce = true\n{own}", dry_run=True)) == ["b/other"]


def test_tables_are_found_below_a_root_and_by_uri() -> None:
    """By few listings: none below a table, none where no glob leads."""
    storage = MemoryStorage("memory://lake")
    for name in ("a/busy", "a/deep/down", "b/other", "c/none"):
        storage.create(f"{name}/_segtable/timeline/0", b"")
        storage.create(f"{name}/data/x/y", b"")
    found = find_tables(fleet(), lambda _: storage)
    assert (found.names, found.complete) == (("a/busy", "b/other"), True)
    cut = find_tables(fleet(), lambda _: storage, most=2)
    assert (cut.complete, cut.listings) == (False, 2)
    assert found.listings == 5
    open_storage("memory://far/x/t").create("_segtable/timeline/0", b"")
    named = read_fleet('[groups.far]\ntables = ["memory://far/x/*"]', "f")
    assert named.prefixes() == ("memory://far/x",)


class Refusing(MemoryStorage):
    """A store that lists nothing below ``b``, and nothing at all if it is ``gone``."""

    gone = False

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Return names of folders, or refuse."""
        if self.gone or prefix.startswith("b"):
            raise StorageError(f"{prefix or 'the root'} is not readable")
        return super().folders(prefix)


def test_a_place_that_cannot_be_listed_hides_no_other() -> None:
    """It is reported by name; if nothing can be listed, that is the error."""
    storage = Refusing("memory://lake")
    storage.create("a/busy/_segtable/timeline/0", b"")

    def opened(uri: str) -> Refusing:
        if uri:
            raise StorageError(f"{uri} is away")
        return storage

    far = f'{GROUPS}[tables."s3://far/t"]'
    found = find_tables(read_fleet(far, "f"), opened)
    assert found.names == ("a/busy",)
    assert [*found.unread] == ["b", "s3://far/t"]
    assert "far/t is away" in found.unread["s3://far/t"]
    storage.gone = True
    with pytest.raises(StorageError, match="not readable"):
        find_tables(read_fleet(far, "f"), opened)


def test_a_fleet_file_is_read_from_a_store() -> None:
    """At the root of the tables, for instance."""
    open_storage("memory://conf").create("fleet.toml", b'[fleet]\nname = "far"')
    assert load_fleet("memory://conf/fleet.toml").name == "far"


def test_chunks_that_readers_open_in_vain_come_first(lake: Lake) -> None:
    """Only a table with recorded reads is asked, and its gain grows by a bounded factor."""
    plain = {each.table: each.offer.gain for each in lake.run(dry_run=True).plan.chosen}
    ports = replace(lake.tables["a/busy"], reads=ReadRecorder())
    Table(ports).alter(set={"statistics.reads": "all"})
    for _ in range(3):
        assert not Table(ports).scan(where="row = -1").to_arrow().num_rows
    ports.reads.close()
    hot = {each.table: each.offer.gain for each in lake.run(dry_run=True).plan.chosen}
    assert hot == {**plain, "a/busy": pytest.approx(MOST_HEAT * plain["a/busy"])}


def test_a_table_that_is_written_during_the_run_is_served(lake: Lake) -> None:
    """An append between the two looks changes the plan's id, and is compacted with the rest."""
    opened = Counter[str]()

    def written(name: str) -> AbstractContextManager[TableContext]:
        opened[name] += 1
        if opened[name] == 2:
            lake.append(name, 1)
        return lake.ports(name)

    run = run_fleet(fleet(), TABLES, written, lake.clock.now())
    launched = {
        each.name: sum(one.segments for one in each.runs[each.name].launches) for each in run.tables
    }
    assert launched == {"a/busy": 6, "a/calm": 0, "b/other": 7}
