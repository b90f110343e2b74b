"""Whatever a table went through, Spark finds the rows of the version that is shown."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.neighbours.spark_reader import SparkReader
from tests.property.published_kinds import played

STEPS = 10


@pytest.mark.parametrize("kind", ["append", "keyed", "rollup"])
@pytest.mark.parametrize("seed", range(2))
def test_spark_finds_the_rows_of_the_published_event(
    tmp_path: Path, spark: SparkReader, kind: str, seed: int
) -> None:
    """It reads both formats, the newest version and an earlier one, and filters as it compares."""
    played(
        seed,
        tmp_path / "t",
        STEPS,
        kind,
        readers={"delta": (spark.delta_rows,), "iceberg": (spark.iceberg_rows,)},
        filters={"delta": (spark.delta_filter,), "iceberg": (spark.iceberg_filter,)},
        unread={
            spark.iceberg_rows: (pa.time64("us"),),
            spark.iceberg_filter: (pa.time64("us"),),
        },
    )
