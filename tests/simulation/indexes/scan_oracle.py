"""Scans with conditions, through the indexes of a version, against the rows of the model.

Conditions are on a row's number, and on its count, which an older record of the same row has
otherwise. They are SQL: an expression of pyarrow is not looked into, so no index judges it. Each
version is asked a few of them, by turns.
"""

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.scan import Scan
from tests.every_reader import rows_of
from tests.simulation.model import Model

ROW, COUNT = "row", "count"
ASKED = 2
"""The number of conditions that one version is asked."""
_WAYS: Sequence[tuple[str, str, Callable[[Any, Any], bool]]] = (
    (ROW, "=", operator.eq),
    (COUNT, "=", operator.eq),
    (ROW, ">=", operator.ge),
    (COUNT, "<=", operator.le),
    (COUNT, ">=", operator.ge),
)


def wrong_answers(state: State, model: Model, ports: TableContext) -> Iterator[str]:
    """Yield what scans of a version with indexes find that its model does not, or lack."""
    if not state.indexes or state.dropped or not model.settled:
        return
    rows = model.shown((ROW, COUNT))
    for turn in range(state.n * ASKED, (state.n + 1) * ASKED):
        column, sign, compare = _WAYS[turn % len(_WAYS)]
        at = (ROW, COUNT).index(column)
        values = sorted({value for row in rows if (value := row[at]) is not None})
        value = values[turn * 7 % len(values)] if values else 0
        wanted = Counter(row for row in rows if row[at] is not None and compare(row[at], value))
        where = f"{column} {sign} {value}"
        found = _read(state, where, ports)
        if found != wanted:
            lost, extra = (sorted(map(str, some)) for some in (wanted - found, found - wanted))
            yield f"a scan where {where} lacks {lost}, and has {extra} besides"


def _read(state: State, where: str, ports: TableContext) -> Counter[Any]:
    request = read_request(columns=[ROW, COUNT], where=where)
    return rows_of(Scan(ports=ports, state=state, request=request).to_arrow())
