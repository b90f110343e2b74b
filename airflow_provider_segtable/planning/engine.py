"""Which engine does a piece of work: this process, or Spark.

1. The user's choice counts. ``auto`` decides by this table, from top to bottom:

   =====================================  ========  ==========================================
   the work                               engine    because
   =====================================  ========  ==========================================
   only Spark can do it (sketches)        Spark     whatever its size
   reads at most ``LOCAL_BYTES``          local     Spark would take longer to start
   is larger, and Spark can be started    Spark     its tasks share the work
   is larger, and there is no Spark here  local     slower, but memory stays bounded
   =====================================  ========  ==========================================

2. Sizes of all plans of a run count together, because Spark starts once for all of them.
3. Both engines run the same jobs and commit the same events, so a retry may choose another one.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.counted import MIB, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput

if TYPE_CHECKING:  # operators import this module to name an engine
    from airflow_provider_segtable.core.log.state import State

LOCAL_BYTES = 64 * MIB
"""Most bytes that ``auto`` reads in this process.

Sorting 65 MiB took 12 s on one busy core, in less than 500 MB of memory, and joining them without
decoding 0.6 s. A session of Spark needs 12 s or more to start.
"""


class Engine(StrEnum):
    """The engine that does the work."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"

    @staticmethod
    def of(name: str) -> "Engine":
        """Return the engine of that name.

        Raises:
            InvalidInput: there is none.
        """
        try:
            return Engine(name)
        except ValueError:
            known = ", ".join(Engine)
            raise InvalidInput(f"engine = {name!r} is unknown: choose one of {known}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen engine, never ``auto``, with the reason."""

    engine: Engine
    reason: str

    @property
    def local(self) -> bool:
        """Return whether this process does the work."""
        return self.engine is Engine.LOCAL

    def __str__(self) -> str:
        """Return the choice in words."""
        where = "in this process" if self.local else "on Spark"
        return f"{where}: {self.reason}"


def chosen_engine(
    wish: Engine,
    *,
    size: int,
    only_spark: str = "",
    spark_here: Callable[[], bool] = lambda: True,
    local_bytes: int = LOCAL_BYTES,
) -> Choice:
    """Return the engine for work that reads ``size`` bytes.

    Args:
        wish: the user's choice.
        size: bytes of all inputs.
        only_spark: why only Spark can do it; empty if both engines can.
        spark_here: whether Spark can be started; asked only if the choice depends on it.
        local_bytes: most bytes that ``auto`` reads in this process.
    """
    if wish is not Engine.AUTO:
        return Choice(engine=wish, reason=f"engine is {wish}")
    if only_spark:
        return Choice(engine=Engine.SPARK, reason=only_spark)
    input_size, limit = describe_size(size), describe_size(local_bytes)
    if size <= local_bytes:
        return Choice(engine=Engine.LOCAL, reason=f"{input_size} of input, at most {limit}")
    if spark_here():
        return Choice(engine=Engine.SPARK, reason=f"{input_size} of input, more than {limit}")
    why = f"{input_size} of input, more than {limit}, but Spark is not installed here"
    return Choice(engine=Engine.LOCAL, reason=why)


def input_size(state: "State", plan_ids: Iterable[str]) -> int:
    """Return the bytes that plans read; a plan that the state no longer has reads nothing."""
    found = (state.plans.get(plan_id) for plan_id in dict.fromkeys(plan_ids))
    return sum(known.plan.size for known in found if known is not None)


def only_spark(state: "State") -> str:
    """Return why only Spark can compact a table; empty if both engines can."""
    return state.table.kind.only_spark
