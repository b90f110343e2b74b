"""Estimate how long a plan takes, from the plans of its kind that were completed.

1. A run takes a fixed time, for the start of its task and of Spark, and a time a byte. Both are
   measured for each table and kind, from the newest ``SAMPLES`` completions (``core.log.work``).
2. The time a byte is the median over all pairs of runs whose sizes differ by ``APART`` times or
   more (Theil and Sen). The fixed time is the median of the rest. So runs that had to wait for a
   busy machine do not count, as long as they are few. Neither is below 0.
3. Runs of about one size say nothing of the time a byte: it is ``DEFAULT``'s then, if it leaves the
   fixed time above 0.
4. A table with fewer than ``LEAST`` completions of a kind has the fleet's median for that kind, and
   a fleet without any has ``DEFAULT``.
5. *The estimate's own error*: each of these runs is estimated from those before it alone. The error
   is the median of ``|estimated - taken| / taken``.

Source of the idea: H. Theil and P. K. Sen, for the median of slopes.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import median

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.core.quantities import SIZES
from airflow_provider_segtable.core.time import SECOND_US

GIB = SIZES["gib"]
SAMPLES = 12
LEAST = 3
APART = 1.5
SHORTEST_S = 1.0
"""Runs that took less count as this long in the error: their times are mostly chance."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A completed run: the bytes of its plan, and how long it took."""

    size: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """How long runs of a kind take, from ``runs`` of them; ``error`` is None if nothing is known.

    ``fixed`` is in seconds, ``per_byte`` in seconds for each byte of inputs.
    """

    fixed: float
    per_byte: float
    runs: int = 0
    error: float | None = None

    def seconds(self, size: int) -> float:
        """Return how long a plan takes."""
        return self.fixed + self.per_byte * size

    def __str__(self) -> str:
        """Return the cost, and the error of its estimates, in words."""
        miss = "" if self.error is None else f"; estimates miss by {self.error:.0%}"
        taken = f"{self.fixed:.3g} s and {self.per_byte * GIB:.3g} s a GiB"
        return f"{taken}, by {counted(self.runs, 'run')}{miss}"

    def facts(self) -> Facts:
        """Return the cost as plain JSON values."""
        return {
            "fixed_seconds": round(self.fixed, 3),
            "seconds_per_gib": round(self.per_byte * GIB, 3),
            "runs": self.runs,
            "error": None if self.error is None else round(self.error, 3),
        }


Costs = Mapping[str, Cost]
"""Costs by the kind of plan."""

DEFAULT = Cost(fixed=20.0, per_byte=20.0 / GIB)
"""20 s, and 20 s a GiB."""


def costs_of(plans: Iterable[PlanState]) -> Costs:
    """Return the costs of one table, for kinds with at least ``LEAST`` completions."""
    by_kind: dict[str, list[PlanState]] = {}
    for known in plans:
        if known.worked:
            by_kind.setdefault(str(known.plan.kind), []).append(known)
    return {
        kind: cost_of([Ran(each.plan.size, each.worked / SECOND_US) for each in _newest(some)])
        for kind, some in by_kind.items()
        if len(some) >= LEAST
    }


def cost_of(runs: Sequence[Ran]) -> Cost:
    """Return the cost that runs had, at least one, the oldest first."""
    fixed, per_byte = _fitted(runs)
    return Cost(fixed=fixed, per_byte=per_byte, runs=len(runs), error=_error(runs))


def fleet_costs(tables: Iterable[Costs]) -> Costs:
    """Return the median costs of all tables, and the median of their errors."""
    by_kind: dict[str, list[Cost]] = {}
    for costs in tables:
        for kind, cost in costs.items():
            by_kind.setdefault(kind, []).append(cost)
    return {kind: _median(some) for kind, some in sorted(by_kind.items())}


def seconds_of(kind: str, size: int, of_table: Costs, of_fleet: Costs) -> float:
    """Return how long a plan takes, by its table or else by the fleet (rule 4)."""
    return (of_table.get(kind) or of_fleet.get(kind) or DEFAULT).seconds(size)


def _newest(plans: Iterable[PlanState]) -> Sequence[PlanState]:
    return sorted(plans, key=lambda known: known.last_n)[-SAMPLES:]


def _median(some: Sequence[Cost]) -> Cost:
    errors = [cost.error for cost in some if cost.error is not None]
    return Cost(
        fixed=median(cost.fixed for cost in some),
        per_byte=median(cost.per_byte for cost in some),
        runs=sum(cost.runs for cost in some),
        error=median(errors) if errors else None,
    )


def _fitted(runs: Sequence[Ran]) -> tuple[float, float]:
    """Return the fixed seconds and those a byte (rules 2 and 3)."""
    slopes = [
        (b.seconds - a.seconds) / (b.size - a.size)
        for a, b in combinations(runs, 2)
        if max(a.size, b.size) >= APART * min(a.size, b.size) and a.size != b.size
    ]
    per_byte = max(median(slopes), 0.0) if slopes else DEFAULT.per_byte
    fixed = median(run.seconds - per_byte * run.size for run in runs)
    if fixed >= 0:
        return fixed, per_byte
    return 0.0, median(run.seconds / run.size for run in runs if run.size)


def _error(runs: Sequence[Ran]) -> float | None:
    missed = [
        abs(fixed + per_byte * run.size - run.seconds) / max(run.seconds, SHORTEST_S)
        for at, run in enumerate(runs)
        if at >= LEAST
        for fixed, per_byte in (_fitted(runs[:at]),)
    ]
    return median(missed) if missed else None
