"""The engine of a piece of work: what is asked for, what only Spark can do, and the size."""

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.planning.engine import LOCAL_BYTES, Engine, chosen_engine

SMALL, LARGE = LOCAL_BYTES, LOCAL_BYTES + 1
AUTO, LOCAL, SPARK = Engine.AUTO, Engine.LOCAL, Engine.SPARK
SKETCH = "only Spark can merge a sketch"


@pytest.mark.parametrize(
    ("wish", "size", "only_spark", "spark_here", "wanted"),
    [
        (AUTO, 0, "", True, LOCAL),
        (AUTO, SMALL, "", True, LOCAL),
        (AUTO, LARGE, "", True, SPARK),
        (AUTO, LARGE, "", False, LOCAL),
        (AUTO, 0, SKETCH, True, SPARK),
        (AUTO, LARGE, SKETCH, False, SPARK),
        (LOCAL, LARGE, SKETCH, True, LOCAL),
        (SPARK, 0, "", False, SPARK),
    ],
)
def test_the_choice_follows_the_table_in_the_header(
    wish: Engine,
    size: int,
    only_spark: str,
    spark_here: bool,  # noqa: FBT001
    wanted: Engine,
) -> None:
    """A named engine counts; else what only Spark can do, then the size, then what is here."""
    found = chosen_engine(wish, size=size, only_spark=only_spark, spark_here=lambda: spark_here)
    assert found.engine is wanted
    assert found.local is (wanted is LOCAL)
    assert found.reason


def test_whether_spark_is_here_is_asked_only_if_it_matters() -> None:
    """The question starts Java: small work and named engines are spared it."""

    def never() -> bool:
        raise AssertionError

    assert chosen_engine(AUTO, size=SMALL, spark_here=never).local
    assert not chosen_engine(SPARK, size=LARGE, spark_here=never).local
    assert not chosen_engine(AUTO, size=SMALL, only_spark=SKETCH, spark_here=never).local


def test_the_limit_is_an_argument_and_is_told() -> None:
    """The reason shows the size and the limit, for the log."""
    assert str(chosen_engine(AUTO, size=2048, local_bytes=1024)) == (
        "on Spark: 2.0 KiB of input, more than 1.0 KiB"
    )
    assert str(chosen_engine(AUTO, size=1024, local_bytes=1024)) == (
        "in this process: 1.0 KiB of input, at most 1.0 KiB"
    )


def test_an_unknown_engine_is_refused_by_name() -> None:
    """The message lists the known ones."""
    with pytest.raises(InvalidInput, match="'flink' is unknown: choose one of auto, local, spark"):
        Engine.of("flink")
