"""The engine of a command that carries out plans: this process, or a Spark session of its own.

1. The engine is chosen by the size of the plans (``planning.engine``), each time plans are made.
2. Spark starts when it is first chosen, once a command, and stops with it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.cli.display.output import note
from airflow_provider_segtable.cli.input.engines import check_spark
from airflow_provider_segtable.planning.engine import (
    Choice,
    Engine,
    chosen_engine,
    input_size,
    only_spark,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.services.attempt import Execute

LOCAL_PARALLELISM = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenEngine:
    """How to run the jobs of plans, and about how many at once."""

    execute: "Execute"
    parallelism: int = LOCAL_PARALLELISM


EngineFor = Callable[["State", Sequence[str]], ChosenEngine]
"""Returns the engine for plans of a state, by their ids."""


@contextmanager
def engines(table: Any, wish: Engine, master: str | None, what: str) -> Iterator[EngineFor]:
    """Yield the choice of an engine for plans of a table."""
    from airflow_provider_segtable.services.attempt import in_process

    with ExitStack() as held:

        @cache
        def spark() -> "SparkSession":
            check_spark()
            from airflow_provider_segtable.cli.on_spark import session

            return held.enter_context(session(master, what, table))

        def engine_for(state: "State", plans: Sequence[str]) -> ChosenEngine:
            if _chosen(state, plans, wish).local:
                return ChosenEngine(execute=in_process())
            cores = spark().sparkContext.defaultParallelism
            from airflow_provider_segtable.spark.writes.distribution import spark_execute

            return ChosenEngine(execute=spark_execute(spark()), parallelism=cores)

        yield engine_for


def _chosen(state: "State", plans: Sequence[str], wish: Engine) -> Choice:
    from airflow_provider_segtable.spark.driver.install_check import spark_here

    size, why = input_size(state, plans), only_spark(state)
    chosen = chosen_engine(wish, size=size, only_spark=why, spark_here=spark_here)
    if wish is Engine.AUTO and not chosen.local:
        note(f"[dim]{chosen}[/]")
    return chosen
