"""RFC-66's file slicing is overshadowing: its rule, as its text says it, against our timeline."""

import random
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.locks import FencingToken, Generation
from airflow_provider_segtable.core.log.events import Action, Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.log.fold import Conflict, admit, apply
from airflow_provider_segtable.core.log.group_plans import GroupPlan, MinorPlan, SemiMajorPlan
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.plan import plan_id
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.core.timeline import Group
from tests.examples import examples
from tests.property.slices_model import (
    BaseFile,
    LogFile,
    as_of,
    build_file_slices,
)
from tests.support.builders import BASE, JANUARY, first, merged

CLUSTERING = "carrier"
CHUNK = ChunkKey(JANUARY, BASE, 0)
T = 10
"""The unit of the RFC's times: a request and its attempt are two events."""


def keyed_definition() -> TableDefinition:
    """Return a table with a primary key and one bucket."""
    times = Column(name="time_hour", type="timestamp[us, tz=UTC]", nullable=False)
    key = Column(name=CLUSTERING, type="string", nullable=False)
    kind, schema = PrimaryKey(key=(CLUSTERING,), buckets=1).bound(
        Schema((times, key)), time_column=times.name, granularity=Granularity.MONTH
    )
    return TableDefinition(
        table_id="11111111-2222-3333-4444-555555555566",
        name="keyed",
        schema=schema,
        time_column=times.name,
        granularity=Granularity.MONTH,
        kind=kind,
    )


@dataclass
class History:
    """One file group's log, and the facts that RFC-66 goes by, as the events say them.

    ``since`` is when the earliest records of a log file completed: their place, which it keeps.
    """

    draw: random.Random = field(default_factory=lambda: random.Random(0))
    now: int = 0
    writers: dict[str, Segment] = field(default_factory=dict)
    plans: dict[str, tuple[GroupPlan, Segment]] = field(default_factory=dict)
    bases: list[BaseFile] = field(default_factory=list)
    logs: list[LogFile] = field(default_factory=list)
    since: dict[str, int] = field(default_factory=dict)
    versions: list[State] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Create the table at time 0."""
        event = Event(n=0, time=BASE, commit="c0", author="x", action=keyed_definition())
        self.versions.append(apply(None, event))

    @property
    def state(self) -> State:
        """Return the newest version."""
        return self.versions[-1]

    def commit(self, action: Action) -> Action | None:
        """Commit an action now; None if it is refused. Nothing else is checked or changed."""
        admitted = admit(action, self.state)
        if isinstance(admitted, Conflict):
            return None
        n, time = self.state.n + 1, max(BASE + self.now, self.state.time + 1)
        event = Event(n=n, time=time, commit=f"c{n}", author="x", action=admitted)
        self.versions.append(apply(self.state, event))
        self.now = time - BASE
        return admitted

    def begin(self, name: str, instant: int | None = None) -> None:
        """Let a writer begin, by its own clock."""
        ids = CHUNK.numbering.provisional
        started = BASE + (self.now if instant is None else instant)
        log = first(ids.start + self.draw.randrange(2**40), chunk=CHUNK, created=started)
        self.writers[name] = replace(log, path=f"data/{name}")

    def end(self, name: str) -> None:
        """Let a writer commit: it is never refused."""
        log = self.writers.pop(name)
        assert self.commit(Appended(segments=(log,))) is not None, f"writer {name} was refused"
        self.logs.append(LogFile(name, log.created - BASE, self.now))
        self.since[name] = self.now

    def groups(self) -> tuple[Group, ...]:
        """Return the visible groups, in root order."""
        return self.state.timeline.visible_groups(CHUNK)

    def request(self, name: str, kind: type[GroupPlan], groups: tuple[Group, ...]) -> bool:
        """Schedule a compaction of some groups; return whether the log admits it."""
        inputs = [segment for group in groups for segment in group.segments]
        ids = tuple(segment.id for segment in inputs)
        plan = kind(
            id=plan_id("t", kind.kind, ids),
            chunk=CHUNK,
            inputs=ids,
            root_start=groups[0].start,
            root_end=groups[-1].end,
            outputs=1,
            rows=1,
            size=1,
            reason=name,
            **({"clustering": CLUSTERING} if kind is SemiMajorPlan else {}),
        )
        if self.commit(PlanRequested(plan=plan)) is None:
            return False
        output = self.state.id_space(CHUNK, Generation.LATER).next
        start = PlanInflight(
            plan_id=plan.id,
            attempt="a",
            token=FencingToken("e", 1),
            outputs=(CHUNK.segment(output),),
        )
        made = merged(output, inputs)
        made = replace(made, path=f"data/{name}", lineage=(), clustering=plan.order or "")
        requested = self.now
        assert self.commit(start) is not None, f"{name} did not start"
        self.plans[name] = plan, replace(made, created=BASE + requested)
        return True

    def complete(self, name: str) -> None:
        """Let a compaction complete: nothing that came meanwhile hinders it."""
        plan, made = self.plans.pop(name)
        minor = self.state.timeline.max_minor(CHUNK, plan.root_start, plan.root_end) + 1
        made = replace(made, shard=replace(made.shard, minor_version=minor))
        inputs = {self.name_of(self.state.timeline.get(each)) for each in plan.inputs}
        done = PlanCompleted(plan_id=plan.id, attempt="a", segments=(made,))
        assert self.commit(done) is not None, f"compaction {name} was refused"
        requested = made.created - BASE
        if made.clustering:
            self.bases.append(BaseFile(name, requested, self.now))
        else:
            self.logs.append(LogFile(name, requested, self.now, frozenset(inputs)))
            self.since[name] = min(self.since[each] for each in inputs)

    def give_up(self, name: str) -> None:
        """Abort a compaction."""
        plan, _ = self.plans.pop(name)
        assert self.commit(PlanAborted(plan_id=plan.id, attempt="a", reason="x")) is not None

    def compact(self, name: str) -> bool:
        """Schedule a base compaction of all that is there now."""
        return self.request(name, SemiMajorPlan, self.groups())

    @staticmethod
    def name_of(segment: Segment | None) -> str:
        """Return a file's name."""
        assert segment is not None
        return segment.path.removeprefix("data/")

    def check(self) -> None:
        """Hold every version against RFC-66's rule, as of its completion time."""
        for state in self.versions:
            bases, logs = as_of(self.bases, self.logs, state.time - BASE)
            expected = build_file_slices(bases, logs)
            named = [(one.base, sorted(one.logs, key=self.since.__getitem__)) for one in expected]
            assert [read(state)] == (named[:1] or [("", [])]), f"version {state.n}"
            assert sliced(state) == named, f"version {state.n}"
            assert [*violations(state)] == []


Named = tuple[str, list[str]]
"""A slice: the name of its base file, and those of its log files, in order."""


def read(state: State) -> Named:
    """Return what readers of a version merge, in root order."""
    return _named([*state.timeline.visible_groups(CHUNK)])


def sliced(state: State) -> list[Named]:
    """Return all slices that the roots of a version's present groups make, the newest first.

    A base file's barrier is the end of its roots. Log files belong to the newest base file that
    ends before them; those that a log compaction replaced are left out.
    """
    groups = [group for group in state.timeline.groups(CHUNK) if group.segments]
    bases = sorted((g for g in groups if _is_base(g)), key=lambda g: (g.end, g.key.minor_version))
    logs = [g for g in groups if not _is_base(g)]
    logs = [g for g in logs if not any(other.key.overshadows(g.key) for other in logs)]
    ends = [0, *(base.end for base in bases), 2**62]
    made = []
    for number, (start, end) in enumerate(pairwise(ends)):
        some = sorted((g for g in logs if start <= g.start < end), key=lambda g: g.start)
        made.append(_named([*bases[max(number - 1, 0) : number], *some]))
    return [one for one in reversed(made) if one != ("", [])]


def _is_base(group: Group) -> bool:
    return bool(group.segments[0].clustering)


def _named(groups: list[Group]) -> Named:
    base = [History.name_of(g.segments[0]) for g in groups if _is_base(g)]
    assert len(base) < 2, f"{base} are read together"
    assert not base or _is_base(groups[0]), "a log file comes before the base file"
    return "".join(base), [History.name_of(g.segments[0]) for g in groups if not _is_base(g)]


def test_the_demo_of_the_rfc() -> None:
    """A log that began before the compaction, and completed after it, is in the later slice."""
    history = History()
    history.begin("l0")
    history.end("l0")
    at(history, 10).compact("fg_t10")
    at(history, 20).complete("fg_t10")
    at(history, 21).begin("l1")
    at(history, 30).begin("l2")
    at(history, 35).begin("l3")
    at(history, 40).end("l1")
    at(history, 50).end("l2")
    at(history, 60).compact("fg_t60")
    assert read(history.state) == ("fg_t10", ["l1", "l2"])
    at(history, 80).complete("fg_t60")
    assert read(history.state) == ("fg_t60", [])
    at(history, 90).end("l3")
    assert sliced(history.state) == [("fg_t60", ["l3"]), ("fg_t10", ["l1", "l2"]), ("", ["l0"])]
    times = [(log.instant / T, log.completed / T) for log in history.logs[1:]]
    assert times == [(21, 40), (30, 50), (35, 90)]
    assert [(base.instant / T, base.completed / T) for base in history.bases] == [
        (10, 20),
        (60, 80),
    ]
    history.check()


def test_a_log_in_flight_while_a_compaction_is_scheduled() -> None:
    """Of the logs [t1, t3] and [t2, t5], a compaction scheduled at t4 takes the first alone."""
    history = History()
    at(history, 1).begin("w1")
    at(history, 2).begin("w2")
    at(history, 3).end("w1")
    at(history, 4).compact("t4")
    at(history, 5).end("w2")
    assert read(history.state) == ("", ["w1", "w2"])
    at(history, 6).complete("t4")
    assert sliced(history.state) == [("t4", ["w2"]), ("", ["w1"])]
    history.check()


def test_a_compaction_that_was_given_up_is_no_barrier() -> None:
    """What completed after its request stays beside what completed before, in one slice."""
    history = History()
    at(history, 1).begin("w1")
    at(history, 2).end("w1")
    at(history, 3).compact("t3")
    at(history, 4).begin("w2", instant=-700)  # its clock is behind all others
    at(history, 5).end("w2")
    at(history, 6).give_up("t3")
    assert sliced(history.state) == [("", ["w1", "w2"])]
    history.check()


def test_a_log_compaction_keeps_the_place_of_its_inputs() -> None:
    """Below a pending base compaction nothing is taken; above it logs are merged meanwhile."""
    history = History()
    for name in ("w1", "w2", "w3", "w4"):
        history.begin(name)
    at(history, 3).end("w1")
    at(history, 4).compact("t4")
    at(history, 5).end("w2")
    at(history, 6).end("w3")
    assert not history.request("no", MinorPlan, history.groups()[:2])
    assert at(history, 7).request("t7", MinorPlan, history.groups()[1:])
    at(history, 8).end("w4")
    at(history, 9).complete("t7")
    at(history, 10).complete("t4")
    assert sliced(history.state) == [("t4", ["t7", "w4"]), ("", ["w1"])]
    history.check()


def test_a_base_file_begins_at_the_first_root() -> None:
    """While the oldest log is being merged, no base file is made of the later ones alone."""
    history = History()
    for name in ("w1", "w2", "w3"):
        history.begin(name)
        history.end(name)
    assert not history.request("b1", SemiMajorPlan, history.groups()[1:])
    assert history.request("b0", SemiMajorPlan, history.groups())


def at(history: History, now: int) -> History:
    """Return the history at a time, which must lie ahead."""
    assert now * T > history.now, f"it is {history.now / T} already"
    history.now = now * T
    return history


@examples(60)
@given(st.randoms(use_true_random=False))
def test_every_version_has_the_slices_of_the_rfc(draw: random.Random) -> None:
    """Writers, log and base compactions, begun and ended in any order, some never or in vain."""
    history = History(draw)
    for number in range(40):
        history.now += draw.choice((0, 1, 1, 5))
        _step(history, draw, number)
    history.check()


def _step(history: History, draw: random.Random, number: int) -> None:
    luck, groups = draw.random(), history.groups()
    logs = [group for group in groups if not group.segments[0].clustering]
    if luck < 0.3:
        history.begin(f"w{number}", history.now + draw.randrange(-300, 1))
    elif luck < 0.6 and history.writers:
        history.end(draw.choice(sorted(history.writers)))
    elif luck < 0.7 and groups:
        history.compact(f"b{number}")
    elif luck < 0.8 and logs:
        start = draw.randrange(len(logs))
        some = tuple(logs[start : start + draw.randint(1, 3)])
        history.request(f"m{number}", MinorPlan, some)
    elif history.plans:
        name = draw.choice(sorted(history.plans))
        history.complete(name) if draw.random() < 0.8 else history.give_up(name)
