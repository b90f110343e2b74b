"""Scripts of appends, changes and compactions; the plain oracle; and a rival that is wrong.

A script is a list of steps. Whoever plays one keeps to this:

1. ``write`` puts rows into files that nobody sees; ``append`` commits them, at any later step.
2. ``look`` is an author of a delete or an update that chooses rows; ``change`` is its commit. A
   delete takes what is left of its choice; an update takes all of it, or nothing is done.
3. ``start`` is a compaction reading its inputs, ``finish`` its commit.
4. ``clean`` and ``sweep`` change nothing that anybody may look at.

The *oracle* is a dictionary. The *naive* rule is CarbonData's: where a compaction and a change
overlap in time, the predicate is executed again on the compacted segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from airflow_provider_segtable.core.log.group_plans import MinorPlan, SemiMajorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.time import HOUR_US, Granularity

HOURS = 30


class Row(NamedTuple):
    """A row; ``number`` names it uniquely."""

    number: str
    at: int
    value: int


@dataclass(frozen=True)
class Below:
    """``WHERE value < limit``."""

    limit: int

    def chosen(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows it holds for."""
        return [row for row in rows if row.value < self.limit]


@dataclass(frozen=True)
class First:
    """``WHERE value = value LIMIT 1``: one of several equal rows, by position."""

    value: int

    def chosen(self, rows: Sequence[Row]) -> list[Row]:
        """Return the first row it holds for."""
        return [row for row in rows if row.value == self.value][:1]


@dataclass(frozen=True)
class OverAverage:
    """``WHERE value > (SELECT avg(value) FROM table)``."""

    def chosen(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows above the average of all that it is given."""
        return [row for row in rows if row.value * len(rows) > sum(r.value for r in rows)]


Predicate = Below | First | OverAverage


class Step(NamedTuple):
    """One step; ``pick`` stands for choices that only one of the players has."""

    do: str
    name: str = ""
    rows: tuple[Row, ...] = ()
    where: Predicate = Below(0)
    update: bool = False
    kind: str = MinorPlan.kind
    cut: Granularity | None = None
    pick: int = 0


def renewed(row: Row, name: str) -> Row:
    """Return what an update makes of a row."""
    return Row(f"{row.number}+{name}", row.at, row.value + 3)


def script(draw: Random, length: int) -> list[Step]:
    """Return a random script."""
    steps: list[Step] = []
    open_names: dict[str, list[str]] = {"append": [], "change": [], "finish": []}
    ends = {"write": "append", "look": "change", "start": "finish"}
    kinds = ("write", "append", "write", "append", "look", "change", "look", "change")
    for at in range(length):
        do = draw.choice((*kinds, "start", "finish", "finish", "clean", "sweep"))
        if do in open_names:
            names = open_names[do]
            if names:
                steps.append(Step(do, names.pop(draw.randrange(len(names)))))
        elif do in ends:
            steps.append(_begun(do, f"{do}{at}", draw))
            open_names[ends[do]].append(f"{do}{at}")
        else:
            steps.append(Step(do, pick=draw.randrange(12)))
    return steps


def _begun(do: str, name: str, draw: Random) -> Step:
    if do == "write":
        rows = tuple(
            Row(f"{name}.{i}", draw.randrange(HOURS * HOUR_US), draw.randrange(8))
            for i in range(draw.randint(1, 5))
        )
        return Step(do, name, rows=rows, pick=draw.randrange(3))
    if do == "look":
        where = draw.choice((Below(draw.randrange(8)), First(draw.randrange(8)), OverAverage()))
        return Step(do, name, where=where, update=draw.random() < 0.5)
    return Step(
        do,
        name,
        kind=draw.choice((MinorPlan.kind, MinorPlan.kind, SemiMajorPlan.kind, MajorPlan.kind)),
        cut=draw.choice((None, None, Granularity.DAY, Granularity.HOUR)),
        pick=draw.randrange(1000),
    )


class Oracle:
    """A dictionary of rows."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._written: dict[str, tuple[Row, ...]] = {}
        self._looked: dict[str, tuple[Step, list[Row]]] = {}

    def play(self, step: Step) -> None:
        """Do one step."""
        if step.do == "write":
            self._written[step.name] = step.rows
        elif step.do == "append":
            self.rows |= {row.number: row for row in self._written[step.name]}
        elif step.do == "look":
            self._looked[step.name] = (step, step.where.chosen(sorted(self.rows.values())))
        elif step.do == "change":
            self._change(*self._looked.pop(step.name))

    def _change(self, look: Step, chosen: list[Row]) -> None:
        there = [row for row in chosen if row.number in self.rows]
        if look.update and there != chosen:
            return
        for row in there:
            del self.rows[row.number]
        if look.update:
            self.rows |= {new.number: new for row in there for new in [renewed(row, look.name)]}


@dataclass(eq=False)
class _File:
    rows: list[Row]
    made_of: "set[_File]" = field(default_factory=set)


@dataclass(eq=False)
class _Look:
    step: Step
    chosen: list[Row]
    seen: list[_File]


@dataclass(eq=False)
class _Run:
    inputs: list[_File]
    output: _File
    since: int


class Naive:
    """The rival: a list of files, and predicates executed again on compacted ones."""

    def __init__(self) -> None:
        self.files: list[_File] = []
        self._written: dict[str, tuple[Row, ...]] = {}
        self._looked: dict[str, _Look] = {}
        self._running: dict[str, _Run] = {}
        self._committed: list[_Look] = []

    @property
    def rows(self) -> dict[str, Row]:
        """Return what a reader finds."""
        return {row.number: row for file in self.files for row in file.rows}

    def play(self, step: Step) -> None:
        """Do one step."""
        if step.do == "write":
            self._written[step.name] = step.rows
        elif step.do == "append":
            self.files.append(_File(list(self._written[step.name])))
        elif step.do == "look":
            chosen = step.where.chosen(sorted(self.rows.values()))
            self._looked[step.name] = _Look(step, chosen, list(self.files))
        elif step.do == "change":
            self._change(self._looked.pop(step.name))
        elif step.do == "start":
            self._start(step)
        elif step.do == "finish" and step.name in self._running:
            self._finish(self._running.pop(step.name))

    def _change(self, look: _Look) -> None:
        there = [row for row in look.chosen if row.number in self.rows]
        if look.step.update and there != look.chosen:
            return
        for file in self.files:
            if file in look.seen:
                file.rows = [row for row in file.rows if row not in look.chosen]
            elif file.made_of.intersection(look.seen):  # compacted meanwhile
                _execute(look, file)
        self._committed.append(look)
        if look.step.update:
            self.files.append(_File([renewed(row, look.step.name) for row in there]))

    def _start(self, step: Step) -> None:
        busy = {file for run in self._running.values() for file in run.inputs}
        free = [file for file in self.files if file not in busy]
        if step.kind == MinorPlan.kind:
            first = step.pick % max(len(free) - 1, 1)
            free = free[first : first + 2]
        rows = sorted((row for file in free for row in file.rows), reverse=True)
        made_of = {file for one in free for file in (one, *one.made_of)}
        self._running[step.name] = _Run(free, _File(rows, made_of), len(self._committed))

    def _finish(self, run: _Run) -> None:
        for look in self._committed[run.since :]:
            if run.output.made_of.intersection(look.seen):
                _execute(look, run.output)
        self.files = [run.output, *(file for file in self.files if file not in run.inputs)]


def _execute(look: _Look, file: _File) -> None:
    chosen = look.step.where.chosen(file.rows)
    file.rows = [row for row in file.rows if row not in chosen]
