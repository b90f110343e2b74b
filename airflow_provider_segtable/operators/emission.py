"""Emit launches as DAG runs; pure functions: equal launches always get equal run ids.

1. A run carries out plans of one table and one kind, so its first task can begin with them, and
   Spark starts once for them. Smaller kinds go first: the smaller the kind, the sooner it helps.
2. Plans share a run if one process wrote their newest events, close to each other in the table's
   log: a planner's run that requested them, or a worker that left them. So as long as nobody
   begins a plan, the planner finds the same runs with the same ids again, whatever else it finds.
3. A run that has ended, and has left its plans as they were, is repeated under another id: after 5
   minutes, then after twice that time, and at last once an hour.
4. Airflow takes at most 250 of ``[A-Za-z0-9_.~:+-]``; other names are repaired with a hash.
"""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time import MINUTE_US, Instant, Interval

if TYPE_CHECKING:
    from airflow_provider_segtable.services.planner import Launch

LONGEST_RUN_ID = 250
AGAIN_MINUTES = 5.0
LONGEST_PAUSE_MINUTES = 60.0
_FOREIGN = re.compile(r"[^A-Za-z0-9_.~:+-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A launch with the name of its table."""

    table: str
    launch: "Launch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """A run to emit.

    Attributes:
        dag_id: the DAG of its plans' kind.
        run_id: its id, the first time.
        table: the name of its table.
        launches: its plans, in the planner's order.
    """

    dag_id: str
    run_id: str
    table: str
    launches: "tuple[Launch, ...]"

    @property
    def changed_at(self) -> Instant:
        """Return the time of its plans' newest event."""
        return max(launch.changed_at for launch in self.launches)

    @property
    def note(self) -> str:
        """Return the table and the work in one line."""
        return f"{self.table}: {note_of(self.launches)}"

    def named(self, again: int) -> str:
        """Return its id when it is emitted again, for the ``again``-th time."""
        return legal_run_id(f"{self.run_id}.{again}") if again else self.run_id

    def due(self, now: Instant) -> int:
        """Return how often it may have been emitted again by now (rule 3)."""
        return times_due(max(0, now - self.changed_at) / MINUTE_US)

    def conf(self, more: Mapping[str, Any]) -> dict[str, Any]:
        """Return the conf of the run."""
        return {
            **more,
            "table": self.table,
            "plans": [launch.plan_id for launch in self.launches],
            "reasons": {launch.plan_id: launch.reason for launch in self.launches},
        }

    def arguments(
        self, now: Instant, conf: Mapping[str, Any], *, notes: bool = False
    ) -> dict[str, Any]:
        """Return arguments of a mapped ``TriggerDagRunOperator``.

        Args:
            now: the wall clock.
            conf: added to the run's conf.
            notes: whether the run gets a note, which Airflow shows beside it.
        """
        return {
            "trigger_dag_id": self.dag_id,
            "trigger_run_id": self.named(self.due(now)),
            "conf": self.conf(conf),
            **({"note": self.note} if notes else {}),
        }


def emissions(
    located: Sequence[Located], *, trigger_dag_ids: Mapping[str, str], plans_per_run: int
) -> list[Emission]:
    """Return the runs that carry out all launches.

    Args:
        located: in the planner's order.
        trigger_dag_ids: for each kind of plan, the DAG that carries it out.
        plans_per_run: the most plans that one run gets.

    Raises:
        InvalidInput: as ``check_emission``.
    """
    check_emission({each.launch.kind for each in located}, trigger_dag_ids, plans_per_run)
    batches: dict[tuple[str, ...], list[Located]] = {}
    for each in sorted(located, key=lambda each: _rank(each.launch.kind)):
        batches.setdefault(_batch(each, plans_per_run), []).append(each)
    return [
        Emission(
            dag_id=trigger_dag_ids[kind],
            run_id=legal_run_id(f"{kind}__{table.replace('/', '.')}__{_hash(kind, table, *rest)}"),
            table=table,
            launches=tuple(each.launch for each in batch),
        )
        for (kind, table, *rest), batch in batches.items()
    ]


def _batch(each: Located, plans_per_run: int) -> tuple[str, ...]:
    """Return what plans of one run have in common (rule 2)."""
    launch = each.launch
    window = launch.event // plans_per_run
    return launch.kind, each.table, launch.author, str(launch.attempts), str(window)


def times_due(minutes: float) -> int:
    """Return how many times a run is due again, so many minutes after its plans last changed."""
    pauses = (min(AGAIN_MINUTES * 2**n, LONGEST_PAUSE_MINUTES) for n in count())
    return sum(1 for _ in takewhile(lambda at: at <= minutes, _summed(pauses)))


def _summed(pauses: Iterator[float]) -> Iterator[float]:
    at = 0.0
    for pause in pauses:
        at += pause
        yield at


def check_emission(
    kinds_to_run: Collection[str], trigger_dag_ids: Mapping[str, str], plans_per_run: int
) -> None:
    """Refuse runs that could not be made, before anything is planned.

    Raises:
        InvalidInput: a kind has no DAG, or ``plans_per_run`` is below 1.
    """
    if plans_per_run < 1:
        raise InvalidInput(f"plans_per_run = {plans_per_run} is too low: give at least 1")
    for kind in kinds_to_run:
        if kind not in trigger_dag_ids:
            known = ", ".join(trigger_dag_ids) or "none"
            raise InvalidInput(
                f"trigger_dag_ids names no DAG for {kind!r} plans, only for {known}: add one"
            )


def note_of(batch: "Sequence[Launch]") -> str:
    """Return the work of a batch in one line."""
    segments = counted(sum(launch.segments for launch in batch), "segment")
    size = describe_size(sum(launch.size for launch in batch))
    plans = counted(len(batch), f"{batch[0].kind} plan")
    spans = [launch.interval for launch in batch if launch.interval]
    if not spans:
        return f"{plans}: {segments}, {size}"
    whole = Interval(min(span.start for span in spans), max(span.end for span in spans))
    return f"{plans}: {segments}, {size}, {whole}"


def legal_run_id(text: str) -> str:
    """Return ``text`` as a legal run id, unchanged if it is one already."""
    legal = _FOREIGN.sub("_", text)
    if legal == text and len(text) <= LONGEST_RUN_ID:
        return text
    end = f"__{_hash(text)}"
    return f"{legal[: LONGEST_RUN_ID - len(end)]}{end}"


def _rank(kind: str) -> tuple[int, str]:
    from airflow_provider_segtable.core.log.plan_kinds import kinds

    known = [each.kind for each in kinds()]
    return (known.index(kind) if kind in known else len(known)), kind


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
