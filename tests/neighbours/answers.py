"""How the program of an engine answers: a request is a line of JSON, and so is its answer.

An answer is an error, or the number of the rows that were written into the Arrow file ``into``.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa


def serve(rows_of: Callable[[dict[str, Any]], pa.Table]) -> None:
    """Answer requests until there are no more."""
    for line in sys.stdin:
        print("ANSWER " + json.dumps(_answer(rows_of, json.loads(line))), flush=True)  # noqa: T201


def _answer(rows_of: Callable[[dict[str, Any]], pa.Table], asked: dict[str, Any]) -> dict[str, Any]:
    try:
        rows = rows_of(asked)
    except Exception as error:  # noqa: BLE001  # the test shows it
        return {"error": f"{type(error).__name__}: {error}"}
    with pa.ipc.new_file(asked["into"], rows.schema) as file:
        file.write_table(rows)
    return {"rows": rows.num_rows}
