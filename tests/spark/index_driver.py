"""A driver to be killed: ``python -m tests.spark.index_driver TABLE INDEX FOLDER``.

It is ``segtable index run`` with Spark, in pieces of two files. Right before it commits the second
piece, the process makes ``FOLDER/driver.there`` and waits for its end.
"""

import signal
import sys
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from airflow_provider_segtable import cli
from airflow_provider_segtable.core.catch_up import next_piece
from airflow_provider_segtable.services import indexing

PIECE = 2
"""Number of files of a piece, each of which is a job of its own."""


def main(uri: str, index: str, folder: Path) -> None:
    """Build until the second piece, then wait."""
    right, pieces = indexing._committed, count(1)

    def committed(*given: Any) -> Any:
        if next(pieces) > 1:
            (folder / "driver.there").touch()
            signal.pause()
        return right(*given)

    sys.argv = ["segtable", "index", "run", uri, index, "--engine", "spark", "--master", "local[2]"]
    small = partial(next_piece, most=PIECE)
    with (
        patch.object(indexing, "_committed", committed),
        patch.object(indexing, "next_piece", small),
    ):
        cli.main()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
